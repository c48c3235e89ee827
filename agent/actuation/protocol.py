"""What may be asked of the actuator process, as JSON lines: an allow-list, and nothing else is understood."""

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from agent.actuation.hold import GpuTarget
from agent.actuation.request import CapRequest
from telemetry.errors import TransientError
from telemetry.records import Action, Mode, from_json, to_json

# A cap of 64 GPUs takes 8 KiB.
REQUEST_BYTES_MAX = 64 << 10
GPUS_MAX = 64
LEASE_MAX_S = 86_400.0

Name = Annotated[str, Field(min_length=1, max_length=200)]
Reason = Annotated[str, Field(max_length=1000)]
Lease = Annotated[float, Field(gt=0, le=LEASE_MAX_S, allow_inf_nan=False)]
ClockMhz = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Gpu(_Request):
    """One GPU, as the decision names it and as the driver does."""

    entity_id: Name
    uuid: Name


class Apply(_Request):
    """Cap the clocks of some GPUs for one incident."""

    do: Literal["apply"] = "apply"
    incident_id: Name
    decision_id: Name
    gpus: Annotated[tuple[Gpu, ...], Field(min_length=1, max_length=GPUS_MAX)]
    clock_mhz: ClockMhz
    safe_clock_mhz: ClockMhz | None = None
    lease_s: Lease
    owner: Name
    mode: Mode
    reason: Reason

    def request(self) -> CapRequest:
        """Give it in the words of the core; ValueError where a GPU stands twice."""
        gpus = tuple(GpuTarget(entity_id=gpu.entity_id, uuid=gpu.uuid) for gpu in self.gpus)
        fields = self.model_dump(exclude={"do", "gpus"})
        return CapRequest(gpus=gpus, **fields)


class Renew(_Request):
    """Begin an incident's leases anew."""

    do: Literal["renew"] = "renew"
    incident_id: Name
    lease_s: Lease


class Release(_Request):
    """Give up an incident's claim on one GPU."""

    do: Literal["release"] = "release"
    incident_id: Name
    entity_id: Name
    reason: Reason


class ReleaseIncident(_Request):
    """Give up all claims of an incident; `bar` keeps it from capping those GPUs again."""

    do: Literal["release_incident"] = "release_incident"
    incident_id: Name
    reason: Reason
    bar: bool = False


class ReleaseAll(_Request):
    """Give up every claim."""

    do: Literal["release_all"] = "release_all"
    reason: Reason


class ListInForce(_Request):
    """Ask what is in force."""

    do: Literal["list"] = "list"


Request = Apply | Renew | Release | ReleaseIncident | ReleaseAll | ListInForce
_REQUESTS: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Field(discriminator="do")])


def read_request(line: bytes) -> Request:
    """Read one request.

    Raises
    ------
    ValueError
        It is not one of the requests; the message is one line that names the key.
    """
    if len(line) > REQUEST_BYTES_MAX:
        raise ValueError(f"request: longer than {REQUEST_BYTES_MAX} bytes")
    try:
        return _REQUESTS.validate_json(line)
    except ValidationError as err:
        raise ValueError(_first_problem(err)) from err


def make_request(**fields: object) -> Request:
    """Make one request; ValueError as for `read_request`."""
    try:
        return _REQUESTS.validate_python(fields)
    except ValidationError as err:
        raise ValueError(_first_problem(err)) from err


def _first_problem(err: ValidationError) -> str:
    first = err.errors(include_url=False, include_context=False)[0]
    key = ".".join(str(part) for part in first["loc"]) or "request"
    return f"{key}: {' '.join(str(first['msg']).split())}"[:300]


def request_line(request: Request) -> bytes:
    """Write one request as a line."""
    return request.model_dump_json().encode() + b"\n"


def answer_line(actions: tuple[Action, ...]) -> bytes:
    """Write what came of a request."""
    return json.dumps({"actions": [to_json(action) for action in actions]}, separators=(",", ":")).encode() + b"\n"


def refusal_line(message: str) -> bytes:
    """Write that a request was not understood and that nothing was changed."""
    return json.dumps({"refused": message}).encode() + b"\n"


def failure_line(message: str) -> bytes:
    """Write that a request was understood and that nobody knows how far it came."""
    return json.dumps({"failed": message}).encode() + b"\n"


def read_answer(line: bytes) -> tuple[Action, ...] | str:
    """Read an answer: the actions, or why the request was refused.

    Raises
    ------
    TransientError
        The actuator failed, or the line is no answer.
    """
    try:
        fields: dict[str, Any] = json.loads(line)
    except ValueError as err:
        raise TransientError("the answer cannot be read") from err
    if "failed" in fields:
        raise TransientError(str(fields["failed"]))
    if "refused" in fields:
        return str(fields["refused"])
    actions = [from_json(action) for action in fields.get("actions", ())]
    return tuple(action for action in actions if isinstance(action, Action))
