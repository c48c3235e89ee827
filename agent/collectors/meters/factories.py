"""Factories of the meters: PDUs over SNMP and UPSs over NUT."""

from collections.abc import Sequence

from agent.collectors.meters.settings import PDU
from agent.collectors.meters.ups import Ups, UpsEvents, find_upss
from agent.collectors.port import BuiltCollector, BuiltSource, Collector, SourceState, SourceStatus, missing
from agent.collectors.registry.settings import SlowSettings

_CHECK_PDU = "check address, community or user with: snmpwalk -v2c -c COMMUNITY HOST 1.3.6.1.2.1.1"
_CHECK_UPS = "check with: upsc -l HOST:PORT, and that upsd listens there (LISTEN in upsd.conf)"


def pdu(settings: SlowSettings) -> BuiltCollector:
    """Build the collector of the configured PDUs; `FAILED`, to be retried, where one of them does not respond."""
    if not settings.pdus:
        return missing(PDU, "no PDU is configured", "name the rack's PDUs under `sources.pdus`")
    from agent.collectors.meters.pdu import Pdu, find_pdus  # noqa: PLC0415 -- the event loop, for this source alone

    try:
        from agent.collectors.meters.snmp import PysnmpClient  # noqa: PLC0415 -- 17 MiB that only this source needs
    except ModuleNotFoundError as err:
        return missing(PDU, f"the Python package {err.name} is not installed", "pip install 'railwatch[snmp]'")
    found = find_pdus(settings.pdus, PysnmpClient)
    usable = [one for one in found if one.channels]
    parts = [f"{one.settings.name}: {len(one.channels)} values by {one.mib}" for one in usable]
    problems = [one.problem for one in found if one.problem]
    return _built(PDU, Pdu(usable, PysnmpClient) if usable else None, parts, problems, _CHECK_PDU)


def ups(settings: SlowSettings) -> BuiltCollector:
    """Build the collector of the UPSs that the configured upsd servers know; `FAILED` where one does not respond."""
    if not settings.upsds:
        return missing(Ups.name, "no UPS is configured", "run NUT's upsd for the UPS and name it under `sources.upsd`")
    found = find_upss(settings.upsds)
    usable = [one for one in found if one.upss]
    parts = [", ".join(one.upss) for one in usable]
    problems = [one.problem for one in found if one.problem]
    return _built(Ups.name, Ups(usable) if usable else None, parts, problems, _CHECK_UPS)


def ups_events(settings: SlowSettings) -> UpsEvents | None:
    """Build the source of UPS state changes; None where no server is configured."""
    return UpsEvents(settings.upsds, clock=settings.clock) if settings.upsds else None


def _built(
    name: str, collector: Collector | None, parts: Sequence[str], problems: Sequence[str], how_to_get: str
) -> BuiltCollector:
    status = SourceStatus(
        name=name,
        state=SourceState.FAILED if problems else SourceState.WORKING,
        detail="; ".join((*parts, *problems)),
        how_to_get=how_to_get if problems else "",
    )
    return BuiltSource(source=collector, status=status)
