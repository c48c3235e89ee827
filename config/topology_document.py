"""Wiring of a node as a document for the fleet: the keys of `topology`, as JSON, under the number of their schema.

Any writer of the store can send a document. It is checked as a file of an operator is, and refused whole.
"""

import json
import re
from dataclasses import replace
from functools import lru_cache

from pydantic import BaseModel, ConfigDict

from config.topology import TopologySection
from physics.wiring import Wiring
from telemetry.documents import check_document
from telemetry.errors import ConfigError, Problem
from telemetry.json_text import json_text

# Raised where a fleet loop would read a document of before wrongly; a key more is refused by its name.
SCHEMA = 1
# InfluxDB keeps a text field of up to 64 KiB; a rack of 72 GPUs with every plug named takes less than 20 KiB.
MAX_BYTES = 48 << 10
# heuristic: nodes of one kind share a document; a fleet has some kinds.
_KEPT = 256
_SHOWN_CHARACTERS = 300
_UNPRINTABLE = re.compile(r"[^\x20-\x7e\u00a0-\uffff]+")


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    topology: TopologySection


def document_of(topology: TopologySection) -> str:
    """Return the document of a described wiring; empty where none is described.

    Raises
    ------
    ConfigError
        It is longer than a store keeps.
    """
    if topology.wiring() is None:
        return ""
    text = json_text(topology.model_dump(mode="json", exclude_defaults=True), ascii_only=False)
    _check_length(text)
    return text


def wiring_of_document(text: str, *, schema: float) -> Wiring | None:
    """Return the wiring that a document describes; None for an empty one. The newest few are kept.

    Raises
    ------
    ConfigError
        It is of another schema, or describes no wiring that could be.
    """
    found = _parsed(text, schema)
    if isinstance(found, Problem):
        raise ConfigError([found])
    return found


@lru_cache(maxsize=_KEPT)
def _parsed(text: str, schema: float) -> Wiring | Problem | None:
    """Return the wiring, or the first reason why there is none."""
    try:
        return _checked(text, schema)
    except ConfigError as err:
        first, more = err.problems[0], len(err.problems) - 1
        expected = _printable(first.expected) + (f" (and {more} more)" if more else "")
        return replace(first, found=_printable(first.found), expected=expected)


def _printable(text: str) -> str:
    return _UNPRINTABLE.sub(" ", text)[:_SHOWN_CHARACTERS]


def _checked(text: str, schema: float) -> Wiring | None:
    if schema != SCHEMA:
        raise ConfigError.at("wiring", f"schema {schema:g}", f"schema {SCHEMA}")
    if not text:
        return None
    _check_length(text)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as err:
        raise ConfigError.at("wiring", f"no JSON: {err}", "a JSON object") from err
    document = check_document(_Document, {"topology": data}, where="wiring", lines={})
    wiring = document.topology.wiring()
    if wiring is None:
        raise ConfigError.at("wiring", "no buses", "at least one bus", key="topology.buses")
    return wiring


def _check_length(text: str) -> None:
    length = len(text.encode(errors="replace"))
    if length > MAX_BYTES:
        raise ConfigError.at("wiring", f"{length} bytes of JSON", f"at most {MAX_BYTES}")
