"""What the agent reads once a second: counters, limits, temperatures, the node, its fans, links and jobs."""

from collections.abc import Callable, Iterator

import numpy as np

from simulator.files.node import NodeFile
from simulator.plant.clocks import Settings
from simulator.plant.plant import default_settings
from simulator.plant.state import NodeState
from simulator.runs.topology import NodeEntities
from simulator.sensors.bank import SensorBank
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray, Frame, TableSpec
from telemetry.signals import RateClass, Source, signals_of

_MS_PER_S = 1000.0
_SUPPLY_SIGNALS = ("input_voltage_v", "power_w", "joint_temp_c")


class SlowTables:
    """The tables of a node and their rows.

    Attributes
    ----------
    specs
        The tables, in the order of their rows.
    """

    def __init__(self, node: NodeFile, entities: NodeEntities, bank: SensorBank) -> None:
        self._node = node
        self._bank = bank
        self._settings = default_settings(node)
        self._jobs = [job.name for job in entities.jobs]
        self._gpu_signals = [
            signal.name for signal in signals_of(EntityKind.GPU, source=Source.NVML, rate=RateClass.SLOW)
        ]
        by_bmc = () if node.sensors.bmc is None else ("input_voltage_v", "power_w")
        self._supply_signals = [name for name in _SUPPLY_SIGNALS if name in (*bank.rail.signals, *by_bmc)]
        node_signals = ["inlet_temp_c", "nv_queue_ratio", "nv_irq_ratio"]
        if node.sensors.bmc is not None:
            node_signals += ["rail_voltage_v", "outlet_temp_c"]
        bus = [signal.name for signal in signals_of(EntityKind.GPU, source=Source.PCI)]
        links = ["nvlink_crc_errors", "nvlink_replays"]
        tables: list[tuple[str, tuple[Entity, ...], list[str], Callable[[NodeState], FloatArray]]] = [
            ("gpu_slow", entities.gpus, self._gpu_signals, self._gpus),
            ("gpu_bus", entities.gpus, bus, _bus),
            ("supply_slow", entities.supplies, self._supply_signals, self._supplies),
            ("node", (entities.node,), node_signals, self._own),
            ("fan", entities.fans, ["fan_rpm", "fan_ratio"], self._fans),
            ("link", entities.links, links, self._links),
            ("job", entities.jobs, ["steps"], self._steps),
        ]
        tables = [table for table in tables if table[1] and table[2]]
        self.specs = tuple(
            TableSpec(name=name, kind=members[0].kind, entities=members, signals=tuple(signals))
            for name, members, signals, _ in tables
        )
        self._reads = [read for *_, read in tables]

    def frames(self, time_ns: int, state: NodeState, settings: Settings) -> Iterator[Frame]:
        """Give one row of each table; nothing is fresh but what changed, which the writer finds out."""
        self._settings = settings
        for spec, read in zip(self.specs, self._reads, strict=True):
            values = read(state)[None]
            yield Frame(
                spec=spec,
                time_ns=np.array([time_ns], dtype=np.int64),
                values=values,
                fresh=np.zeros(values.shape, dtype=np.bool_),
            )

    def _gpus(self, state: NodeState) -> FloatArray:
        gpus, part, bank = state.gpus, self._node.gpu, self._bank
        counted = {name: counts / _MS_PER_S for name, counts in gpus.counters_ms.items()}
        app_mhz = self._settings.app_clock_mhz
        columns = {
            "energy_j": np.round(gpus.energy_j, 3),
            "gpu_temp_c": bank.gpu_temp_c,
            "hbm_temp_c": bank.hbm_temp_c,
            "slowdown_temp_c": part.temperature_c.slowdown,
            "shutdown_temp_c": part.temperature_c.shutdown,
            "power_limit_w": self._settings.power_limit_w,
            "max_sm_clock_mhz": part.clocks.supported_mhz[-1],
            "app_clock_mhz": np.where(np.isfinite(app_mhz), app_mhz, part.clocks.default_mhz),
            "memory_used_bytes": np.rint(gpus.memory_used_bytes) + part.memory_reserved_bytes,
            "memory_total_bytes": part.memory_total_bytes,
            "pcie_generation": part.pcie_generation,
            "pcie_width": part.pcie_width,
            "pcie_replays": gpus.pcie_replays,
            "ecc_corrected": 0,
            "ecc_uncorrected": 0,
            "power_violation_s": counted.get("power_violation", np.nan),
            "thermal_violation_s": counted.get("thermal_violation", np.nan),
            "power_brake_s": counted.get("power_brake", np.nan),
            "hw_thermal_s": counted.get("hw_thermal", np.nan),
        }
        values = np.full((len(gpus.present), len(self._gpu_signals)), np.nan)
        for place, name in enumerate(self._gpu_signals):
            values[:, place] = columns.get(name, np.nan)
        values[~bank.gpu_answers] = np.nan
        return values

    def _supplies(self, _: NodeState) -> FloatArray:
        rail, bmc = self._bank.rail, self._bank.bmc
        columns = {name: getattr(rail, name) for name in self._supply_signals}
        if bmc is not None:
            for name, value in (
                ("input_voltage_v", bmc.psu_input_v),
                ("power_w", bmc.psu_output_v * bmc.psu_output_a),
            ):
                if name not in rail.signals:
                    columns[name] = np.round(value, 3)
        return np.stack([columns[name] for name in self._supply_signals], axis=1)

    def _own(self, state: NodeState) -> FloatArray:
        values = [self._bank.inlet_c, round(state.nv_queue_ratio, 4), round(state.nv_irq_ratio, 4)]
        if self._bank.bmc is not None:
            values += [self._bank.bmc.rail_v, self._bank.bmc.outlet_c]
        return np.array([values])

    def _fans(self, state: NodeState) -> FloatArray:
        if self._bank.bmc is None:
            return np.full((self._node.cooling.fans, 2), np.nan)
        rpm = self._bank.bmc.fan_rpm
        return np.stack([rpm, np.full(len(rpm), round(state.fan_ratio, 3))], axis=1)

    def _links(self, state: NodeState) -> FloatArray:
        gpus = state.gpus
        counts = np.stack([gpus.nvlink_crc, gpus.nvlink_replays], axis=2).astype(np.float64)
        counts[~self._bank.gpu_answers] = np.nan
        return counts.reshape(-1, 2)

    def _steps(self, state: NodeState) -> FloatArray:
        return np.array([[float(state.steps) if name == state.job else np.nan] for name in self._jobs])


def _bus(state: NodeState) -> FloatArray:
    """Give presence and errors of each device; a device that is gone has no counters."""
    gpus = state.gpus
    gone = ~gpus.present
    return np.stack(
        [
            gpus.present.astype(np.float64),
            np.where(gone, np.nan, gpus.aer_correctable),
            np.where(gone, np.nan, gpus.aer_fatal),
        ],
        axis=1,
    )
