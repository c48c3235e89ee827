"""Summary and evidence of the `converter_rail` detector."""

import numpy as np

from analytics.detectors.coarse_rail import CoarseRail, RailLimits
from analytics.detectors.statements import Describe, Statement, evidence
from analytics.detectors.supply_limits import CoarseRailLimits
from analytics.supply.converter_plan import ConverterPlan
from telemetry.entities import Entity
from telemetry.frames import FloatArray
from telemetry.quantities import volts
from telemetry.records import FindingStatus, Severity

# Far end of the score, as for rails that are measured at full rate: 10 % below the nominal voltage.
_WORST_SAG = 0.90


def describe_converter(
    rail: CoarseRail,
    levels: RailLimits,
    limits: CoarseRailLimits,
    plan: ConverterPlan,
    before: FloatArray,
    *,
    entities: tuple[Entity, ...],
    now_ns: int,
) -> Describe:
    """Return the description of a rail behind a converter that lies below its limit.

    `before` has the lowest margin of each stage before a rail meanwhile, shape ``(n_supplies, n_stages)``.
    """

    def describe(index: int, status: FindingStatus) -> Statement:
        name, minimum_v = entities[index].label, float(rail.low.minimum_v[index])
        own_limit_v, nominal_v = float(levels.limit_v[index]), float(plan.nominal_v[index])
        margins = before[index, : len(plan.before[index])]
        summary = f"{name} back above {volts(own_limit_v)}, lowest was {volts(minimum_v)}"
        if status is not FindingStatus.CLEARED:
            source = plan.source_text(index, margins)
            summary = f"{name} sags to {volts(minimum_v)}, limit {volts(own_limit_v)}; {source}"
        return Statement(
            severity=Severity.CRITICAL if rail.is_critical(index, levels, limits) else Severity.WARNING,
            score=(own_limit_v - minimum_v) / (own_limit_v - _WORST_SAG * nominal_v),
            summary=summary,
            evidence=evidence(
                ("limit_v", own_limit_v, "V"),
                ("minimum_v", minimum_v, "V"),
                ("depth_v", own_limit_v - minimum_v, "V"),
                ("nominal_ratio", minimum_v / nominal_v, "ratio"),
                ("bus_margin_ratio", float(np.fmin.reduce(margins)), "ratio"),
                ("count", int(rail.low.count[index]), ""),
                ("duration_s", rail.sag.lasted_s(index, now_ns), "s"),
            ),
        )

    return describe
