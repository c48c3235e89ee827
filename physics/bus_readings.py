"""Bus that a rail of the board shows, where a node has several: described, else named alike, else not known.

A board with a main bus for each half has a reading of each, such as ``P54V_A`` and ``P54V_B``. Which bus of the wiring
that is, no controller reports, and a wrong one would cap the GPUs of the other half.
"""

import re

from physics.rail_classes import MAIN_BUSES_V
from physics.wiring import Bus, Origin, Wiring, is_shown_by
from telemetry.controller_names import SUFFIX
from telemetry.entities import Entity

# Parts of a name that rails of a board have in common: its voltage, and what it is.
_VOLTAGE = re.compile(r"p?\d{1,2}v\d{0,2}|v\d{1,2}")
_ANY_RAIL = frozenset({"bus", "rail", "main", "v"})
# Names that `railwatch wiring learn` makes up: their numbers are those of no board.
_NUMBERED = re.compile(r"bus\d+")


def is_main_rail(rail: Entity) -> bool:
    """Return True for a rail of the board of 48 or 54 V."""
    return rail.is_rail_of_board and rail.nominal_v in MAIN_BUSES_V


def has_several_buses(wiring: Wiring, nominal_v: float | None) -> bool:
    """Return True if a described wiring has several buses that may have this nominal voltage of 48 or 54 V."""
    if wiring.origin not in (Origin.CONFIGURED, Origin.SIMULATED) or nominal_v not in MAIN_BUSES_V:
        return False
    return sum(wiring.nominal_v_of(bus) in (nominal_v, None) for bus in wiring.buses) > 1


def bus_shown(rail: Entity, wiring: Wiring) -> Bus | None:
    """Return the bus that a rail of the board shows; None where that is not known, and where the node has one bus."""
    if not is_main_rail(rail) or not has_several_buses(wiring, rail.nominal_v):
        return None
    described = [bus for bus in wiring.buses if any(is_shown_by(rail, sensor) for sensor in bus.sensors)]
    if described:
        return described[0]
    own = {part for part in (_parts(rail.key), _parts(rail.name.removesuffix(SUFFIX))) if part}
    alike = [bus for bus in wiring.buses if not _NUMBERED.fullmatch(bus.name.casefold()) and _parts(bus.name) in own]
    alike = [bus for bus in alike if wiring.nominal_v_of(bus) in (rail.nominal_v, None) and not bus.sensors]
    return alike[0] if len(alike) == 1 else None


def _parts(name: str) -> frozenset[str]:
    """Return the parts of a name by which one rail or bus of a board differs, such as ``a`` of ``P54V_A``."""
    parts = re.split(r"[^a-z0-9]+", name.casefold())
    bare = (part.removeprefix("bus") for part in parts if not _VOLTAGE.fullmatch(part) and part not in _ANY_RAIL)
    return frozenset(part for part in bare if part)
