"""Machines: what nodes of many makers differ in, as arrays over nodes, buses, supplies and GPUs.

A single machine is a table of one node; `together` puts many behind one another.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np

from evaluation.domain.plant.chance import PlaceArray
from evaluation.domain.plant.meters import MeterTraits
from telemetry.frames import FloatArray, MaskArray


@dataclass(frozen=True, kw_only=True)
class NodeTraits:
    """Nodes, shape ``(n_nodes,)``.

    `volts` is the set point, `nominal_v` what a description would name. Supplies of a `shared` node follow a loop that
    shares the current, those of others their droop. `base_w` is all but the GPUs, and swings by `base_ratio`. Of
    supplies that sleep all but `awake` of a bus do from a load below `asleep_ratio` of its full load to one above
    `awake_ratio`, `lower_v` below the bus. `duty` is that of fans without control; those of others hold `target_c`.
    `shows_...` are signals that the node has.
    """

    seed: PlaceArray
    volts: FloatArray
    nominal_v: FloatArray
    shared: MaskArray
    base_w: FloatArray
    base_ratio: FloatArray
    base_s: FloatArray
    ppm_per_k: FloatArray
    sleeps: MaskArray
    awake: PlaceArray
    asleep_ratio: FloatArray
    awake_ratio: FloatArray
    falls_asleep_s: FloatArray
    lower_v: FloatArray
    mains_v: FloatArray
    mains_ratio: FloatArray
    mains_s: FloatArray
    inlet_c: FloatArray
    inlet_swing_c: FloatArray
    inlet_s: FloatArray
    controlled: MaskArray
    duty: FloatArray
    target_c: FloatArray
    power_window_s: FloatArray
    power_noise: FloatArray
    shows_nominal: MaskArray
    shows_rating: MaskArray
    shows_mains: MaskArray
    shows_inlet: MaskArray
    shows_duty: MaskArray
    shows_rpm: MaskArray
    shows_util: MaskArray
    shows_memory: MaskArray
    shows_memory_use: MaskArray
    shows_steps: MaskArray
    shows_threads: MaskArray
    shows_links: MaskArray


@dataclass(frozen=True, kw_only=True)
class BusTraits:
    """Buses, shape ``(n_buses,)``; `rail_v_step` is NaN where no controller measures the board's end of it."""

    node: PlaceArray
    board_ohm: FloatArray
    full_w: FloatArray
    rail_v_step: FloatArray
    rail_gain: FloatArray


@dataclass(frozen=True, kw_only=True)
class SupplyTraits:
    """Supplies, shape ``(n_supplies,)``: a source, its droop, and the path to the bus.

    Set points move by `wander_ratio` within `wander_s`, as each supply warms. Some per cent above `rated_w` the voltage
    falls steeply where a supply is `limited`.
    """

    node: PlaceArray
    bus: PlaceArray
    number: PlaceArray
    feed: PlaceArray
    off_v: FloatArray
    wander_ratio: FloatArray
    wander_s: FloatArray
    droop_ohm: FloatArray
    path_ohm: FloatArray
    share: FloatArray
    rated_w: FloatArray
    limited: MaskArray


@dataclass(frozen=True, kw_only=True)
class GpuTraits:
    """GPUs, shape ``(n_gpus,)``.

    At `limit_w` and the usual flow of air a GPU lies `rise_k` above the air of its slot, which others' heat warms by
    `slot_k`; the share `quick_ratio` of the rise follows within `quick_s`, the rest within `slow_s`.
    """

    node: PlaceArray
    bus: PlaceArray
    number: PlaceArray
    limit_w: FloatArray
    idle_w: FloatArray
    rise_k: FloatArray
    quick_ratio: FloatArray
    quick_s: FloatArray
    slow_s: FloatArray
    slot_k: FloatArray
    power_gain: FloatArray


@dataclass(frozen=True, kw_only=True)
class Machines:
    """Nodes and their parts; `node` and `bus` of a part are places in their tables."""

    nodes: NodeTraits
    buses: BusTraits
    supplies: SupplyTraits
    meters: MeterTraits
    gpus: GpuTraits

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.nodes.seed)

    def gpus_of(self, node: int) -> PlaceArray:
        """Return the places of a node's GPUs."""
        return np.flatnonzero(self.gpus.node == node)

    def supplies_of(self, node: int) -> PlaceArray:
        """Return the places of a node's supplies."""
        return np.flatnonzero(self.supplies.node == node)


Traits = TypeVar("Traits")


def together(machines: Sequence[Machines]) -> Machines:
    """Return several tables as one, in their order."""
    nodes = np.cumsum([0, *(len(one) for one in machines[:-1])])
    buses = np.cumsum([0, *(len(one.buses.node) for one in machines[:-1])])
    return Machines(
        nodes=_joined([one.nodes for one in machines]),
        buses=_joined([one.buses for one in machines], node=nodes),
        supplies=_joined([one.supplies for one in machines], node=nodes, bus=buses),
        meters=_joined([one.meters for one in machines]),
        gpus=_joined([one.gpus for one in machines], node=nodes, bus=buses),
    )


def _joined(parts: Sequence[Traits], **first: PlaceArray) -> Traits:
    """Return tables behind one another; the columns of `first` count on from there."""
    kind: Any = type(parts[0])
    columns = {}
    for field in fields(kind):
        own = [getattr(part, field.name) for part in parts]
        if field.name in first:
            own = [places + offset for places, offset in zip(own, first[field.name].tolist(), strict=True)]
        columns[field.name] = np.concatenate(own)
    return kind(**columns)  # type: ignore[no-any-return]
