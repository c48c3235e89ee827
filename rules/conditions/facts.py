"""What a condition may ask: every fact with its type, its words or bounds, and where it comes from.

Conditions are checked against these declarations when they are loaded, the checks of `rules.checking` reason over their
bounds, and the reference of policies is written from them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from physics.node_state import NodeState
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.evidence import EVIDENCE
from telemetry.records import Cause, FindingStatus, Incident, IncidentState, RootCause, Severity


class Type(StrEnum):
    """The types of CEL that facts have."""

    TEXT = "text"
    INT = "whole number"
    DOUBLE = "number"
    BOOL = "truth value"
    MAP = "map"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One fact.

    Parameters
    ----------
    words
        What a text can be, None where it can be any.
    low, high
        Bounds of a number, both included.
    lacks
        When it is absent; empty where it never is.
    moves
        Whether it changes between two records of one incident, so that it has to be asked at every step.
    """

    type: Type
    meaning: str
    words: tuple[str, ...] | None = None
    low: float = float("-inf")
    high: float = float("inf")
    lacks: str = ""
    moves: bool = False


def _words(kinds: type[StrEnum]) -> tuple[str, ...]:
    return tuple(kind.value for kind in kinds)


NUMBERS = "incident.numbers"
_NO_HYPOTHESIS = "where nobody has ranked what is wrong"
_NO_GPU = "unless the incident is on a GPU that answers, and tells it"
_NO_SUPPLY = "where the node has no such reading"


def _node_number(meaning: str, lacks: str) -> Fact:
    return Fact(type=Type.DOUBLE, meaning=meaning, low=0.0, lacks=lacks, moves=True)


FACTS: dict[str, Fact] = {
    "incident.cause": Fact(type=Type.TEXT, meaning="what it looks like", words=_words(Cause)),
    "incident.root_cause": Fact(
        type=Type.TEXT, meaning="the likeliest class of fault", words=_words(RootCause), lacks=_NO_HYPOTHESIS
    ),
    "incident.confidence": Fact(
        type=Type.DOUBLE, meaning="probability of `root_cause`", low=0.0, high=1.0, lacks=_NO_HYPOTHESIS
    ),
    "incident.severity": Fact(type=Type.TEXT, meaning="how bad it is", words=_words(Severity)),
    "incident.severity_rank": Fact(
        type=Type.INT, meaning="0 for info, 1 for warning, 2 for critical", low=0.0, high=2.0
    ),
    "incident.state": Fact(
        type=Type.TEXT, meaning="where it stands; only an open one starts an action", words=_words(IncidentState)
    ),
    "incident.entity_kind": Fact(type=Type.TEXT, meaning="what kind of thing it is on", words=_words(EntityKind)),
    "incident.entity_id": Fact(type=Type.TEXT, meaning="kind and key, such as `supply:psu0`"),
    "incident.affected_count": Fact(type=Type.INT, meaning="how many entities have a finding in it", low=1.0),
    "incident.impact_gpu_hours": Fact(type=Type.DOUBLE, meaning="expected loss if nothing is done", low=0.0),
    "incident.loss_probability": Fact(
        type=Type.DOUBLE,
        meaning="probability of that loss",
        low=0.0,
        high=1.0,
        lacks="where nobody has estimated it",
    ),
    "incident.score": Fact(
        type=Type.DOUBLE, meaning="how far beyond its limit the worst finding lies", low=0.0, high=1.0
    ),
    "incident.age_s": Fact(type=Type.DOUBLE, meaning="seconds since it opened", low=0.0, moves=True),
    "incident.silenced": Fact(type=Type.BOOL, meaning="whether a person asked for quiet"),
    NUMBERS: Fact(type=Type.MAP, meaning="the newest value of every piece of evidence, by its name"),
    "node.gpu_count": Fact(type=Type.INT, meaning="GPUs that answer", low=0.0, moves=True),
    "node.supply_count": Fact(type=Type.INT, meaning="supplies that have readings", low=0.0, moves=True),
    "node.power_high_w": _node_number(
        "power of all its GPUs in the high phase of the load", "while one of them is not known"
    ),
    "node.job_age_s": _node_number("seconds since a job last began to use its GPUs", "where none was seen to begin"),
    "gpu.max_clock_mhz": _node_number("highest clock of the incident's GPU", _NO_GPU),
    "gpu.clock_mhz": _node_number("clock of the incident's GPU in the high phase of the load", _NO_GPU),
    "gpu.power_high_w": _node_number("its power in the high phase", _NO_GPU),
    "gpu.power_low_w": _node_number("its power in the low phase", _NO_GPU),
    "gpu.temp_c": _node_number("its temperature", _NO_GPU),
    "gpu.fan_ratio": _node_number("speed of its fan, as a share of the full one", _NO_GPU),
    "supply.minimum_v": _node_number(
        "lowest voltage of the last seconds, of the incident's supply, else of the lowest one", _NO_SUPPLY
    ),
    "supply.open_circuit_v": _node_number("voltage of that supply without load", _NO_SUPPLY),
    "supply.source_resistance_ohm": _node_number("resistance of its path", _NO_SUPPLY),
    "supply.current_high_a": _node_number("its current in the high phase of the load", _NO_SUPPLY),
    "supply.current_low_a": _node_number("its current in the low phase", _NO_SUPPLY),
}
ROOTS = tuple(dict.fromkeys(name.partition(".")[0] for name in FACTS))


def fact_of(path: str) -> Fact | None:
    """Return the declaration of a fact by its dotted name, evidence included; None where there is no such fact."""
    head, _, name = path.rpartition(".")
    if head == NUMBERS and name in EVIDENCE:
        return Fact(type=Type.DOUBLE, meaning=EVIDENCE[name], lacks="where the incident does not carry it")
    return FACTS.get(path)


def members_of(root: str) -> tuple[str, ...]:
    """Return the names that may follow ``root.``."""
    return tuple(name.partition(".")[2] for name in FACTS if name.startswith(f"{root}."))


def facts_of(incident: Incident, node: NodeState | None = None, now_ns: int | None = None) -> dict[str, Any]:
    """Return what a condition may ask of this incident, on this node, at this time; the incident's own without them."""
    now_ns = incident.time_ns if now_ns is None else now_ns
    numbers: dict[str, float] = {}
    live = [finding for finding in incident.findings if finding.status is not FindingStatus.CLEARED]
    for finding in sorted(incident.findings, key=lambda item: item.time_ns):
        numbers.update({item.name: item.value for item in finding.evidence})
    told: dict[str, Any] = {
        "cause": incident.cause.value,
        "severity": incident.severity.value,
        "severity_rank": incident.severity.rank,
        "state": incident.state.value,
        "entity_kind": incident.entity_id.partition(":")[0],
        "entity_id": incident.entity_id,
        "affected_count": len(incident.affected),
        "impact_gpu_hours": incident.impact_gpu_hours,
        "score": max((finding.score for finding in live), default=0.0),
        "age_s": max(0.0, (now_ns - incident.opened_ns) / NS_PER_S),
        "silenced": incident.silence is not None,
        "numbers": numbers,
    }
    if incident.loss_probability is not None:
        told["loss_probability"] = incident.loss_probability
    if incident.hypotheses:
        told |= {"root_cause": incident.hypotheses[0].cause.value, "confidence": incident.hypotheses[0].probability}
    around = NodeState(gpus=()) if node is None else node
    return {"incident": told, **_node_facts(incident.entity_id, around, now_ns)}


def _node_facts(entity_id: str, node: NodeState, now_ns: int) -> dict[str, dict[str, float]]:
    powers_w = [gpu.power_high_w for gpu in node.gpus if gpu.power_high_w is not None]
    whole: dict[str, float] = {"gpu_count": len(node.gpus), "supply_count": len(node.supplies)}
    if powers_w and len(powers_w) == len(node.gpus):
        whole["power_high_w"] = sum(powers_w)
    if node.job_started_ns is not None:
        whole["job_age_s"] = max(0.0, (now_ns - node.job_started_ns) / NS_PER_S)
    by_voltage = sorted((item for item in node.supplies if item.minimum_v is not None), key=lambda s: s.minimum_v or 0)
    supply = node.supply(entity_id) or next(iter((*by_voltage, *node.supplies)), None)
    return {
        "node": whole,
        "gpu": dict(_known(node.gpu(entity_id), members_of("gpu"))),
        "supply": dict(_known(supply, members_of("supply"))),
    }


def _known(state: object, names: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    for name in names:
        value = getattr(state, name, None)
        if value is not None:
            yield name, float(value)
