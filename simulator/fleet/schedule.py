"""Job of each node in a step, from its scenario, a random mix or the node's own workload, and whether it is held."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.files.node import NodeFile
from simulator.files.scenario import ScenarioFile
from simulator.files.workload import Hpc, Training, Workload, load_workload
from simulator.jobs.plan import job_workload
from simulator.jobs.synchronous import TIMEOUT_MS
from telemetry.frames import FloatArray, MaskArray

IndexArray = npt.NDArray[np.intp]
RUNNING, STALLED, NOTHING = 0, 1, 2  # what becomes of a job
TIMEOUT_S = TIMEOUT_MS / 1000.0


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


class HeldJobs:
    """The jobs of a group of nodes that are held, ``(n_nodes,)``.

    Attributes
    ----------
    since_s
        From when on the job could not go on; NaN while it can. `TIMEOUT_S` later its framework gives up.
    """

    def __init__(self, jobs: Sequence[Workload], n_nodes: int) -> None:
        self._coupled = np.array([isinstance(job, Training | Hpc) for job in jobs])
        self.since_s: FloatArray = np.full(n_nodes, np.nan)

    def became(
        self, time_s: float, step_s: float, *, job: IndexArray, lost_s: FloatArray, hangs: MaskArray
    ) -> IndexArray:
        """Return what becomes of each node's job in a step: it runs, its GPUs spin, or its framework gave up.

        A step takes one answer, that of its middle.

        Parameters
        ----------
        job
            Index into the jobs.
        lost_s
            When the node lost a GPU that it still lacks; inf where it has all.
        hangs
            A collective would not return now.
        """
        held = self._coupled[job] & (hangs | np.isfinite(lost_s))
        since_s = np.fmin(self.since_s, np.minimum(time_s, lost_s))
        self.since_s = np.where(held, since_s, np.nan)
        given_up = time_s + 0.5 * step_s - self.since_s > TIMEOUT_S
        return np.where(held, np.where(given_up, NOTHING, STALLED), RUNNING)
