"""Scoped tokens: the requests that a fleet service may send, signed by the authority that all agents trust.

A token is two parts in base64url: the claims as JSON and their Ed25519 signature by the key of the authority. An agent
verifies it with the certificate of the authority alone, without a shared secret or a call to another machine.
"""

import base64
import binascii
from typing import Annotated

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rules.caps.knobs import KNOB_OF
from rules.policy.model import ActionClass
from telemetry.identity_names import FleetId, Name

SIGNED_AS = b"railwatch control token 1\n"
READ = "read"
_ACT = "act:"
# Scopes that an agent accepts: to read its counters, and to request each action class that turns a knob.
SCOPES = (READ, *(f"{_ACT}{action.value}" for action in KNOB_OF))


def act(action: ActionClass) -> str:
    """Return the scope that allows a class of action."""
    return f"{_ACT}{action.value}"


class Token(BaseModel):
    """Claims of a token; agents revoke it by its `id` in their configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Name
    fleet: FleetId
    scopes: tuple[str, ...]
    not_before_ns: Annotated[int, Field(gt=0)]
    expires_ns: Annotated[int, Field(gt=0)]

    def refusal(self, *, fleet: str, scope: str, now_ns: int) -> str:
        """Return the reason why it does not allow a scope, empty if it does."""
        if self.fleet != fleet:
            return f"the token is for {self.fleet}, not for {fleet}"
        if not self.not_before_ns <= now_ns < self.expires_ns:
            return f"token {self.id} is not valid now"
        if scope not in self.scopes:
            return f"token {self.id} has no scope {scope}"
        return ""


def issue_token(token: Token, key: Ed25519PrivateKey) -> str:
    """Return a token as text, signed with the key of the authority."""
    claims = token.model_dump_json().encode()
    return f"{_text(claims)}.{_text(key.sign(SIGNED_AS + claims))}"


def read_token(text: str, authority: Ed25519PublicKey) -> Token:
    """Parse and verify a token; ValueError where the authority did not sign it."""
    try:
        claims, signature = map(_data, text.split("."))
        authority.verify(signature, SIGNED_AS + claims)
        return Token.model_validate_json(claims)
    except (ValueError, binascii.Error, InvalidSignature, ValidationError) as err:
        raise ValueError("not a token of the authority") from err


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _data(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
