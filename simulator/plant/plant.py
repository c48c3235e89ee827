"""The plant: a node and a scenario, moved on in milliseconds, the same for the same seed."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.files.node import NodeFile
from simulator.files.scenario import Quantity, ScenarioFile
from simulator.files.workload import Training, load_workload
from simulator.plant.clocks import (
    REASON_HW_THERMAL,
    REASON_POWER_BRAKE,
    REASON_POWER_CAP,
    REASON_SW_THERMAL,
    ClockGovernor,
    Settings,
)
from simulator.plant.decay import DecayBlock
from simulator.plant.heat import Heat
from simulator.plant.load import TrainingLoad
from simulator.plant.models import (
    clock_limits,
    heat_model,
    power_model,
    sensor_model,
    shunt_model,
    supply_model,
    training_model,
)
from simulator.plant.sensors import PowerSensor, RailReading, read_rail
from simulator.plant.supply import Supply
from simulator.plant.timeline import Timeline
from telemetry.frames import FloatArray, MaskArray

BLOCK_MS = 10
UTIL_BLOCKS = 16  # utilisation is renewed six times a second, nvidia-smi --help-query-gpu
XID_BUS_DROP = 79
XID_DELAY_S = (0.1, 2.0)  # assumption: from the loss to the line in the kernel log
CountArray = npt.NDArray[np.uint64]
# The counters that the driver keeps, and the reasons under which each runs.
BRANCH = (Quantity.PSU_MOHM, Quantity.CABLE_MOHM, Quantity.CONNECTOR_MOHM, Quantity.JOINT_MOHM)
COUNTED = {
    "power_violation": REASON_POWER_CAP,
    "thermal_violation": REASON_SW_THERMAL | REASON_HW_THERMAL,
    "sw_thermal": REASON_SW_THERMAL,
    "hw_thermal": REASON_HW_THERMAL,
    "power_brake": REASON_POWER_BRAKE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class XidEvent:
    """The driver reports an error of a GPU."""

    time_ms: int
    gpu: int
    code: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stretch:
    """The truth over a stretch of time, one row per millisecond."""

    time_ms: npt.NDArray[np.int64]
    power_w: FloatArray  # (n, n_gpus)
    level: FloatArray  # (n, n_gpus)
    clock_mhz: FloatArray  # (n, n_gpus)
    voltage_v: FloatArray  # (n,)
    current_a: FloatArray  # (n, n_supplies)


class Plant:
    """A simulated node.

    Deterministic: the state depends on node, scenario, seed, the settings obeyed and the milliseconds advanced, and
    not on how these were cut into calls. It moves in blocks of 10 ms; a rest waits for the next call.

    Attributes
    ----------
    now_ms
        Simulated time since the start.
    energy_j, present, counters_ms, gpu_util_ratio, mem_util_ratio
        Per GPU, as the driver would tell them.
    rail
        What the shunt monitors show.
    """

    def __init__(self, node: NodeFile, scenario: ScenarioFile, seed: int) -> None:
        n_gpus = node.gpu_count
        streams = np.random.SeedSequence(seed).spawn(5)
        load_chance, self._noise_chance, sensor_chance, self._rail_chance, self._xid_chance = map(
            np.random.default_rng, streams
        )
        self.node = node
        self.settings = default_settings(node)
        self._timeline = Timeline(node, scenario)
        self._power = power_model(node)
        self._job = _training(node)
        self._load = TrainingLoad(training_model(node, self._job), n_gpus, load_chance)
        start_w = self._training_power_w()
        values = self._timeline.at(0.0)
        self._heat = Heat(
            heat_model(node),
            power_w=start_w,
            interface_k_per_w=values[Quantity.INTERFACE_K_PER_W],
            air_c=self._air_c(values),
        )
        self._governor = ClockGovernor(clock_limits(node), n_gpus, power_w=start_w)
        self._supply = Supply(supply_model(node), len(node.supply.units), BLOCK_MS)
        self._sensor = PowerSensor(sensor_model(node), power_w=start_w, chance=sensor_chance)
        self._shunt = shunt_model()
        self._rise = DecayBlock(float(np.exp(-1.0 / node.gpu.power.rise_ms)), BLOCK_MS)
        self._last_w = start_w
        self._owed_ms = 0
        self._block = 0
        self._level_sum = np.zeros(n_gpus)
        self._xids: list[XidEvent] = []
        self.now_ms = 0
        self.present: MaskArray = np.ones(n_gpus, dtype=np.bool_)
        self.energy_j = np.zeros(n_gpus)
        self.counters_ms = {name: np.zeros(n_gpus, dtype=np.int64) for name in COUNTED}
        self.gpu_util_ratio = np.zeros(n_gpus)
        self.mem_util_ratio = np.zeros(n_gpus)
        self.idle = False
        self.rail: RailReading
        self._step()  # so that there is something to read at once

    @property
    def clock_mhz(self) -> FloatArray:
        """Give the SM clock of each GPU."""
        return self._governor.clock_mhz

    @property
    def reasons(self) -> CountArray:
        """Give the clock event reasons of each GPU as NVML bits."""
        return self._governor.reasons

    @property
    def sensed_power_w(self) -> FloatArray:
        """Give the power that each board's sensor shows."""
        return self._sensor.power_w

    @property
    def sensed_at_ms(self) -> npt.NDArray[np.int64]:
        """Give the simulated time of each board's newest sensor value."""
        return self._sensor.time_ms

    @property
    def die_c(self) -> FloatArray:
        """Give the temperature of each die."""
        return self._heat.die_c

    @property
    def memory_c(self) -> FloatArray:
        """Give the temperature of each GPU's memory."""
        return self._heat.memory_c

    @property
    def inlet_c(self) -> float:
        """Give the temperature of the air that comes in."""
        return float(self._values[Quantity.INLET_C][0])

    @property
    def steps(self) -> int:
        """Give how many training steps have ended."""
        return self._load.steps

    @property
    def collapsed_ms(self) -> int:
        """Give for how long the rail could not carry the load."""
        return self._supply.collapsed

    def obey(self, settings: Settings) -> None:
        """Take settings that act from the next block on."""
        self.settings = settings

    def advance(self, n_ms: int) -> Stretch:
        """Move on and give the truth of the blocks that were completed, perhaps none."""
        self._owed_ms += n_ms
        blocks = []
        while self._owed_ms >= BLOCK_MS:
            self._owed_ms -= BLOCK_MS
            blocks.append(self._step())
        return _joined(blocks, self.node)

    def take_xids(self) -> tuple[XidEvent, ...]:
        """Give the errors whose time has come, each once."""
        due = tuple(event for event in self._xids if event.time_ms <= self.now_ms)
        self._xids = [event for event in self._xids if event.time_ms > self.now_ms]
        return due

    def _step(self) -> Stretch:
        start_ms = self.now_ms
        values = self._values = self._timeline.at(start_ms / 1000.0)
        self._lose(values)
        self.idle = bool(values[Quantity.LEVEL][0] <= 0.0)
        n_gpus = self.node.gpu_count
        self._governor.decide(
            BLOCK_MS,
            self.settings,
            temp_c=self._heat.die_c,
            brake=(values[Quantity.POWER_BRAKE] > 0.0) & self.present,
            idle=np.full(n_gpus, self.idle),
        )
        clock_mhz = self._governor.clock_mhz
        level = self._load.advance(BLOCK_MS, clock_mhz, self.present) * values[Quantity.LEVEL][0]
        wanted_w = self._power.power_w(clock_mhz, level, self._heat.die_c)
        wanted_w *= 1.0 + self.node.gpu.power.noise * self._noise_chance.standard_normal(level.shape)
        keep = float(np.exp(-1.0 / self.node.gpu.power.rise_ms))
        power_w = np.where(self.present, self._rise.run(self._last_w, (1.0 - keep) * wanted_w), 0.0)
        self._last_w = power_w[-1]
        rail = self._supply.advance(
            power_w.sum(axis=1) + values[Quantity.OTHER_POWER_W][0],
            open_circuit_v=values[Quantity.OPEN_CIRCUIT_V],
            joint_ohm=np.sum([values[part] for part in BRANCH], axis=0) / 1000.0,
        )
        self._settle(start_ms, power_w, level, values)
        self.rail = read_rail(self._shunt, voltage_v=rail.voltage_v, current_a=rail.current_a, chance=self._rail_chance)
        self.now_ms = start_ms + BLOCK_MS
        return Stretch(
            time_ms=np.arange(start_ms, self.now_ms),
            power_w=power_w,
            level=level,
            clock_mhz=np.broadcast_to(clock_mhz, power_w.shape),
            voltage_v=rail.voltage_v,
            current_a=rail.current_a,
        )

    def _settle(
        self, start_ms: int, power_w: FloatArray, level: FloatArray, values: dict[Quantity, FloatArray]
    ) -> None:
        mean_w = power_w.mean(axis=0)
        self._governor.observe(BLOCK_MS, mean_w, self.settings.power_limit_w)
        self._heat.advance(
            BLOCK_MS / 1000.0,
            power_w=mean_w,
            interface_k_per_w=values[Quantity.INTERFACE_K_PER_W],
            air_c=self._air_c(values),
        )
        self._sensor.advance(start_ms, power_w)
        self.energy_j += mean_w * (BLOCK_MS / 1000.0)
        for name, bits in COUNTED.items():
            running = (self._governor.reasons & np.uint64(bits)) != 0
            self.counters_ms[name] += np.where(running & self.present, BLOCK_MS, 0)
        self._level_sum += level.mean(axis=0)
        self._block += 1
        if self._block % UTIL_BLOCKS == 0:
            mean = self._level_sum / UTIL_BLOCKS
            self.gpu_util_ratio = np.where(mean > 0.0, 1.0, 0.0)  # NCCL's kernels run while they wait
            self.mem_util_ratio = 0.6 * mean  # assumption: a training job keeps memory busy 60 % of the time
            self._level_sum = np.zeros_like(mean)

    def _lose(self, values: dict[Quantity, FloatArray]) -> None:
        present = self.present & (values[Quantity.PRESENT] > 0.0)  # only a cold start brings a GPU back
        for gpu in np.flatnonzero(self.present & ~present):
            delay_ms = int(1000.0 * self._xid_chance.uniform(*XID_DELAY_S))
            self._xids.append(XidEvent(time_ms=self.now_ms + delay_ms, gpu=int(gpu), code=XID_BUS_DROP))
        self.present = present

    def _air_c(self, values: dict[Quantity, FloatArray]) -> FloatArray:
        air_c: FloatArray = values[Quantity.INLET_C] + np.array([slot.preheat_k for slot in self.node.slots])
        return air_c

    def _training_power_w(self) -> FloatArray:
        clock_mhz = np.full(self.node.gpu_count, self.node.gpu.clocks.max_mhz)
        temp_c = np.full(self.node.gpu_count, 50.0)
        share, level = self._job.exchange_share, self._job.exchange_level
        compute_w = self._power.power_w(clock_mhz, np.ones_like(clock_mhz), temp_c)
        exchange_w = self._power.power_w(clock_mhz, np.full_like(clock_mhz, level), temp_c)
        compute_w = np.minimum(compute_w, self.node.gpu.power_limit_w.default)
        return (1.0 - share) * compute_w + share * exchange_w


def _training(node: NodeFile) -> Training:
    job = load_workload(node.workload)
    if not isinstance(job, Training):
        raise TypeError("only training so far")
    return job


def default_settings(node: NodeFile) -> Settings:
    """Give the settings of a driver that was just loaded."""
    count = node.gpu_count
    return Settings(
        power_limit_w=np.full(count, node.gpu.power_limit_w.default),
        app_clock_mhz=np.full(count, np.inf),
        locked_mhz=np.full(count, np.inf),
        locked_min_mhz=np.zeros(count),
    )


def _joined(blocks: list[Stretch], node: NodeFile) -> Stretch:
    if not blocks:
        gpus, supplies = np.empty((0, node.gpu_count)), np.empty((0, len(node.supply.units)))
        return Stretch(
            time_ms=np.empty(0, dtype=np.int64),
            power_w=gpus,
            level=gpus,
            clock_mhz=gpus,
            voltage_v=np.empty(0),
            current_a=supplies,
        )
    return Stretch(
        time_ms=np.concatenate([block.time_ms for block in blocks]),
        power_w=np.concatenate([block.power_w for block in blocks]),
        level=np.concatenate([block.level for block in blocks]),
        clock_mhz=np.concatenate([block.clock_mhz for block in blocks]),
        voltage_v=np.concatenate([block.voltage_v for block in blocks]),
        current_a=np.concatenate([block.current_a for block in blocks]),
    )
