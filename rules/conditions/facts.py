"""Facts that a condition may read: each with its type, its values or bounds, and when it is absent.

The keys of `when` in a policy file, the checks of `rules.checking` and the policy reference follow from this table.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType

from physics.node_state import MeasuredNode
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.quantities import EARLIER_EVIDENCE, EVIDENCE
from telemetry.records import Cause, FaultClass, FindingStatus, Incident, IncidentState, Severity

FactValue = str | float | bool
# Values of facts by their dotted names.
Facts = Mapping[str, FactValue]


class FactType(StrEnum):
    """Type of a fact."""

    TEXT = "text"
    WHOLE = "whole number"
    NUMBER = "number"
    BOOL = "truth value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Fact that a condition may read.

    Parameters
    ----------
    values
        What a text can be, None if any text is possible.
    low, high
        Bounds of a number, both included.
    absent_when
        When it is absent; empty if it is always present.
    moves
        True if it changes between two records of one incident, so that it is read at every step.
    """

    type: FactType
    meaning: str
    values: tuple[str, ...] | None = None
    low: float = float("-inf")
    high: float = float("inf")
    absent_when: str = ""
    moves: bool = False

    @property
    def whole(self) -> bool:
        """True for a whole number."""
        return self.type is FactType.WHOLE


# The section of evidence, and those of facts that move.
NUMBERS = "numbers"
NODE_SECTIONS = ("node", "gpu", "supply")
_NO_HYPOTHESIS = "if no class of fault was ranked"
_NO_GPU = "unless the incident is on a GPU that reports it"
_NO_SUPPLY = "if the node has no such reading"


def _text(meaning: str, kinds: type[StrEnum], absent_when: str = "") -> Fact:
    return Fact(
        type=FactType.TEXT, meaning=meaning, values=tuple(kind.value for kind in kinds), absent_when=absent_when
    )


def _ratio(meaning: str, absent_when: str = "") -> Fact:
    return Fact(type=FactType.NUMBER, meaning=meaning, low=0.0, high=1.0, absent_when=absent_when)


def _node_number(meaning: str, absent_when: str) -> Fact:
    return Fact(type=FactType.NUMBER, meaning=meaning, low=0.0, absent_when=absent_when, moves=True)


FACTS: dict[str, Fact] = {
    "cause": _text("detected symptom", Cause),
    "root_cause": _text("most probable class of fault", FaultClass, _NO_HYPOTHESIS),
    "confidence": _ratio("probability of `root_cause`", _NO_HYPOTHESIS),
    "severity": _text("severity; `warning+` means warning or above", Severity),
    "state": _text("state of the incident; only an open one starts an action", IncidentState),
    "entity_kind": _text("kind of the entity that it is on", EntityKind),
    "entity_id": Fact(type=FactType.TEXT, meaning="kind and key of that entity, such as `supply:psu0`"),
    "affected_count": Fact(type=FactType.WHOLE, meaning="number of entities with a finding in it", low=1.0),
    "impact_gpu_hours": Fact(type=FactType.NUMBER, meaning="expected loss if nothing is done", low=0.0),
    "loss_probability": _ratio("probability of that loss", "if it was not estimated"),
    "score": _ratio("how far beyond its limit the worst finding is"),
    "age_s": Fact(type=FactType.NUMBER, meaning="seconds since it opened", low=0.0, moves=True),
    "silenced": Fact(type=FactType.BOOL, meaning="true if an operator silenced it"),
    "node.gpu_count": Fact(type=FactType.WHOLE, meaning="GPUs that answer", low=0.0, moves=True),
    "node.supply_count": Fact(type=FactType.WHOLE, meaning="supplies that have readings", low=0.0, moves=True),
    "node.power_high_w": _node_number(
        "power of all its GPUs in the high phase of the load", "if the power of a GPU is not known"
    ),
    "node.job_age_s": _node_number("seconds since a job last began to use its GPUs", "if no job start was seen"),
    "gpu.max_clock_mhz": _node_number("highest clock of the incident's GPU", _NO_GPU),
    "gpu.clock_mhz": _node_number("clock of the incident's GPU in the high phase of the load", _NO_GPU),
    "gpu.power_high_w": _node_number("its power in the high phase", _NO_GPU),
    "gpu.power_low_w": _node_number("its power in the low phase", _NO_GPU),
    "gpu.temp_c": _node_number("its temperature", _NO_GPU),
    "gpu.fan_ratio": _node_number("speed of its fan, as a share of the highest", _NO_GPU),
    "supply.minimum_v": _node_number(
        "lowest voltage of the last seconds, of the incident's supply, else of the lowest one", _NO_SUPPLY
    ),
    "supply.open_circuit_v": _node_number("voltage of that supply without load", _NO_SUPPLY),
    "supply.source_resistance_ohm": _node_number("resistance of its path", _NO_SUPPLY),
    "supply.current_high_a": _node_number("its current in the high phase of the load", _NO_SUPPLY),
    "supply.current_low_a": _node_number("its current in the low phase", _NO_SUPPLY),
}
_EVIDENCE_FACTS = {
    f"{NUMBERS}.{name}": Fact(type=FactType.NUMBER, meaning=unit, absent_when="if the incident does not carry it")
    for name, unit in EVIDENCE.items()
}


def fact_of(path: str) -> Fact | None:
    """Return the declaration of a fact by its dotted name, evidence included; None if there is no such fact."""
    return FACTS.get(path) or _EVIDENCE_FACTS.get(path)


@cache
def members_of(section: str) -> Mapping[str, Fact]:
    """Return the facts of a section by their names in it; those outside any section for an empty name."""
    facts = _EVIDENCE_FACTS if section == NUMBERS else FACTS
    split = ((*path.rpartition("."), fact) for path, fact in facts.items())
    return MappingProxyType({name: fact for head, _, name, fact in split if head == section})


def facts_of(incident: Incident, node: MeasuredNode | None = None, now_ns: int | None = None) -> dict[str, FactValue]:
    """Return the facts of an incident on this node at this time; without them, those of the incident alone."""
    now_ns = incident.time_ns if now_ns is None else now_ns
    facts: dict[str, FactValue] = {
        "cause": incident.cause.value,
        "severity": incident.severity.value,
        "state": incident.state.value,
        "entity_kind": incident.entity_id.partition(":")[0],
        "entity_id": incident.entity_id,
        "affected_count": len(incident.affected),
        "impact_gpu_hours": incident.impact_gpu_hours,
        "score": max(
            (item.score for item in incident.findings if item.status is not FindingStatus.CLEARED), default=0.0
        ),
        "age_s": max(0.0, (now_ns - incident.opened_ns) / NS_PER_S),
        "silenced": incident.silence is not None,
    }
    if incident.loss_probability is not None:
        facts["loss_probability"] = incident.loss_probability
    if incident.hypotheses:
        facts |= {"root_cause": incident.hypotheses[0].cause.value, "confidence": incident.hypotheses[0].probability}
    for finding in sorted(incident.findings, key=lambda item: item.time_ns):
        facts.update({f"{NUMBERS}.{item.name}": item.value for item in finding.evidence})
    for earlier, present in EARLIER_EVIDENCE.items():
        if f"{NUMBERS}.{present}" in facts:
            facts[f"{NUMBERS}.{earlier}"] = facts[f"{NUMBERS}.{present}"]
    facts.update(_node_facts(incident.entity_id, MeasuredNode(gpus=()) if node is None else node, now_ns))
    return facts


def _node_facts(entity_id: str, node: MeasuredNode, now_ns: int) -> Iterator[tuple[str, float]]:
    yield "node.gpu_count", len(node.gpus)
    yield "node.supply_count", len(node.supplies)
    powers_w = [gpu.power_high_w for gpu in node.gpus if gpu.power_high_w is not None]
    if powers_w and len(powers_w) == len(node.gpus):
        yield "node.power_high_w", sum(powers_w)
    if node.job_started_ns is not None:
        yield "node.job_age_s", max(0.0, (now_ns - node.job_started_ns) / NS_PER_S)
    by_voltage = sorted((item for item in node.supplies if item.minimum_v is not None), key=lambda s: s.minimum_v or 0)
    supply = node.supply(entity_id) or next(iter((*by_voltage, *node.supplies)), None)
    for section, state in (("gpu", node.gpu(entity_id)), ("supply", supply)):
        for name in members_of(section):
            value = getattr(state, name, None)
            if value is not None:
                yield f"{section}.{name}", float(value)
