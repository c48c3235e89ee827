"""Incidents of a run and its true faults, small enough to send between processes and to score."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from analytics.connectivity import Kinship
from analytics.connectivity.kinship import NODE_ID
from telemetry.entities import BUS_TAG, EntityKind, Topology
from telemetry.records import FaultClass, Hypothesis, Incident, IncidentState, Record, Severity

_CLASSES = frozenset(map(str, FaultClass))


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedCause:
    """Hypothesis of an incident; `probability` is None where there is none.

    `root` is the entity at which it lies, empty where it has no place; `grounded` as `Hypothesis.ungrounded` has it.
    """

    cause: str
    probability: float | None = None
    root: str = ""
    grounded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """Incident, from its first record to its last.

    `reported_ns` is when it first reached info, warning and critical, else None. `causes` are all that led
    it, `ranked` the hypotheses of its last record, the likeliest first.
    """

    id: str
    entities: frozenset[str]
    causes: frozenset[str]
    ranked: tuple[RankedCause, ...]
    reported_ns: tuple[int | None, int | None, int | None]
    summary: str

    def reported_at(self, severity: Severity) -> int | None:
        """Return when it was first reported at a severity or a worse one."""
        times = [time_ns for time_ns in self.reported_ns[severity.rank :] if time_ns is not None]
        return min(times, default=None)

    @property
    def text(self) -> frozenset[str]:
        """Causes that ever led it, and its likeliest hypothesis."""
        return self.causes | {one.cause for one in self.ranked[:1]}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueFault:
    """Label of a scenario.

    `about` holds the entities that it names, what they are part of, what hangs on them, and the rail of the board that
    shows their bus: an incident on any of them can be about it. A supply's neighbour is none of these.
    """

    causes: tuple[str, ...]
    about: frozenset[str]
    onset_ns: int
    end_ns: int | None
    lies_in: frozenset[str] = frozenset()


@dataclass(slots=True)
class _GrowingSighting:
    """An incident while its records come."""

    last: Incident
    causes: set[str] = field(default_factory=set)
    reported_ns: dict[int, int] = field(default_factory=dict)


def sightings_of(records: Iterable[Record]) -> tuple[Sighting, ...]:
    """Return each incident of a run once, in the order in which they were opened."""
    lives: dict[str, _GrowingSighting] = {}
    for record in records:
        if not isinstance(record, Incident):
            continue
        life = lives.setdefault(record.id, _GrowingSighting(record))
        life.causes.add(str(record.cause))
        # A silenced incident is recorded and pages no one.
        rank = record.severity.rank if record.silence is None else Severity.INFO.rank
        life.reported_ns.setdefault(rank, record.time_ns)
        if record.state is not IncidentState.CLOSED:
            life.last = record
    return tuple(_sighting(life) for life in lives.values())


def _sighting(life: _GrowingSighting) -> Sighting:
    last = life.last
    return Sighting(
        id=last.id,
        entities=frozenset((last.entity_id, *last.affected)),
        causes=frozenset(life.causes),
        ranked=_ranked(last),
        reported_ns=(life.reported_ns.get(0), life.reported_ns.get(1), life.reported_ns.get(2)),
        summary=last.summary,
    )


def _ranked(incident: Incident) -> tuple[RankedCause, ...]:
    """Return the hypotheses, the likeliest first; the cause alone where an incident has none."""
    if not incident.hypotheses:
        return (RankedCause(cause=str(incident.cause)),)
    ordered = sorted(incident.hypotheses, key=lambda one: -one.probability)
    return tuple(
        RankedCause(
            cause=_name(one, incident),
            probability=one.probability,
            root=one.path[0].entity_id if one.path else "",
            grounded=not one.ungrounded,
        )
        for one in ordered
    )


def _name(one: Hypothesis, incident: Incident) -> str:
    """Return the name of a hypothesis: that of the symptom where what is behind it is unknown.

    Only a symptom that no class of fault is called after, such as a straggler or a power brake, is an answer so.
    """
    symptom = str(incident.cause)
    return symptom if one.cause is FaultClass.UNKNOWN and symptom not in _CLASSES else str(one.cause)


def faults_of(
    labels: Iterable[dict[str, Any]], topology: Topology, *, node: str, together: bool
) -> tuple[TrueFault, ...]:
    """Return the labels of a run as faults on entities; all of them as one where they are `together`."""
    kinship = Kinship.of(topology)
    ids = {entity.name: entity.id for entity in topology.entities}
    ids["node"] = ids.get("node", ids.get(node, f"node:{node}"))
    faults = []
    for label in labels:
        named = frozenset(ids[name] for name in label["entities"] if name in ids)
        rails = _rails_of(named, topology)
        faults.append(
            TrueFault(
                causes=(label["cause"],),
                about=about_of(named, topology),
                onset_ns=label["onset_ns"],
                end_ns=label["end_ns"],
                lies_in=named | rails | _shared_by(named, label["cause"], kinship),
            )
        )
    if not together or not faults:
        return tuple(faults)
    ends = [fault.end_ns for fault in faults]
    return (
        TrueFault(
            causes=tuple(dict.fromkeys(cause for fault in faults for cause in fault.causes)),
            about=frozenset().union(*(fault.about for fault in faults)),
            onset_ns=min(fault.onset_ns for fault in faults),
            end_ns=None if None in ends else max(end for end in ends if end is not None),
            lies_in=frozenset().union(*(fault.lies_in for fault in faults)),
        ),
    )


def about_of(named: frozenset[str], topology: Topology) -> frozenset[str]:
    """Return the entities that an incident about these may name; see `TrueFault.about`."""
    kinship = Kinship.of(topology)
    about = named.union(*(kinship.ancestors(one) | kinship.descendants(one) for one in named))
    return about | _rails_of(named, topology)


def _rails_of(named: frozenset[str], topology: Topology) -> frozenset[str]:
    """Return the rails of the board that show the buses of these entities: what several supplies share shows there."""
    buses = {bus for one in topology.entities if one.id in named and (bus := one.tag(BUS_TAG)) is not None}
    return frozenset(one.id for one in topology.entities if one.is_rail_of_board and one.tag(BUS_TAG) in buses)


def _shared_by(named: frozenset[str], cause: str, kinship: Kinship) -> frozenset[str]:
    """Return the lowest entity that holds several of these; of a node itself, its jobs, and for its air its fans."""
    if len(named) > 1:
        shared = kinship.common_root(sorted(named))
        return frozenset() if shared is None else frozenset((shared,))
    kinds = {EntityKind.JOB, EntityKind.FAN} if cause == FaultClass.AIRFLOW else {EntityKind.JOB}
    below = frozenset[str]().union(*(kinship.descendants(one) for one in named if one.startswith(NODE_ID)))
    return frozenset(one for one in below if one.partition(":")[0] in kinds)
