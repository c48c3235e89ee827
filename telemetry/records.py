"""The records of the loop: events, findings, incidents, commands, decisions, actions and outcomes.

Each is immutable; a change is a new record with the same `id` and a later `time_ns`. `telemetry.record_json` is the one
form in which they are printed, journalled and sent.
"""

from dataclasses import dataclass
from enum import StrEnum

from telemetry.commands import Command
from telemetry.gpu import KnobKind, ReleasedBy


class Severity(StrEnum):
    """Severity of an event, finding or incident."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Rank: 0 for info, 1 for warning, 2 for critical."""
        return list(Severity).index(self)


class Health(StrEnum):
    """Health of an entity; a lost sensor is unknown, never healthy."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"


class Mode(StrEnum):
    """Mode of an action class: record only, recommend, or carry out."""

    OBSERVE = "observe"
    RECOMMEND = "recommend"
    ENFORCE = "enforce"


class EventKind(StrEnum):
    """Kind of event."""

    XID = "xid"
    SXID = "sxid"
    BUS_DROP = "bus_drop"
    DRIVER_ERROR = "driver_error"
    AER = "aer"
    COLLECTOR = "collector"
    KERNEL_GAP = "kernel_gap"
    GPU_PROCESS = "gpu_process"
    SUPPLY = "supply"
    FAN = "fan"
    BOARD_HEAT = "board_heat"
    BOARD = "board"
    POWER = "power"
    DEVICE_ADDED = "device_added"
    DRIVER_BOUND = "driver_bound"
    DRIVER_UNBOUND = "driver_unbound"
    LINK = "link"
    FABRIC = "fabric"
    RECORDING = "recording"
    BASELINE = "baseline"
    APPROVAL = "approval"
    CONTROL = "control"


class Cause(StrEnum):
    """Cause of a finding as a detector reports it: a fault with a fingerprint of its own, else the symptom.

    Hypotheses of an incident rank a `FaultClass` instead, which is never a symptom.
    """

    JOINT_AGEING = "joint_ageing"
    SUPPLY_LOST = "supply_lost"
    FEED_IMBALANCE = "feed_imbalance"
    SUPPLY_OVERLOAD = "supply_overload"
    SYNCHRONOUS_OVERLOAD = "synchronous_overload"
    INPUT_SAG = "input_sag"
    SUPPLY_SAG = "supply_sag"
    POWER_BRAKE = "power_brake"
    HW_SLOWDOWN = "hw_slowdown"
    AIRFLOW = "airflow"
    THERMAL_INTERFACE = "thermal_interface"
    THERMAL_MARGIN = "thermal_margin"
    GPU_LOST = "gpu_lost"
    ODD_NODE = "odd_node"
    GPU_ERROR = "gpu_error"
    FABRIC_ERROR = "fabric_error"
    LOOSE_MODULE = "loose_module"
    HANG = "hang"
    STRAGGLER = "straggler"
    SENSOR_FAULT = "sensor_fault"
    SENSOR_LOST = "sensor_lost"
    FEED_OVER_RATING = "feed_over_rating"
    PLUG_OVER_RATING = "plug_over_rating"
    REDUNDANCY_LOST = "redundancy_lost"
    STEPS_OVER_LIMIT = "steps_over_limit"
    EFFICIENCY_LOSS = "efficiency_loss"
    NOVELTY = "novelty"


class FaultClass(StrEnum):
    """Class of a fault, as hypotheses rank them; a detector reports a `Cause`."""

    JOINT_AGEING = "joint_ageing"
    SUPPLY_LOST = "supply_lost"
    SUPPLY_OVERLOAD = "supply_overload"
    SYNCHRONOUS_OVERLOAD = "synchronous_overload"
    INPUT_SAG = "input_sag"
    THERMAL_INTERFACE = "thermal_interface"
    AIRFLOW = "airflow"
    LOOSE_MODULE = "loose_module"
    HANG = "hang"
    DRIVER_FAULT = "driver_fault"
    SENSOR_FAULT = "sensor_fault"
    EXPORTER_FAULT = "exporter_fault"
    NO_ELECTRICAL_EVIDENCE = "no_electrical_evidence"
    UNKNOWN = "unknown"


class FindingStatus(StrEnum):
    """Status of a finding."""

    RAISED = "raised"
    UPDATED = "updated"
    CLEARED = "cleared"


class IncidentState(StrEnum):
    """State of an incident; mitigated means that the symptom is gone while an action is in force."""

    OPEN = "open"
    MITIGATED = "mitigated"
    CLOSED = "closed"


class Verdict(StrEnum):
    """Verdict on a decision."""

    EXECUTE = "execute"
    RECOMMEND = "recommend"
    OBSERVE = "observe"
    REFUSE = "refuse"
    PENDING = "pending"


class ActionState(StrEnum):
    """State of an action. An action that cannot be released is `done`, never in force."""

    APPLIED = "applied"
    RENEWED = "renewed"
    RELAXED = "relaxed"
    EXPIRED = "expired"
    RELEASED = "released"
    REFUSED = "refused"
    FAILED = "failed"
    DONE = "done"


# Prefix of `incident_id` for an action that a reflex took ahead of any incident.
REFLEX = "reflex:"
# A cap whose lease expired stays in force while its cause is unresolved.
IN_FORCE = frozenset({ActionState.APPLIED, ActionState.RENEWED, ActionState.RELAXED, ActionState.EXPIRED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Number that supports a finding."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Event at a point in time: an Xid, a bus drop, a PCIe error.

    `sources` names every source that reported it. `entity_id` is None for an unknown device. `job_gpus` holds the jobs
    of the node from this time on, as pairs of a job and a GPU that it computes on; None where that is not reported.
    """

    id: str
    time_ns: int
    kind: EventKind
    entity_id: str | None
    code: int | None
    severity: Severity
    message: str
    sources: tuple[str, ...]
    pci: str | None = None
    pid: int | None = None
    process: str | None = None
    job_gpus: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Finding of a detector about one entity, with its evidence.

    `score` from 0 to 1 is the distance of the evidence beyond its limit. `since_ns` is when the condition began.
    """

    id: str
    time_ns: int
    since_ns: int
    detector: str
    cause: Cause
    entity_id: str
    status: FindingStatus
    severity: Severity
    score: float
    summary: str
    evidence: tuple[Evidence, ...]

    def number(self, name: str) -> float | None:
        """Return the value of the evidence with a name, None where there is none."""
        return next((item.value for item in self.evidence if item.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStep:
    """Entity on the path from a cause to the symptom: what it shows, and since when."""

    entity_id: str
    shows: str
    since_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """Hypothesis about the fault, with its probability among all hypotheses.

    `for_` and `against` list the evidence, each item with its weight in natural logarithms of odds; `would_disprove`
    names a measurement that tests it. `path` leads from the entity at fault to the symptom. `ungrounded` is empty if
    the topology has that path, each entity on it deviates, and none before the one above it; else what is missing.
    """

    cause: FaultClass
    probability: float
    for_: tuple[str, ...]
    against: tuple[str, ...]
    would_disprove: str
    path: tuple[PathStep, ...] = ()
    ungrounded: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Findings on one root entity, from opening to closing.

    `impact_gpu_hours` is the expected loss in GPU-hours without action: the possible loss times `loss_probability`.
    `affected` lists every entity with a finding in it. `hypotheses` are ranked, the likeliest first; their
    probabilities add up to 1. `silence` holds operator, end and reason of a silence, None without one. `held` is True
    if a mitigated incident is held down by an action; otherwise it was over before the action.
    `summary` is what and how bad; `notes` are short facts about it: what else is affected, which action holds it down.
    """

    id: str
    time_ns: int
    opened_ns: int
    closed_ns: int | None
    cause: Cause
    entity_id: str
    affected: tuple[str, ...]
    state: IncidentState
    severity: Severity
    impact_gpu_hours: float
    summary: str
    findings: tuple[Finding, ...]
    loss_probability: float | None = None
    hypotheses: tuple[Hypothesis, ...] = ()
    silence: str | None = None
    held: bool = False
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Summary and notes in one line."""
        return "; ".join((self.summary, *self.notes))

    def number(self, name: str) -> float | None:
        """Return the newest value of the evidence with a name over its findings, None where there is none."""
        for finding in sorted(self.findings, key=lambda item: item.time_ns, reverse=True):
            value = finding.number(name)
            if value is not None:
                return value
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The output of a policy for one incident, and what the limits made of it.

    `knob` and `setting`, in the unit of the knob, are None where the action moves no knob of a GPU. `parameters` go to
    an actuator outside the GPU. A decision that needs approval has the verdict `pending` until `expires_ns`.
    """

    id: str
    time_ns: int
    rule: str
    incident_id: str
    action: str
    targets: tuple[str, ...]
    lease_s: float | None
    mode: Mode
    verdict: Verdict
    reason: str
    knob: KnobKind | None = None
    setting: float | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    expires_ns: int | None = None

    @property
    def clock_mhz(self) -> float | None:
        """The setting of a clock cap, None for any other decision."""
        return self.setting if self.knob is KnobKind.CLOCK else None

    @property
    def power_limit_w(self) -> float | None:
        """The setting of a power cap, None for any other decision."""
        return self.setting if self.knob is KnobKind.POWER else None

    @property
    def fan_ratio(self) -> float | None:
        """The setting of a fan, None for any other decision."""
        return self.setting if self.knob is KnobKind.FAN else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Change to one knob of one entity, reversible unless its state is `done`; `released_by` is set for a release.

    `knob_kind` is None for a change outside the GPUs; `knob` names the actuator or the driver call. `found`, `wanted`
    and `read_back` are the setting before, the requested one and the one read afterwards; None where it was unset.
    """

    id: str
    time_ns: int
    decision_id: str
    incident_id: str
    knob: str
    entity_id: str
    unit: str
    found: float | None
    wanted: float | None
    read_back: float | None
    state: ActionState
    mode: Mode
    lease_until_ns: int | None
    owner: str
    reason: str
    knob_kind: KnobKind | None = None
    released_by: ReleasedBy | None = None

    @property
    def ahead_of(self) -> str | None:
        """The policy that a reflex acted for, ahead of any incident; None for an action that the policies decided."""
        is_reflex = self.incident_id.startswith(REFLEX)
        return self.decision_id.removesuffix(f":{self.incident_id}") if is_reflex else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Effect of an action: one measured quantity before and after; `helped` is None where that is unknown."""

    id: str
    time_ns: int
    incident_id: str
    decision_id: str
    measure: str
    unit: str
    before: float | None
    after: float | None
    helped: bool | None
    summary: str
    higher_is_better: bool = False


Record = Event | Finding | Incident | Command | Decision | Action | Outcome
