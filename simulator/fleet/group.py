"""Nodes of one shape, moved on together by one closed form per step."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.files.node import NodeFile
from simulator.files.scenario import Quantity, ScenarioFile
from simulator.files.workload import Hpc, Training, Workload
from simulator.fleet.climate import Climate, Surroundings
from simulator.fleet.cooling import Coolers, Warmth, balance, fan_power_w
from simulator.fleet.cycle import REFERENCE_C
from simulator.fleet.electrics import Electrics, Loads, Outcome
from simulator.fleet.losses import Drop, DropCause, Losses
from simulator.fleet.schedule import IndexArray, JobMix, Schedule
from simulator.fleet.sensing import Moment, Sensing
from simulator.fleet.supplies import Supplies
from simulator.fleet.table import NOTHING, RUNNING, STALLED, Operation, PointTable
from simulator.fleet.timetable import Timetable
from simulator.jobs.stall import TIMEOUT_MS
from simulator.plant.chance import stream
from simulator.plant.clocks import SLOWDOWN_RATIO
from telemetry.frames import FloatArray, MaskArray

Values = dict[Quantity, FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Under which a fleet lives; see `Fleet`."""

    step_s: float
    climate: Climate
    workload: Workload | None
    mix: JobMix | None
    repair_s: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupStep:
    """One step of a group: rows of `FleetTruth` and `FleetSamples` by field, and who was lost."""

    truth: dict[str, FloatArray | MaskArray | IndexArray]
    samples: dict[str, FloatArray]
    drops: tuple[Drop, ...]


class Group:
    """Nodes with the same GPU part and sensors, and as many GPUs and supplies each.

    Parameters
    ----------
    names
        The index of each node in the fleet.
    number
        Of the group in the fleet; chance belongs to it.

    Attributes
    ----------
    power_limit_w, clock_cap_mhz
        What the driver was asked for, ``(n_nodes, n_gpus)``.
    """

    def __init__(
        self,
        nodes: Sequence[NodeFile],
        scenarios: Sequence[ScenarioFile],
        *,
        names: Sequence[int],
        conditions: Conditions,
        number: int,
        seed: int,
    ) -> None:
        def chance(what: str) -> np.random.Generator:
            return stream(seed, f"fleet {number} {what}")

        self._part = part = nodes[0].gpu
        self._n_gpus = n_gpus = nodes[0].gpu_count
        self._conditions = conditions
        self._table = PointTable(part, n_gpus)
        self._timetable = Timetable(nodes, scenarios)
        self._schedule = Schedule(
            nodes, scenarios, workload=conditions.workload, mix=conditions.mix, chance=chance("jobs")
        )
        self._surroundings = Surroundings(conditions.climate, len(nodes), chance("air"))
        self._supplies = Supplies(nodes, chance("flicker"))
        self._electrics = Electrics(part.hazard, self._supplies)
        self._losses = Losses(part.hazard, names, n_gpus, repair_s=conditions.repair_s, chance=chance("drops"))
        self._sensing = Sensing(nodes, scenarios, chance=chance("sensors"), fault_chance=chance("faults"))
        self._sample_chance = chance("samples")
        self._coolers = _coolers(nodes)
        self._preheat_k = np.array([[slot.preheat_k for slot in node.slots] for node in nodes])
        self._stopped_s = np.full(len(nodes), np.inf)
        self.jobs = self._schedule.jobs
        self._coupled = np.array([isinstance(job, Training | Hpc) for job in self.jobs])
        self.default_limit_w = part.power_limit_w.default
        self.power_limit_w = np.full((len(nodes), n_gpus), part.power_limit_w.default)
        self.clock_cap_mhz = np.full((len(nodes), n_gpus), part.clocks.max_mhz)

    def step(self, time_s: float) -> GroupStep:
        """Move on by one step that begins at `time_s`; steps must follow each other."""
        step_s = self._conditions.step_s
        values = self._timetable.at(time_s)
        drops, powered = self._begin(time_s, values)
        there = self._losses.present & powered[:, None]
        job = self._schedule.at(time_s, step_s)
        became = self._became(time_s, job, values)
        rows = self._table.rows(self.jobs, job=job, became=became, limit_w=self.power_limit_w)
        inlet_c = values[Quantity.INLET_C][:, 0] + self._surroundings.inlet_offset_k(time_s, step_s)
        clock, operation, warmth = self._settle(rows, values, inlet_c=inlet_c, there=there)
        too_hot = there & (warmth.die_c >= self._part.temperature_c.shutdown)
        drops += self._losses.lose(time_s, too_hot, DropCause.HEAT)
        there &= ~too_hot
        loads = self._loads(rows, clock, operation, warmth, values=values, there=there, powered=powered)
        contact_mohm = values[Quantity.CONTACT_MOHM]
        outcome = self._electrics.carry(loads, offset_v=self._losses.offset_v, contact_mohm=contact_mohm)
        drops += self._losses.advance(time_s, step_s, outcome.drop_rate_per_s)
        self._supplies.age(outcome.mean_square_a2, step_s, values[Quantity.AGEING])
        alive = powered & self._supplies.on.any(axis=1)
        answering = there & (values[Quantity.DRIVER] > 0.0)
        moment = self._moment(loads, outcome, warmth, inlet_c=inlet_c, answering=answering, powered=alive)
        samples = self._sensing.read(time_s, moment)
        mhz = np.where(answering, operation.mean_mhz, np.nan)
        samples["gpu_clock_mhz"] = np.broadcast_to(mhz, loads.sample_w.shape)
        truth = self._truth(loads, outcome, warmth, inlet_c=inlet_c, powered=powered)
        running = (became == RUNNING) & alive
        truth |= {
            "pace_ratio": operation.pace_ratio * running,
            "steps_per_s": operation.steps_per_s * running,
            "job": job,
        }
        return GroupStep(truth=truth, samples=samples, drops=drops)

    def _begin(self, time_s: float, values: Values) -> tuple[tuple[Drop, ...], MaskArray]:
        """Decide which supplies, nodes and GPUs there are; give losses that a scenario asks for, and who has power."""
        self._supplies.reset(self._losses.due(time_s))
        asked = values[Quantity.POWERED][:, 0] > 0.0
        self._supplies.begin(values, input_ratio=self._surroundings.input_ratio(time_s), powered=asked)
        powered = asked & self._supplies.on.any(axis=1)
        return self._losses.begin(time_s, powered=powered, wanted=values[Quantity.PRESENT] > 0.0), powered

    def _loads(
        self,
        rows: IndexArray,
        clock: IndexArray,
        operation: Operation,
        warmth: Warmth,
        *,
        values: Values,
        there: MaskArray,
        powered: MaskArray,
    ) -> Loads:
        fans_w = fan_power_w(self._coolers, duty=warmth.duty, turning=values[Quantity.FANS][:, 0])
        excess_k = warmth.die_c - REFERENCE_C
        return Loads(
            level_w=(operation.level_w + operation.leak_w_per_k * excess_k[:, :, None]) * there[:, :, None],
            start_w=(operation.start_w + operation.leak_w_per_k[:, :, 0] * excess_k) * there,
            sample_w=self._sampled_w(rows, clock, operation, values, excess_k) * there,
            other_w=(values[Quantity.OTHER_POWER_W][:, 0] + fans_w) * powered,
            operation=operation,
            there=there,
        )

    def _moment(
        self,
        loads: Loads,
        outcome: Outcome,
        warmth: Warmth,
        *,
        inlet_c: FloatArray,
        answering: MaskArray,
        powered: MaskArray,
    ) -> Moment:
        return Moment(
            gpu_power_w=loads.sample_w,
            gpu_temp_c=warmth.die_c[None],
            hbm_temp_c=warmth.memory_c[None],
            rail_v=outcome.sample_v[:, :, None],
            output_v=outcome.sample_output_v,
            current_a=outcome.sample_a,
            joint_c=(inlet_c[:, None] + self._supplies.rise_k)[None],
            inlet_c=inlet_c[None, :, None],
            node_power_w=outcome.sample_node_w[:, :, None],
            answering=answering,
            powered=powered,
        )

    def _truth(
        self, loads: Loads, outcome: Outcome, warmth: Warmth, *, inlet_c: FloatArray, powered: MaskArray
    ) -> dict[str, FloatArray | MaskArray | IndexArray]:
        mean_w = loads.operation.mean_w(loads.level_w)
        return {
            "v_min_v": outcome.v_min_v,
            "busy_v": outcome.busy_v,
            "quiet_v": outcome.quiet_v,
            "node_power_w": mean_w.sum(axis=1) + loads.other_w,
            "source_power_w": outcome.source_w,
            "loss_w": outcome.loss_w,
            "inlet_c": inlet_c,
            "fan_ratio": warmth.duty * powered,
            "drop_rate_per_s": outcome.drop_rate_per_s,
            "power_w": mean_w,
            "start_w": loads.start_w,
            "die_c": warmth.die_c,
            "clock_mhz": loads.operation.mean_mhz,
            "present": self._losses.present & powered[:, None],
            "current_a": np.sqrt(outcome.mean_square_a2),
            "joint_mohm": self._supplies.joint_mohm,
            "joint_c": inlet_c[:, None] + self._supplies.rise_k,
            "supply_on": self._supplies.on,
        }

    def _became(self, time_s: float, job: IndexArray, values: Values) -> IndexArray:
        """Tell what became of each node's job: it runs, it spins, or its framework gave up."""
        half_s = 0.5 * self._conditions.step_s
        lost = ~self._losses.present.all(axis=1)
        stopped = self._coupled[job] & (lost | (values[Quantity.HANG][:, 0] > 0.0))
        since_s = np.minimum(self._stopped_s, np.minimum(time_s, self._losses.lost_s))
        self._stopped_s = np.where(stopped, since_s, np.inf)
        given_up = time_s + half_s - self._stopped_s > TIMEOUT_MS / 1000.0
        became = np.where(stopped, np.where(given_up, NOTHING, STALLED), RUNNING)
        nothing = (values[Quantity.DRIVER][:, 0] <= 0.0) | (values[Quantity.LEVEL][:, 0] <= 0.0)
        return np.where(nothing, NOTHING, became)

    def _settle(
        self, rows: IndexArray, values: Values, *, inlet_c: FloatArray, there: MaskArray
    ) -> tuple[IndexArray, Operation, Warmth]:
        """Give clocks, operation and temperatures; heat takes clocks down to where the part stays below its limit."""
        braked = values[Quantity.POWER_BRAKE] > 0.0
        cap_mhz = np.minimum(self.clock_cap_mhz, self._part.clocks.max_mhz)
        clock = self._table.clock_index(np.where(braked, cap_mhz * SLOWDOWN_RATIO, cap_mhz))
        operation, warmth = self._warm(rows, clock, values, inlet_c=inlet_c, there=there)
        limit_c = float(self._part.temperature_c.gpu_max)
        hot = there & (warmth.die_c > limit_c)
        if not hot.any():
            return clock, operation, warmth
        air_c = inlet_c[:, None] + self._preheat_k
        leak_w = operation.mean_w(operation.leak_w_per_k) * (limit_c - REFERENCE_C)
        allowed_w = (limit_c - air_c) / warmth.to_air_k_per_w - leak_w
        clock = clock.copy()
        clock[hot] = np.minimum(clock[hot], self._table.hottest_index(rows[hot], allowed_w[hot]))
        return clock, *self._warm(rows, clock, values, inlet_c=inlet_c, there=there)

    def _warm(
        self, rows: IndexArray, clock: IndexArray, values: Values, *, inlet_c: FloatArray, there: MaskArray
    ) -> tuple[Operation, Warmth]:
        operation = self._table.operation(rows, clock, values[Quantity.LEVEL][:, 0])
        warmth = balance(
            self._coolers,
            air_c=inlet_c[:, None] + self._preheat_k,
            power_w=operation.mean_w(operation.level_w) * there,
            leak_w_per_k=operation.mean_w(operation.leak_w_per_k) * there,
            interface_k_per_w=values[Quantity.INTERFACE_K_PER_W],
            turning=values[Quantity.FANS][:, 0],
        )
        return operation, warmth

    def _sampled_w(
        self, rows: IndexArray, clock: IndexArray, operation: Operation, values: Values, excess_k: FloatArray
    ) -> FloatArray:
        """Give the power of each GPU at the samples of a step, ``(SAMPLES, n_nodes, n_gpus)``.

        Where the job keeps its GPUs together, one sample is busy and one quiet; else each GPU follows its own chance.
        """
        together = self._table.together(rows)
        drawn = self._sample_chance.random((2, *rows.shape))
        common = np.where(together, drawn[:, :, :1], drawn)
        busy = operation.shares[:, :-1].sum(axis=1)[:, None]
        within = self._table.level_at(common[0])
        last = operation.shares.shape[1] - 1
        other = np.where(common[1] < busy, self._table.level_at(common[1] / np.maximum(busy, 1e-9)), last)
        alone = np.where(common[0] < busy, self._table.level_at(common[0] / np.maximum(busy, 1e-9)), last)
        levels = (np.where(together, within, alone), np.where(together, last, other))
        scale = values[Quantity.LEVEL][:, 0]
        nodes, gpus = np.ogrid[: rows.shape[0], : rows.shape[1]]
        return np.stack(
            [
                self._table.own_w(rows, clock, level, scale) + operation.leak_w_per_k[nodes, gpus, level] * excess_k
                for level in levels
            ]
        )


def _coolers(nodes: Sequence[NodeFile]) -> Coolers:
    path = nodes[0].gpu.heat
    return Coolers(
        target_c=np.array([node.cooling.target_c for node in nodes]),
        min_ratio=np.array([node.cooling.min_ratio for node in nodes]),
        max_w=np.array([node.cooling.max_w for node in nodes]),
        junction_k_per_w=path.junction_k_per_w,
        heatsink_k_per_w=path.heatsink_k_per_w,
        heatsink_exponent=path.heatsink_exponent,
    )
