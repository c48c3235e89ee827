"""Requests and replies of the actuator process, as JSON lines: an allow-list; any other request is refused."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from agent.actuation.claims import CapRequest, GpuTarget
from agent.actuation.knobs import KnobCheck
from agent.actuation.report import RecentBatch
from telemetry.errors import TransientError
from telemetry.gpu import KnobKind
from telemetry.json_text import json_bytes
from telemetry.record_json import from_json, to_json
from telemetry.records import Action, Mode

# A cap of 64 GPUs takes 8 KiB.
REQUEST_BYTES_MAX = 64 << 10
GPUS_MAX = 64
# Names of fields that have another key on the wire.
_CHECK_KEYS = {"summary": "words"}
LEASE_MAX_S = 86_400.0


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("expected printable characters")
    return text


def _without_control(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


# Both are written to a log that root reads: no line of it may be forged.
Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_one_line)]
Reason = Annotated[str, Field(max_length=1000), AfterValidator(_without_control)]
Lease = Annotated[float, Field(gt=0, le=LEASE_MAX_S, allow_inf_nan=False)]
Setting = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Gpu(_Request):
    """GPU by the id in the decision and by its UUID in the driver."""

    entity_id: Name
    uuid: Name


class Apply(_Request):
    """Request to set one knob of some GPUs for one incident."""

    do: Literal["apply"] = "apply"
    incident_id: Name
    decision_id: Name
    gpus: Annotated[tuple[Gpu, ...], Field(min_length=1, max_length=GPUS_MAX)]
    kind: KnobKind
    setting: Setting
    safe_setting: Setting | None = None
    lease_s: Lease
    owner: Name
    mode: Mode
    reason: Reason
    # Left out unless it is set: an actuator of an earlier version refuses a key that it does not know.
    ends_with_lease: bool = False

    def request(self) -> CapRequest:
        """Return the request as the actuator uses it; ValueError if a GPU is named twice."""
        gpus = tuple(GpuTarget(entity_id=gpu.entity_id, uuid=gpu.uuid) for gpu in self.gpus)
        fields = self.model_dump(exclude={"do", "gpus"})
        return CapRequest(gpus=gpus, **fields)


class Renew(_Request):
    """Request to renew the leases of an incident."""

    do: Literal["renew"] = "renew"
    incident_id: Name
    lease_s: Lease


class ReleaseRequest(_Request):
    """Request to release an incident's claims on one GPU, or on one of its knobs if a kind is given."""

    do: Literal["release"] = "release"
    incident_id: Name
    entity_id: Name
    reason: Reason
    kind: KnobKind | None = None


class ReleaseIncident(_Request):
    """Request to release all claims of an incident; `bar` blocks it from those knobs."""

    do: Literal["release_incident"] = "release_incident"
    incident_id: Name
    reason: Reason
    bar: bool = False


class ReleaseAll(_Request):
    """Request to release every claim."""

    do: Literal["release_all"] = "release_all"
    reason: Reason


class ListInForce(_Request):
    """Query of the actions in force."""

    do: Literal["list"] = "list"


class Follow(_Request):
    """Query of the actions since a number; without one, of the number."""

    do: Literal["follow"] = "follow"
    after: Annotated[int, Field(ge=0)] | None = None


class Status(_Request):
    """Query of the state of the actuator: held knobs and refused requests."""

    do: Literal["status"] = "status"


class Verify(_Request):
    """Query that compares every held knob with the journal."""

    do: Literal["verify"] = "verify"


Request = Apply | Renew | ReleaseRequest | ReleaseIncident | ReleaseAll | ListInForce | Follow | Status | Verify
_REQUESTS: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Field(discriminator="do")])


def read_request(line: bytes) -> Request:
    """Read one request; ValueError where it is not one of the requests; the message is one line that names the key."""
    if len(line) > REQUEST_BYTES_MAX:
        raise ValueError(f"request: longer than {REQUEST_BYTES_MAX} bytes")
    try:
        return _REQUESTS.validate_json(line)
    except ValidationError as err:
        raise ValueError(_first_problem(err)) from err


def make_request(**fields: object) -> Request:
    """Return a request; ValueError as for `read_request`."""
    try:
        return _REQUESTS.validate_python(fields)
    except ValidationError as err:
        raise ValueError(_first_problem(err)) from err


def _first_problem(err: ValidationError) -> str:
    first = err.errors(include_url=False, include_context=False)[0]
    key = ".".join(str(part) for part in first["loc"]) or "request"
    return f"{key}: {' '.join(str(first['msg']).split())}"[:300]


def request_line(request: Request) -> bytes:
    """Return a request as a line."""
    left_out = {"ends_with_lease"} if isinstance(request, Apply) and not request.ends_with_lease else None
    return request.model_dump_json(exclude=left_out).encode() + b"\n"


def _line(fields: Mapping[str, object]) -> bytes:
    return json_bytes(fields) + b"\n"


def answer_line(actions: tuple[Action, ...]) -> bytes:
    """Return the actions of a request as a line."""
    return _line({"actions": [to_json(action) for action in actions]})


def recent_line(recent: RecentBatch) -> bytes:
    """Return the actions since a number as a line."""
    return _line({"number": recent.number, "actions": [to_json(action) for action in recent.actions]})


def checks_line(checks: tuple[KnobCheck, ...]) -> bytes:
    """Return the checks of the knobs as a line; the key of a summary is `words`."""
    rows = [{_CHECK_KEYS.get(key, key): value for key, value in asdict(check).items()} for check in checks]
    return _line({"checks": rows})


def status_line(status: Mapping[str, object]) -> bytes:
    """Return the state of the actuator as a line."""
    return _line({"status": status})


def refusal_line(message: str) -> bytes:
    """Return the reply to an invalid request; nothing was changed."""
    return json_bytes({"refused": message}) + b"\n"


def failure_line(message: str) -> bytes:
    """Return the reply to a request that failed; how far it came is unknown."""
    return json_bytes({"failed": message}) + b"\n"


def read_answer(line: bytes) -> tuple[Action, ...] | str:
    """Parse a reply: the actions, or why the request was refused.

    TransientError where the actuator failed, or the line is no reply.
    """
    fields = _answer_fields(line)
    return str(fields["refused"]) if "refused" in fields else _actions(fields)


def read_recent(line: bytes) -> RecentBatch:
    """Parse the actions since a number; TransientError as for `read_answer`, and if it was refused."""
    fields = _answer_fields(line, required="number", kind=int)
    return RecentBatch(number=fields["number"], actions=_actions(fields))


def read_checks(line: bytes) -> tuple[KnobCheck, ...]:
    """Parse the checks of the knobs; TransientError as for `read_recent`."""
    rows = _answer_fields(line, required="checks", kind=list)["checks"]
    names = {key: name for name, key in _CHECK_KEYS.items()}
    return tuple(KnobCheck(**{names.get(key, key): value for key, value in row.items()}) for row in rows)


def read_status(line: bytes) -> dict[str, Any]:
    """Parse the state of the actuator; TransientError as for `read_recent`."""
    status: dict[str, Any] = _answer_fields(line, required="status", kind=dict)["status"]
    return status


def _answer_fields(line: bytes, *, required: str = "", kind: type = object) -> dict[str, Any]:
    """Return the fields of a reply; TransientError without the required one, of that kind."""
    try:
        fields = json.loads(line)
    except ValueError as err:
        raise TransientError("the reply cannot be read") from err
    if not isinstance(fields, dict):
        raise TransientError("the reply cannot be read")
    if "failed" in fields:
        raise TransientError(str(fields["failed"]))
    if required and not isinstance(fields.get(required), kind):
        raise TransientError(str(fields.get("refused", "the reply cannot be read")))
    return fields


def _actions(fields: Mapping[str, Any]) -> tuple[Action, ...]:
    actions = [from_json(action) for action in fields.get("actions", ())]
    return tuple(action for action in actions if isinstance(action, Action))
