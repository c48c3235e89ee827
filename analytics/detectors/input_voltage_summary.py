"""Summaries and evidence of the `input_voltage` detector."""

import numpy as np

from analytics.connectivity import GroupArray
from analytics.detectors.statements import Describe, Statement, evidence
from analytics.supply.branches import group_sum
from analytics.supply.input_voltage import InputLevels, outlasts, rides_s
from telemetry.entities import Entity
from telemetry.frames import MaskArray
from telemetry.quantities import duration, percent, volts
from telemetry.records import FindingStatus, Severity

# IEEE 1159: below a tenth of the nominal voltage it is an interruption and no sag.
INTERRUPTED_RATIO = 0.1


def describe_sag(
    levels: InputLevels, known: MaskArray, entities: tuple[Entity, ...], groups: GroupArray, *, dip_ratio: float
) -> Describe:
    """Return the description of an input that is low; `groups` numbers the feeds, `known` marks meters in use."""
    low, measured = (group_sum(mask.astype(np.float64), groups) for mask in (levels.low, known))

    def describe(index: int, status: FindingStatus) -> Statement:
        name, ratio = entities[index].label, float(levels.ratio[index])
        lasted_s, usual_v = float(levels.lasted_s[index]), float(levels.usual_v[index])
        now_v, lowest_v = volts(float(levels.now_v[index])), volts(float(levels.lowest_v[index]))
        # Current without input comes from a second inlet or a battery, if the meter is right.
        meter = ratio < INTERRUPTED_RATIO and bool(levels.carries[index]) and low[index] <= 1
        if status is FindingStatus.CLEARED:
            summary = f"{name} input back at {now_v}, lowest was {lowest_v}"
        elif meter:
            summary = f"{name} input shows {now_v} while it carries current: its meter, or a second input"
        else:
            where = _where_text(int(low[index]), int(measured[index]))
            since = f" for {duration(lasted_s)}" if lasted_s >= 1.0 else ""
            summary = f"{name} input {now_v}, {percent(ratio)} of usual{since}{where}"
        left = outlasts(ratio, lasted_s) and status is not FindingStatus.CLEARED
        severity = Severity.CRITICAL if left else Severity.WARNING
        return Statement(
            severity=Severity.INFO if meter else severity,
            score=(1.0 - float(levels.lowest_v[index]) / usual_v) / (1.0 - INTERRUPTED_RATIO),
            summary=summary,
            evidence=evidence(
                ("input_voltage_v", float(levels.now_v[index]), "V"),
                ("usual_input_v", usual_v, "V"),
                ("limit_v", dip_ratio * usual_v, "V"),
                ("lowest_v", float(levels.lowest_v[index]), "V"),
                ("duration_s", lasted_s, "s"),
                ("itic_s", rides_s(ratio), "s"),
                ("inputs_low", float(low[index]), ""),
                ("inputs_measured", float(measured[index]), ""),
            ),
        )

    return describe


def _where_text(low: int, measured: int) -> str:
    if measured <= 1:
        return ": check its feed"
    if low <= 1:
        return ", others as before: check its inlet and meter"
    return f", {low} of {measured} input meters: check the feed"


def describe_loss(levels: InputLevels, known: MaskArray, entities: tuple[Entity, ...], groups: GroupArray) -> Describe:
    """Return the description of a supply without input, as `describe_sag`."""
    low, measured = (group_sum(mask.astype(np.float64), groups) for mask in (levels.low, known))

    def describe(index: int, status: FindingStatus) -> Statement:
        name, now_v, usual_v = entities[index].label, float(levels.now_v[index]), float(levels.usual_v[index])
        if status is FindingStatus.CLEARED:
            summary = f"{name} has input again, {volts(now_v)}"
        else:
            where = f", {low[index]:.0f} of {measured[index]:.0f} input meters" if measured[index] > 1 else ""
            summary = f"{name} is off: input at {volts(now_v)}, usually {volts(usual_v)}{where}; check the feed"
        return Statement(
            severity=Severity.CRITICAL,
            score=1.0,
            summary=summary,
            evidence=evidence(
                ("input_voltage_v", now_v, "V"),
                ("usual_input_v", usual_v, "V"),
                ("duration_s", float(levels.lasted_s[index]), "s"),
                ("inputs_low", float(low[index]), ""),
                ("inputs_measured", float(measured[index]), ""),
            ),
        )

    return describe
