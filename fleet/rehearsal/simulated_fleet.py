"""Windows of a simulated fleet: nodes in racks on two PDUs, one of which sags for a while."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from analytics.fleet.topology import FeedsAndRacks, fleet_entity
from analytics.fleet.window import JUDGED, FleetTable, FleetWindow
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray

# heuristic: four times a rack of air-cooled boxes, so that the budget of a rack is not that of the fleet.
NODES_PER_RACK = 40
GPUS_PER_NODE = 4
SAGGING, STEADY = "pdu-a", "pdu-b"
# A box of four V100 SXM2 under load: blbadger.github.io/gpu-server reports 11.2 to 11.4 V where GPUs begin to drop.
_VOLTS, _LOW_VOLTS, _AMPS = 12.05, 11.2, 90.0
_GPU = {"power_w": 250.0, "sm_clock_mhz": 1400.0, "gpu_util_ratio": 0.97, "gpu_temp_c": 61.0, "margin_c": 22.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedFleet:
    """`nodes` on the PDU that sags from `sag_from_s` to `sag_until_s`, and `others` on the one that does not."""

    nodes: int
    others: int
    start_ns: int
    sag_from_s: int
    sag_until_s: int

    @property
    def names(self) -> tuple[str, ...]:
        """Nodes by name."""
        return tuple(f"node{number:05d}" for number in range(self.nodes + self.others))

    @property
    def above(self) -> FeedsAndRacks:
        """PDUs and racks; a rack is fed by one PDU."""
        names = self.names
        racks: dict[str, list[str]] = {}
        for pdu, members in ((SAGGING, names[: self.nodes]), (STEADY, names[self.nodes :])):
            for place, name in enumerate(members):
                racks.setdefault(f"{pdu}-rack{place // NODES_PER_RACK:03d}", []).append(name)
        return FeedsAndRacks(
            feeds={SAGGING: names[: self.nodes], STEADY: names[self.nodes :]},
            racks={rack: tuple(members) for rack, members in racks.items()},
        )

    @property
    def gpus(self) -> dict[str, tuple[str, ...]]:
        """GPUs of each node, by UUID."""
        return {node: tuple(f"GPU-{node}-{number}" for number in range(GPUS_PER_NODE)) for node in self.names}


@dataclass(slots=True)
class SimulatedReader:
    """Reader of the windows of a simulated fleet, in place of the reader of a store."""

    fleet: SimulatedFleet
    _cards: tuple[Entity, ...] = field(init=False)
    _supplies: tuple[Entity, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Build the entities once, so that windows share them."""
        self._cards = tuple(
            fleet_entity(Entity(kind=EntityKind.GPU, key=uuid, name=f"gpu{place}"), node)
            for node, uuids in self.fleet.gpus.items()
            for place, uuid in enumerate(uuids)
        )
        self._supplies = tuple(
            fleet_entity(Entity(kind=EntityKind.SUPPLY, key="psu0", name="psu0"), node) for node in self.fleet.names
        )

    def window(self, start_ns: int, stop_ns: int, *, ahead_ns: int) -> FleetWindow:  # noqa: ARG002 -- the port's signature
        """Return a window; see `fleet.reader`."""
        seconds = (np.arange(start_ns, stop_ns, NS_PER_S) - self.fleet.start_ns) // NS_PER_S
        low = (seconds >= self.fleet.sag_from_s) & (seconds < self.fleet.sag_until_s)
        sags = np.arange(len(self._supplies)) < self.fleet.nodes
        volts = np.where(low[:, np.newaxis] & sags, _LOW_VOLTS, _VOLTS)
        rails = _table(EntityKind.SUPPLY, self._supplies, {"voltage_v": volts, "current_a": _AMPS}, len(seconds))
        cards = _table(EntityKind.GPU, self._cards, _GPU, len(seconds))
        return FleetWindow(
            start_ns=start_ns,
            stop_ns=stop_ns,
            tables={EntityKind.GPU: cards, EntityKind.SUPPLY: rails},
            simulated=frozenset(self.fleet.names),
        )

    def values_by_node(self, start_ns: int, stop_ns: int) -> dict[str, int]:
        """Return how many values each node has; see the port."""
        return self.window(start_ns, stop_ns, ahead_ns=0).values_by_node()

    def close(self) -> None:
        """Do nothing: nothing is open."""


def _table(
    kind: EntityKind, entities: tuple[Entity, ...], columns: Mapping[str, float | FloatArray], seconds: int
) -> FleetTable:
    values = np.full((seconds, len(entities), len(JUDGED[kind])), np.nan)
    for name, column in columns.items():
        values[:, :, JUDGED[kind].index(name)] = column
    nodes = tuple(entity.tag("node") or "" for entity in entities)
    return FleetTable(entities=entities, nodes=nodes, signals=JUDGED[kind], values=values)
