"""Remarks of numbers in files: the source behind each."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.files.loading import Origins, dotted_key, find, read_chain
from telemetry.durations import parse_duration_s

Key = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedNumber:
    """Number as a file writes it; `remark` is None where there is none."""

    key: str
    value: str
    file: Path
    line: int
    remark: str | None


def numbers_of(path: Path, *, folder: Path, parts: dict[str, Path] | None = None) -> tuple[SourcedNumber, ...]:
    """Return all numbers of a file, of what it extends and of the parts it names, in the order of the files.

    `parts` maps a key to the folder of its part. The files must have been loaded without a problem.
    """
    data, origins = read_chain(path, folder)
    numbers = list(_numbers(data, origins, ()))
    for key, part_folder in (parts or {}).items():
        if isinstance(data.get(key), str):
            where, line = origins[(key,)]
            option = f"{where}:{line}"
            part = find(data[key], folder=part_folder, what=key, option=option, beside=Path(where).parent)
            part_data, part_origins = read_chain(part, part_folder)
            under: Origins = {(key, *inner): place for inner, place in part_origins.items()}
            numbers += _numbers(part_data, under, (key,))
    return tuple(numbers)


def _numbers(data: Any, origins: Origins, key: Key) -> Iterator[SourcedNumber]:
    if isinstance(data, dict):
        for name, value in data.items():
            yield from _numbers(value, origins, (*key, name))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _numbers(value, origins, (*key, index))
    elif _is_number(data):
        where, line = origins[key]
        text = Path(where).read_text(encoding="utf-8").split("\n")[line - 1]
        remark = text.partition(" #")[2].strip()
        dotted = dotted_key(key)
        value = f"0x{data:08X}" if dotted.endswith("_id") else str(data)
        yield SourcedNumber(key=dotted, value=value, file=Path(where), line=line, remark=remark or None)


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        try:
            parse_duration_s(value)
        except ValueError:
            return False
        return True
    return isinstance(value, int | float) and not isinstance(value, bool)
