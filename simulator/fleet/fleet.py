"""The fleet: nodes and scenarios, moved on by minutes or hours, the same for the same seed."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from simulator.files.node import NodeFile
from simulator.files.scenario import ScenarioFile
from simulator.files.workload import Workload
from simulator.fleet.climate import Climate
from simulator.fleet.group import FleetConditions, Group
from simulator.fleet.losses import Drop
from simulator.fleet.schedule import IndexArray, JobMix
from simulator.fleet.stretch import ABSENT, AXES, SAMPLES, FleetSamples, FleetStretch, FleetTruth
from telemetry.frames import FloatArray

STEP_S = 3600.0
_REPAIR_S = 4.0 * 3600.0  # assumption: half a shift until the power is cut and the node started cold
_SAMPLE_AT = (0.25, 0.75)  # of a step
_NODE_DIMENSIONS = 3  # of samples that belong to a node: step, sample, node
_NOTHING_SET = ScenarioFile(name="healthy", description="Nothing changes.", kind="quiet")


class Fleet:
    """Simulated nodes, one closed form per step; see `simulator.plant.plant.Plant` for the millisecond.

    Deterministic: what comes back depends on the arguments, the settings obeyed and the steps advanced, and not on how
    these were cut into calls. Nodes of one shape are moved on together, so thousands cost little more than one.

    Parameters
    ----------
    scenarios
        One for each node, or one for all.
    step_s
        Length of a step; short against days and long against a minute of heat: 60 to 3600 s.
    climate
        Variation of air and mains around the values of node and scenario.
    workload
        What runs in place of the nodes' own.
    mix
        Jobs that come and go by chance, on nodes whose scenario names none.
    repair_s
        From the loss of a GPU to the cold start that brings it back; inf: never.

    Attributes
    ----------
    jobs
        Every workload that can come up; `FleetTruth.job` gives indices into it.
    """

    def __init__(
        self,
        nodes: Sequence[NodeFile],
        scenarios: Sequence[ScenarioFile] | ScenarioFile = _NOTHING_SET,
        *,
        seed: int,
        step_s: float = STEP_S,
        climate: Climate | None = None,
        workload: Workload | None = None,
        mix: JobMix | None = None,
        repair_s: float = _REPAIR_S,
    ) -> None:
        each = [scenarios] * len(nodes) if isinstance(scenarios, ScenarioFile) else list(scenarios)
        if not nodes or len(each) != len(nodes):
            raise ValueError(f"{len(nodes)} nodes and {len(each)} scenarios")
        if not step_s > 0.0:
            raise ValueError(f"step_s {step_s}: above zero")
        conditions = FleetConditions(
            step_s=step_s, climate=climate or Climate(), workload=workload, mix=mix, repair_s=repair_s
        )
        self._step_s = step_s
        self._done = 0
        self._rows = [np.array(rows) for rows in _shapes(nodes).values()]
        self._groups = [
            Group(
                [nodes[row] for row in rows],
                [each[row] for row in rows],
                names=[int(row) for row in rows],
                conditions=conditions,
                number=number,
                seed=seed,
            )
            for number, rows in enumerate(self._rows)
        ]
        self._n_nodes = len(nodes)
        self.n_gpus = max(node.gpu_count for node in nodes)
        self.n_units = max(len(node.supply.units) for node in nodes)
        self.jobs = tuple(dict.fromkeys(job for group in self._groups for job in group.jobs))
        self._job_index = [np.array([self.jobs.index(job) for job in group.jobs]) for group in self._groups]

    @property
    def time_s(self) -> float:
        """Return the simulated time since the start."""
        return self._done * self._step_s

    def obey(
        self, *, power_limit_w: FloatArray | float | None = None, clock_cap_mhz: FloatArray | float | None = None
    ) -> None:
        """Apply settings from the next step on; None leaves them unchanged.

        Arrays broadcast to ``(n_nodes, n_gpus)``. Inf stands for the part's default limit and its highest clock. Each
        power limit that was not there before costs a tenth of a second per job.
        """
        shape = (self._n_nodes, self.n_gpus)
        for rows, group in zip(self._rows, self._groups, strict=True):
            count = group.power_limit_w.shape[1]
            if power_limit_w is not None:
                asked_w = np.broadcast_to(power_limit_w, shape)[rows, :count]
                group.power_limit_w = np.where(np.isinf(asked_w), group.default_limit_w, asked_w)
            if clock_cap_mhz is not None:
                group.clock_cap_mhz = np.broadcast_to(clock_cap_mhz, shape)[rows, :count].copy()

    def advance(self, n_steps: int) -> FleetStretch:
        """Advance and return truth, samples and losses of the steps.

        The arrays hold about 300 bytes per step, node and GPU: ask for a day or a week at a time.
        """
        times_s: FloatArray = (self._done + np.arange(n_steps, dtype=np.float64)) * self._step_s
        truth = self._empty(FleetTruth, (n_steps,))
        samples = self._empty(FleetSamples, (n_steps, SAMPLES))
        drops: list[Drop] = []
        for number, time_s in enumerate(times_s):
            for rows, job_index, group in zip(self._rows, self._job_index, self._groups, strict=True):
                step = group.step(float(time_s))
                drops += step.drops
                for name, values in step.truth.items():
                    known = job_index[values] if name == "job" else values
                    truth[name][number][_place(rows, known)] = known
                for name, values in step.samples.items():
                    node_axis = values[..., 0] if samples[name].ndim == _NODE_DIMENSIONS else values
                    for sample in range(SAMPLES):
                        samples[name][number, sample][_place(rows, node_axis[sample])] = node_axis[sample]
        self._done += n_steps
        return FleetStretch(
            time_s=times_s,
            sample_offset_s=np.array(_SAMPLE_AT) * self._step_s,
            truth=FleetTruth(**truth),
            samples=FleetSamples(**samples),
            drops=tuple(sorted(drops, key=lambda drop: drop.time_s)),
        )

    def _empty(self, what: type[FleetTruth | FleetSamples], shape: tuple[int, ...]) -> dict[str, Any]:
        """Return arrays that are filled with what stands for absent."""
        width = {"gpu": (self.n_gpus,), "unit": (self.n_units,), "node": ()}
        return {
            field.name: np.full(
                (*shape, self._n_nodes, *width[AXES.get(field.name, "node")]), ABSENT.get(field.name, np.nan)
            )
            for field in fields(what)
        }


def _shapes(nodes: Sequence[NodeFile]) -> dict[object, list[int]]:
    """Return the places of the nodes by what must be equal within a group."""
    shapes: dict[object, list[int]] = {}
    for row, node in enumerate(nodes):
        units = tuple(unit.name for unit in node.supply.units)
        shapes.setdefault((node.gpu, node.wiring, units, node.sensors), []).append(row)
    return shapes


def _place(rows: IndexArray, values: np.ndarray) -> Any:
    """Return where a group's values go in an array of all nodes, which may be wider."""
    return rows if values.ndim == 1 else (rows, slice(0, values.shape[1]))
