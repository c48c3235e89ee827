"""Window of all nodes: the signals that the fleet reads, on a grid of whole seconds that all nodes share."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from analytics.connectivity.kinship import ByIdentity
from analytics.detectors.supply_outputs import RAIL_OF_OUTPUT
from physics.wiring import Wiring
from telemetry.catalogue.pins import PINS
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray, Frame, TableSpec, TimeArray
from telemetry.records import Cause, Event, Finding, IncidentState
from telemetry.rollup import statistics_of
from telemetry.signals import RateClass, SignalKind, signal

# The signals that detectors look at; what else is stored costs only its reading.
JUDGED: dict[EntityKind, tuple[str, ...]] = {
    EntityKind.NODE: ("inlet_temp_c", "nv_queue_ratio", "nv_irq_ratio", "rail_voltage_v", "main_bus_voltage_v",
                      "node_power_w"),
    EntityKind.GPU: (
        "power_w", "sm_clock_mhz", "gpu_util_ratio", "mem_util_ratio", "throttle_reasons", "gpu_temp_c", "hbm_temp_c",
        "slowdown_temp_c", "margin_c", "power_limit_w", "power_limit_default_w", "memory_used_bytes",
        "power_brake_s", "pci_present",
        "pcie_generation", "pcie_width", "max_pcie_generation", "max_pcie_width", "pcie_replays",
        "pcie_replay_rollovers", "pcie_correctable", "aer_correctable", "fan_ratio", "fan_rpm",
        *PINS,
    ),
    EntityKind.SUPPLY: (
        "voltage_v", "current_a", "voltage_min_v", "current_max_a", "power_w", "output_voltage_v",
        "output_current_a", "rail_voltage_v", "fan_rpm", "input_power_w", "input_current_a", "mains_power_w",
        "mains_current_a", "ups_power_w", "input_voltage_v", "mains_voltage_v",
    ),
    EntityKind.FAN: ("fan_rpm", "fan_ratio"),
    EntityKind.LINK: (
        "nvlink_crc_errors", "nvlink_replays", "nvlink_recoveries", "nvlink_symbol_errors", "nvlink_up",
    ),
    EntityKind.JOB: ("steps",),
}  # fmt: skip

# Signals of which a second is represented by its extreme: a mean of minima is no minimum.
_EXTREMES = {"voltage_min_v": "min", "current_max_a": "max"}

# How long a value is held. A second without it is a sensor that was slow; heuristic: two of the
# fast and slow groups' seconds and one to arrive in, and three rounds of what is read every ten seconds.
HOLD_NS: dict[RateClass, int] = {
    RateClass.FAST: 3 * NS_PER_S,
    RateClass.SLOW: 3 * NS_PER_S,
    RateClass.RARE: 30 * NS_PER_S,
}


def statistic_of(kind: EntityKind, name: str) -> str:
    """Return which statistic of a second represents a signal.

    A mean of voltage and one of current belong together as two readings at one moment do, because a source is linear.
    Flags and counters, and what is read once a second, have one value: the last.
    """
    if name in _EXTREMES:
        return _EXTREMES[name]
    found = signal(kind, name)
    has_mean = "mean" in statistics_of(kind, name)
    return "mean" if has_mean and found.kind is SignalKind.GAUGE and found.rate is RateClass.FAST else "last"


def column_of(kind: EntityKind, name: str) -> str:
    """Return the name under which the store has it."""
    return f"{name}_{statistic_of(kind, name)}"


def hold_ns(kind: EntityKind, name: str) -> int:
    """Return how long a value of the signal is held."""
    return HOLD_NS[signal(kind, name).rate]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIncident:
    """Incident that a node's own guard reported; `entity_id` as the fleet names it."""

    node: str
    time_ns: int
    entity_id: str
    cause: Cause
    state: IncidentState


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FleetTable:
    """Values of one kind, shape ``(n_seconds, n_entities, n_signals)``; NaN where the store has none.

    `nodes` has for each entity the node that wrote it.
    """

    entities: tuple[Entity, ...]
    nodes: tuple[str, ...]
    signals: tuple[str, ...]
    values: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FleetWindow:
    """Whole seconds from `start_ns` up to `stop_ns`, and what the nodes reported themselves meanwhile.

    `incidents` reach beyond `stop_ns`, as far as they are known: a node sees at full rate what the fleet sees later.
    `simulated` names the nodes whose rows are marked as simulated. `wirings` has the newest wiring of each node that
    sent one, None of a node that describes none any more or one that cannot be; the latter are `wirings_refused`.
    """

    start_ns: int
    stop_ns: int
    tables: Mapping[EntityKind, FleetTable]
    events: tuple[Event, ...] = ()
    findings: tuple[Finding, ...] = ()
    incidents: tuple[NodeIncident, ...] = ()
    simulated: frozenset[str] = field(default_factory=frozenset)
    wirings: Mapping[str, Wiring | None] = field(default_factory=dict)
    wirings_refused: int = 0

    @property
    def time_ns(self) -> TimeArray:
        """Return the beginning of each second."""
        return np.arange(self.start_ns, self.stop_ns, NS_PER_S, dtype=np.int64)

    @property
    def nodes(self) -> frozenset[str]:
        """Return the nodes that have a value in it."""
        found: set[str] = set()
        for table in self.tables.values():
            seen = np.isfinite(table.values).any(axis=(0, 2))
            names, numbers = _numbered(ByIdentity(table.nodes))
            found.update(names[number] for number in np.unique(numbers[seen]).tolist())
        return frozenset(found)

    def nodes_with(self, kind: EntityKind, name: str) -> frozenset[str]:
        """Return the nodes that have a value of one signal in it."""
        table = self.tables.get(kind)
        if table is None or name not in table.signals:
            return frozenset()
        seen = np.isfinite(table.values[:, :, table.signals.index(name)]).any(axis=0)
        names, numbers = _numbered(ByIdentity(table.nodes))
        return frozenset(names[number] for number in np.unique(numbers[seen]).tolist())

    def with_outputs_as_rails(self, but: frozenset[str]) -> "FleetWindow":
        """Return the window with the slow outputs of supplies as their rails, except of the nodes that have rails."""
        table = self.tables.get(EntityKind.SUPPLY)
        if table is None or not {*RAIL_OF_OUTPUT, *RAIL_OF_OUTPUT.values()} <= set(table.signals):
            return self
        rows = [place for place, node in enumerate(table.nodes) if node not in but]
        if not rows:
            return self
        values = table.values.copy()
        for output, rail in RAIL_OF_OUTPUT.items():
            values[:, rows, table.signals.index(rail)] = values[:, rows, table.signals.index(output)]
        return replace(self, tables={**self.tables, EntityKind.SUPPLY: replace(table, values=values)})

    def values_by_node(self) -> dict[str, int]:
        """Return how many values each node has in it."""
        counts: dict[str, int] = {}
        for table in self.tables.values():
            names, numbers = _numbered(ByIdentity(table.nodes))
            known = np.bincount(numbers, weights=np.isfinite(table.values).sum(axis=(0, 2)), minlength=len(names))
            for node, count in zip(names, known.tolist(), strict=True):
                counts[node] = counts.get(node, 0) + round(count)
        return {node: count for node, count in counts.items() if count}


@lru_cache(maxsize=16)
def places_among(
    known: ByIdentity[tuple[Entity, ...]], reported: ByIdentity[tuple[Entity, ...]]
) -> npt.NDArray[np.intp]:
    """Return the positions of a window's entities among those that are known."""
    places = {entity.id: place for place, entity in enumerate(known.it)}
    return np.array([places[entity.id] for entity in reported.it], dtype=np.intp)


@lru_cache(maxsize=16)
def _numbered(names: ByIdentity[tuple[str, ...]]) -> tuple[tuple[str, ...], npt.NDArray[np.intp]]:
    """Return the names, each once, and for each entry the number of its name."""
    numbers: dict[str, int] = {}
    found = [numbers.setdefault(name, len(numbers)) for name in names.it]
    return tuple(numbers), np.array(found, dtype=np.intp)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldValues:
    """The newest value of each signal of one kind and when it was reported, shape ``(n_entities, n_signals)``."""

    spec: TableSpec
    values: FloatArray
    reported_ns: TimeArray

    @staticmethod
    def nothing(kind: EntityKind, entities: tuple[Entity, ...], signals: tuple[str, ...]) -> "HeldValues":
        """Return what holds before the first window."""
        spec = TableSpec(name=f"fleet_{kind}", kind=kind, entities=entities, signals=signals)
        return HeldValues(
            spec=spec, values=np.full(spec.shape, np.nan), reported_ns=np.zeros(spec.shape, dtype=np.int64)
        )

    def under(self, entities: tuple[Entity, ...]) -> "HeldValues":
        """Return what holds for other entities: those that stay keep their values."""
        made = HeldValues.nothing(self.spec.kind, entities, self.spec.signals)
        rows = {entity.id: row for row, entity in enumerate(self.spec.entities)}
        pairs = [(place, rows[entity.id]) for place, entity in enumerate(entities) if entity.id in rows]
        if pairs:
            here, there = (list(side) for side in zip(*pairs, strict=True))
            made.values[here], made.reported_ns[here] = self.values[there], self.reported_ns[there]
        return made

    def frame(self, window: FleetWindow) -> tuple["HeldValues", Frame]:
        """Return the window's rows for all entities, each value held for its hold time; NaN for a silent entity."""
        spec, times = self.spec, window.time_ns
        rows = np.full((len(times), *spec.shape), np.nan)
        table = window.tables.get(spec.kind)
        if table is not None and table.entities:
            rows[:, places_among(ByIdentity(spec.entities), ByIdentity(table.entities))] = table.values
        limits = np.array([hold_ns(spec.kind, name) for name in spec.signals], dtype=np.int64)
        values, reported = self.values, self.reported_ns
        fresh = np.isfinite(rows)
        for row, now_ns in enumerate(times.tolist()):
            new = fresh[row]
            reported = np.where(new, now_ns, reported)
            values = np.where(new, rows[row], np.where(now_ns - reported <= limits, values, np.nan))
            rows[row] = values
        return HeldValues(spec=spec, values=values, reported_ns=reported), Frame(
            spec=spec, time_ns=times, values=rows, fresh=fresh
        )
