"""Thermal loop: a fan or a clock regulated so that the hottest GPU stays at a temperature. Pure.

A proportional-integral law in its velocity form (Åström and Hägglund, "PID Controllers", 2nd edition, 3.5): each period
moves the setting in proportion to the error and its change, so that the ends of the range cause no windup.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from physics.node_state import MeasuredNode
from rules.caps.knobs import Scale
from rules.engine.claims import CapClaim
from telemetry.clock import NS_PER_S
from telemetry.gpu import KnobKind

# heuristic: ten times and more the seconds within which the power loop answers, so that the two do not chase each
# other, and about the time constant of a heat sink of 800 J/K behind 0.06 K/W.
PERIOD_S = 45.0
# Heuristic, from a V100 at 300 W on a heat sink of 0.06 K/W at half speed: full speed instead of half is worth about
# 15 K, a tenth of the clock about 4 K, so that either loop takes up between a third and two thirds of an error.
PROPORTIONAL_PER_K = {KnobKind.FAN: 0.02, KnobKind.CLOCK: 0.010, KnobKind.POWER: 0.010}
INTEGRAL_PER_K = {KnobKind.FAN: 0.02, KnobKind.CLOCK: 0.010, KnobKind.POWER: 0.010}


@dataclass(frozen=True, slots=True, kw_only=True)
class Regulation:
    """The cap after a step, and its setting; None if the step is not due or the temperature not known."""

    claim: CapClaim
    setting: float | None = None
    hottest_c: float | None = None


def hottest_c(node: MeasuredNode, gpus: Sequence[str]) -> float | None:
    """Return the temperature of the hottest of these GPUs, None if none is known."""
    known = [gpu.temp_c for name in gpus if (gpu := node.gpu(name)) is not None and gpu.temp_c is not None]
    return max(known, default=None)


def first_output(node: MeasuredNode, gpus: Sequence[str], *, scale: Scale, error_c: float) -> float:
    """Return the first output of a cap, as a share of the fan's speed or of the loosest setting."""
    gain = (PROPORTIONAL_PER_K[scale.knob] + INTEGRAL_PER_K[scale.knob]) * error_c
    if scale.knob is not KnobKind.FAN:
        return _within(1.0 - gain, scale)
    speeds = [gpu.fan_ratio for name in gpus if (gpu := node.gpu(name)) is not None and gpu.fan_ratio is not None]
    return _within(max(speeds, default=scale.loosest) + gain, scale)


def setting_of(output: float, scale: Scale) -> float:
    """Return the setting that is at least as strict as an output."""
    return scale.snap(output if scale.knob is KnobKind.FAN else output * scale.loosest)


def regulate(claim: CapClaim, node: MeasuredNode, *, scale: Scale, hold_c: float, now_ns: int) -> Regulation:
    """Return one step of the loop if its period is over and a temperature is known; no setting otherwise."""
    since_ns = claim.regulated_ns if claim.regulated_ns is not None else claim.tightened_ns
    hottest = hottest_c(node, claim.gpus)
    if hottest is None or claim.output is None or now_ns - since_ns < PERIOD_S * NS_PER_S:
        return Regulation(claim=claim)
    error_c = hottest - hold_c
    change = PROPORTIONAL_PER_K[claim.knob] * (error_c - (claim.error_c or 0.0)) + INTEGRAL_PER_K[claim.knob] * error_c
    output = _within(claim.output + (change if claim.knob is KnobKind.FAN else -change), scale)
    moved = replace(claim, output=output, error_c=error_c, regulated_ns=now_ns)
    return Regulation(claim=moved, setting=setting_of(output, scale), hottest_c=hottest)


def _within(output: float, scale: Scale) -> float:
    ends = [scale.settings[0], scale.settings[-1]]
    low, high = ends if scale.knob is KnobKind.FAN else [end / scale.loosest for end in ends]
    return min(max(output, low), high)
