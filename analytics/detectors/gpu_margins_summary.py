"""Summaries and evidence of plugs of GPUs over their rating, and of load steps over a power limit."""

from collections.abc import Mapping
from dataclasses import dataclass

from analytics.detectors.statements import Statement, evidence
from physics.link_loads import LinkLoad
from telemetry.entities import Entity, label_list
from telemetry.frames import FloatArray
from telemetry.records import FindingStatus, Severity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlugScene:
    """Plugs of a minute: the link of each GPU that is nearest to its rating, and its severity, by place.

    `power_w` are the mean powers, shape ``(n_gpus,)``.
    """

    worst: Mapping[int, LinkLoad]
    entities: tuple[Entity, ...]
    power_w: FloatArray
    severities: Mapping[int, Severity]


def describe_plug(scene: PlugScene, place: int, status: FindingStatus) -> Statement:
    """Return severity, summary and evidence of the plug of a GPU that is nearest to its rating.

    ``mend_w`` is the part of this GPU in the watts that mend it: GPUs of one branch shed in proportion to their power.
    """
    link = scene.worst[place]
    ends = [
        (one, float(watts)) for one, watts in zip(scene.entities, scene.power_w, strict=True) if one.id in link.gpus
    ]
    total_w = sum(watts for _, watts in ends)
    own_w = link.shed_w * float(scene.power_w[place]) / total_w if total_w > 0.0 else 0.0
    of, at = label_list(one.label for one, _ in ends), "at least" if link.at_least else "at"
    digits = 0 if link.load >= 100.0 else 1
    load = f"{of} {link.name} {at} {link.load:.{digits}f} of {link.rating:g} A"
    if status is FindingStatus.CLEARED:
        summary = f"{of} {link.name} within its rating again: {link.load:.{digits}f} of {link.rating:g} A"
    else:
        summary = f"{load}; {link.shed_w:.0f} W less mends it"
    return Statement(
        severity=scene.severities[place],
        score=max(1.0 - 1.0 / link.ratio, 0.1) if link.ratio > 0.0 else 0.1,
        summary=summary,
        evidence=evidence(
            ("load_a", link.load, "A"),
            ("rating_a", link.rating, "A"),
            ("limit_ratio", link.ratio, "ratio"),
            ("mend_w", own_w, "W"),
        ),
    )


def describe_limit(
    entities: tuple[Entity, ...],
    power: tuple[FloatArray, FloatArray],
    beyond: Mapping[int, LinkLoad],
    place: int,
    status: FindingStatus,
) -> Statement:
    """Return the note on a GPU whose load steps exceed the power limit that is set; `power` has limits and steps in W.

    `beyond` are plugs whose short-time rating, or else rating, the steps exceed: a warning.
    """
    limit, step = (float(one[place]) for one in power)
    label, link = entities[place].label, beyond.get(place)
    over = "; a clock cap bounds them" if link is None else f" and over {link.rating:g} A of {link.name}"
    if status is FindingStatus.CLEARED:
        summary = f"{label}: load steps within its power limit of {limit:.0f} W again"
    else:
        summary = f"{label}: load steps of {step:.0f} W over its limit of {limit:.0f} W{over}"
    return Statement(
        severity=Severity.INFO if link is None else Severity.WARNING,
        score=0.1,
        summary=summary,
        evidence=evidence(("peak_w", step, "W"), ("power_limit_w", limit, "W"), ("limit_ratio", step / limit, "ratio")),
    )
