"""SNMP client over pysnmp, with its errors translated. Only this module imports `pysnmp`.

Importing it costs 0.1 s and 17 MiB, so only a node with a PDU configured does.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pysnmp.error import PySnmpError
from pysnmp.hlapi.v3arch.asyncio import (
    CommunityData,
    ContextData,
    ObjectIdentity,
    ObjectType,
    SnmpEngine,
    UdpTransportTarget,
    UsmUserData,
    bulk_walk_cmd,
    get_cmd,
    usmAesCfb128Protocol,
    usmAesCfb256Protocol,
    usmDESPrivProtocol,
    usmHMAC192SHA256AuthProtocol,
    usmHMAC384SHA512AuthProtocol,
    usmHMACMD5AuthProtocol,
    usmHMACSHAAuthProtocol,
    usmNoAuthProtocol,
    usmNoPrivProtocol,
)
from pysnmp.proto import errind

from agent.collectors.meters.pdu_mibs import Oid, SnmpValue
from agent.collectors.meters.settings import Authentication, PduSettings, Privacy, SnmpVersion
from telemetry.errors import NotPermittedError, TransientError

# heuristic: fits in one datagram of 1472 bytes with room for v3, and small agents respond within a second.
_OBJECTS_PER_REQUEST = 10
_ROWS_PER_REQUEST = 20
_RETRIES = 1

_AUTHENTICATION: dict[Authentication, Any] = {
    Authentication.NONE: usmNoAuthProtocol,
    Authentication.MD5: usmHMACMD5AuthProtocol,
    Authentication.SHA1: usmHMACSHAAuthProtocol,
    Authentication.SHA256: usmHMAC192SHA256AuthProtocol,
    Authentication.SHA512: usmHMAC384SHA512AuthProtocol,
}
_PRIVACY: dict[Privacy, Any] = {
    Privacy.NONE: usmNoPrivProtocol,
    Privacy.DES: usmDESPrivProtocol,
    Privacy.AES128: usmAesCfb128Protocol,
    Privacy.AES256: usmAesCfb256Protocol,
}
# Indications of RFC 3414 for refused credentials.
_REFUSED = (
    errind.WrongDigest,
    errind.UnknownUserName,
    errind.UnsupportedSecurityLevel,
    errind.UnsupportedAuthProtocol,
    errind.UnsupportedPrivProtocol,
    errind.AuthenticationError,
    errind.AuthenticationFailure,
    errind.DecryptionError,
    errind.EncryptionError,
)
# RFC 3416, error-status: noAccess(6), authorizationError(16).
_REFUSED_STATUSES = (6, 16)
# RFC 3416, 4.2.1: tooBig(1) and genErr(5) return no value of a request at all: one object fails, or there are too many.
_TOO_BIG, _ONE_FAILED = 1, 5


class PysnmpClient:
    """Client of one agent, used from within one event loop."""

    def __init__(self, settings: PduSettings) -> None:
        self._where = f"{settings.name} ({settings.host}:{settings.port})"
        self._settings = settings
        self._engine = SnmpEngine()
        self._auth = _credentials(settings)
        self._target: Any = None

    async def get(self, oids: Sequence[Oid]) -> dict[Oid, SnmpValue]:
        """Return the values of the objects, None where the agent has no such object.

        Raises
        ------
        TransientError
            The agent does not respond, or returns an error.
        NotPermittedError
            The agent refuses the credentials.
        """
        found: dict[Oid, SnmpValue] = {}
        for start in range(0, len(oids), _OBJECTS_PER_REQUEST):
            found |= await self._get_batch(oids[start : start + _OBJECTS_PER_REQUEST])
        return found

    async def _get_batch(self, oids: Sequence[Oid]) -> dict[Oid, SnmpValue]:
        """Request all objects at once; where the agent fails, request halves, down to the object that it fails at."""
        wanted = [ObjectType(ObjectIdentity(oid)) for oid in oids]
        try:
            response = await get_cmd(
                self._engine, self._auth, await self._agent(), ContextData(), *wanted, lookupMib=False
            )
        except (PySnmpError, OSError) as err:
            raise self._error(err) from err
        if not response[0] and int(response[1]) in (_TOO_BIG, _ONE_FAILED):
            half = len(oids) // 2
            if half:
                return await self._get_batch(oids[:half]) | await self._get_batch(oids[half:])
            if int(response[1]) == _ONE_FAILED:
                return {oids[0]: None}
        self._check(response)
        return {tuple(name): _value(value) for name, value in response[3]}

    async def walk(self, root: Oid) -> Mapping[Oid, SnmpValue]:
        """Return the values below an object, by the rest of the identifier; raises as `get`."""
        found: dict[Oid, SnmpValue] = {}
        try:
            rows = bulk_walk_cmd(
                self._engine,
                self._auth,
                await self._agent(),
                ContextData(),
                0,
                _ROWS_PER_REQUEST,
                ObjectType(ObjectIdentity(root)),
                lookupMib=False,
                lexicographicMode=False,
            )
            async for response in rows:
                self._check(response)
                for name, value in response[3]:
                    found_value = _value(value)
                    if found_value is not None and tuple(name)[: len(root)] == root:
                        found[tuple(name)[len(root) :]] = found_value
        except (PySnmpError, OSError) as err:
            raise self._error(err) from err
        return found

    def close(self) -> None:
        """Close the socket."""
        self._engine.close_dispatcher()

    async def _agent(self) -> Any:
        if self._target is None:
            self._target = await UdpTransportTarget.create(
                (self._settings.host, self._settings.port), timeout=self._settings.timeout_s, retries=_RETRIES
            )
        return self._target

    def _check(self, response: Any) -> None:
        indication, status = response[0], int(response[1])
        if indication:
            raise self._error(indication)
        if status in _REFUSED_STATUSES:
            raise NotPermittedError(f"{self._where}: not permitted to read (error status {status})")
        if status:
            raise TransientError(f"{self._where}: error status {status}")

    def _error(self, err: Any) -> TransientError | NotPermittedError:
        indication = getattr(err, "get", lambda _: None)("errorIndication") or err
        if isinstance(indication, errind.RequestTimedOut):
            return TransientError(f"{self._where}: no response (wrong address, wrong community, or device off)")
        if isinstance(indication, errind.EncryptionError) and "not available" in str(indication):
            return NotPermittedError(f"{self._where}: privacy needs the Python package cryptography")
        if isinstance(indication, _REFUSED):
            return NotPermittedError(f"{self._where}: {indication}")
        return TransientError(f"{self._where}: {indication}")


def _credentials(settings: PduSettings) -> Any:
    if settings.version is SnmpVersion.V2C:
        return CommunityData(settings.community, mpModel=1)  # noqa: S508 -- many PDUs support nothing else
    return UsmUserData(
        settings.user,
        settings.authentication_password or None,
        settings.privacy_password or None,
        authProtocol=_AUTHENTICATION[settings.authentication],
        privProtocol=_PRIVACY[settings.privacy],
    )


def _value(value: Any) -> SnmpValue:
    """Return a value as a number or a text; None for the three kinds of missing values (RFC 3416, 4.2.1)."""
    if type(value).__name__ in ("NoSuchObject", "NoSuchInstance", "EndOfMibView", "Null"):
        return None
    try:
        return int(value)
    except (TypeError, ValueError):
        return str(value.prettyPrint())
