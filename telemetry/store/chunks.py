"""A stretch of one table as a few kilobytes: quantised to the catalogue's decimals, differences over time, zlib.

Held values differ by zero from row to row and cost next to nothing, so a chunk gives the whole frame back, held rows
and fresh marks included. Layout, little endian: one JSON line (rows, where each part ends, how each signal is kept),
then times, bit masks of what is fresh and what is absent, and one part per signal.
"""

import json
import zlib
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from telemetry.entities import Entity, EntityKind
from telemetry.frames import Frame, TableSpec
from telemetry.rollup import decimals_of

# Level 1: 1.2 to 1.4 bytes a value at 21 million values/s; higher levels cost three times the time for a tenth less.
_ZLIB_LEVEL = 1
_LARGEST = float(1 << 62)
_WIDTHS: tuple[str, ...] = ("<i1", "<i2", "<i4", "<i8")
_PLAIN = "<f8"


def encode_chunk(frame: Frame) -> bytes:
    """Return a frame of at least one row as bytes; values keep the digits of `decimals_of`."""
    parts = [_differences(frame.time_ns), _bits(frame.fresh), _bits(np.isnan(frame.values))]
    kinds = []
    for index, name in enumerate(frame.spec.signals):
        kind, part = _encode_signal(frame.values[:, :, index], decimals_of(frame.spec.kind, name))
        kinds.append(kind)
        parts.append(part)
    head = {"rows": len(frame), "ends": np.cumsum([len(part) for part in parts]).tolist(), "kinds": kinds}
    return zlib.compress(json.dumps(head, separators=(",", ":")).encode() + b"\n" + b"".join(parts), _ZLIB_LEVEL)


def decode_chunk(spec: TableSpec, blob: bytes) -> Frame:
    """Return what `encode_chunk` was given."""
    head_text, _, body = zlib.decompress(blob).partition(b"\n")
    head = json.loads(head_text)
    n_rows, (n_entities, n_signals) = head["rows"], spec.shape
    bounds = [0, *head["ends"]]
    parts = [body[start:stop] for start, stop in pairwise(bounds)]
    shape = (n_rows, n_entities, n_signals)
    values = np.empty(shape)
    for index, name in enumerate(spec.signals):
        values[:, :, index] = _decode_signal(
            head["kinds"][index], parts[3 + index], (n_rows, n_entities), decimals_of(spec.kind, name)
        )
    values[_unbits(parts[2], shape)] = np.nan
    return Frame(
        spec=spec,
        time_ns=np.cumsum(np.frombuffer(parts[0], dtype="<i8"), dtype=np.int64),
        values=values,
        fresh=_unbits(parts[1], shape),
    )


def spec_to_json(spec: TableSpec) -> str:
    """Return the columns of a table as JSON text; equal columns give equal text."""
    return json.dumps(asdict(spec), sort_keys=True, separators=(",", ":"))


def spec_from_json(text: str) -> TableSpec:
    """Read what `spec_to_json` gave."""
    fields = json.loads(text)
    return TableSpec(
        name=fields["name"],
        kind=EntityKind(fields["kind"]),
        entities=tuple(entity_from_json(entity) for entity in fields["entities"]),
        signals=tuple(fields["signals"]),
    )


def entity_from_json(fields: dict[str, Any]) -> Entity:
    """Read an entity from the JSON form of its dataclass."""
    return Entity(
        kind=EntityKind(fields["kind"]),
        key=fields["key"],
        name=fields["name"],
        tags=tuple((name, value) for name, value in fields["tags"]),
    )


def _encode_signal(values: npt.NDArray[np.float64], decimals: int) -> tuple[str, bytes]:
    """Return how the values are kept and the bytes: entity by entity, first value and then differences."""
    known = ~np.isnan(values)
    scaled = np.where(known, values, 0.0) * 10.0**decimals
    if not np.all(np.abs(scaled) < _LARGEST):
        return _PLAIN, np.ascontiguousarray(values.T).astype(_PLAIN).tobytes()
    numbers = np.rint(scaled).astype(np.int64)
    if not known.all():
        # An absent value takes the last known one, so that its difference is zero.
        rows = np.maximum.accumulate(np.where(known, np.arange(len(values))[:, None], 0), axis=0)
        numbers = np.take_along_axis(numbers, rows, axis=0)
    steps = np.diff(numbers, axis=0)
    width = _narrowest(steps)
    first = numbers[0].astype("<i8").tobytes()
    return width, first + np.ascontiguousarray(steps.T).astype(width).tobytes()


def _decode_signal(kind: str, part: bytes, shape: tuple[int, int], decimals: int) -> npt.NDArray[np.float64]:
    n_rows, n_entities = shape
    if kind == _PLAIN:
        return np.frombuffer(part, dtype=_PLAIN).reshape(n_entities, n_rows).T
    numbers = np.empty((n_entities, n_rows), dtype=np.int64)
    numbers[:, 0] = np.frombuffer(part, dtype="<i8", count=n_entities)
    steps = np.frombuffer(part, dtype=kind, offset=8 * n_entities)
    numbers[:, 1:] = steps.reshape(n_entities, n_rows - 1)
    np.cumsum(numbers, axis=1, out=numbers)
    decoded: npt.NDArray[np.float64] = numbers.T / 10.0**decimals
    return decoded


def _narrowest(steps: npt.NDArray[np.int64]) -> str:
    low, high = (int(steps.min()), int(steps.max())) if steps.size else (0, 0)
    return next(width for width in _WIDTHS if np.iinfo(width).min <= low and high <= np.iinfo(width).max)


def _differences(times_ns: npt.NDArray[np.int64]) -> bytes:
    return np.diff(times_ns, prepend=np.int64(0)).astype("<i8").tobytes()


def _bits(mask: npt.NDArray[np.bool_]) -> bytes:
    # Signal by signal, because a signal is fresh or absent for long stretches.
    return np.packbits(np.ascontiguousarray(mask.transpose(2, 1, 0))).tobytes()


def _unbits(part: bytes, shape: tuple[int, int, int]) -> npt.NDArray[np.bool_]:
    n_rows, n_entities, n_signals = shape
    bits = np.unpackbits(np.frombuffer(part, dtype=np.uint8), count=n_rows * n_entities * n_signals)
    return bits.reshape(n_signals, n_entities, n_rows).transpose(2, 1, 0).astype(bool)
