"""Wiring of measured supplies as columns of a table: which column shows which supply, meter of an input, or feed."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from analytics.connectivity import GroupArray, Kinship
from analytics.connectivity.buses import bus_groups
from analytics.connectivity.kinship import ByIdentity
from physics.feeding import bus_name, bus_names
from physics.link_loads import Draw
from physics.wiring import Bus, Origin, WiredSupply, Wiring
from telemetry.controller_names import rail_key
from telemetry.entities import Entity, Topology
from telemetry.frames import FloatArray
from telemetry.ratings import rated_power_w


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginPlan:
    """Wiring of measured supplies: the columns that show each supply, and the number of its bus for each column.

    Ratings and nominal voltages that a supply reports itself are filled in. `parts` has each bus with its supplies and
    those that share a feed with them. A column that shows no wired supply has a bus of its own. `feeds` are the columns
    of meters that have the name of a feed, such as the inlet of a PDU.
    """

    wiring: Wiring
    parts: tuple[tuple[Bus, Wiring], ...]
    columns: Mapping[str, tuple[int, ...]]
    buses: GroupArray
    feeds: Mapping[str, int]

    @staticmethod
    def of(
        wiring: Wiring | None, entities: Sequence[Entity], topology: Topology, *, rated_w: float | None
    ) -> "MarginPlan":
        """Return the plan of a described wiring, else of the edges; the newest few are kept."""
        return _plan(ByIdentity(wiring), ByIdentity(entities), ByIdentity(topology), rated_w)

    def supplies_of_feed(self, feed: str) -> tuple[str, ...]:
        """Return the supplies that draw from a feed."""
        return tuple(one.name for one in self.wiring.on_feed(feed))

    def modules_of(self, shelf: str) -> tuple[str, ...]:
        """Return the supplies that a shelf holds."""
        return tuple(one.name for one in self.wiring.in_shelf(shelf))

    def buses_of(self, supplies: Iterable[str]) -> tuple[Bus, ...]:
        """Return the buses that some supplies carry, each once."""
        found = (self.wiring.bus_of(name) for name in supplies)
        return tuple({bus.name: bus for bus in found if bus is not None}.values())

    def first_column(self, supplies: Iterable[str]) -> int | None:
        """Return the column of the first of some supplies that is measured; None where none is."""
        return next((self.columns[name][0] for name in supplies if name in self.columns), None)


@lru_cache(maxsize=16)
def _plan(
    described: ByIdentity[Wiring | None],
    entities: ByIdentity[Sequence[Entity]],
    topology: ByIdentity[Topology],
    rated_w: float | None,
) -> MarginPlan:
    wiring = wiring_of_edges(entities.it, topology.it) if described.it is None else described.it
    reported = rated_power_w(entities.it, configured_w=rated_w)
    places: dict[str, list[int]] = {}
    rails: dict[str, tuple[int, ...]] = {}
    for place, entity in enumerate(entities.it):
        for name in dict.fromkeys((entity.key, entity.name)):
            places.setdefault(name, []).append(place)
        if entity.is_rail_of_board:
            rails[entity.key] = (place,)
    columns: dict[str, tuple[int, ...]] = {}
    supplies = []
    for one in wiring.supplies:
        own = tuple(
            dict.fromkeys(
                place for sensor in one.sensors for place in places.get(sensor) or rails.get(rail_key(sensor), ())
            )
        )
        known_w = (float(reported[place]) for place in own if np.isfinite(reported[place]))
        known_v = (v for place in own if (v := entities.it[place].nominal_v) is not None)
        rated_w = next(known_w, None) if one.rated_w is None else one.rated_w
        nominal_v = next(known_v, None) if one.nominal_v is None else one.nominal_v
        supplies.append(replace(one, rated_w=rated_w, nominal_v=nominal_v))
        if own:
            columns[one.name] = own
    wiring = replace(wiring, supplies=tuple(supplies))
    return MarginPlan(
        wiring=wiring,
        parts=_parts(wiring),
        columns=columns,
        buses=_bus_numbers(wiring, columns, len(entities.it)),
        feeds={one.name: places[one.name][0] for one in wiring.feeds if one.name in places},
    )


def _bus_numbers(wiring: Wiring, columns: Mapping[str, tuple[int, ...]], n_columns: int) -> GroupArray:
    numbers = {bus.name: number for number, bus in enumerate(wiring.buses)}
    buses = np.arange(len(numbers), len(numbers) + n_columns, dtype=np.intp)
    for name, own in columns.items():
        bus = wiring.bus_of(name)
        if bus is not None:
            buses[own[0]] = numbers[bus.name]
    buses.flags.writeable = False  # several states share it
    return buses


def _parts(wiring: Wiring) -> tuple[tuple[Bus, Wiring], ...]:
    by_name = {one.name: one for one in wiring.supplies}
    feed_at = {feed.name: place for place, feed in enumerate(wiring.feeds)}
    bus_at = {bus.name: place for place, bus in enumerate(wiring.buses)}
    tied: dict[str, set[int]] = {bus.name: set() for bus in wiring.buses}
    for bus in wiring.buses:
        for other in tied.keys() & {*bus.joins}:
            tied[bus.name].add(bus_at[other])
            tied[other].add(bus_at[bus.name])
    parts = []
    for bus in wiring.buses:
        own = [by_name[name] for name in bus.supplies]
        feeds = sorted({one.feed for one in own if one.feed})
        near = {one.name: one for one in (*own, *(one for feed in feeds for one in wiring.on_feed(feed)))}
        homes = [home for name in near if (home := wiring.bus_of(name)) is not None]
        buses = {one.name: one for one in (bus, *(wiring.buses[place] for place in sorted(tied[bus.name])), *homes)}
        part = Wiring(
            origin=wiring.origin,
            supplies=tuple(near.values()),
            buses=tuple(buses.values()),
            feeds=tuple(wiring.feeds[place] for place in sorted(feed_at[feed] for feed in feeds if feed in feed_at)),
        )
        parts.append((bus, part))
    return tuple(parts)


def wiring_of_edges(entities: Sequence[Entity], topology: Topology) -> Wiring:
    """Return the wiring that edges to GPUs describe; supplies that feed none are left out.

    A bus is named as `physics.feeding` names it: by its voltage where it is the only one of that.
    """
    kinship = Kinship.of(topology)
    numbers = bus_groups(entities, topology)
    groups: dict[int, list[Entity]] = {}
    for place in sorted(range(len(entities)), key=lambda one: entities[one].key):
        if kinship.gpus_under(entities[place].id):
            groups.setdefault(int(numbers[place]), []).append(entities[place])
    voltages = Counter(members[0].nominal_v for members in groups.values())
    return Wiring(
        origin=Origin.INFERRED,
        supplies=tuple(
            WiredSupply(name=one.key, sensors=(one.key,), nominal_v=one.nominal_v)
            for members in groups.values()
            for one in members
        ),
        buses=tuple(
            Bus(
                name=bus_name(members[0].nominal_v) if voltages[members[0].nominal_v] == 1 else name,
                nominal_v=members[0].nominal_v,
                supplies=tuple(one.key for one in members),
            )
            for name, members in zip(bus_names(groups.values()), groups.values(), strict=True)
        ),
    )


def draws_of(plan: MarginPlan, volts: FloatArray, amps: FloatArray) -> dict[str, Draw]:
    """Return the draw of each supply from the first of its columns that has both values, shape ``(n_supplies,)``."""
    known = np.isfinite(volts) & np.isfinite(amps) & (volts > 0.0)
    found = ((name, next((place for place in own if known[place]), None)) for name, own in plan.columns.items())
    return {
        name: Draw(voltage_v=float(volts[place]), current_a=max(float(amps[place]), 0.0))
        for name, place in found
        if place is not None
    }
