"""The plant: a node and a scenario, moved on in milliseconds, the same for the same seed."""

from dataclasses import dataclass

import numpy as np

from simulator.files.node import NodeFile
from simulator.files.scenario import Quantity, ScenarioFile
from simulator.files.scenario_names import PIN_QUANTITIES
from simulator.files.workload import Workload, load_workload
from simulator.jobs.plan import JobPlan
from simulator.jobs.port import Job
from simulator.plant.buses import bus_loads_w
from simulator.plant.clocks import Settings
from simulator.plant.driver_counters import SPINNING, DriverCounters, pipe_shares
from simulator.plant.events import PlantEvent, PlantEventKind
from simulator.plant.failures import NodeFailures
from simulator.plant.feed import Feed
from simulator.plant.gpu_modules import GpuModules
from simulator.plant.starting import starting_state
from simulator.plant.state import Stretch, joined, no_stretch
from simulator.plant.timeline import Timeline
from telemetry.frames import FloatArray, MaskArray

BLOCK_MS = 10
SETTLING_MS = 5000  # many times the memory of the power-cap loop, a few of the usual steps
_UNDISTURBED = ScenarioFile(name="undisturbed", description="Nothing happens.", kind="quiet")


@dataclass(slots=True, kw_only=True)
class RackInputs:
    """Inputs that a rack adds to the scenario; the coupling of nodes sets it before each block."""

    inlet_offset_k: float = 0.0
    input_ratio: float = 1.0


class Plant:
    """A simulated node.

    Deterministic: the state depends on node, scenario, seed, workload, the settings obeyed, the surroundings and the
    milliseconds advanced, and not on how these were cut into calls. It moves in blocks of 10 ms; a rest waits for the
    next call. What a scenario changes, a trip or a drop acts from the block after it on.

    Parameters
    ----------
    workload
        What runs before the first job of the scenario; None: what the node file names.

    Attributes
    ----------
    state
        The truth at `state.now_ms`, always the same object.
    settings
        What the driver was asked for; a driver that is loaded anew begins with its own.
    surroundings
        What neighbours do to this node.
    job
        What ran in the last block.
    """

    def __init__(self, node: NodeFile, scenario: ScenarioFile, seed: int, *, workload: Workload | None = None) -> None:
        default = load_workload(node.workload) if workload is None else workload
        self.node = node
        self._wiring = node.wiring
        self._bus_of_gpu = np.array(self._wiring.of_gpu, dtype=np.intp)
        self.settings = default_settings(node)
        self.rack_inputs = RackInputs()
        self._seed, self._workload = seed, default
        self._timeline = Timeline(node, scenario)
        self._values = self._timeline.at(0.0)
        self._plan = JobPlan(scenario, default, node, seed)
        self.job: Job = self._plan.at(0.0)
        self._modules = GpuModules(node, self._values, workload=default, block_ms=BLOCK_MS, seed=seed)
        self.state = starting_state(node, self._values, power_w=self._modules.power_w)
        gpu_w = np.tile(self._modules.power_w, (BLOCK_MS, 1))
        load_w = bus_loads_w(self._wiring, gpu_w, self._modules.other_w(self._values))
        self._feed = Feed(node, self._values, load_w=load_w, block_ms=BLOCK_MS, seed=seed)
        self._counters = DriverCounters(node)
        self._failing = NodeFailures(node, seed=seed)
        self._events: list[PlantEvent] = []
        self._owed_ms = 0
        self.state.job = self.job.workload.name
        self._show()

    def obey(self, settings: Settings) -> None:
        """Apply settings from the next block on."""
        self.settings = settings

    def settle(self) -> None:
        """Start as if the job had run for some seconds under the settings in force, and as a step of it begins.

        Without it the loop of a power limit begins at rest, and the first step of a job is none of its usual ones.
        Nothing that the scenario does has happened yet, and nothing fails meanwhile.

        Raises
        ------
        ValueError
            The plant has moved already.
        """
        if self.state.now_ms > 0:
            raise ValueError("a plant settles before its first block")
        hazard = self.node.gpu.hazard.model_copy(update={"rate_per_s": 0.0})
        gpu = self.node.gpu.model_copy(update={"hazard": hazard})
        inlet_c = self.node.inlet_c + self.rack_inputs.inlet_offset_k  # heat begins in balance with the air
        node = self.node.model_copy(update={"gpu": gpu, "inlet_c": inlet_c})
        twin = Plant(node, _UNDISTURBED, self._seed, workload=self._workload)
        twin.obey(self.settings)
        twin.rack_inputs.input_ratio = self.rack_inputs.input_ratio
        twin.advance(SETTLING_MS)
        steps, until_ms = twin.state.steps, twin.state.now_ms + SETTLING_MS
        while twin.state.steps == steps and twin.state.now_ms < until_ms:
            twin.advance(BLOCK_MS)
        self._modules = twin._modules
        self._modules.show(self.state)

    def advance(self, n_ms: int) -> Stretch:
        """Advance and return the truth of the blocks that were completed, perhaps none."""
        self._owed_ms += n_ms
        blocks = []
        while self._owed_ms >= BLOCK_MS:
            self._owed_ms -= BLOCK_MS
            self.begin_block()
            blocks.append(self.finish_block(self._level()))
        if not blocks:
            return no_stretch(
                n_gpus=self.node.gpu_count,
                n_supplies=len(self.node.supply.units),
                n_buses=len(self._wiring.buses),
            )
        return joined(blocks)

    def begin_block(self) -> None:
        """Decide what holds for the next block: what the scenario changes, who is there, and the clocks."""
        state = self.state
        now_ms = state.now_ms
        values = self._values = self._timeline.at(now_ms / 1000.0)
        state.inlet_c = float(values[Quantity.INLET_C][0]) + self.rack_inputs.inlet_offset_k
        self._events += self._feed.follow(
            now_ms, values, feed_ratio=self.rack_inputs.input_ratio, changed=self._timeline.changed
        )
        fed = self._feed.fed
        wanted = (values[Quantity.PRESENT] > 0.0) & fed[self._bus_of_gpu]  # a GPU without power is off its bus
        self._switch(powered=bool(values[Quantity.POWERED][0] > 0.0 and fed[self._wiring.of_rest]), wanted=wanted)
        self._load_driver(loaded=bool(state.powered and values[Quantity.DRIVER][0] > 0.0))
        if state.powered:
            self._failing.take_out(now_ms, state.gpus, wanted=wanted)
        if self.node.connector is not None:
            state.gpus.pin_mohm = np.stack([values[quantity] for quantity in PIN_QUANTITIES], axis=1)
        self._modules.decide(self.settings, state.gpus, brake=values[Quantity.POWER_BRAKE])

    def finish_block(self, level: FloatArray, *, job: Job | None = None) -> Stretch:
        """Carry the load through a block and return its truth.

        Parameters
        ----------
        level
            What the job makes of the GPUs, ``(BLOCK_MS, n_gpus)``, before the scenario scales it; ignored for GPUs that
            cannot work.
        job
            Whose load that is, where it is not this node's own, as for a job that spans nodes.
        """
        state, values = self.state, self._values
        start_ms, gpus = state.now_ms, state.gpus
        job = self._follow(self._plan.at(start_ms / 1000.0) if job is None else job)
        level = level * (values[Quantity.LEVEL][0] * self.running)
        asked_w = self._modules.carry(level, gpus, input_factor=job.workload.input_factor, powered=state.powered)
        other_w = self._modules.other_w(values) if state.powered else 0.0
        load_w = bus_loads_w(self._wiring, asked_w, other_w)
        rails, events = self._feed.advance(start_ms, load_w, powered=state.powered)
        served = rails.served_ratio
        power_w = asked_w if isinstance(served, float) else asked_w * served[:, self._bus_of_gpu]
        gpu_v = rails.bus_v[:, self._bus_of_gpu]
        state.now_ms = start_ms + BLOCK_MS
        mean_w = self._modules.finish(state, values, power_w=power_w, level=level, voltage_v=gpu_v)
        self._count(job, mean_w=mean_w, level=level)
        if self._feed.collapsed.any():
            self._failing.collapse(state.now_ms - 1, gpus.present & self._feed.collapsed[self._bus_of_gpu])
        events += self._failing.advance(start_ms, state, values, power_w=power_w, voltage_v=gpu_v, job=job)
        self._events += events
        self._show()
        clock_mhz = np.empty_like(power_w)
        clock_mhz[:] = gpus.clock_mhz
        return Stretch(
            time_ms=np.arange(start_ms, state.now_ms),
            power_w=power_w,
            level=level,
            clock_mhz=clock_mhz,
            bus_v=rails.bus_v,
            current_a=rails.current_a,
        )

    def take_events(self) -> tuple[PlantEvent, ...]:
        """Return the events since the last call, in the order of time."""
        events, self._events = self._events, []
        return tuple(sorted(events, key=lambda event: event.time_ms))

    @property
    def running(self) -> MaskArray:
        """Return the GPUs that can work: on their bus, powered, driver loaded."""
        state = self.state
        running: MaskArray = state.gpus.present & (state.powered and state.driver_loaded)
        return running

    @property
    def hanging(self) -> bool:
        """Return True if a collective would not return now; a job that spans nodes checks all of them."""
        return self._failing.hangs(self._values)

    @property
    def clock_ratio(self) -> FloatArray:
        """Return each GPU's clock over the part's highest."""
        ratio: FloatArray = self.state.gpus.clock_mhz / self.node.gpu.clocks.max_mhz
        return ratio

    def _level(self) -> FloatArray:
        job = self._plan.at(self.state.now_ms / 1000.0)
        return job.advance(BLOCK_MS, self.clock_ratio, self.running, hang=self.hanging)

    def _follow(self, job: Job) -> Job:
        if job is not self.job:
            self.job = job
            self.state.job = job.workload.name
            self.state.job_number += 1
            self._events.append(PlantEvent(time_ms=self.state.now_ms, kind=PlantEventKind.JOB_STARTED))
        return job

    def _switch(self, *, powered: bool, wanted: MaskArray) -> None:
        """Follow the power of the node; when it returns, GPUs that fell off are back if they are `wanted`."""
        state = self.state
        if powered == state.powered:
            return
        state.powered = powered
        kind = PlantEventKind.POWER_ON if powered else PlantEventKind.POWER_OFF
        self._events.append(PlantEvent(time_ms=state.now_ms, kind=kind))
        if powered:
            self._failing.cold_start(state.gpus, wanted=wanted)
            self._feed.power_on()
            self._modules.power_on()
        else:
            state.gpus.present = np.zeros_like(state.gpus.present)
            state.driver_loaded = False
            self._modules.power_off()

    def _load_driver(self, *, loaded: bool) -> None:
        """Follow the driver; one that is loaded anew knows nothing of settings and counts before."""
        state = self.state
        if loaded == state.driver_loaded:
            return
        state.driver_loaded = loaded
        kind = PlantEventKind.DRIVER_LOADED if loaded else PlantEventKind.DRIVER_UNLOADED
        self._events.append(PlantEvent(time_ms=state.now_ms, kind=kind))
        if loaded:
            self.settings = default_settings(self.node)
            self._modules.load_driver()
            self._counters.reset(state.gpus)

    def _count(self, job: Job, *, mean_w: FloatArray, level: FloatArray) -> None:
        gone = job.dead or not self.state.driver_loaded
        share = 0.0 if gone else job.workload.memory_share
        self._counters.add(
            self.state.gpus,
            mean_w=mean_w,
            level=level,
            moving=not (gone or job.hung),
            memory_share=share,
            pipes=SPINNING if job.hung else pipe_shares(job.workload, self.node.gpu.architecture),
        )

    def _show(self) -> None:
        self._feed.show(self.state)
        self._modules.show(self.state)


def default_settings(node: NodeFile) -> Settings:
    """Return the settings of a driver that was just loaded."""
    count = node.gpu_count
    return Settings(
        power_limit_w=np.full(count, node.gpu.power_limit_w.default),
        app_clock_mhz=np.full(count, np.inf),
        locked_mhz=np.full(count, np.inf),
        locked_min_mhz=np.zeros(count),
    )
