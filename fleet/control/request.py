"""Request of a fleet service to one agent, and the envelope that signs it.

The signature covers the JSON text as sent, so that two JSON writers need not agree on whitespace. It is Ed25519 (RFC
8032) by the key of the client certificate: the signer is the connected service.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal, Self, TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, model_validator

from rules.caps.knobs import KNOB_OF
from rules.policy.document_values import PolicyId
from rules.policy.model import ActionClass
from telemetry.gpu import KnobKind
from telemetry.identity_names import FleetId, Name, Printable
from telemetry.json_text import json_bytes

# Prefix of the signed text, so that a signature is valid for requests alone.
SIGNED_AS = b"railwatch control request 1\n"
# heuristic: a request for 64 GPUs takes 5 KiB; the rest is margin.
ENVELOPE_BYTES_MAX = 32 << 10
GPUS_MAX = 64

Model = TypeVar("Model", bound=BaseModel)


class RequestVerb(StrEnum):
    """Order of a request."""

    CAP = "cap"
    RENEW = "renew"
    RELEASE = "release"


class NodeRequest(BaseModel):
    """Request of one service to one node, valid once and until `expires_ns`.

    `term` grows with every start of the service, and `instance` distinguishes two processes of one term. Without
    targets it applies to every GPU of the node. A cap has a setting in the unit of its knob, or a ratio of the highest
    setting of each GPU.
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
        """Owner of its claims."""
        return f"fleet:{self.fleet}"

    @property
    def claim_id(self) -> str:
        """Incident id of its claims on this node, unique per service, incident, policy and action."""
        return f"{self.owner}:{self.incident_id}:{self.policy_id}:{self.action}"

    @property
    def knob(self) -> KnobKind | None:
        """Knob that the action turns, None where it turns none."""
        return KNOB_OF.get(self.action)


class Envelope(BaseModel):
    """Signed request as sent: its JSON text, the signature of that text, and the token that authorizes it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    request: str = Field(
        max_length=ENVELOPE_BYTES_MAX, validation_alias=AliasChoices("ask", "request"), serialization_alias="ask"
    )
    signature: Annotated[str, Field(max_length=200)]
    token: Annotated[str, Field(max_length=4096)]


def sealed(request: NodeRequest, *, key: Ed25519PrivateKey, token: str) -> bytes:
    """Return a request as sent: signed and with its token."""
    text = request.model_dump_json(exclude_none=True)
    signature = key.sign(SIGNED_AS + text.encode()).hex()
    return Envelope(request=text, signature=signature, token=token).model_dump_json(by_alias=True).encode()


def read_envelope(body: bytes) -> Envelope:
    """Parse an envelope; ValueError with one line where the body is none."""
    if len(body) > ENVELOPE_BYTES_MAX:
        raise ValueError(f"longer than {ENVELOPE_BYTES_MAX} bytes")
    return _checked(Envelope, body)


def is_signed(envelope: Envelope, key: Ed25519PublicKey) -> bool:
    """Return True if the owner of the key signed this text."""
    try:
        key.verify(bytes.fromhex(envelope.signature), SIGNED_AS + envelope.request.encode())
    except (InvalidSignature, ValueError):
        return False
    return True


def read_request(envelope: Envelope) -> NodeRequest:
    """Parse the request of an envelope; ValueError with one line that names the key where it is invalid."""
    return _checked(NodeRequest, envelope.request.encode())


class ControlReply(BaseModel):
    """Reply of an agent: `kind` is `done`, or the kind of refusal; `actions` are records as JSON types."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str
    reason: str = Field(default="", validation_alias=AliasChoices("words", "reason"), serialization_alias="words")
    actions: tuple[dict[str, Any], ...] = ()

    def line(self) -> bytes:
        """Return the reply as one line of JSON."""
        return json_bytes(self.model_dump(by_alias=True)) + b"\n"


def _checked(model: type[Model], body: bytes) -> Model:
    try:
        return model.model_validate_json(body)
    except ValidationError as err:
        first = err.errors(include_url=False, include_context=False)[0]
        key = ".".join(str(part) for part in first["loc"]) or "request"
        raise ValueError(f"{key}: {' '.join(str(first['msg']).split())}"[:300]) from err
