"""The JSON of the API where it is not a dataclass of ours as it stands."""

from types import GenericAlias
from typing import Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model

from dashboards.page.series_tables import Table
from telemetry.commands import Command
from telemetry.record_json import DERIVED_KEYS
from telemetry.records import Action, Decision, Event, Incident, Outcome, Record


def _shape(name: str, record: type[Record]) -> Any:
    """Return the model of what `telemetry.record_json.to_json` gives for one type of record."""
    fields: dict[str, Any] = {"time": (str, ...), "type": (Literal[name], ...)}
    fields |= {field: (hint, ...) for field, hint in get_type_hints(record).items()}
    fields |= {key: (hint, ...) for key, hint in DERIVED_KEYS.get(record, {}).items()}
    return create_model(f"{record.__name__}Record", __config__=ConfigDict(extra="forbid"), **fields)


IncidentShape = _shape("incident", Incident)
ActionShape = _shape("action", Action)
EventShape = _shape("event", Event)
CommandShape = _shape("command", Command)
DecisionShape = _shape("decision", Decision)
OutcomeShape = _shape("outcome", Outcome)


# One incident with everything that was decided, done and found out about it.
_STORY: dict[str, Any] = {
    "incident": (IncidentShape, ...),
    "decisions": (GenericAlias(list, DecisionShape), ...),
    "actions": (GenericAlias(list, ActionShape), ...),
    "outcomes": (GenericAlias(list, OutcomeShape), ...),
}
IncidentStory = create_model("IncidentStory", **_STORY)


class SignalShape(BaseModel):
    """Signal that an entity's kind has."""

    name: str
    unit: str
    meaning: str


class EntityShape(BaseModel):
    """Entity: its name, what feeds it, and what it measures."""

    id: str
    kind: str
    key: str
    name: str
    label: str
    tags: dict[str, str]
    parents: list[str]
    signals: list[SignalShape]


class SeriesReply(BaseModel):
    """Columns, with the server's time at which they were read."""

    now_ms: int
    tables: list[Table]


class HealthReply(BaseModel):
    """Health of the node, and the age of its newest sample."""

    health: Literal["healthy", "degraded", "unhealthy", "unknown"]
    reason: str
    last_sample_age_s: float | None
    open_incidents: int
