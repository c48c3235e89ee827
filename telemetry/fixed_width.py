"""Encoder of many lines of the same shape: all lines have the same length, so digits are written as array columns.

Numbers have leading zeros (``0313.760``) and perhaps trailing ones, which line protocol servers accept. Digits come
from tables of text, three or four at a time: one division and one look-up per group, not per digit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_U4 = np.dtype("<u4")
_FOUR_DIGITS = np.frombuffer(b"".join(b"%04d" % number for number in range(10_000)), dtype=_U4)
_POINT_AND_THREE = np.frombuffer(b"".join(b".%03d" % number for number in range(1_000)), dtype=_U4)
# Scaled values stay below 2**62, so that rounding cannot overflow 64 bit.
_LARGEST = float(1 << 62)
# Half a megabyte of text at a time stays in the processor's cache: 80 000 lines in one go cost six times as much each.
CHUNK_LINES = 1024
_STAMP_GROUPS = 5  # 20 digits hold any 64-bit time

IntArray = npt.NDArray[np.int64]
DigitGroup = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FixedWidthLines:
    """Lines that all have the same fields.

    Attributes
    ----------
    prefixes
        Per entity, the text before the fields, with the space.
    keys, decimals
        Per field, its escaped name and its digits behind the point.
    entities, times_ns
        Per line, the index of its prefix, and its time; shape ``(n_lines,)``.
    values
        Finite, shape ``(n_lines, n_fields)``.
    """

    prefixes: Sequence[bytes]
    keys: Sequence[str]
    decimals: Sequence[int]
    entities: npt.NDArray[np.intp]
    times_ns: IntArray
    values: npt.NDArray[np.float64]


def encode_lines(lines: FixedWidthLines) -> list[bytes] | None:
    """Return the encoded lines in pieces, None where a value is negative or too large for fixed width."""
    values, decimals = lines.values, lines.decimals
    if lines.times_ns.min() < 0 or max(decimals) > 7 or values.min() < 0:
        return None
    places = [0 if digits == 0 else 3 if digits <= 3 else 7 for digits in decimals]
    if np.any(values.max(axis=0) * np.power(10.0, places) >= _LARGEST):
        return None
    blocks = []
    for first in range(0, len(values), CHUNK_LINES):
        chunk = slice(first, first + CHUNK_LINES)
        numbers = [
            _Digits(np.ascontiguousarray(values[chunk, i]), decimals=decimals[i], places=places[i])
            for i in range(len(decimals))
        ]
        stamps = _digit_groups(lines.times_ns[chunk], _STAMP_GROUPS)
        entities = lines.entities[chunk]
        lengths = np.array([len(prefix) for prefix in lines.prefixes])[entities]
        for length in np.unique(lengths):
            rows = np.flatnonzero(lengths == length)
            chosen = slice(None) if len(rows) == len(entities) else rows
            blocks.append(_block(lines, numbers, stamps, entities, chosen))
    return blocks


class _Digits:
    """Text of one field in all lines, as groups of four characters."""

    __slots__ = ("groups", "width")

    def __init__(self, values: npt.NDArray[np.float64], *, decimals: int, places: int) -> None:
        scaled = np.rint(values * 10.0**decimals).astype(np.int64)
        whole, rest = (scaled, None) if not decimals else divmod_by(scaled, 10**decimals)
        n_whole = 1 if len(whole) == 0 else max(1, -(-len(str(int(whole.max()))) // 4))
        self.groups = _digit_groups(whole, n_whole)
        if rest is not None and places == 3:
            self.groups.append(_POINT_AND_THREE[rest * 10 ** (3 - decimals)])
        elif rest is not None:
            high, low = divmod_by(rest * 10 ** (7 - decimals), 10_000)
            self.groups += [_POINT_AND_THREE[high], _FOUR_DIGITS[low]]
        self.width = 4 * len(self.groups)


def divmod_by(values: IntArray, divisor: int) -> tuple[IntArray, IntArray]:
    """Return quotient and remainder of non-negative values; faster than `numpy.divmod`."""
    quotient = values // divisor
    return quotient, values - quotient * divisor


def _digit_groups(values: IntArray, count: int) -> list[DigitGroup]:
    groups = []
    for _ in range(count - 1):
        values, low = divmod_by(values, 10_000)
        groups.append(_FOUR_DIGITS[low])
    groups.append(_FOUR_DIGITS[values])
    return groups[::-1]


def _block(
    lines: FixedWidthLines,
    numbers: Sequence[_Digits],
    stamps: Sequence[DigitGroup],
    entities: npt.NDArray[np.intp],
    chosen: slice | npt.NDArray[np.intp],
) -> bytes:
    """Return the lines of entities whose prefixes are equally long."""
    entities = entities[chosen]
    prefix_bytes = len(lines.prefixes[int(entities[0])])
    skeleton = bytearray()
    places: list[tuple[int, DigitGroup]] = []
    for i, (key, number) in enumerate(zip(lines.keys, numbers, strict=True)):
        skeleton += (b"," if i else b"") + key.encode() + b"="
        places += [(prefix_bytes + len(skeleton) + 4 * j, group) for j, group in enumerate(number.groups)]
        skeleton += b"0" * number.width
    skeleton += b" "
    places += [(prefix_bytes + len(skeleton) + 4 * j, group) for j, group in enumerate(stamps)]
    skeleton += b"0" * (4 * len(stamps)) + b"\n"
    # The whole line of each entity with zeros for digits, gathered by row: prefix and skeleton in one copy.
    length = prefix_bytes + len(skeleton)
    drafts = np.zeros(len(lines.prefixes), dtype=(np.void, length))
    for entity in np.unique(entities):
        drafts[entity] = np.void(lines.prefixes[int(entity)] + bytes(skeleton))
    text = drafts[entities]
    # Four characters at a time, at whatever offset they stand.
    names = [f"f{i}" for i in range(len(places))]
    offsets = [offset for offset, _ in places]
    view = text.view(np.dtype({"names": names, "formats": [_U4] * len(names), "offsets": offsets, "itemsize": length}))
    for name, (_, group) in zip(names, places, strict=True):
        view[name] = group[chosen]
    return text.tobytes()
