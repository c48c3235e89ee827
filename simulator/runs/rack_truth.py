"""Truth of a rack, as series: the state of all nodes, and of what they share."""

from collections.abc import Sequence

import numpy as np

from simulator.plant.rack import Rack
from simulator.plant.state import Stretch
from simulator.runs.description import START_NS
from simulator.runs.stream import RowStream
from simulator.runs.topology import NodeEntities
from simulator.runs.truth import TruthSeries, places_of, truth_tables
from telemetry.entities import Entity, EntityKind
from telemetry.frames import TableSpec

PDU = Entity(kind=EntityKind.SUPPLY, key="pdu", name="pdu")
_NS_PER_MS = 1_000_000


def rack_truth_tables(nodes: Sequence[NodeEntities]) -> tuple[TableSpec, ...]:
    """Return the tables of the true series: those of a node for all of them together, and those of what they share."""
    return (*_shared_tables(nodes), *map(_together, zip(*map(truth_tables, nodes), strict=True)))


class RackTruthSeries:
    """The state of a rack in long form, a row per block; the keys of its `nodes` hold beside each other."""

    def __init__(self, nodes: Sequence[NodeEntities], *, out: RowStream) -> None:
        self._out = out
        self._nodes = [TruthSeries(node, out=out, start_ns=START_NS) for node in nodes]
        self._places = out.places(places_of(_shared_tables(nodes)))

    def take(self, rack: Rack, stretches: Sequence[Stretch]) -> None:
        """Add one block, at the time of its end."""
        for series, plant, stretch in zip(self._nodes, rack.plants, stretches, strict=True):
            series.take(stretch, plant.state)
        state = rack.state
        shared = [state.power_w, state.input_ratio, float(state.breaker_closed)]
        values = np.array([*shared, *(plant.state.inlet_c for plant in rack.plants)])
        time_ns = START_NS + state.now_ms * _NS_PER_MS
        self._out.add(np.full(len(values), time_ns), self._places, values)


def _shared_tables(nodes: Sequence[NodeEntities]) -> tuple[TableSpec, ...]:
    pdu = ("power_w", "input_ratio", "breaker_closed")
    boxes = tuple(node.node for node in nodes)
    return (
        TableSpec(name="true_pdu", kind=EntityKind.SUPPLY, entities=(PDU,), signals=pdu),
        TableSpec(name="true_inlet", kind=EntityKind.NODE, entities=boxes, signals=("inlet_c",)),
    )


def _together(tables: Sequence[TableSpec]) -> TableSpec:
    first = tables[0]
    members = tuple(entity for table in tables for entity in table.entities)
    return TableSpec(name=first.name, kind=first.kind, entities=members, signals=first.signals)
