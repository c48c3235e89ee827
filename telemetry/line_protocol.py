"""Frames, rollups and records as InfluxDB line protocol.

One wide line per entity and time: the measurement is the entity kind, the tags name the entity, and the fields are its
signals. All fields of samples are floats, so a field never changes its type; digits behind the point come from the
catalogue. NaN, infinite and held values are not written, so each sensor update is written exactly once.

Tags are ``entity`` (the key), ``name``, the entity's own tags, and those of the caller, of which ``node`` and
``simulated`` are required.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from telemetry.entities import Entity
from telemetry.fixed_width import FixedWidthLines, encode_lines
from telemetry.frames import Frame
from telemetry.record_points import record_point
from telemetry.records import Record
from telemetry.rollup import decimals_of

REQUIRED_TAGS = ("node", "simulated")
# Below this many lines of one shape a %-template costs less than setting up the arrays (measured: they meet near 60).
MIN_ARRAY_LINES = 64

_TAG_ESCAPES = str.maketrans(
    {",": "\\,", " ": "\\ ", "=": "\\=", "\n": "\\ ", "\r": "\\ ", "\t": "\\ ", "\\": "/", "\0": "\\ "}
)
_TEXT_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": " ", "\r": " ", "\0": " "})


def simulated_tag(*, simulated: bool) -> str:
    """Return the value of the tag `simulated`, which every stored line has."""
    return "true" if simulated else "false"


def encode_frame(frame: Frame, *, measurement: str | None = None, tags: Mapping[str, str]) -> bytes:
    """Return the lines of a frame, each ended by a newline; order over entities and times is not promised.

    Cost per line of 25 fields: 0.6 us where many lines have the same shape, 4 us where few have; feed it
    some thousand lines at a time, for the allocation of tens of MiB costs more than the digits.

    Raises
    ------
    ValueError
        `tags` lacks one of `REQUIRED_TAGS`.
    """
    prefixes = _prefixes(frame.spec.entities, measurement or str(frame.spec.kind), _checked(tags))
    keys = tuple(_escape_tag(name) for name in frame.spec.signals)
    decimals = tuple(decimals_of(frame.spec.kind, name) for name in frame.spec.signals)
    n_entities, n_signals = frame.spec.shape
    if not len(frame) or not n_entities or not n_signals:
        return b""
    kept = (frame.fresh & np.isfinite(frame.values)).reshape(-1, n_signals)
    values = frame.values.reshape(-1, n_signals)
    parts: list[bytes] = []
    for columns, rows in _shapes(kept):
        lines = FixedWidthLines(
            prefixes=prefixes,
            keys=tuple(keys[column] for column in columns),
            decimals=tuple(decimals[column] for column in columns),
            entities=rows % n_entities,
            times_ns=frame.time_ns[rows // n_entities],
            values=values if kept.shape == (len(rows), len(columns)) else values[np.ix_(rows, columns)],
        )
        blocks = encode_lines(lines) if len(rows) >= MIN_ARRAY_LINES else None
        parts += [_by_template(lines)] if blocks is None else blocks
    return b"".join(parts)


def encode_rollups(frames: Sequence[Frame], *, tags: Mapping[str, str]) -> bytes:
    """Return the lines of frames from `telemetry.rollup`, under the measurement of their entity kind."""
    return b"".join(encode_frame(frame, tags=tags) for frame in frames)


def encode_records(records: Sequence[Record], *, tags: Mapping[str, str]) -> bytes:
    """Return one line per record: measurement is its type, ``title``, ``text`` and ``tags`` are there for annotations.

    Two records of one call that would fall on the same series and nanosecond are set 1 ns apart, because the store
    keeps one point per series and time.
    """
    common = _checked(tags)
    taken: set[tuple[str, int]] = set()
    lines: list[str] = []
    for record in records:
        measurement, own, fields = record_point(record)
        head = measurement + _tag_text(common | own)
        time_ns = record.time_ns
        while (head, time_ns) in taken:
            time_ns += 1
        taken.add((head, time_ns))
        body = ",".join(
            f"{_escape_tag(key)}={_field_text(value)}"
            for key, value in fields.items()
            if value is not None and not (isinstance(value, float) and not math.isfinite(value))
        )
        lines.append(f"{head} {body} {time_ns}\n")
    return "".join(lines).encode()


def encode_text(measurement: str, fields: Mapping[str, float | str], *, time_ns: int, tags: Mapping[str, str]) -> bytes:
    """Return the line of one point with texts, such as a description of the node.

    Raises
    ------
    ValueError
        `tags` lacks one of `REQUIRED_TAGS`.
    """
    body = ",".join(f"{_escape_tag(key)}={_field_text(value)}" for key, value in fields.items())
    return f"{measurement}{_tag_text(_checked(tags))} {body} {time_ns}\n".encode()


def count_lines(body: bytes) -> int:
    """Return the number of points in encoded lines, each of which ends with a newline."""
    return body.count(b"\n")


def _checked(tags: Mapping[str, str]) -> dict[str, str]:
    missing = [name for name in REQUIRED_TAGS if not tags.get(name)]
    if missing:
        raise ValueError(f"every line is tagged with {' and '.join(REQUIRED_TAGS)}; missing: {', '.join(missing)}")
    return dict(tags)


def _prefixes(entities: tuple[Entity, ...], measurement: str, tags: Mapping[str, str]) -> tuple[bytes, ...]:
    return _cached_prefixes(entities, measurement, tuple(sorted(tags.items())))


@lru_cache(maxsize=64)
def _cached_prefixes(
    entities: tuple[Entity, ...], measurement: str, tags: tuple[tuple[str, str], ...]
) -> tuple[bytes, ...]:
    head = _escape_tag(measurement).replace("\\=", "=")
    return tuple(
        (head + _tag_text(dict(entity.tags) | dict(tags) | {"entity": entity.key, "name": entity.name}) + " ").encode()
        for entity in entities
    )


def _tag_text(tags: Mapping[str, str]) -> str:
    # Sorted by key, as the server expects; a tag without a value is left out.
    return "".join(f",{_escape_tag(key)}={_escape_tag(value)}" for key, value in sorted(tags.items()) if value)


def _escape_tag(text: str) -> str:
    return text.translate(_TAG_ESCAPES)


def _field_text(value: float | str) -> str:
    return f'"{value.translate(_TEXT_ESCAPES)}"' if isinstance(value, str) else repr(float(value))


def _shapes(kept: npt.NDArray[np.bool_]) -> list[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """Group lines by which fields they carry: ``(columns, line numbers)`` per group; empty lines are left out."""
    if kept.all():
        return [(np.arange(kept.shape[1]), np.arange(len(kept)))]
    packed = np.packbits(kept, axis=1)
    as_one = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1])))[:, 0]
    _, first, inverse = np.unique(as_one, return_index=True, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    bounds = np.searchsorted(inverse[order], np.arange(len(first) + 1))
    groups = ((np.flatnonzero(kept[row]), order[bounds[i] : bounds[i + 1]]) for i, row in enumerate(first))
    return [(columns, lines) for columns, lines in groups if len(columns)]


def _by_template(lines: FixedWidthLines) -> bytes:
    template = ",".join(
        f"{key.replace('%', '%%')}=%.{places}f" for key, places in zip(lines.keys, lines.decimals, strict=True)
    ).encode()
    prefixes = lines.prefixes
    rows = zip(lines.entities.tolist(), lines.times_ns.tolist(), lines.values.tolist(), strict=True)
    return b"".join(b"%b%b %d\n" % (prefixes[entity], template % tuple(row), time_ns) for entity, time_ns, row in rows)
