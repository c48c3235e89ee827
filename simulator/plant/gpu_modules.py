"""The GPU modules of a node: their clocks, their power, their heat, and the fans that carry it away."""

import numpy as np

from simulator.files.node import NodeFile
from simulator.files.scenario import Quantity
from simulator.files.workload import Workload
from simulator.plant.chance import stream
from simulator.plant.clocks import BrakeSignal, ClockGovernor, Settings, part_clocks
from simulator.plant.cooling import Fans
from simulator.plant.decay import DecayBlock
from simulator.plant.heat import HALF_FLOW, Heat, heat_model
from simulator.plant.power import part_power
from simulator.plant.slot_air import slot_air
from simulator.plant.starting import starting_power_w
from simulator.plant.state import GpuState, PlantNodeState
from simulator.plant.timeline import Values
from telemetry.frames import FloatArray

IDLE_AFTER_BLOCKS = 10  # assumption: a GPU without a kernel for 100 ms is idle to its driver


class GpuModules:
    """All GPUs of a node over time, in blocks of a fixed length.

    Attributes
    ----------
    power_w
        What each took last, ``(n_gpus,)``.
    """

    def __init__(self, node: NodeFile, values: Values, *, workload: Workload, block_ms: int, seed: int) -> None:
        self._node = node
        self._block_ms = block_ms
        self._noise = node.gpu.power.noise
        self._chance = stream(seed, "power noise")
        self._keep = float(np.exp(-1.0 / node.gpu.power.rise_ms))
        self._rise = DecayBlock(self._keep, block_ms)
        self._power = part_power(node.gpu)
        self._air = slot_air(node)
        self.power_w = starting_power_w(node, self._power, workload)
        self._heat = Heat(
            heat_model(node),
            power_w=self.power_w,
            interface_k_per_w=values[Quantity.INTERFACE_K_PER_W],
            air_c=values[Quantity.INLET_C] + self._air.warmth_k(self.power_w, flow_ratio=HALF_FLOW),
        )
        self._fans = Fans(node.cooling)
        self._turning = float(values[Quantity.FANS][0])
        self._brake = BrakeSignal(node.gpu.hazard, node.gpu_count)
        self._governor = ClockGovernor(part_clocks(node.gpu), node.gpu_count, power_w=self.power_w)
        self._quiet_blocks = np.zeros(node.gpu_count)
        self._limit_w = np.full(node.gpu_count, node.gpu.power_limit_w.default)
        self._shown_fans = (-1.0, -1.0)

    def other_w(self, values: Values) -> float:
        """Return the power of the node without its GPUs: the value in its file, and the fans."""
        return float(values[Quantity.OTHER_POWER_W][0]) + self._fans.power_w(float(values[Quantity.FANS][0]))

    def decide(self, settings: Settings, gpus: GpuState, *, brake: FloatArray) -> None:
        """Set the clocks and the reasons of the next block; `brake` is what the scenario asks for."""
        self._limit_w = settings.power_limit_w
        self._governor.decide(
            self._block_ms,
            settings,
            temp_c=self._heat.die_c,
            brake=self._brake.engaged(brake, gpus.present),
            idle=self._quiet_blocks >= IDLE_AFTER_BLOCKS,
        )
        gpus.clock_mhz = self._governor.clock_mhz
        gpus.reasons = self._governor.reasons

    def carry(self, level: FloatArray, gpus: GpuState, *, input_factor: float, powered: bool) -> FloatArray:
        """Return the power that a load asks for, both of shape ``(block_ms, n_gpus)``."""
        wanted_w = self._power.power_w(gpus.clock_mhz, level, self._heat.die_c, input_factor)
        wanted_w *= (1.0 - self._keep) * (1.0 + self._noise * self._chance.standard_normal(level.shape))
        power_w = self._rise.run(self.power_w, wanted_w)
        power_w *= gpus.present & powered
        return power_w

    def finish(
        self, state: PlantNodeState, values: Values, *, power_w: FloatArray, level: FloatArray, voltage_v: FloatArray
    ) -> FloatArray:
        """Process a block of true values ending at `state.now_ms`; return the mean power of each GPU, ``(n_gpus,)``.

        `voltage_v` is that of each GPU's bus, ``(n, n_gpus)`` as the others.
        """
        mean_w: FloatArray = power_w.sum(axis=0) / len(power_w)
        self.power_w = power_w[-1]
        self._governor.observe(self._block_ms, mean_w, self._limit_w)
        self._turning = float(values[Quantity.FANS][0])
        flow_ratio = self._fans.flow_ratio(self._turning)
        self._heat.advance(
            self._block_ms / 1000.0,
            power_w=mean_w,
            interface_k_per_w=values[Quantity.INTERFACE_K_PER_W],
            air_c=state.inlet_c + self._air.warmth_k(self._heat.to_air_w, flow_ratio=flow_ratio),
            flow_ratio=flow_ratio,
        )
        present = state.gpus.present
        if state.powered:
            hottest_c = float(self._heat.die_c.max(where=present, initial=-np.inf))
            self._fans.advance(self._block_ms, hottest_c=hottest_c if present.any() else np.nan)
            self._brake.watch(voltage_v=voltage_v, power_w=power_w, contact_mohm=values[Quantity.CONTACT_MOHM])
        self._quiet_blocks = np.where(level.max(axis=0) > 0.0, 0.0, self._quiet_blocks + 1.0)
        return mean_w

    def show(self, state: PlantNodeState) -> None:
        """Write what holds at the end of the last block into the state."""
        gpus, fans, turning = state.gpus, self._fans, self._turning
        gpus.power_w = self.power_w
        gpus.die_c = self._heat.die_c
        gpus.memory_c = self._heat.memory_c
        state.fan_power_w = fans.power_w(turning)
        state.outlet_c = state.inlet_c + fans.outlet_rise_k(state.node_power_w, turning)
        if (fans.ratio, turning) != self._shown_fans:
            self._shown_fans = (fans.ratio, turning)
            state.fan_ratio = fans.ratio
            state.fan_rpm = fans.rpm(turning)

    def load_driver(self) -> None:
        """Reset the driver's control loops, as a reload does."""
        self._governor = ClockGovernor(part_clocks(self._node.gpu), self._node.gpu_count, power_w=self.power_w)

    def power_on(self) -> None:
        """Start the fans; nothing brakes any more."""
        self._fans.start()
        self._brake = BrakeSignal(self._node.gpu.hazard, self._node.gpu_count)

    def power_off(self) -> None:
        """Stop the fans."""
        self._fans.stop()
