"""Start ramp: while a supply is weak, the GPUs of a starting job go up in steps."""

from dataclasses import dataclass

from physics.node_state import NodeState
from rules.caps.knobs import Scale
from rules.engine.claims import CapClaim
from rules.policy.model import SettingRule
from telemetry.clock import NS_PER_S

# heuristic: eight steps of a twentieth of the clock each, a load step of some per cent at a time.
STEPS = 8
# heuristic: a job that has run for longer has already drawn its full power.
BEGAN_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RampStep:
    """The next setting, None if it is not due; `over` is True at the end of the ramp."""

    setting: float | None = None
    over: bool = False


def ramping(node: NodeState, *, since_ns: int | None, now_ns: int) -> bool:
    """Return True if a job began in the last seconds and after the last ramp ended."""
    began_ns = node.job_started_ns
    if began_ns is None or not 0 <= now_ns - began_ns < BEGAN_WITHIN_S * NS_PER_S:
        return False
    return since_ns is None or began_ns > since_ns


def ramped(claim: CapClaim, rule: SettingRule, *, scale: Scale, target: float, now_ns: int) -> RampStep:
    """Return the step of a ramp: linear from its first setting to the target, in equal steps."""
    if claim.ramp_since_ns is None or rule.ramp_from is None:
        raise ValueError("no start ramp")
    done = min((now_ns - claim.ramp_since_ns) / (rule.ramp_s * NS_PER_S), 1.0)
    start = scale.snap(rule.ramp_from * scale.loosest)
    wanted = start + (target - start) * int(done * STEPS) / STEPS
    setting = scale.snap(wanted)
    if done >= 1.0 or not scale.stricter(start, target):
        return RampStep(over=True)
    return RampStep(setting=setting if scale.stricter(claim.strictest, setting) else None)
