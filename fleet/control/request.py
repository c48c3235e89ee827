"""One request of a fleet service to one agent, and the envelope in which it is signed.

What is signed is the text as it travels, so that two writers of JSON need not agree on blanks. The signature is
Ed25519 (RFC 8032) by the key of the certificate with which the service connects: who signs is who is connected.
"""

import json
from enum import StrEnum
from typing import Annotated, Any, Literal, Self, TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rules.caps.knobs import KNOB_OF
from rules.policy.document_values import PolicyId
from rules.policy.model import ActionClass
from telemetry.identity_names import FleetId, Name, Printable
from telemetry.knobs import KnobKind

# A signature for one purpose must not serve another.
SIGNED_AS = b"railwatch control request 1\n"
# An ask for 64 GPUs takes 5 KiB; the rest is margin. heuristic.
ENVELOPE_BYTES_MAX = 32 << 10
GPUS_MAX = 64

Model = TypeVar("Model", bound=BaseModel)


class RequestVerb(StrEnum):
    """What is asked."""

    CAP = "cap"
    RENEW = "renew"
    RELEASE = "release"


class NodeRequest(BaseModel):
    """What one service asks of one node, once, until `expires_ns`.

    `term` grows with every start of the service, and `instance` tells two processes of one term apart. No target means
    every GPU of the node. A cap names its setting in the unit of its knob, or a share of the highest of each GPU.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    node: Name
    fleet: FleetId
    term: Annotated[int, Field(ge=1)]
    instance: Name
    do: RequestVerb
    action: ActionClass = ActionClass.CLOCK_CAP
    incident_id: Name
    policy_id: PolicyId
    decision_id: Name
    targets: Annotated[tuple[Name, ...], Field(max_length=GPUS_MAX)] = ()
    setting: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    ratio: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    lease_s: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
    reason: Annotated[Printable, Field(min_length=1, max_length=500)]
    issued_ns: Annotated[int, Field(gt=0)]
    expires_ns: Annotated[int, Field(gt=0)]
    nonce: Annotated[str, Field(min_length=16, max_length=64)]

    @model_validator(mode="after")
    def _a_cap_has_one_setting(self) -> Self:
        given = sum(value is not None for value in (self.setting, self.ratio))
        if given != (1 if self.do is RequestVerb.CAP else 0):
            raise ValueError("exactly one of setting and ratio for a cap, and none for anything else")
        return self

    @property
    def owner(self) -> str:
        """Return under which name its claims stand."""
        return f"fleet:{self.fleet}"

    @property
    def claim_id(self) -> str:
        """Return the incident of its claims here: two services, policies or knobs share none, nor does the guard."""
        return f"{self.owner}:{self.incident_id}:{self.policy_id}:{self.action}"

    @property
    def knob(self) -> KnobKind | None:
        """Return the knob that is meant, None where the action turns none."""
        return KNOB_OF.get(self.action)


class Envelope(BaseModel):
    """A request as it travels: its text, the signature of that text, and the token that allows it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ask: Annotated[str, Field(max_length=ENVELOPE_BYTES_MAX)]
    signature: Annotated[str, Field(max_length=200)]
    token: Annotated[str, Field(max_length=4096)]


def sealed(ask: NodeRequest, *, key: Ed25519PrivateKey, token: str) -> bytes:
    """Return a request as it travels."""
    text = ask.model_dump_json(exclude_none=True)
    signature = key.sign(SIGNED_AS + text.encode()).hex()
    return Envelope(ask=text, signature=signature, token=token).model_dump_json().encode()


def read_envelope(body: bytes) -> Envelope:
    """Read an envelope; ValueError in one line where it is none."""
    if len(body) > ENVELOPE_BYTES_MAX:
        raise ValueError(f"longer than {ENVELOPE_BYTES_MAX} bytes")
    return _checked(Envelope, body)


def is_signed(envelope: Envelope, key: Ed25519PublicKey) -> bool:
    """Return whether whoever has the key's other half signed this text."""
    try:
        key.verify(bytes.fromhex(envelope.signature), SIGNED_AS + envelope.ask.encode())
    except (InvalidSignature, ValueError):
        return False
    return True


def read_request(envelope: Envelope) -> NodeRequest:
    """Read what is asked; ValueError in one line that names the key where it cannot be."""
    return _checked(NodeRequest, envelope.ask.encode())


class ControlReply(BaseModel):
    """What an agent says: `kind` is `done`, or the kind of refusal; `actions` are records as JSON types."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str
    words: str = ""
    actions: tuple[dict[str, Any], ...] = ()

    def line(self) -> bytes:
        """Return it as it travels."""
        return json.dumps(self.model_dump(), separators=(",", ":")).encode() + b"\n"


def _checked(model: type[Model], body: bytes) -> Model:
    try:
        return model.model_validate_json(body)
    except ValidationError as err:
        first = err.errors(include_url=False, include_context=False)[0]
        key = ".".join(str(part) for part in first["loc"]) or "request"
        raise ValueError(f"{key}: {' '.join(str(first['msg']).split())}"[:300]) from err
