"""Supplies of which only the slow outputs are read, as those of a board controller are: judged like any other rail."""

from collections.abc import Sequence
from dataclasses import replace

from telemetry.entities import EntityKind
from telemetry.frames import TableSpec

RAIL_OF_OUTPUT = {"output_voltage_v": "voltage_v", "output_current_a": "current_a"}


def outputs_as_rails(specs: Sequence[TableSpec]) -> tuple[TableSpec, ...]:
    """Return the tables with the outputs of supplies as their rails, where no table has rails.

    Beside rails that are read fast, the same supplies come a second time from the controller: those stay outputs.
    """
    rails = set(RAIL_OF_OUTPUT.values())
    if any(spec.kind is EntityKind.SUPPLY and rails & set(spec.signals) for spec in specs):
        return tuple(specs)
    return tuple(_renamed(spec) if set(RAIL_OF_OUTPUT) <= set(spec.signals) else spec for spec in specs)


def _renamed(spec: TableSpec) -> TableSpec:
    return replace(spec, signals=tuple(RAIL_OF_OUTPUT.get(name, name) for name in spec.signals))
