"""Differences between two versions of a policy, key by key."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One key that differs; None if a version does not have it."""

    key: str
    below: object
    above: object


def differences(below: object, above: object, *, key: str = "") -> Iterator[Difference]:
    """Yield every key of two documents, as they are written, whose value differs; in the order of the upper one.

    A list is compared item by item; mappings with a `name` are matched by it.
    """
    one, other = _parts(below), _parts(above)
    if one is None or other is None:
        if below != above:
            yield Difference(key=key or "(document)", below=below, above=above)
        return
    for name in dict.fromkeys((*other, *one)):
        inner = f"{key}.{name}" if key and not name.startswith("[") else f"{key}{name}"
        if name in one and name in other:
            yield from differences(one[name], other[name], key=inner)
        else:
            yield Difference(key=inner, below=one.get(name), above=other.get(name))


def _parts(value: object) -> dict[str, object] | None:
    """Return the parts of a mapping or a list; None for anything else."""
    if isinstance(value, Mapping):
        return {str(name): inner for name, inner in value.items()}
    if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        return {f"[{_name(item, place)}]": item for place, item in enumerate(value)}
    return None


def _name(item: object, place: int) -> str:
    named = item.get("name") if isinstance(item, Mapping) else None
    return str(place) if named is None else repr(named)
