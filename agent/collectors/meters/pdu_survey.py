"""Survey of a PDU: walks its known tables once."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from agent.collectors.meters import pdu_mibs as mibs
from agent.collectors.meters.pdu_mibs import Oid, PduChannel, SnmpValue, parse_oid
from agent.collectors.meters.settings import OidReading

# Returns the values below an object, by the rest of the identifier.
Walk = Callable[[Oid], Awaitable[Mapping[Oid, SnmpValue]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PduSurvey:
    """The values found, and their MIB; both empty where the device has none of the known tables."""

    mib: str
    channels: tuple[PduChannel, ...]


async def survey_pdu(walk: Walk) -> PduSurvey:
    """Return the values of a PDU; the vendor's own tables take precedence over the standard one."""
    for mib, columns in (("PowerNet-MIB rPDU2", mibs.APC_RPDU2), ("EATON-EPDU-MIB", mibs.EATON_EPDU)):
        channels = await _from_columns(walk, columns)
        if channels:
            return PduSurvey(mib=mib, channels=channels)
    channels = await _from_raritan(walk)
    if channels:
        return PduSurvey(mib="PDU2-MIB", channels=channels)
    channels = await _from_entity_sensors(walk)
    return PduSurvey(mib="ENTITY-SENSOR-MIB" if channels else "", channels=channels)


def channels_of(readings: tuple[OidReading, ...]) -> tuple[PduChannel, ...]:
    """Return the channels that a user listed; ValueError for a malformed identifier."""
    return tuple(
        PduChannel(part=item.part, signal=item.signal, oid=parse_oid(item.oid), factor=item.factor) for item in readings
    )


async def _from_columns(walk: Walk, columns: tuple[mibs.MibColumn, ...]) -> tuple[PduChannel, ...]:
    found: list[PduChannel] = []
    names: dict[Oid, Mapping[Oid, SnmpValue]] = {}
    for column in columns:
        cells = await walk(column.oid)
        # This model does not measure a column without values.
        if not any(isinstance(cell, int) and cell >= 0 for cell in cells.values()):
            continue
        if column.names is not None and column.names not in names:
            names[column.names] = await walk(column.names)
        labels = names.get(column.names, {}) if column.names is not None else {}
        found += [
            PduChannel(
                part=_part(column.part, index),
                signal=column.signal,
                oid=(*column.oid, *index),
                factor=column.factor,
                label=_label(labels.get(index)),
                negative_is_absent=True,
            )
            for index in sorted(cells)
        ]
    return tuple(found)


async def _from_raritan(walk: Walk) -> tuple[PduChannel, ...]:
    found: list[PduChannel] = []
    for table in mibs.RARITAN_PDU2:
        cells = await walk(table.values)
        if not cells:
            continue
        decimals, names = await walk(table.decimals), await walk(table.names)
        for index in sorted(cells):
            known = mibs.RARITAN_TYPES.get(index[-1])
            digits = decimals.get(index, 0)
            if known is None or not isinstance(digits, int):
                continue
            signal, factor = known
            found.append(
                PduChannel(
                    part=_part(table.part, index[:-1]),
                    signal=signal,
                    oid=(*table.values, *index),
                    factor=factor * 10.0**-digits,
                    label=_label(names.get(index[:-1])),
                    status=(*table.statuses, *index),
                    bad_statuses=mibs.RARITAN_BAD,
                )
            )
    return tuple(found)


async def _from_entity_sensors(walk: Walk) -> tuple[PduChannel, ...]:
    types = await walk(mibs.ENTITY_TYPE)
    known = mibs.ENTITY_TYPES
    wanted = {index: known[kind] for index, kind in types.items() if isinstance(kind, int) and kind in known}
    if not wanted:
        return ()
    columns = (mibs.ENTITY_SCALE, mibs.ENTITY_PRECISION, mibs.ENTITY_NAME)
    scales, precisions, names = [await walk(column) for column in columns]
    found = []
    for index, signal in sorted(wanted.items()):
        scale, precision = scales.get(index, mibs.ENTITY_UNITS_SCALE), precisions.get(index, 0)
        if not isinstance(scale, int) or not isinstance(precision, int):
            continue
        found.append(
            PduChannel(
                part=_part("sensor", index),
                signal=signal,
                oid=(*mibs.ENTITY_VALUE, *index),
                factor=10.0 ** (3 * (scale - mibs.ENTITY_UNITS_SCALE) - precision),
                label=_label(names.get(index)),
                status=(*mibs.ENTITY_STATUS, *index),
                bad_statuses=mibs.ENTITY_BAD,
            )
        )
    return tuple(found)


def _part(kind: str, index: Oid) -> str:
    return "-".join((kind, *map(str, index)))


def _label(name: SnmpValue) -> str:
    return "" if name is None else str(name).strip()
