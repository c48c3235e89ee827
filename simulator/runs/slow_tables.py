"""Tables with a row per second: counters, limits, temperatures, the node, its fans, links and jobs."""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from simulator.files.node import NodeFile
from simulator.plant.clocks import Settings
from simulator.plant.plant import default_settings
from simulator.plant.state import PlantNodeState
from simulator.runs.topology import NodeEntities
from simulator.sensors.bank import SensorBank
from telemetry.entities import Entity, EntityKind
from telemetry.frames import Frame, TableSpec
from telemetry.signals import RateClass, Source, signals_of

_MS_PER_S = 1000.0
_SUPPLY_SIGNALS = ("input_voltage_v", "power_w", "joint_temp_c")

Columns = dict[str, npt.ArrayLike]  # by signal: one value per entity, or one for all; NaN where there is none


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
        gpu_signals = [signal.name for signal in signals_of(EntityKind.GPU, source=Source.NVML, rate=RateClass.SLOW)]
        by_bmc = () if node.sensors.bmc is None else ("input_voltage_v", "power_w")
        supply_signals = [name for name in _SUPPLY_SIGNALS if name in (*bank.rail.shown, *by_bmc)]
        node_signals = ["inlet_temp_c", "nv_queue_ratio", "nv_irq_ratio"]
        if node.sensors.bmc is not None:
            node_signals += ["rail_voltage_v", "outlet_temp_c"]
        bus_signals = [signal.name for signal in signals_of(EntityKind.GPU, source=Source.PCI)]
        link_signals = ["nvlink_crc_errors", "nvlink_replays"]
        tables: list[tuple[str, tuple[Entity, ...], list[str], Callable[[PlantNodeState], Columns]]] = [
            ("gpu_slow", entities.gpus, gpu_signals, self._gpus),
            ("gpu_bus", entities.gpus, bus_signals, _bus),
            ("supply_slow", entities.supplies, supply_signals, self._supplies),
            ("bmc_supply", entities.rails, ["rail_voltage_v"], self._rails),
            ("node", (entities.node,), node_signals, self._own),
            ("fan", entities.fans, ["fan_rpm", "fan_ratio"], self._fans),
            ("link", entities.links, link_signals, self._links),
            ("job", entities.jobs, ["steps"], self._steps),
        ]
        tables = [table for table in tables if table[1] and table[2]]
        self.specs = tuple(
            TableSpec(name=name, kind=members[0].kind, entities=members, signals=tuple(signals))
            for name, members, signals, _ in tables
        )
        self._reads = [read for *_, read in tables]

    def frames(self, time_ns: int, state: PlantNodeState, settings: Settings) -> Iterator[Frame]:
        """Yield one row of each table; nothing is fresh but what changed, which the writer finds out."""
        self._settings = settings
        for spec, read in zip(self.specs, self._reads, strict=True):
            columns = read(state)
            values = np.full((1, *spec.shape), np.nan)
            for place, signal in enumerate(spec.signals):
                values[0, :, place] = columns.get(signal, np.nan)
            yield Frame(
                spec=spec,
                time_ns=np.array([time_ns], dtype=np.int64),
                values=values,
                fresh=np.zeros(values.shape, dtype=np.bool_),
            )

    def _gpus(self, state: PlantNodeState) -> Columns:
        gpus, part, bank = state.gpus, self._node.gpu, self._bank
        counted = {name: counts / _MS_PER_S for name, counts in gpus.counters_ms.items()}
        app_mhz = self._settings.app_clock_mhz
        columns: Columns = {
            "energy_j": np.round(gpus.energy_j, 3),
            "gpu_temp_c": bank.driver.gpu_temp_c,
            "hbm_temp_c": bank.driver.hbm_temp_c,
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
        return {signal: np.where(bank.gpu_answers, column, np.nan) for signal, column in columns.items()}

    def _supplies(self, _: PlantNodeState) -> Columns:
        columns: Columns = dict(self._bank.rail.shown)
        bmc = self._bank.bmc
        if bmc is not None:
            columns.setdefault("input_voltage_v", np.round(bmc.psu_input_v, 3))
            columns.setdefault("power_w", np.round(bmc.psu_output_v * bmc.psu_output_a, 3))
        return columns

    def _rails(self, _: PlantNodeState) -> Columns:
        return {} if self._bank.bmc is None else {"rail_voltage_v": self._bank.bmc.bus_v}

    def _own(self, state: PlantNodeState) -> Columns:
        columns: Columns = {
            "inlet_temp_c": self._bank.inlet_c,
            "nv_queue_ratio": round(state.nv_queue_ratio, 4),
            "nv_irq_ratio": round(state.nv_irq_ratio, 4),
        }
        if self._bank.bmc is not None:
            columns |= {"rail_voltage_v": self._bank.bmc.rail_v, "outlet_temp_c": self._bank.bmc.outlet_c}
        return columns

    def _fans(self, state: PlantNodeState) -> Columns:
        if self._bank.bmc is None:
            return {}
        return {"fan_rpm": self._bank.bmc.fan_rpm, "fan_ratio": round(state.fan_ratio, 3)}

    def _links(self, state: PlantNodeState) -> Columns:
        answers = self._bank.gpu_answers[:, None]
        return {
            "nvlink_crc_errors": np.where(answers, state.gpus.nvlink_crc, np.nan).ravel(),
            "nvlink_replays": np.where(answers, state.gpus.nvlink_replays, np.nan).ravel(),
        }

    def _steps(self, state: PlantNodeState) -> Columns:
        return {"steps": np.array([float(state.steps) if name == state.job else np.nan for name in self._jobs])}


def _bus(state: PlantNodeState) -> Columns:
    """Return presence and errors of each device; a device that is gone has no counters."""
    gpus = state.gpus
    return {
        "pci_present": gpus.present,
        "aer_correctable": np.where(gpus.present, gpus.aer_correctable, np.nan),
        "aer_fatal": np.where(gpus.present, gpus.aer_fatal, np.nan),
    }
