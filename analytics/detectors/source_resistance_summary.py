"""Summaries and evidence of the `source_resistance` detector."""

import numpy as np

from analytics.connectivity import GroupArray
from analytics.detectors.statements import Describe, Statement, evidence
from analytics.detectors.supply_limits import SourceResistanceLimits
from analytics.supply.branches import HOT_JOINT_W, Branches, imbalance, joint_power_w
from analytics.supply.input_fall import DIP_RATIO, InputFall
from analytics.supply.reference import Reference
from analytics.supply.slow_change import SlowChange
from analytics.supply.stream_estimate import BlockMeans
from physics.rail_classes import times_measured
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity
from telemetry.quantities import duration, multiple, ohms, volts
from telemetry.records import FindingStatus, Severity

# Far end of the score: a path at twice its reference burns twice the heat in its joint.
_WORST_RATIO = 2.0
# Far end of the score of an input sag: 5 %, all that ATX12V leaves a rail of 12 V at the load.
_WORST_SAG_RATIO = 0.05


def describe_ageing(
    reference: Reference,
    slow: SlowChange,
    means: BlockMeans,
    entities: tuple[Entity, ...],
    limits: SourceResistanceLimits,
    *,
    groups: GroupArray,
) -> Describe:
    """Return the description of an ageing path; `groups` numbers the paths that share a load."""
    rise, (low, high), uneven = slow.rise_ratio(), slow.rise_bounds(), imbalance(means.mean_a, groups)

    def describe(index: int, status: FindingStatus) -> Statement:
        name, now_ohm, was_ohm = entities[index].label, float(reference.now_ohm[index]), float(reference.ohm[index])
        week_ratio = float(rise[index])
        slowly = np.isfinite(week_ratio) and week_ratio * limits.quick_ratio > now_ohm / was_ohm
        base_ohm = float(np.exp(slow.centre[index])) if slowly else was_ohm
        against = "first week" if slowly else "baseline"
        mean_a = float(means.mean_a[index])
        power_w = float(joint_power_w(np.array(mean_a), np.array(max(now_ohm - base_ohm, 0.0))))
        ratio = now_ohm / base_ohm
        open_v, before_v = float(reference.now_v[index]), float(reference.open_v[index])
        if status is FindingStatus.CLEARED:
            summary = f"{name} supply path back at {ohms(now_ohm)}, {multiple(ratio)} {against}"
        else:
            summary = (
                f"{name} supply path {ohms(now_ohm)}, {multiple(ratio)} {against}: ageing joint suspected"
                f"{_heat_text(power_w, mean_a)}"
            )
        return Statement(
            severity=Severity.WARNING,
            score=(ratio - 1.0) / (_WORST_RATIO - 1.0),
            summary=summary,
            evidence=evidence(
                ("source_resistance_ohm", now_ohm, "ohm"),
                ("source_resistance_low_ohm", float(reference.now_low_ohm[index]), "ohm"),
                ("baseline_ohm", base_ohm, "ohm"),
                ("rise_ratio", ratio, "ratio"),
                ("hourly_rise_ratio", week_ratio, "ratio"),
                ("hourly_rise_low_ratio", float(low[index]), "ratio"),
                ("hourly_rise_high_ratio", float(high[index]), "ratio"),
                ("cusum_sd", float(slow.cusum.above[index]), ""),
                ("open_circuit_v", open_v, "V"),
                ("baseline_open_circuit_v", before_v, "V"),
                ("current_a", mean_a, "A"),
                ("imbalance_ratio", float(uneven[index]), "ratio"),
                ("joint_extra_w", power_w, "W"),
                ("hot_joint_w", HOT_JOINT_W, "W"),
            ),
        )

    return describe


def _heat_text(extra_w: float, mean_a: float) -> str:
    return f" ({extra_w:.0f} W more at {mean_a:.0f} A)" if np.isfinite(extra_w) and extra_w >= 0.5 else ""


def describe_lost(reference: Reference, branches: Branches, entities: tuple[Entity, ...], now_ns: int) -> Describe:
    """Return the description of a supply that went off."""
    others_a = branches.mean_others_a()

    def describe(index: int, status: FindingStatus) -> Statement:
        name, usual_a = entities[index].label, float(branches.usual_a[index])
        now_a, before_a = float(others_a[index]), float(branches.usual_others_a[index])
        by_branch = bool(branches.since_ns[index] > 0)
        seconds = (now_ns - int(branches.since_ns[index])) / NS_PER_S if by_branch else float("nan")
        ratio = float(reference.ratio()[index])
        if status is FindingStatus.CLEARED:
            summary = f"{name} carries current again"
        elif by_branch:
            others = f"siblings {now_a:.0f} A together, before {before_a:.0f} A"
            others = others if np.isfinite(before_a) else "alone on its bus"
            summary = f"{name} carries no current for {duration(seconds)}: supply off or disconnected; {others}"
        else:
            summary = (
                f"{name} source resistance {multiple(ratio)} in one step: one of its supplies is off, or a joint broke"
            )
        return Statement(
            severity=Severity.CRITICAL,
            score=1.0,
            summary=summary,
            evidence=evidence(
                ("current_a", float(branches.highest_a[index]), "A"),
                ("usual_a", usual_a, "A"),
                ("siblings_a", now_a, "A"),
                ("siblings_usual_a", before_a, "A"),
                ("duration_s", seconds, "s"),
                ("rise_ratio", ratio, "ratio"),
            ),
        )

    return describe


def describe_input_sag(
    reference: Reference,
    fall: InputFall,
    means: BlockMeans,
    entities: tuple[Entity, ...],
    limits: SourceResistanceLimits,
) -> Describe:
    """Return the description of an input sag, slow or so short that only the voltage shows it."""

    def describe(index: int, status: FindingStatus) -> Statement:
        dips = bool(fall.fallen[index])
        now_v = float(fall.now_v[index] if dips else reference.now_v[index])
        before_v = float(fall.usual_v[index] if dips else reference.open_v[index])
        ratio, fallen_v = float(reference.ratio()[index]), before_v - now_v
        low_ratio = float(reference.low_ratio()[index])
        slow_v = limits.sag_v * float(times_measured(before_v))
        limit_v = (1.0 - DIP_RATIO) * before_v if fall.dipped[index] else slow_v
        name = entities[index].label
        if status is FindingStatus.CLEARED:
            back_v = now_v if np.isfinite(now_v) else float(means.mean_v[index])
            summary = f"{name} voltage back at {volts(back_v)}"
        elif dips:
            summary = (
                f"{name} fell from {volts(before_v)} to {volts(now_v)} at the same power, like all supplies: "
                "check the input"
            )
        else:
            summary = (
                f"{name} open-circuit voltage fell from {volts(before_v)} to {volts(now_v)}, like all supplies: "
                "check the input"
            )
        return Statement(
            severity=Severity.WARNING,
            score=fallen_v / (_WORST_SAG_RATIO * before_v),
            summary=summary,
            evidence=evidence(
                ("dipped_v" if dips else "open_circuit_v", now_v, "V"),
                ("baseline_v" if dips else "baseline_open_circuit_v", before_v, "V"),
                ("fallen_v", fallen_v, "V"),
                ("limit_v", limit_v, "V"),
                ("rise_ratio", ratio, "ratio"),
                ("rise_low_ratio", low_ratio, "ratio"),
            ),
        )

    return describe
