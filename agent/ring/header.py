"""The header of a ring file: which tables lie where, and what they are about."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from telemetry.entities import Entity, EntityKind, Topology
from telemetry.errors import EnvironmentLacksError
from telemetry.frames import TableSpec
from telemetry.json_text import json_text

SCHEMA_VERSION = 1
_PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class RingHeader:
    """Header of a ring file; `rows` and `offsets_bytes` go with `tables` one to one."""

    node: str
    topology: Topology
    simulated: bool
    tables: tuple[TableSpec, ...]
    rows: tuple[int, ...]
    offsets_bytes: tuple[int, ...]
    size_bytes: int
    inode: int


def rows_for(seconds: float, rate_hz: float) -> int:
    """Return the rows that hold that many seconds, with a second to spare for a reader that copies the oldest."""
    return max(2, round((seconds + 1.0) * rate_hz))


def rows_within(specs: Sequence[TableSpec], rows: Mapping[str, int], max_bytes: int) -> dict[str, int]:
    """Return the rows of each table cut alike, so that the ring fits into `max_bytes`; none gets less than two."""
    wanted_bytes = sum(_row_bytes(spec) * rows[spec.name] for spec in specs)
    share = min(1.0, max_bytes / wanted_bytes) if wanted_bytes else 1.0
    return {spec.name: max(2, int(rows[spec.name] * share)) for spec in specs}


def header_to_json(
    tables: Sequence[TableSpec], *, node: str, topology: Topology, simulated: bool, rows: Mapping[str, int]
) -> dict[str, Any]:
    """Lay out the tables and describe them; ValueError where a table has no name of its own or no rows."""
    if len({spec.name for spec in tables}) != len(tables):
        raise ValueError("two tables of the ring have one name")
    described = [_table_to_json(spec, rows[spec.name]) for spec in tables]
    head = {
        "schema_version": SCHEMA_VERSION,
        "node": node,
        "simulated": simulated,
        "topology": {
            "entities": [_entity_to_json(entity) for entity in topology.entities],
            "edges": [list(edge) for edge in topology.edges],
        },
        "tables": described,
    }
    # The offsets are part of the header, so leave room for their digits.
    offset = _pages(len(json_text(head)) + 64 * (len(tables) + 1))
    for spec, table in zip(tables, described, strict=True):
        table["offset_bytes"] = offset
        offset += _PAGE_BYTES + _pages(table["rows"] * _row_bytes(spec))
    head["size_bytes"] = offset
    return head


def header_from_json(body: bytes, *, where: str, inode: int) -> RingHeader:
    """Read a header; EnvironmentLacksError where it is not one of this version."""
    try:
        head = json.loads(body)
        if head["schema_version"] != SCHEMA_VERSION:
            raise EnvironmentLacksError(
                f"{where}: sample ring of schema version {head['schema_version']}, expected {SCHEMA_VERSION}"
            )
        topology = head["topology"]
        return RingHeader(
            node=head["node"],
            topology=Topology(
                entities=tuple(_entity_from_json(entity) for entity in topology["entities"]),
                edges=tuple((parent, child) for parent, child in topology["edges"]),
            ),
            simulated=head["simulated"],
            tables=tuple(_table_from_json(table) for table in head["tables"]),
            rows=tuple(table["rows"] for table in head["tables"]),
            offsets_bytes=tuple(table["offset_bytes"] for table in head["tables"]),
            size_bytes=head["size_bytes"],
            inode=inode,
        )
    except (ValueError, KeyError, TypeError) as err:
        raise EnvironmentLacksError(f"{where}: the header of the sample ring cannot be read: {err}") from err


def _row_bytes(spec: TableSpec) -> int:
    return 8 + 9 * spec.shape[0] * spec.shape[1]  # a time stamp; a value and its mark of being fresh a cell


def _pages(size_bytes: int) -> int:
    return -(-size_bytes // _PAGE_BYTES) * _PAGE_BYTES


def _table_to_json(spec: TableSpec, rows: int) -> dict[str, Any]:
    if rows < 1:
        raise ValueError(f"table {spec.name} needs at least one row, got {rows}")
    return {
        "name": spec.name,
        "kind": spec.kind.value,
        "entities": [_entity_to_json(entity) for entity in spec.entities],
        "signals": list(spec.signals),
        "rows": rows,
    }


def _table_from_json(table: Mapping[str, Any]) -> TableSpec:
    return TableSpec(
        name=table["name"],
        kind=EntityKind(table["kind"]),
        entities=tuple(_entity_from_json(entity) for entity in table["entities"]),
        signals=tuple(table["signals"]),
    )


def _entity_to_json(entity: Entity) -> dict[str, Any]:
    return {"kind": entity.kind.value, "key": entity.key, "name": entity.name, "tags": [list(t) for t in entity.tags]}


def _entity_from_json(entity: Mapping[str, Any]) -> Entity:
    return Entity(
        kind=EntityKind(entity["kind"]),
        key=entity["key"],
        name=entity["name"],
        tags=tuple((name, value) for name, value in entity["tags"]),
    )
