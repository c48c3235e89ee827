"""Name of a node's rail: its nominal voltage."""

from simulator.files.node import Supply

_NOMINAL_12V = 12.0
_HIGHEST_12V = 15.0  # assumption: no 12 V supply gives more without a load, and no other rail less


def nominal_rail_v(supply: Supply) -> float:
    """Return the rail's nominal voltage: 12 V, or what the supplies of a higher rail give without a load."""
    highest_v = max(unit.open_circuit_v for unit in supply.units)
    return _NOMINAL_12V if highest_v < _HIGHEST_12V else highest_v
