"""A rack: plants in lock-step that share inlet air, the voltage of a PDU, a breaker, and jobs that span them."""

import math
from dataclasses import dataclass

import numpy as np

from simulator.files.rack import nodes_of
from simulator.files.rack_scenario import RackQuantity, RackScenario
from simulator.files.workload import Workload
from simulator.jobs.plan import SpanningJob, SpanningPlan
from simulator.plant.chance import stream
from simulator.plant.plant import BLOCK_MS, Plant
from simulator.plant.rack_site import RackBreaker, inlet_c, input_ratio, next_noise_k
from simulator.plant.state import Stretch, joined
from simulator.plant.timeline import RackTimeline

_NOISE_MS = 1000  # the air's noise moves once a second; its memory is minutes


@dataclass(slots=True, kw_only=True)
class RackState:
    """State shared by the nodes of a rack, at `now_ms` of simulated time."""

    now_ms: int
    power_w: float  # what the nodes take from the PDU
    exhaust_w: float  # the same as the air shows it, later
    inlet_c: float
    input_ratio: float  # the PDU's voltage over its nominal; 0 where the breaker is open
    breaker_closed: bool


class Rack:
    """The nodes of a rack, moved on together in blocks of `BLOCK_MS`.

    Deterministic: all depends on scenario, seed, workload, the settings that the plants obey and the milliseconds
    advanced, and not on how these were cut into calls.

    Parameters
    ----------
    workload
        What runs on nodes for which the scenario names nothing else; None: the workload in the file of each.

    Attributes
    ----------
    plants
        One for each node; they move with the rack and must not be advanced by themselves.
    jobs
        Those that span nodes, in the order in which they begin.
    state
        The truth about what the nodes share, always the same object.

    Raises
    ------
    ConfigError
        A node or a workload cannot be read.
    """

    def __init__(self, scenario: RackScenario, seed: int, *, workload: Workload | None = None) -> None:
        rack = self._file = scenario.rack
        nodes = nodes_of(rack)
        self._timeline = RackTimeline(rack, scenario.file.changes)
        self._plan = SpanningPlan(scenario.file.jobs, nodes, seed)
        self.jobs = self._plan.jobs
        self._breaker = RackBreaker(rack.feed)
        self._chance = stream(seed, "rack air")
        self._noise_k = rack.air.noise_k * float(self._chance.standard_normal())
        self._owed_ms = 0
        self.plants = tuple(
            Plant(node, of_node, node_seed(seed, number), workload=workload)
            for number, (node, of_node) in enumerate(zip(nodes, scenario.nodes, strict=True))
        )
        power_w = self._power_w()
        self.state = RackState(
            now_ms=0,
            power_w=power_w,
            exhaust_w=power_w,
            inlet_c=rack.air.crac_c,
            input_ratio=1.0,
            breaker_closed=True,
        )
        self._share()

    def settle(self) -> None:
        """Start as if every node had been at its own work for some seconds; see `Plant.settle`."""
        for plant in self.plants:
            plant.settle()

    def advance(self, n_ms: int) -> tuple[Stretch, ...]:
        """Advance and return the truth of the blocks that were completed, for each node; empty where there are none."""
        self._owed_ms += n_ms
        n_blocks, self._owed_ms = divmod(self._owed_ms, BLOCK_MS)
        if n_blocks == 0:
            return tuple(plant.advance(0) for plant in self.plants)
        blocks = [self._step() for _ in range(n_blocks)]
        return tuple(joined(of_node) for of_node in zip(*blocks, strict=True))

    def _step(self) -> list[Stretch]:
        self._share()
        spanning = self._plan.at(self.state.now_ms / 1000.0)
        stretches: dict[int, Stretch] = {}
        for job in spanning:
            stretches |= self._run(job)
        for number, plant in enumerate(self.plants):
            if number not in stretches:
                stretches[number] = plant.advance(BLOCK_MS)
        self.state.now_ms += BLOCK_MS
        self._breaker.advance(BLOCK_MS / 1000.0, self._power_w())
        return [stretches[number] for number in range(len(self.plants))]

    def _run(self, spanning: SpanningJob) -> dict[int, Stretch]:
        """Advance the nodes of one job by a block."""
        plants = [self.plants[number] for number in spanning.nodes]
        for plant in plants:
            plant.begin_block()
        level = spanning.job.advance(
            BLOCK_MS,
            np.concatenate([plant.clock_ratio for plant in plants]),
            np.concatenate([plant.running for plant in plants]),
            hang=any(plant.hanging for plant in plants),
        )
        bounds = np.cumsum([plant.node.gpu_count for plant in plants])[:-1]
        parts = np.split(level, bounds, axis=1)
        return {
            number: plant.finish_block(part, job=spanning.job)
            for number, plant, part in zip(spanning.nodes, plants, parts, strict=True)
        }

    def _share(self) -> None:
        """Compute what the nodes share in the next block, and pass it to them."""
        state, time_s = self.state, self.state.now_ms / 1000.0
        values = self._timeline.at(time_s)
        if state.now_ms % _NOISE_MS == 0 and state.now_ms > 0:
            normal = float(self._chance.standard_normal())
            self._noise_k = next_noise_k(self._file.air, self._noise_k, after_s=_NOISE_MS / 1000.0, normal=normal)
        if self._timeline.breaker_closed is not None:
            self._breaker.turn(closed=self._timeline.breaker_closed)
        state.power_w = self._power_w()
        lag = -math.expm1(-BLOCK_MS / 1000.0 / self._file.air.recirculation_memory)
        state.exhaust_w += lag * (state.power_w - state.exhaust_w)
        state.breaker_closed = self._breaker.closed
        state.inlet_c = inlet_c(
            self._file.air,
            power_w=state.exhaust_w,
            noise_k=self._noise_k,
            time_s=time_s,
            crac_c=values[RackQuantity.CRAC_C],
        )
        mains = values[RackQuantity.INPUT_RATIO]
        ratio = input_ratio(self._file.feed, power_w=state.power_w, time_s=time_s, mains_ratio=mains)
        state.input_ratio = max(ratio, 0.0) if state.breaker_closed else 0.0
        for plant in self.plants:
            plant.rack_inputs.inlet_offset_k = state.inlet_c - plant.node.inlet_c
            plant.rack_inputs.input_ratio = state.input_ratio

    def _power_w(self) -> float:
        return sum(plant.state.node_power_w for plant in self.plants) / self._file.feed.efficiency


def node_seed(seed: int, number: int) -> int:
    """Return the seed of one node of a rack, so that alike nodes do not do alike."""
    return int(stream(seed, f"node {number}").integers(2**31))
