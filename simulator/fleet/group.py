"""Nodes of one shape, moved on together by one closed form per step."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.files.node import NodeFile
from simulator.files.scenario import Quantity, ScenarioFile
from simulator.files.workload import Workload
from simulator.fleet.climate import Climate, Surroundings
from simulator.fleet.electrics import Electrics, RailResponse, StepLoads
from simulator.fleet.losses import Drop, DropCause, GpuLosses
from simulator.fleet.schedule import NOTHING, RUNNING, HeldJobs, IndexArray, JobMix, Schedule
from simulator.fleet.sensing import FleetSensors, TrueValues
from simulator.fleet.settling import DRAWS, SteadyState, SteadyStateSolver, Values, sampled_w
from simulator.fleet.supplies import Supplies
from simulator.fleet.table import OperatingPointTable
from simulator.plant.chance import stream
from simulator.plant.cooling import fan_power_w
from simulator.plant.timeline import PlantTimetable
from telemetry.frames import FloatArray, MaskArray


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetConditions:
    """Under which a fleet lives; see `Fleet`."""

    step_s: float
    climate: Climate
    workload: Workload | None
    mix: JobMix | None
    repair_s: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupStep:
    """Step of a group: rows of `FleetTruth` and `FleetSamples` by field, and who was lost."""

    truth: dict[str, FloatArray | MaskArray | IndexArray]
    samples: dict[str, FloatArray]
    drops: tuple[Drop, ...]


class Group:
    """Nodes with the same GPU part and sensors, as many GPUs and supplies each, and the same wiring.

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
        conditions: FleetConditions,
        number: int,
        seed: int,
    ) -> None:
        def chance(what: str) -> np.random.Generator:
            return stream(seed, f"fleet {number} {what}")

        self._part = part = nodes[0].gpu
        wiring = nodes[0].wiring
        n_gpus = nodes[0].gpu_count
        self._bus_of_gpu, self._bus_of_supply = list(wiring.of_gpu), list(wiring.of_supply)
        self._board_bus = wiring.of_rest
        self._conditions = conditions
        self._table = OperatingPointTable(part, n_gpus)
        self._timetable = PlantTimetable(nodes, scenarios)
        self._schedule = Schedule(
            nodes, scenarios, workload=conditions.workload, mix=conditions.mix, chance=chance("jobs")
        )
        self._surroundings = Surroundings(conditions.climate, len(nodes), chance("air"))
        self._supplies = Supplies(nodes, chance("flicker"))
        self._electrics = Electrics(part.hazard, self._supplies, wiring)
        self._losses = GpuLosses(
            part.hazard, names, wiring.of_gpu, repair_s=conditions.repair_s, chance=chance("drops")
        )
        self._sensing = FleetSensors(nodes, scenarios, chance=chance("sensors"), fault_chance=chance("faults"))
        self._sample_chance = chance("samples")
        self._settling = SteadyStateSolver(nodes, self._table)
        self._fans_w = np.array([node.cooling.max_w for node in nodes])
        self.jobs = self._schedule.jobs
        self._stops = HeldJobs(self.jobs, len(nodes))
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
        settled = self._settling.settle(rows, self.clock_cap_mhz, values, inlet_c=inlet_c, there=there)
        too_hot = there & (settled.warmth.die_c >= self._part.temperature_c.shutdown)
        drops += self._losses.lose(time_s, too_hot, DropCause.HEAT)
        there &= ~too_hot
        loads = self._loads(settled, values, there=there, powered=powered)
        contact_mohm = values[Quantity.CONTACT_MOHM]
        outcome = self._electrics.carry(loads, offset_v=self._losses.offset_v, contact_mohm=contact_mohm)
        fed = self._supplies.fed()
        alive = powered & fed[:, self._board_bus]  # where the last supply of the board tripped, the node is dark
        drops += self._losses.advance(
            time_s, step_s, outcome.drop_rate_per_s * (alive[:, None] & fed[:, self._bus_of_gpu])
        )
        self._supplies.age(outcome.mean_square_a2, step_s, values[Quantity.AGEING])
        answering = there & (values[Quantity.DRIVER] > 0.0)
        moment = self._moment(loads, outcome, settled, inlet_c=inlet_c, answering=answering, powered=alive)
        samples = self._sensing.read(time_s, moment)
        mhz = np.where(answering, settled.operation.mean_mhz, np.nan)
        samples["gpu_clock_mhz"] = np.broadcast_to(mhz, loads.sample_w.shape)
        truth = self._truth(loads, outcome, settled, inlet_c=inlet_c, powered=alive)
        running = (became == RUNNING) & alive
        truth |= {
            "pace_ratio": settled.operation.pace_ratio * running,
            "steps_per_s": settled.operation.steps_per_s * running,
            "job": job,
            "stopped_s": self._stops.since_s,
        }
        return GroupStep(truth=truth, samples=samples, drops=drops)

    def _begin(self, time_s: float, values: Values) -> tuple[tuple[Drop, ...], MaskArray]:
        """Decide which supplies, nodes and GPUs there are; give losses that a scenario asks for, and who has power."""
        self._supplies.reset(self._losses.due(time_s))
        asked = values[Quantity.POWERED][:, 0] > 0.0
        self._supplies.begin(values, input_ratio=self._surroundings.input_ratio(time_s), powered=asked)
        fed = self._supplies.fed()
        powered = asked & fed[:, self._board_bus]
        wanted = (values[Quantity.PRESENT] > 0.0) & fed[:, self._bus_of_gpu]  # a GPU without power is off its bus
        return self._losses.begin(time_s, powered=powered, wanted=wanted), powered

    def _became(self, time_s: float, job: IndexArray, values: Values) -> IndexArray:
        """Return what became of each node's job: it runs, it spins, or nothing does."""
        lost_s = np.where(self._losses.present.all(axis=1), np.inf, self._losses.lost_s)
        hangs = values[Quantity.HANG][:, 0] > 0.0
        became = self._stops.became(time_s, self._conditions.step_s, job=job, lost_s=lost_s, hangs=hangs)
        nothing = (values[Quantity.DRIVER][:, 0] <= 0.0) | (values[Quantity.LEVEL][:, 0] <= 0.0)
        return np.where(nothing, NOTHING, became)

    def _loads(self, settled: SteadyState, values: Values, *, there: MaskArray, powered: MaskArray) -> StepLoads:
        """Return what the nodes ask for: power at 50 degC and what leaks above that, fans and everything else."""
        operation, excess_k = settled.operation, settled.excess_k
        fans_w = fan_power_w(self._fans_w, ratio=settled.warmth.duty, turning=values[Quantity.FANS][:, 0])
        drawn = self._sample_chance.random((DRAWS, *there.shape))
        return StepLoads(
            level_w=(operation.level_w + operation.leak_w_per_k * excess_k[:, :, None]) * there[:, :, None],
            start_w=(operation.start_w + operation.leak_w_per_k[:, :, 0] * excess_k) * there,
            sample_w=sampled_w(self._table, settled, drawn, scale=values[Quantity.LEVEL][:, 0]) * there,
            other_w=(values[Quantity.OTHER_POWER_W][:, 0] + fans_w) * powered,
            operation=operation,
            there=there,
        )

    def _moment(
        self,
        loads: StepLoads,
        outcome: RailResponse,
        settled: SteadyState,
        *,
        inlet_c: FloatArray,
        answering: MaskArray,
        powered: MaskArray,
    ) -> TrueValues:
        return TrueValues(
            gpu_power_w=loads.sample_w,
            gpu_temp_c=settled.warmth.die_c[None],
            hbm_temp_c=settled.warmth.memory_c[None],
            rail_v=outcome.sample_bus_v[:, :, self._bus_of_supply],
            board_v=outcome.sample_bus_v[:, :, [self._board_bus]],
            output_v=outcome.sample_output_v,
            current_a=outcome.sample_a,
            joint_c=(inlet_c[:, None] + self._supplies.rise_k)[None],
            inlet_c=inlet_c[None, :, None],
            node_power_w=outcome.sample_node_w[:, :, None],
            answering=answering,
            powered=powered,
        )

    def _truth(
        self, loads: StepLoads, outcome: RailResponse, settled: SteadyState, *, inlet_c: FloatArray, powered: MaskArray
    ) -> dict[str, FloatArray | MaskArray | IndexArray]:
        mean_w = loads.operation.mean_w(loads.level_w) * powered[:, None]
        return {
            "v_min_v": outcome.v_min_v,
            "busy_v": outcome.busy_v,
            "quiet_v": outcome.quiet_v,
            "node_power_w": mean_w.sum(axis=1) + loads.other_w * powered,
            "source_power_w": outcome.source_w,
            "loss_w": outcome.loss_w,
            "inlet_c": inlet_c,
            "fan_ratio": settled.warmth.duty * powered,
            "drop_rate_per_s": outcome.drop_rate_per_s * powered[:, None],
            "power_w": mean_w,
            "start_w": loads.start_w * powered[:, None],
            "die_c": settled.warmth.die_c,
            "clock_mhz": loads.operation.mean_mhz,
            "present": self._losses.present & powered[:, None],
            "current_a": np.sqrt(outcome.mean_square_a2),
            "joint_mohm": self._supplies.joint_mohm,
            "joint_c": inlet_c[:, None] + self._supplies.rise_k,
            "supply_on": self._supplies.on,
        }
