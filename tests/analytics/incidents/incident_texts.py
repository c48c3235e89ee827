"""Findings passed to an incident book, and its incidents."""

from dataclasses import replace

import numpy as np

from analytics.incidents.book import IncidentBook
from analytics.judged import DIPS, PATHS, Judged, JudgedSpans
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind, Topology
from telemetry.records import Cause, Evidence, Finding, FindingStatus, Incident, IncidentState, Severity
from tests.analytics.scenes import START_NS, node_of

TOPOLOGY = node_of(4, 2)
DETECTOR = {
    Cause.SUPPLY_SAG: "rail_sag",
    Cause.POWER_BRAKE: "power_brake",
    Cause.HW_SLOWDOWN: "hw_slowdown",
    Cause.THERMAL_INTERFACE: "hotter_than_siblings",
    Cause.THERMAL_MARGIN: "thermal_margin",
    Cause.GPU_LOST: "gpu_lost",
    Cause.GPU_ERROR: "gpu_errors.xid.48",
    Cause.SENSOR_LOST: "gpu_sensor_lost",
    Cause.FABRIC_ERROR: "gpu_errors.xid.74",
    Cause.SUPPLY_LOST: "source_resistance",
    Cause.JOINT_AGEING: "source_resistance",
    Cause.SUPPLY_OVERLOAD: "supply_headroom",
    Cause.SYNCHRONOUS_OVERLOAD: "supply_headroom",
}


def at(seconds: float) -> int:
    return START_NS + round(seconds * NS_PER_S)


def finding(
    cause: Cause,
    entity_id: str,
    *,
    at_s: float = 0.0,
    since_s: float | None = None,
    status: FindingStatus = FindingStatus.RAISED,
    severity: Severity = Severity.WARNING,
    detector: str | None = None,
) -> Finding:
    since_ns, name = at(at_s if since_s is None else since_s), detector or DETECTOR[cause]
    return Finding(
        id=f"{name}:{entity_id}:{since_ns}",
        time_ns=at(at_s),
        since_ns=since_ns,
        detector=name,
        cause=cause,
        entity_id=entity_id,
        status=status,
        severity=severity,
        score=0.5,
        summary=f"{cause} on {entity_id}",
        evidence=(Evidence(name="minimum_v", value=11.3, unit="V"),),
    )


def cleared(one: Finding, *, at_s: float) -> Finding:
    return replace(one, time_ns=at(at_s), status=FindingStatus.CLEARED)


SAG = finding(Cause.SUPPLY_SAG, "supply:psu0")
GPUS = [f"gpu:GPU-{number}" for number in range(4)]


def all_judged(topology: Topology) -> Judged:
    """Return that every detector judged everything at all times."""
    supplies = topology.of_kind(EntityKind.SUPPLY)
    spans = [
        JudgedSpans(
            detector=detector,
            entities=supplies,
            subject=np.ones(len(supplies), dtype=np.bool_),
            since_ns=np.zeros(len(supplies), dtype=np.int64),
            until_ns=np.full(len(supplies), np.iinfo(np.int64).max),
        )
        for detector in (DIPS, PATHS)
    ]
    return Judged(spans=tuple(spans))


class IncidentTexts:
    """A book, and the newest record of every incident that it returned; `judged` is everything unless given."""

    def __init__(
        self, book: IncidentBook | None = None, topology: Topology = TOPOLOGY, judged: Judged | None = None
    ) -> None:
        self.book = book or IncidentBook()
        self.topology = topology
        self.judged = all_judged(topology) if judged is None else judged
        self.newest: dict[str, Incident] = {}

    def step(self, *findings: Finding, at_s: float = 0.0) -> tuple[Incident, ...]:
        out = self.book.step(findings, at(at_s), self.topology, read_judged=lambda: self.judged)
        self.newest |= {incident.id: incident for incident in out}
        return out

    @property
    def open(self) -> list[Incident]:
        return [incident for incident in self.newest.values() if incident.state is not IncidentState.CLOSED]
