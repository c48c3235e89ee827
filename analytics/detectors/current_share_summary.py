"""Summary and evidence of the `current_share` detector."""

import numpy as np

from analytics.detectors.statements import Describe, Statement, evidence
from analytics.supply.branches import HOT_JOINT_W
from analytics.supply.current_share import ShareTest
from analytics.supply.usual_share import VOLTS_FLOOR, UsualShare
from telemetry.entities import Entity
from telemetry.quantities import percent
from telemetry.records import FindingStatus, Severity

# Far end of the score: a supply that carries half of what it used to, so that the others carry it.
_WORST_RATIO = 0.5
# heuristic: a supply that lost less of its share than this shows its joint by its voltage: a loop shares the current.
_SHARED_RATIO = 0.97
# heuristic: meters of supplies show no fewer millivolts.
_LEAST_SHOWN_V = 1e-3


def describe_share(usual: UsualShare, test: ShareTest, entities: tuple[Entity, ...]) -> Describe:
    """Return the description of a supply whose share fell, whose voltage rose, or whose path drops more.

    The resistance that the joint gained is at least the voltage that the supply's output rose by over its siblings,
    over its current: what the smaller current itself takes off that voltage comes on top.
    """

    def describe(index: int, status: FindingStatus) -> Statement:
        name, ratio = entities[index].label, float(np.exp(test.fall[index]))
        own_a, bus_a = float(test.current_a[index]), float(test.bus_a[index])
        risen_v = float(test.rise[index] * test.voltage_v[index])
        path_v = float(test.path.rise[index] * test.voltage_v[index])
        steps_ratio = float(np.exp(test.swing.fall[index]))
        others = max(float(usual.carriers[index]) - 1.0, 0.0)
        # Meters at the bus lie behind the joint: their voltage shows none of its resistance.
        joint_w = risen_v * own_a if test.rise[index] > VOLTS_FLOOR else float("nan")
        return Statement(
            severity=Severity.WARNING,
            score=float(np.fmax((1.0 - ratio) / (1.0 - _WORST_RATIO), min(joint_w / HOT_JOINT_W, 1.0))),
            summary=f"{name} {_cleared(ratio, own_a)}"
            if status is FindingStatus.CLEARED
            else f"{name} {_fell(ratio, steps_ratio, risen_v, path_v)} at {own_a:.0f} A: ageing joint suspected",
            evidence=evidence(
                ("share_ratio", ratio, "ratio"),
                ("steps_share_ratio", steps_ratio, "ratio"),
                ("bus_share_ratio", own_a / bus_a, "ratio"),
                ("usual_bus_share_ratio", own_a / bus_a / ratio, "ratio"),
                ("current_a", own_a, "A"),
                ("usual_a", own_a / ratio, "A"),
                ("siblings_a", bus_a - own_a, "A"),
                ("siblings", others, ""),
                ("over_siblings_v", risen_v, "V"),
                ("path_rise_v", path_v, "V"),
                ("joint_rise_ohm", joint_w / own_a**2, "ohm"),
                ("joint_extra_w", joint_w, "W"),
                ("hot_joint_w", HOT_JOINT_W, "W"),
                ("cusum_sd", float(test.cusum.below[index]), ""),
            ),
        )

    return describe


def _cleared(ratio: float, own_a: float) -> str:
    return f"carries its usual share of the bus again, {percent(ratio)} of it at {own_a:.0f} A"


def _fell(ratio: float, steps_ratio: float, risen_v: float, path_v: float) -> str:
    """Return what shows the joint most clearly."""
    if ratio <= _SHARED_RATIO:
        return f"carries {percent(ratio)} of its usual share of the bus"
    if steps_ratio <= _SHARED_RATIO and max(risen_v, path_v) < _LEAST_SHOWN_V:
        return f"takes {percent(steps_ratio)} of its usual share of the load's steps"
    if risen_v >= path_v:
        return f"output {1000.0 * risen_v:.0f} mV higher over its siblings' than usual"
    return f"path drops {1000.0 * path_v:.0f} mV more in the load's steps than usual"
