"""Certificate authority of one fleet: certificates that name nodes and services, and scoped tokens; all Ed25519.

The key of the authority stays on the machine where this runs; agents and services get certificates only.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from uuid import uuid4

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fleet.certificates.identity import FLEET_URI, NODE_URI, private_key
from fleet.certificates.tokens import Token, issue_token
from telemetry.atomic_files import replace_file
from telemetry.clock import NS_PER_S, Clock
from telemetry.errors import EnvironmentLacksError

AUTHORITY = "authority"
# heuristic: the lifetime of a machine room, and a year for certificates that are easily reissued.
AUTHORITY_DAYS, DAYS = 3650, 365
# heuristic: a machine whose clock is a little behind must accept a fresh certificate.
_BACK = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """Authority on disk: its certificate and its key."""

    folder: Path
    certificate: x509.Certificate
    key: Ed25519PrivateKey

    @staticmethod
    def begin(folder: Path, clock: Clock, *, name: str) -> "Authority":
        """Create an authority; ValueError where the folder has one, EnvironmentLacksError where it is not writable."""
        if (folder / f"{AUTHORITY}.key").exists():
            raise ValueError(f"{folder}: has an authority already; expected a folder without one")
        key = Ed25519PrivateKey.generate()
        subject = _subject(f"railwatch {name}")
        certificate = (
            _begun(subject, subject, key, clock, days=AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, None)
        )
        _write(folder, AUTHORITY, certificate, key)
        return Authority(folder=folder, certificate=certificate, key=key)

    @staticmethod
    def of(folder: Path) -> "Authority":
        """Open an authority; EnvironmentLacksError where there is none."""
        try:
            certificate = x509.load_pem_x509_certificate((folder / f"{AUTHORITY}.pem").read_bytes())
        except (OSError, ValueError) as err:
            raise EnvironmentLacksError(f"{folder}: no authority; create one with railwatch fleet ca init") from err
        return Authority(folder=folder, certificate=certificate, key=private_key(folder / f"{AUTHORITY}.key"))

    @property
    def fleets(self) -> tuple[str, ...]:
        """Services that have a certificate here."""
        return tuple(sorted(path.stem.removeprefix("fleet-") for path in self.folder.glob("fleet-*.pem")))

    def has(self, stem: str) -> bool:
        """Return True if there is a key of ``node-NAME`` or ``fleet-NAME``."""
        return (self.folder / f"{stem}.key").exists()

    def issue_node(self, name: str, clock: Clock, *, addresses: tuple[str, ...] = (), days: int = DAYS) -> Path:
        """Issue certificate and key of a node; return the path of the certificate."""
        names = [x509.DNSName(name), x509.UniformResourceIdentifier(f"{NODE_URI}{name}")]
        return self._issue(
            f"node-{name}", [*names, *map(_address, addresses)], ExtendedKeyUsageOID.SERVER_AUTH, clock, days
        )

    def issue_fleet(self, name: str, clock: Clock, *, days: int = DAYS) -> Path:
        """Issue certificate and key of a fleet service; return the path of the certificate."""
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(f"{FLEET_URI}{name}")]
        return self._issue(f"fleet-{name}", names, ExtendedKeyUsageOID.CLIENT_AUTH, clock, days)

    def issue_token(self, fleet: str, scopes: tuple[str, ...], clock: Clock, *, days: int = DAYS) -> Token:
        """Issue a token of a service and save it in the folder of the authority; return its claims."""
        now_ns = clock.utc_ns()
        token = Token(
            id=f"t-{uuid4().hex[:12]}",
            fleet=fleet,
            scopes=scopes,
            not_before_ns=now_ns - round(_BACK.total_seconds()) * NS_PER_S,
            expires_ns=now_ns + days * 86_400 * NS_PER_S,
        )
        _secret(self.folder / f"fleet-{fleet}.token", issue_token(token, self.key).encode() + b"\n")
        return token

    def _issue(
        self, stem: str, names: list[x509.GeneralName], usage: x509.ObjectIdentifier, clock: Clock, days: int
    ) -> Path:
        key = Ed25519PrivateKey.generate()
        certificate = (
            _begun(_subject(stem), self.certificate.subject, key, clock, days=days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
            .sign(self.key, None)
        )
        _write(self.folder, stem, certificate, key)
        return self.folder / f"{stem}.pem"


def _begun(
    subject: x509.Name, issuer: x509.Name, key: Ed25519PrivateKey, clock: Clock, *, days: int
) -> x509.CertificateBuilder:
    now = datetime.fromtimestamp(clock.utc_ns() // NS_PER_S, tz=UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACK)
        .not_valid_after(now + timedelta(days=days))
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _address(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _write(folder: Path, stem: str, certificate: x509.Certificate, key: Ed25519PrivateKey) -> None:
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _secret(folder / f"{stem}.key", pem)
        (folder / f"{stem}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    except OSError as err:
        raise EnvironmentLacksError(f"{folder}: {err.strerror}; expected a writable folder") from err


def _secret(path: Path, body: bytes) -> None:
    """Write a file that only its owner can read."""
    replace_file(path, body, mode=0o600)
