"""Trace of the pins of one 12V-2x6 connector, and the table that detectors get of it."""

from dataclasses import dataclass

import numpy as np

from telemetry.catalogue.pins import PINS
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, TableSpec, TimeArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PinTrace:
    """Pins of one graphics card: times ``(n,)``, volts and amperes ``(n, 6)`` of one read each."""

    name: str
    time_ns: TimeArray
    voltage_v: FloatArray
    current_a: FloatArray

    @property
    def duration_s(self) -> float:
        """From the first row to the last."""
        return float(self.time_ns[-1] - self.time_ns[0]) / NS_PER_S

    def spec(self) -> TableSpec:
        """Return the table of the one GPU."""
        return TableSpec(
            name="pins",
            kind=EntityKind.GPU,
            entities=(Entity(kind=EntityKind.GPU, key="card", name="card"),),
            signals=PINS,
        )

    def topology(self) -> Topology:
        """Return the node that holds the card."""
        node = Entity(kind=EntityKind.NODE, key="server", name="server")
        (card,) = self.spec().entities
        return Topology(entities=(node, card), edges=((node.id, card.id),))

    def frame(self) -> Frame:
        """Return all rows."""
        values = np.concatenate([self.voltage_v, self.current_a], axis=1)[:, np.newaxis, :]
        return Frame(spec=self.spec(), time_ns=self.time_ns, values=values, fresh=~np.isnan(values))
