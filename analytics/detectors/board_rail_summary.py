"""Summary and evidence of the `board_rail` detector."""

from collections.abc import Sequence

from analytics.detectors.coarse_rail import CoarseRail, RailLimits
from analytics.detectors.statements import Describe, Statement, evidence
from analytics.detectors.supply_limits import CoarseRailLimits
from analytics.supply.board_drop import DropTest
from analytics.supply.branches import HOT_JOINT_W
from telemetry.frames import FloatArray
from telemetry.quantities import duration, ohms, volts
from telemetry.records import FindingStatus, Severity

# Far end of the score of a drop: the whole tolerance of a rail is lost on the way to the board.
_WORST_DROP = 0.05
# Far end of the score of a sag, as for rails that are measured at full rate: 10 % below the nominal voltage.
_WORST_SAG = 0.90


def describe_drop(test: DropTest, nominal_v: FloatArray, labels: Sequence[str]) -> Describe:
    """Return the description of a node or bus whose drop between supplies and board rose.

    Offsets and gains of the meters are in the drop as in the usual one; only the rise is that of a resistance.
    """
    rise = test.rise()

    def describe(index: int, status: FindingStatus) -> Statement:
        name, scale_v, total_a = labels[index], float(nominal_v[index]), float(test.total_a[index])
        drop_v, usual_v = float(test.drop[index]) * scale_v, float(test.usual[index]) * scale_v
        risen_v = max(drop_v - usual_v, 0.0) if status is FindingStatus.CLEARED else float(rise[index]) * scale_v
        if status is FindingStatus.CLEARED:
            summary = (
                f"{name}: as usual between the supplies and the board again, {volts(risen_v)} more at {total_a:.0f} A"
            )
        else:
            summary = (
                f"{name}: joints between the supplies and the board drop {volts(risen_v)} more at {total_a:.0f} A, "
                f"{ohms(risen_v / total_a)}"
            )
        return Statement(
            severity=Severity.WARNING,
            score=risen_v / (_WORST_DROP * scale_v),
            summary=summary,
            evidence=evidence(
                ("drop_v", drop_v, "V"),
                ("usual_drop_v", usual_v, "V"),
                ("risen_v", risen_v, "V"),
                ("current_a", total_a, "A"),
                ("joint_rise_ohm", risen_v / total_a, "ohm"),
                ("joint_extra_w", risen_v * total_a, "W"),
                ("hot_joint_w", HOT_JOINT_W, "W"),
            ),
        )

    return describe


def describe_sag(
    rail: CoarseRail, levels: RailLimits, limits: CoarseRailLimits, *, labels: Sequence[str], now_ns: int
) -> Describe:
    """Return the description of a board rail that lies below its limit."""

    def describe(index: int, status: FindingStatus) -> Statement:
        name, minimum_v = labels[index], float(rail.low.minimum_v[index])
        own_limit_v, nominal_v = float(levels.limit_v[index]), float(levels.nominal_v[index])
        seconds, count = rail.sag.lasted_s(index, now_ns), int(rail.low.count[index])
        if status is FindingStatus.CLEARED:
            summary = f"{name}: board rail back above {volts(own_limit_v)}, lowest was {volts(minimum_v)}"
        else:
            summary = (
                f"{name}: board rail sags to {volts(minimum_v)}, limit {volts(own_limit_v)}: "
                f"{count} low readings in {duration(seconds)}"
            )
        return Statement(
            severity=Severity.CRITICAL if rail.is_critical(index, levels, limits) else Severity.WARNING,
            score=(own_limit_v - minimum_v) / (own_limit_v - _WORST_SAG * nominal_v),
            summary=summary,
            evidence=evidence(
                ("limit_v", own_limit_v, "V"),
                ("minimum_v", minimum_v, "V"),
                ("depth_v", own_limit_v - minimum_v, "V"),
                ("count", count, ""),
                ("duration_s", seconds, "s"),
            ),
        )

    return describe
