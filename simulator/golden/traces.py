"""The simulated runs behind the golden table, each done once."""

from dataclasses import dataclass, replace

import numpy as np

from simulator.files.node import NodeFile, load_node
from simulator.files.scenario import Change, Quantity, ScenarioFile, load_scenario
from simulator.files.workload import Workload, load_workload
from simulator.golden.table import GoldenRun, GoldenTable
from simulator.plant.plant import Plant
from simulator.plant.state import PlantNodeState
from telemetry.frames import FloatArray

STATIC_MS = 500  # longer than any transient of the supplies


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GoldenTrace:
    """Traces of a run after its warm-up, one row per millisecond, and the state at its end."""

    node: NodeFile
    power_w: FloatArray  # (n, n_gpus)
    level: FloatArray  # (n, n_gpus)
    voltage_v: FloatArray  # (n,)
    current_a: FloatArray  # (n, n_supplies)
    state: PlantNodeState

    @property
    def node_w(self) -> FloatArray:
        """Return the power of the node at its terminals, shape ``(n,)``."""
        node_w: FloatArray = self.voltage_v * self.current_a.sum(axis=1)
        return node_w


class Traces:
    """The runs of a table by name; each is simulated when it is first asked for, and kept."""

    def __init__(self, table: GoldenTable) -> None:
        self._runs = table.runs
        self._known: dict[str, GoldenTrace] = {}

    def of(self, name: str) -> GoldenTrace:
        """Return a run of the table."""
        if name not in self._known:
            self._known[name] = trace_of(self._runs[name])
        return self._known[name]

    def run(self, name: str) -> GoldenRun:
        """Return the setup of a run."""
        return self._runs[name]


def trace_of(run: GoldenRun) -> GoldenTrace:
    """Simulate one run."""
    plant = plant_of(run)
    n_gpus = plant.state.gpus.present.size
    if run.power_limit_w is not None:
        plant.obey(replace(plant.settings, power_limit_w=np.full(n_gpus, run.power_limit_w)))
    if run.clock_mhz is not None:
        plant.obey(replace(plant.settings, app_clock_mhz=np.full(n_gpus, run.clock_mhz)))
    plant.advance(round(1000.0 * run.warm_up))
    stretch = plant.advance(round(1000.0 * run.length))
    return GoldenTrace(
        node=node_of(run),
        power_w=stretch.power_w,
        level=stretch.level,
        voltage_v=stretch.voltage_v,
        current_a=stretch.current_a,
        state=plant.state,
    )


def static_trace(run: GoldenRun, node_power_w: float) -> GoldenTrace:
    """Simulate the node of a run under a load that does not move, by a dummy load beside idle GPUs."""

    def loaded(other_w: float) -> GoldenTrace:
        quiet = (
            Change.model_validate({"at": "0s", "what": f"load.{Quantity.LEVEL}", "to": 0.0}),
            Change.model_validate({"at": "0s", "what": f"node.{Quantity.OTHER_POWER_W}", "to": other_w}),
        )
        length_s = STATIC_MS / 1000.0
        return trace_of(run.model_copy(update={"changes": quiet, "warm_up": length_s, "length": length_s}))

    rest_w = node_power_w - float(loaded(node_power_w).node_w.mean())
    return loaded(node_power_w + rest_w)


def node_of(run: GoldenRun) -> NodeFile:
    """Return the node of a run: as in its file, but for drops and for GPUs that take no part."""
    node = load_node(run.node)
    gpu = node.gpu.model_copy(update={"hazard": node.gpu.hazard.model_copy(update={"rate_per_s": 0.0})})
    taking_part = node.gpu_count if run.gpus is None else run.gpus
    return node.model_copy(
        update={
            "gpu": gpu,
            "slots": node.slots[:taking_part],
            "other_power_w": node.other_power_w + (node.gpu_count - taking_part) * gpu.power.idle_w,
        }
    )


def scenario_of(run: GoldenRun) -> ScenarioFile:
    """Return what changes in a run: its scenario, and its own changes after that."""
    scenario = ScenarioFile(name="golden", description="A run of the golden table.", kind="quiet")
    if run.scenario is not None:
        scenario = load_scenario(run.scenario, node_of(run))
    return scenario.model_copy(update={"changes": (*scenario.changes, *run.changes)})


def plant_of(run: GoldenRun) -> Plant:
    """Return the plant of a run, at its start."""
    workload: Workload | None = None if run.workload is None else load_workload(run.workload)
    return Plant(node_of(run), scenario_of(run), run.seed, workload=workload)
