"""JSON text of everything that railwatch writes: files, records, replies, command output.

JSON has no NaN and no infinity (RFC 8259, section 6), and readers in other languages refuse a document that has them.
Such a number is written as null, which is what an absent value is. This is the one module that calls `json.dumps`; a
test refuses others.
"""

import json
import math
from collections.abc import Mapping
from typing import Any


def json_text(value: Any, *, indent: int | None = None, sort_keys: bool = False, ascii_only: bool = True) -> str:
    """Return JSON, without blanks unless indented; a number that is not finite becomes null."""
    separators = None if indent is not None else (",", ":")

    def text(of: Any) -> str:
        return json.dumps(
            of,
            indent=indent,
            sort_keys=sort_keys,
            ensure_ascii=ascii_only,
            separators=separators,
            allow_nan=False,
        )

    try:
        return text(value)
    except ValueError:  # hardly ever: the copy that `finite` makes is only paid for here
        return text(finite(value))


def json_bytes(value: Any, *, sort_keys: bool = False) -> bytes:
    """Return the same text as ASCII bytes."""
    return json_text(value, sort_keys=sort_keys).encode("ascii")


def finite(value: Any) -> Any:
    """Return a value of JSON types with None for each number that is not finite, also as the key of an object."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {finite(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
