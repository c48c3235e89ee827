"""Scoped tokens: what a fleet service may ask, on the word of the authority that all agents know.

A token is two parts in base64url, the claims as JSON and their Ed25519 signature by the authority's key. It needs no
shared secret and no call to anybody: an agent checks it with the authority's certificate alone.
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
# Every scope that an agent takes: to read its counters, and to ask for each class of action that turns a knob.
SCOPES = (READ, *(f"{_ACT}{action.value}" for action in KNOB_OF))


def act(action: ActionClass) -> str:
    """Return the scope that allows a class of action."""
    return f"{_ACT}{action.value}"


class Token(BaseModel):
    """What a token says. `id` is what an agent's configuration names to revoke it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Name
    fleet: FleetId
    scopes: tuple[str, ...]
    not_before_ns: Annotated[int, Field(gt=0)]
    expires_ns: Annotated[int, Field(gt=0)]

    def refusal(self, *, fleet: str, scope: str, now_ns: int) -> str:
        """Return why it does not allow this, an empty text where it does."""
        if self.fleet != fleet:
            return f"the token is for {self.fleet}, not for {fleet}"
        if not self.not_before_ns <= now_ns < self.expires_ns:
            return f"token {self.id} is not valid now"
        if scope not in self.scopes:
            return f"token {self.id} has no scope {scope}"
        return ""


def issue_token(token: Token, key: Ed25519PrivateKey) -> str:
    """Return a token as text, signed by the authority."""
    claims = token.model_dump_json().encode()
    return f"{_text(claims)}.{_text(key.sign(SIGNED_AS + claims))}"


def read_token(text: str, authority: Ed25519PublicKey) -> Token:
    """Read a token that the authority signed; ValueError where it did not."""
    try:
        claims, signature = map(_data, text.split("."))
        authority.verify(signature, SIGNED_AS + claims)
        return Token.model_validate_json(claims)
    except (ValueError, binascii.Error, InvalidSignature, ValidationError) as err:
        raise ValueError("no token of the authority") from err


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _data(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
