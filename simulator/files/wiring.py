"""Wiring of a node file: which bus each supply feeds, and which bus feeds each GPU and the rest of the node."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from physics.rail_classes import shown_nominals
from simulator.files.loading import Key, Origins, items_of, problem_at
from telemetry.errors import Problem

DEFAULT_BUS = "bus0"  # the name of the only bus where a file names none


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """Wiring of a node.

    Parameters
    ----------
    buses
        Names, in the order in which the supplies name them.
    of_supply, of_gpu
        Index into `buses` of each supply and of each GPU.
    of_rest
        The same of everything on the node that is not a GPU.
    """

    buses: tuple[str, ...]
    of_supply: tuple[int, ...]
    of_gpu: tuple[int, ...]
    of_rest: int

    def supplies_of(self, bus: int) -> tuple[int, ...]:
        """Return the supplies that feed a bus."""
        return tuple(supply for supply, fed in enumerate(self.of_supply) if fed == bus)

    def gpus_of(self, bus: int) -> tuple[int, ...]:
        """Return the GPUs on a bus."""
        return tuple(gpu for gpu, own in enumerate(self.of_gpu) if own == bus)


def wiring_of(*, supplies: Sequence[str | None], gpus: Sequence[str | None], rest: str | None) -> Wiring:
    """Return the wiring that the names of buses mean; None is the first bus."""
    names = [name or DEFAULT_BUS for name in supplies]
    buses = tuple(dict.fromkeys(names))
    places = {name: place for place, name in enumerate(buses)}
    return Wiring(
        buses=buses,
        of_supply=tuple(places[name] for name in names),
        of_gpu=tuple(places.get(name or buses[0], 0) for name in gpus),
        of_rest=places.get(rest or buses[0], 0),
    )


def wiring_problems(data: Any, origins: Origins) -> list[Problem]:
    """Return what is wrong with the wiring of a node file that is not checked yet, each with its file, line and key."""
    supply = data.get("supply") if isinstance(data, dict) else None
    units = dict(items_of(supply, "units"))
    if not units:
        return []
    problems = [*_names_of_supplies(data, units), *_names_of_loads(data, units), *_other_rails(units)]
    return [problem_at(key, origins, found=found, expected=expected) for key, found, expected in problems]


_Found = Iterator[tuple[Key, str, str]]  # key, what was found, what was expected


def _fed(units: dict[int, dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(str(unit.get("bus") or DEFAULT_BUS) for unit in units.values()))


def _names_of_supplies(data: Any, units: dict[int, dict[str, Any]]) -> _Found:
    """Yield supplies for which the file does not name the bus, of several, and buses that feed nothing."""
    fed = _fed(units)
    loads = [*(slot.get("bus") for _, slot in items_of(data, "slots")), data.get("other_power_bus")]
    loaded = list(dict.fromkeys(str(bus) for bus in loads if bus is not None))
    for place, unit in units.items():
        key: Key = ("supply", "units", place, "bus")
        if unit.get("bus") is None and len(fed) > 1:
            yield key, "missing", f"the name of a bus, since the supplies feed several: {', '.join(fed)}"
        elif loaded and len(fed) > 1 and unit.get("bus") not in loaded:
            expected = f"a bus of the slots or of other_power_bus: {', '.join(loaded)}"
            yield key, f"got {unit['bus']!r}, which feeds nothing", expected


def _names_of_loads(data: Any, units: dict[int, dict[str, Any]]) -> _Found:
    """Yield loads on a bus that no supply feeds, and loads that name none of several buses."""
    fed = _fed(units)
    loads: dict[Key, Any] = {("slots", place, "bus"): slot.get("bus") for place, slot in items_of(data, "slots")}
    loads["other_power_bus",] = data.get("other_power_bus")
    for key, bus in loads.items():
        if bus is None and len(fed) > 1:
            yield key, "missing", f"one of the buses that supplies feed: {', '.join(fed)}"
        elif bus is not None and bus not in fed:
            yield key, f"got {bus!r}", f"a bus that a supply feeds: {', '.join(fed)}"


def _other_rails(units: dict[int, dict[str, Any]]) -> _Found:
    """Yield supplies of another rail class than the first: all modules of a node are made for one voltage."""
    known = [(place, unit["open_circuit_v"]) for place, unit in units.items() if _is_number(unit.get("open_circuit_v"))]
    if not known:
        return
    nominals_v = shown_nominals(np.array([voltage_v for _, voltage_v in known], dtype=np.float64))
    first_v = nominals_v[0]
    for (place, voltage_v), nominal_v in zip(known, nominals_v, strict=True):
        if abs(nominal_v - first_v) > 0.0:  # never for NaN, a voltage between the classes
            key: Key = ("supply", "units", place, "open_circuit_v")
            yield key, f"got {voltage_v:g}, a rail of {nominal_v:g} V", f"a rail of {first_v:g} V, as the first supply"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
