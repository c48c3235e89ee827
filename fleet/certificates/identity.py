"""Identity of peers: names in certificates of one authority, TLS that accepts no others, and warnings before expiry.

The certificate of a node has its name as a DNS name, which clients verify, and ``railwatch://node/NAME``; that of a
service has ``railwatch://fleet/ID``. Extended key usage prevents a node from sending requests with its certificate.
"""

import ssl
import stat
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from telemetry.clock import NS_PER_S
from telemetry.errors import EnvironmentLacksError, NotPermittedError
from telemetry.identity_names import Identity
from telemetry.records import Event, EventKind, Severity

FLEET_URI = "railwatch://fleet/"
NODE_URI = "railwatch://node/"
DAY_NS = 86_400 * NS_PER_S
# heuristic: a month leaves time to plan the renewal.
WARN_DAYS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Fleet service at the other end, by its certificate; `where` is its address for the record."""

    fleet: str
    key: Ed25519PublicKey
    where: str = ""


def peer_of(der: bytes | None, *, where: str) -> Peer:
    """Return the fleet service that a certificate names; NotPermittedError where it names none."""
    if der is None:
        raise NotPermittedError("no certificate")
    certificate = x509.load_der_x509_certificate(der)
    key = certificate.public_key()
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except (x509.ExtensionNotFound, ValueError):  # none, or none that can be read
        uris = []
    fleets = [uri.removeprefix(FLEET_URI) for uri in uris if uri.startswith(FLEET_URI)]
    if len(fleets) != 1 or not isinstance(key, Ed25519PublicKey):
        raise NotPermittedError("the certificate is not of a fleet service")
    return Peer(fleet=fleets[0], key=key, where=where)


def authority_key(path: Path) -> Ed25519PublicKey:
    """Return the key of an authority out of its certificate; EnvironmentLacksError where there is none."""
    key = _certificate(path).public_key()
    if not isinstance(key, Ed25519PublicKey):
        raise EnvironmentLacksError(f"{path}: another kind of key; expected Ed25519, as railwatch fleet ca issues it")
    return key


def check_private(path: Path) -> None:
    """Refuse a key or token that other users can read or its group can change, by EnvironmentLacksError.

    heuristic: ssh refuses a readable group too, but a service with its own user often reads files of root by one.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # the reader reports the error
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise EnvironmentLacksError(f"{path}: mode {stat.S_IMODE(mode):o}; expected 0600 for a secret")


def valid_until_ns(identity: Identity) -> int:
    """Return when the first of the certificates expires; EnvironmentLacksError where one is unreadable."""
    return min(
        round(_certificate(path).not_valid_after_utc.timestamp()) * NS_PER_S
        for path in (identity.authority, identity.certificate)
    )


def private_key(path: Path) -> Ed25519PrivateKey:
    """Return the private key of a file; EnvironmentLacksError where it is missing, or readable by other users."""
    check_private(path)
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as err:
        raise EnvironmentLacksError(f"{path}: {_reason(err)}; expected a private key in PEM") from err
    if not isinstance(key, Ed25519PrivateKey):
        raise EnvironmentLacksError(f"{path}: another kind of key; expected Ed25519, as railwatch fleet ca issues it")
    return key


def server_context(identity: Identity) -> ssl.SSLContext:
    """Return the TLS context of a server that requires a client certificate of the authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    return _loaded(context, identity)


def client_context(identity: Identity) -> ssl.SSLContext:
    """Return the TLS context of a client; the server has to prove its name."""
    return _loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), identity)


def _loaded(context: ssl.SSLContext, identity: Identity) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    for path in (identity.authority, identity.certificate, identity.key):
        if not path.is_file():
            raise EnvironmentLacksError(f"{path}: no such file; issue it with railwatch fleet ca")
    check_private(identity.key)
    try:
        context.load_verify_locations(cafile=identity.authority)
        context.load_cert_chain(identity.certificate, identity.key)
    except (ssl.SSLError, OSError) as err:
        raise EnvironmentLacksError(
            f"{identity.certificate}: {_reason(err)}; expected a certificate with its key {identity.key}"
        ) from err
    return context


def _certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as err:
        raise EnvironmentLacksError(f"{path}: {_reason(err)}; expected a certificate in PEM") from err


def _reason(err: Exception) -> str:
    return (err.strerror if isinstance(err, OSError) else None) or str(err).partition("\n")[0] or "cannot be read"


@dataclass(slots=True, kw_only=True)
class Expiry:
    """Expiry of one certificate or token, and the day of the last warning."""

    until_ns: int
    what: str
    entity_id: str | None = None
    _warned_day: int | None = None

    def days_left(self, now_ns: int) -> int:
        """Return the whole days that are left, below 0 after the expiry."""
        return (self.until_ns - now_ns) // DAY_NS

    def due_warning(self, now_ns: int) -> Event | None:
        """Return the warning of today, None where none is due."""
        left, today = self.days_left(now_ns), now_ns // DAY_NS
        if left >= WARN_DAYS or today == self._warned_day:
            return None
        self._warned_day = today
        state = "has expired" if left < 0 else f"expires in {left} days"
        return Event(
            id=f"control:expiry:{now_ns}",
            time_ns=now_ns,
            kind=EventKind.CONTROL,
            entity_id=self.entity_id,
            code=None,
            severity=Severity.WARNING,
            message=f"{self.what} {state}; issue a new one with railwatch fleet ca and restart",
            sources=("control",),
        )
