"""Which meters a node has, and what is missing for the others."""

from collections.abc import Sequence

from agent.collectors.build.fast import Built
from agent.collectors.meters.pdu import Pdu, find_pdus
from agent.collectors.meters.settings import PduSettings, UpsdSettings
from agent.collectors.meters.ups import Ups, UpsEvents, find_upss
from agent.collectors.port import SourceState, SourceStatus
from telemetry.clock import Clock


def pdu_source(settings: Sequence[PduSettings]) -> Built:
    """Ask the configured PDUs what they measure; `FAILED` where one of them does not say, to be tried again."""
    if not settings:
        return _without("pdu", "no PDU is configured", "name the rack's PDUs under `sources.pdus`")
    try:
        from agent.collectors.meters.snmp import SnmpSession  # noqa: PLC0415 -- 17 MiB that only this source needs
    except ModuleNotFoundError as err:
        return _without("pdu", f"the Python package {err.name} is not installed", "pip install 'railwatch[snmp]'")
    found = find_pdus(settings, SnmpSession)
    parts = [f"{one.settings.name}: {len(one.channels)} values by {one.mib}" for one in found if one.channels]
    troubles = [one.trouble for one in found if one.trouble]
    usable = [one for one in found if one.channels]
    return _built("pdu", Pdu(usable, SnmpSession) if usable else None, parts, troubles, _HOW_PDU)


def ups_source(settings: Sequence[UpsdSettings]) -> Built:
    """Ask the configured servers of NUT for their UPSs; `FAILED` where one does not answer, to be tried again."""
    if not settings:
        return _without("ups", "no UPS is configured", "run NUT's upsd beside the UPS and name it under `sources.upsd`")
    found = find_upss(settings)
    usable = [one for one in found if one.upss]
    parts = [", ".join(one.upss) for one in usable]
    troubles = [one.trouble for one in found if one.trouble]
    return _built("ups", Ups(usable) if usable else None, parts, troubles, _HOW_UPS)


def ups_events(settings: Sequence[UpsdSettings], clock: Clock) -> UpsEvents | None:
    """Return the source of what happens to the UPSs, None where no server is configured."""
    return UpsEvents(settings, clock=clock) if settings else None


_HOW_PDU = "check address, community or user with: snmpwalk -v2c -c COMMUNITY HOST 1.3.6.1.2.1.1"
_HOW_UPS = "check with: upsc -l HOST:PORT, and that upsd listens there (LISTEN in upsd.conf)"


def _without(name: str, detail: str, how_to_get: str) -> Built:
    status = SourceStatus(name=name, state=SourceState.MISSING, detail=detail, how_to_get=how_to_get)
    return Built(collector=None, status=status)


def _built(
    name: str, collector: Pdu | Ups | None, parts: Sequence[str], troubles: Sequence[str], how_to_get: str
) -> Built:
    state = SourceState.FAILED if troubles else SourceState.WORKING
    status = SourceStatus(
        name=name, state=state, detail="; ".join((*parts, *troubles)), how_to_get=how_to_get if troubles else ""
    )
    return Built(collector=collector, status=status)
