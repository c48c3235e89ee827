"""Job of each node in a step: from its scenario, else a random mix, else the node's own workload."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.files.node import NodeFile
from simulator.files.scenario import ScenarioFile
from simulator.files.workload import Workload, load_workload
from simulator.jobs.plan import job_workload

IndexArray = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMix:
    """Jobs that come and go by chance: each node keeps one for `mean_stay_s` on average, then draws the next.

    `shares` gives the share of the time of each workload; they need not sum to one.
    """

    shares: tuple[tuple[Workload, float], ...]
    mean_stay_s: float = 4.0 * 3600.0  # assumption: half a working day


class Schedule:
    """The jobs of all nodes over time.

    Parameters
    ----------
    workload
        What the nodes run in place of their own.

    Attributes
    ----------
    jobs
        Every workload that can come up; `at` gives indices into it.
    """

    def __init__(
        self,
        nodes: Sequence[NodeFile],
        scenarios: Sequence[ScenarioFile],
        *,
        workload: Workload | None,
        mix: JobMix | None,
        chance: np.random.Generator,
    ) -> None:
        self._known: dict[Workload, int] = {}
        self._chance = chance
        self._mix = mix
        self._mix_jobs = np.array([self._index(job) for job, _ in mix.shares] if mix else [], dtype=np.intp)
        self._mix_shares = np.cumsum([share for _, share in mix.shares] if mix else [])
        own = {name: load_workload(name) for name in {node.workload for node in nodes}} if workload is None else {}
        self._now: IndexArray = np.array([self._index(workload or own[node.workload]) for node in nodes], dtype=np.intp)
        self._starts = sorted(
            (start.at, self._index(job), row)
            for row, scenario in enumerate(scenarios)
            for start in scenario.jobs
            for job in (job_workload(start.workload, start.input_factor),)
        )
        self._done = 0
        self._mixed = np.array([mix is not None and not scenario.jobs for scenario in scenarios])
        if mix is not None:
            self._draw(np.ones(len(nodes), dtype=np.bool_))

    @property
    def jobs(self) -> tuple[Workload, ...]:
        """Return the workloads, by index."""
        return tuple(self._known)

    def at(self, time_s: float, step_s: float) -> IndexArray:
        """Return the job of each node in the step that begins at `time_s`, ``(n_nodes,)``; call it once per step."""
        if self._mix is not None and time_s > 0.0:
            ends = self._chance.random(len(self._now)) < -np.expm1(-step_s / self._mix.mean_stay_s)
            self._draw(ends)
        while self._done < len(self._starts) and self._starts[self._done][0] <= time_s:
            _, job, row = self._starts[self._done]
            self._now[row] = job
            self._done += 1
        return self._now

    def _draw(self, who: npt.NDArray[np.bool_]) -> None:
        drawn = self._chance.random(len(self._now)) * self._mix_shares[-1]
        job = self._mix_jobs[
            np.minimum(np.searchsorted(self._mix_shares, drawn, side="right"), len(self._mix_jobs) - 1)
        ]
        self._now = np.where(who & self._mixed, job, self._now)

    def _index(self, workload: Workload) -> int:
        return self._known.setdefault(workload, len(self._known))
