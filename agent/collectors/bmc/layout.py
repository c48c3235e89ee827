"""Tables, entities and signals for the measuring points of a controller."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from agent.collectors.bmc import naming
from agent.collectors.bmc.point import Place, Point, Quantity
from agent.collectors.bmc.rail_nominal import conflicts, nominal_of_point
from agent.collectors.tables import node_entity
from physics.rail_classes import MAIN_BUSES_V, MEASURED_AT_V
from telemetry.controller_names import SUFFIX, slug, unit_key
from telemetry.entities import BOARD_PLACE, PLACE_TAG, SOURCE_TAG, Entity, EntityKind
from telemetry.frames import FloatArray, TableSpec
from telemetry.signals import Signal, signal

NODE_TABLE, SUPPLY_TABLE, FAN_TABLE = "bmc", "bmc_supply", "bmc_fan"
AGE = "bmc_age_s"
_NODE_SIGNALS = (
    "node_power_w",
    "rail_voltage_v",
    "main_bus_voltage_v",
    "outlet_temp_c",
    "gpu_board_temp_c",
    "bmc_board_temp_c",
    AGE,
)
_INLET = "inlet_temp_c"
_SUPPLY_SIGNALS = (
    "input_voltage_v",
    "input_current_a",
    "input_power_w",
    "power_w",
    "output_voltage_v",
    "output_current_a",
    "supply_temp_c",
    "supply_state",
    "rail_voltage_v",
    "rail_current_a",
)
_FAN_SIGNALS = ("fan_rpm", "fan_ratio")
# A board that has a main bus makes its 12 V from it; `rail_voltage_v` is the 12 V rail of any board that has one, as it
# has been since boards had no other.
_MAIN_BUSES_V = tuple(sorted(MAIN_BUSES_V, reverse=True))
_MAIN_RAILS_V = (MEASURED_AT_V, *_MAIN_BUSES_V)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutCell:
    """A cell of a table: the first of its points that has a value, or the highest of them."""

    row: int
    column: int
    keys: tuple[str, ...]
    highest: bool = False

    def value(self, values: Mapping[str, float]) -> float:
        """Return the value of the cell; NaN where none of its points has one."""
        there = [value for key in self.keys if not math.isnan(value := values.get(key, math.nan))]
        if not there:
            return math.nan
        return max(there) if self.highest else there[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """A table and the points of its cells; a cell that is not listed is NaN."""

    spec: TableSpec
    cells: tuple[LayoutCell, ...]

    def fill(self, values: Mapping[str, float], into: FloatArray) -> None:
        """Fill ``(n_entities, n_signals)``, every cell of it."""
        into.fill(math.nan)
        for cell in self.cells:
            into[cell.row, cell.column] = cell.value(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The tables of a controller; None where it has no such part.

    `contradictory` names each rail whose thresholds and name differ, and which of them counts.
    """

    node: TableLayout
    supplies: TableLayout | None
    fans: TableLayout | None
    contradictory: tuple[str, ...] = ()


def lay_out(points: Iterable[Point], *, node: str, with_inlet: bool) -> Layout:
    """Return the tables for these points.

    `with_inlet` is True to read the node's inlet from the controller, False where another source has it.
    """
    points = tuple(points)
    return Layout(
        node=_node_table(points, node, with_inlet=with_inlet),
        supplies=_supply_table(points),
        fans=_fan_table(points),
        contradictory=conflicts(points),
    )


def signals_by_point(layout: Layout) -> Mapping[str, Signal]:
    """Return the signal of each point, by the key of the point."""
    return {
        key: signal(table.spec.kind, table.spec.signals[cell.column])
        for table in (layout.node, layout.supplies, layout.fans)
        if table is not None
        for cell in table.cells
        for key in cell.keys
    }


def _node_table(points: tuple[Point, ...], node: str, *, with_inlet: bool) -> TableLayout:
    signals = (*_NODE_SIGNALS, _INLET) if with_inlet else _NODE_SIGNALS
    powers = [point for point in points if point.quantity is Quantity.POWER and point.place is Place.BOARD]

    def temperatures(place: Place) -> list[Point]:
        return [point for point in points if point.quantity is Quantity.TEMPERATURE and point.place is place]

    sources = {
        "node_power_w": ([point for point in powers if naming.is_whole_node(point.name)], False),
        "rail_voltage_v": (_first_rail(points, _MAIN_RAILS_V), False),
        "main_bus_voltage_v": (_first_rail(points, _MAIN_BUSES_V), False),
        "outlet_temp_c": (temperatures(Place.OUTLET), True),
        "gpu_board_temp_c": (temperatures(Place.GPU), True),
        "bmc_board_temp_c": (
            [point for point in temperatures(Place.BOARD) if naming.is_board_temperature(point.name)],
            True,
        ),
        _INLET: (temperatures(Place.INLET), False),
    }
    cells = tuple(
        LayoutCell(row=0, column=signals.index(name), keys=tuple(point.key for point in found), highest=highest)
        for name, (found, highest) in sources.items()
        if found and name in signals
    )
    return TableLayout(
        spec=TableSpec(name=NODE_TABLE, kind=EntityKind.NODE, entities=(node_entity(node),), signals=signals),
        cells=cells,
    )


def _first_rail(points: tuple[Point, ...], nominals_v: tuple[float, ...]) -> list[Point]:
    """Return the first rail of the board by the first of these nominal voltages that any rail has."""
    named = ((point, nominal_of_point(point)) for point in points if point.place is Place.BOARD)
    rails = [(point, one.rail_class.nominal_v) for point, one in named if one is not None]
    for nominal_v in nominals_v:
        found = [point for point, own_v in rails if own_v == nominal_v]
        if found:
            return found[:1]
    return []


def _supply_table(points: tuple[Point, ...]) -> TableLayout | None:
    """Lay out supplies, and every rail of the board as a supply with only its voltage or current."""
    rows: dict[str, tuple[str, dict[str, list[str]]]] = {}
    nominals: dict[str, tuple[tuple[str, str], ...]] = {}
    for point in points:
        signal = _supply_signal(point)
        if signal is None:
            continue
        unit = (point.unit if point.place is Place.SUPPLY else slug(point.name)) or slug(point.name)
        _, columns = rows.setdefault(unit, (unit if point.place is Place.SUPPLY else point.name, {}))
        columns.setdefault(signal, []).append(point.key)
        named = nominal_of_point(point)
        if named is not None:
            place = ((PLACE_TAG, BOARD_PLACE),) if point.place is Place.BOARD else ()
            nominals.setdefault(unit, (*named.tags, *place))
    return _table(SUPPLY_TABLE, EntityKind.SUPPLY, _SUPPLY_SIGNALS, rows, nominals)


def _supply_signal(point: Point) -> str | None:
    if point.place is Place.SUPPLY:
        by_side = {
            (Quantity.VOLTAGE, True): "input_voltage_v",
            (Quantity.CURRENT, True): "input_current_a",
            (Quantity.POWER, True): "input_power_w",
            (Quantity.POWER, False): "power_w",
            (Quantity.VOLTAGE, False): "output_voltage_v",
            (Quantity.CURRENT, False): "output_current_a",
        }
        anywhere = {Quantity.TEMPERATURE: "supply_temp_c", Quantity.SUPPLY_STATE: "supply_state"}
        return by_side.get((point.quantity, point.is_input), anywhere.get(point.quantity))
    if point.place is not Place.BOARD:
        return None
    return {Quantity.VOLTAGE: "rail_voltage_v", Quantity.CURRENT: "rail_current_a"}.get(point.quantity)


def _fan_table(points: tuple[Point, ...]) -> TableLayout | None:
    rows: dict[str, tuple[str, dict[str, list[str]]]] = {}
    for point in points:
        signal = {Quantity.FAN_SPEED: "fan_rpm", Quantity.FAN_DUTY: "fan_ratio"}.get(point.quantity)
        if signal is not None:
            unit = point.unit or slug(point.name)
            if signal in rows.get(unit, ("", {}))[1]:  # two rotors of one module differ in the rest of their names
                unit = slug(point.name)
            _, columns = rows.setdefault(unit, (unit, {}))
            columns.setdefault(signal, []).append(point.key)
    return _table(FAN_TABLE, EntityKind.FAN, _FAN_SIGNALS, rows)


def _table(
    name: str,
    kind: EntityKind,
    signals: tuple[str, ...],
    rows: Mapping[str, tuple[str, Mapping[str, list[str]]]],
    tags: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType({}),
) -> TableLayout | None:
    if not rows:
        return None
    entities = tuple(
        Entity(kind=kind, key=unit_key(unit), name=f"{label}{SUFFIX}", tags=((SOURCE_TAG, "bmc"), *tags.get(unit, ())))
        for unit, (label, _) in rows.items()
    )
    cells = tuple(
        LayoutCell(row=row, column=signals.index(signal), keys=tuple(keys), highest=signal.endswith("_temp_c"))
        for row, (_, columns) in enumerate(rows.values())
        for signal, keys in columns.items()
    )
    return TableLayout(spec=TableSpec(name=name, kind=kind, entities=entities, signals=signals), cells=cells)
