"""Windows of a small fleet made up of rows, for tests of what judges them."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from analytics.fleet.topology import fleet_entity
from analytics.fleet.window import JUDGED, FleetTable, FleetWindow, NodeIncident
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind
from telemetry.records import Event, Finding

START_NS = 1_700_000_000 * NS_PER_S
Columns = Mapping[str, npt.ArrayLike]


def gpu_of(node: str, number: int) -> Entity:
    key = f"GPU-{node}-{number}"
    return fleet_entity(Entity(kind=EntityKind.GPU, key=key, name=f"gpu{number}"), node)


def supply_of(node: str, number: int = 0) -> Entity:
    return fleet_entity(Entity(kind=EntityKind.SUPPLY, key=f"psu{number}", name=f"psu{number}"), node)


def table_of(kind: EntityKind, entities: Sequence[Entity], columns: Columns, *, seconds: int) -> FleetTable:
    """Columns of shape ``(n_seconds, n_entities)``, or what broadcasts to it."""
    values = np.full((seconds, len(entities), len(JUDGED[kind])), np.nan)
    for name, column in columns.items():
        values[:, :, JUDGED[kind].index(name)] = np.broadcast_to(
            np.asarray(column, dtype=np.float64), (seconds, len(entities))
        )
    nodes = tuple(entity.tag("node") or "" for entity in entities)
    return FleetTable(entities=tuple(entities), nodes=nodes, signals=JUDGED[kind], values=values)


def window_of(
    first_s: int,
    tables: Mapping[EntityKind, FleetTable],
    *,
    seconds: int = 5,
    findings: Sequence[Finding] = (),
    incidents: Sequence[NodeIncident] = (),
    events: Sequence[Event] = (),
) -> FleetWindow:
    start_ns = START_NS + first_s * NS_PER_S
    return FleetWindow(
        start_ns=start_ns,
        stop_ns=start_ns + seconds * NS_PER_S,
        tables=tables,
        findings=tuple(findings),
        incidents=tuple(incidents),
        events=tuple(events),
    )


def fleet_tables(
    nodes: Sequence[str], *, seconds: int = 5, lost: Entity | None = None, sagging: Sequence[str] = (), gpus: int = 4
) -> dict[EntityKind, FleetTable]:
    """Return one window of nodes at work, one GPU of which may be silent, and the rails of some of which may sag."""
    cards = [gpu_of(node, number) for node in nodes for number in range(gpus)]
    supplies = [supply_of(node) for node in nodes]
    silent = np.array([lost is not None and card.id == lost.id for card in cards])
    volts = np.array([11.2 if node in sagging else 12.05 for node in nodes])
    columns = {"power_w": 250.0, "sm_clock_mhz": 1400.0, "gpu_util_ratio": 0.97, "gpu_temp_c": 61.0, "margin_c": 22.0}
    return {
        EntityKind.GPU: table_of(
            EntityKind.GPU,
            cards,
            {name: np.where(silent, np.nan, value) for name, value in columns.items()},
            seconds=seconds,
        ),
        EntityKind.SUPPLY: table_of(
            EntityKind.SUPPLY, supplies, {"voltage_v": volts, "current_a": 90.0}, seconds=seconds
        ),
    }
