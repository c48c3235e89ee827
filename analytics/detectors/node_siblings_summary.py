"""Summaries and evidence of the `node_siblings` detector."""

import math
from collections.abc import Callable

import numpy as np

from analytics.connectivity import GroupArray
from analytics.detectors.statements import Describe, Statement, evidence
from analytics.feeds.sibling_ratio import SiblingRatio
from telemetry.entities import Entity
from telemetry.frames import FloatArray
from telemetry.quantities import percent
from telemetry.records import Evidence, FindingStatus, Severity

# A fifth off the siblings is the far end of the score; of waste it is a twentieth.
_WORST, _WORST_WASTE = 0.2, 0.05

DescribeRatio = Callable[[SiblingRatio, GroupArray, tuple[Entity, ...], FloatArray], Describe]


def describe_odd(ratio: SiblingRatio, groups: GroupArray, entities: tuple[Entity, ...], n_gpus: FloatArray) -> Describe:
    """Return the description of a node that draws unlike its siblings: since a moment, or all the time."""
    del n_gpus

    def describe(index: int, status: FindingStatus) -> Statement:
        name, siblings = entities[index].label, _siblings(groups, index)
        changed = float(ratio.changed[index])
        off = math.expm1(changed or float(ratio.odd[index]))
        if status is FindingStatus.CLEARED:
            summary = f"{name} draws as its {siblings} siblings do, or does other work"
        elif changed:
            summary = f"{name} draws {_less_or_more(off)} than before, beside its {siblings} siblings at the same work"
        else:
            summary = (
                f"{name} draws {_less_or_more(off)} than its {siblings} siblings at the same work, as it did before"
            )
        return Statement(
            severity=Severity.WARNING if changed else Severity.INFO,
            score=abs(off) / _WORST,
            summary=summary,
            evidence=_numbers(ratio, index, off, siblings),
        )

    return describe


def describe_waste(
    ratio: SiblingRatio, groups: GroupArray, entities: tuple[Entity, ...], n_gpus: FloatArray
) -> Describe:
    """Return the description of a node that draws some per cent more for the same work."""
    del n_gpus

    def describe(index: int, status: FindingStatus) -> Statement:
        name, siblings, off = entities[index].label, _siblings(groups, index), math.expm1(float(ratio.changed[index]))
        if status is FindingStatus.CLEARED:
            summary = f"{name} draws as much for its work as before, beside its {siblings} siblings"
        else:
            summary = (
                f"{name} draws {percent(off, digits=1)} more for the work of its {siblings} siblings: supplies or fans"
            )
        return Statement(
            severity=Severity.WARNING,
            score=off / _WORST_WASTE,
            summary=summary,
            evidence=_numbers(ratio, index, off, siblings),
        )

    return describe


def describe_short(
    ratio: SiblingRatio, groups: GroupArray, entities: tuple[Entity, ...], n_gpus: FloatArray
) -> Describe:
    """Return the description of a node that draws less by about a GPU's part."""

    def describe(index: int, status: FindingStatus) -> Statement:
        name, siblings, off = entities[index].label, _siblings(groups, index), math.expm1(float(ratio.changed[index]))
        count = float(n_gpus[index])
        if status is FindingStatus.CLEARED:
            summary = f"{name} draws as its {siblings} siblings do again, or another load"
        else:
            of = f"1 of {count:.0f} GPUs" if count > 0.0 else "one GPU"
            summary = f"{name} draws {percent(-off, digits=1)} less than its {siblings} siblings: as if {of} left"
        return Statement(
            severity=Severity.WARNING,
            score=0.5,
            summary=summary,
            evidence=_numbers(ratio, index, off, siblings),
        )

    return describe


def _siblings(groups: GroupArray, index: int) -> int:
    return int(np.count_nonzero(groups == groups[index])) - 1


def _less_or_more(off: float) -> str:
    return f"{percent(abs(off), digits=1)} {'more' if off > 0.0 else 'less'}"


def _numbers(ratio: SiblingRatio, index: int, off: float, siblings: int) -> tuple[Evidence, ...]:
    return evidence(
        ("off_ratio", off, "ratio"),
        ("power_w", float(ratio.own_w[index]), "W"),
        ("siblings_power_w", float(ratio.others_w[index]), "W"),
        ("siblings", float(siblings), ""),
    )
