"""Shards as bytes: arrays in NumPy's archive format, with a JSON head that labels them.

Pickle is neither written nor read. A shard of another detector, of other limits, or of a version with another state
layout is refused in one line.
"""

import io
import json
import math
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from analytics.detectors.build import AnyDetector
from analytics.shards.shard import Leaf, Shard, State, leaves_of, notes_in_json, notes_of_json, with_leaves
from telemetry.frames import TableSpec
from telemetry.json_text import json_bytes

VERSION = 1
_HEAD = "head"
_MAGIC = b"railwatch state\n"
_DIGEST_LENGTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardLabel:
    """Label of a shard: its detector, and digests of the limits and of the state layout."""

    detector: str
    limits: str
    layout: str

    @staticmethod
    def of(detector: AnyDetector) -> "ShardLabel":
        """Return the label of a detector's shards; its start state without entities shows the layout."""
        leaves = leaves_of(detector.start(_empty_table(detector)))
        layout = [f"{place} {_shape(leaf)}" for place, leaf in leaves.items()]
        return ShardLabel(
            detector=detector.name, limits=digest(getattr(detector, "limits", None)), layout=digest("\n".join(layout))
        )

    def check(self, found: Mapping[str, Any]) -> None:
        """Raise ValueError if the head has another label."""
        for key, ours in (("detector", self.detector), ("limits", self.limits), ("layout", self.layout)):
            if found.get(key) != ours:
                raise ValueError(f"state of {self.detector}: {key} {found.get(key)!r}, expected {ours!r}")


def pack(detector: AnyDetector, shard: Shard) -> bytes:
    """Return a shard as bytes."""
    label = ShardLabel.of(detector)
    arrays, rest = parted(shard.state)
    head = {
        "version": VERSION,
        "detector": label.detector,
        "limits": label.limits,
        "layout": label.layout,
        "entities": shard.entities,
        "rest": rest,
    }
    return archive(head, arrays)


def unpack(detector: AnyDetector, spec: TableSpec, blob: bytes) -> Shard:
    """Return the shard that was packed, with the entities it was packed with; `spec` is any table of their kind.

    Raises
    ------
    ValueError
        It is damaged, or of another version, detector or limits.
    """
    head, arrays = opened(blob)
    if head.get("version") != VERSION:
        raise ValueError(f"state of {detector.name}: version {head.get('version')!r}, expected {VERSION}")
    ShardLabel.of(detector).check(head)
    entities = tuple(head["entities"])
    if any(len(array) != len(entities) for array in arrays.values()):
        raise ValueError(f"state of {detector.name}: arrays of other lengths than its {len(entities)} entities")
    return Shard(entities=entities, state=joined(detector.start(spec), arrays, head["rest"]))


def parted(state: object) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Return the arrays of a state, and everything else as JSON types."""
    leaves = leaves_of(state)
    arrays = {place: leaf for place, leaf in leaves.items() if isinstance(leaf, np.ndarray)}
    rest = {place: leaf for place, leaf in leaves.items() if place not in arrays}
    return arrays, rest | notes_in_json(state)


def joined(start: State, arrays: Mapping[str, npt.NDArray[Any]], rest: Mapping[str, Any]) -> State:
    """Return the state that `parted` split; `start` is a state of the same type. ValueError if it does not fit."""
    try:
        leaves: dict[str, Leaf] = {**arrays, **rest, **notes_of_json(start, rest)}
    except KeyError as err:
        raise ValueError(f"a state without {err}") from err
    return with_leaves(start, leaves)


def archive(head: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Return a JSON head and arrays as one blob, uncompressed: states hardly compress."""
    body = io.BytesIO()
    text = np.frombuffer(json_bytes(head), dtype=np.uint8)
    # By keyword the names would be arguments of savez; through a mapping any place in a tree is a name.
    np.savez(body, allow_pickle=False, **{_HEAD: text}, **{f"array {place}": array for place, array in arrays.items()})
    whole = body.getvalue()
    return _MAGIC + sha256(whole).digest() + whole


def opened(blob: bytes) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return the head and arrays of an archive; ValueError if it is damaged."""
    start = len(_MAGIC) + sha256().digest_size
    # A truncated archive may end in one that is embedded in it, and would be read as that.
    if blob[: len(_MAGIC)] != _MAGIC or sha256(blob[start:]).digest() != blob[len(_MAGIC) : start]:
        raise ValueError("state: damaged: not what was written")
    try:
        _check_sizes(blob[start:])
        with np.load(io.BytesIO(blob[start:]), allow_pickle=False) as found:
            head = json.loads(found[_HEAD].tobytes())
            arrays = {name.removeprefix("array "): found[name] for name in found.files if name != _HEAD}
        if not isinstance(head, dict):
            raise ValueError("a head that is no object")  # noqa: TRY004, TRY301 -- refused as everything else here
    # What is no head may nest deeper than a parser goes, and an archive may require a password: RuntimeError.
    except (OSError, EOFError, KeyError, ValueError, RuntimeError, struct.error, zipfile.BadZipFile) as err:
        raise ValueError(f"state: damaged: {err}") from err
    return head, arrays


def _check_sizes(whole: bytes) -> None:
    """Refuse an archive that would need more memory than its size: compressed parts, or arrays with a false shape."""
    with zipfile.ZipFile(io.BytesIO(whole)) as packed:
        every = packed.infolist()
        if sum(one.file_size for one in every) > len(whole) or any(one.compress_type for one in every):
            raise ValueError("parts that are longer than the whole")
        for one in every:
            with packed.open(one) as part:
                if np.lib.format.read_magic(part) != (1, 0):
                    raise ValueError(f"{one.filename}: an array of another format")
                shape, _, dtype = np.lib.format.read_array_header_1_0(part)
            if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > one.file_size:
                raise ValueError(f"{one.filename}: an array that is longer than its part")


def digest(value: object) -> str:
    """Return a short digest of the repr of a value: equal limits have equal digests."""
    return sha256(repr(value).encode()).hexdigest()[:_DIGEST_LENGTH]


def _empty_table(detector: AnyDetector) -> TableSpec:
    return TableSpec(name="empty", kind=detector.kind, entities=(), signals=detector.signals)


def _shape(leaf: Leaf) -> str:
    if isinstance(leaf, np.ndarray):
        return f"{leaf.dtype.str}{leaf.shape[1:]}"
    return "notes" if isinstance(leaf, tuple) else "single"
