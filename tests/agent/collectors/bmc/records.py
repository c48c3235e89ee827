"""Sensor records and log records as bytes."""

from collections.abc import Mapping
from types import MappingProxyType


def full(
    number: int = 1,
    *,
    name: bytes = b"P12V",
    m: int = 63,
    b: int = 0,
    exponents: int = 0xD0,
    unit: int = 4,
    sensor_type: int = 0x02,
    units1: int = 0,
    linearization: int = 0,
    entity: int = 7,
    instance: int = 1,
    owner: int = 0x20,
    lun: int = 0,
    thresholds: Mapping[int, int] = MappingProxyType({}),
) -> bytes:
    """Return a full record (type 01h): by default a 12 V rail of 63 mV a count.

    `thresholds` has raw values by their bit in the mask of readable ones: 0 to 2 lower, 3 to 5 upper, from within.
    """
    key = [owner, lun, number, entity, instance, 0x7F, 0x40, sensor_type, 0x01]
    factors = [units1, unit, 0, linearization, m & 0xFF, m >> 2 & 0xC0, b & 0xFF, b >> 2 & 0xC0, 0, exponents]
    masks = [0, 0, 0, 0, sum(1 << bit for bit in thresholds), 0]
    levels = [thresholds.get(bit, 0) for bit in (5, 4, 3, 2, 1, 0)]
    body = bytes([*key, *masks, *factors, *[0] * 6, *levels, *[0] * 5, 0xC0 | len(name), *name])
    return bytes([number, 0, 0x51, 0x01, len(body)]) + body


def with_name(coding: int, body: bytes) -> bytes:
    """Return a record whose name is coded in another way."""
    record = full(name=b"")
    return record[:47] + bytes([coding << 6 | len(body)]) + body


def event(
    number: int,
    *,
    stamp_s: int = 1_700_000_000,
    sensor_type: int = 0x02,
    sensor: int = 1,
    reading_type: int = 0x01,
    data: tuple[int, int, int] = (0x52, 0xAB, 0xB5),
    kind: int = 0x02,
    owner: int = 0x20,
    over: bool = False,
) -> bytes:
    """Return a log record: by default a 12 V rail below its critical limit."""
    head = number.to_bytes(2, "little") + bytes([kind]) + stamp_s.to_bytes(4, "little")
    return head + bytes([owner, 0, 4, sensor_type, sensor, reading_type | (0x80 if over else 0), *data])
