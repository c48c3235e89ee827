"""The guard of a sampling process: made out of the configuration, run in a thread of its own, watched."""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Event as Flag
from threading import Thread

from agent.actuation.client import ActuatorClient, NonBlockingClient
from agent.guard.guard import IDLE_WAKE_S, Guard
from agent.guard.judged_tables import JudgedTables, SlowTables
from agent.guard.learnt_file import BOARDS_EVERY_S, LearntFile, LearntFiles
from agent.guard.node_window import Ranges
from agent.guard.pipeline import Pipeline
from agent.guard.reflex import Reflex
from agent.guard.step_log import StepLog
from agent.guard.waking import Waking
from agent.ring.header import rows_for
from agent.ring.ring import Ring
from agent.sampler.counters import SamplerCounters
from agent.sampler.settings import SamplerSettings
from config.guard_pipeline import pipeline_settings
from config.sources import SourceUse
from railwatch.run_context import RunContext
from telemetry.clock import Clock
from telemetry.json_text import json_text
from telemetry.records import Event

logger = logging.getLogger(__name__)

# A guard that took no step for this long hangs; a step takes milliseconds, an order to the actuator at most a second.
GUARD_SILENT_S = 10.0
# Steps that the log has room for at each tick of the fast class: while a rail is low, every row of the two tables of
# rails wakes the guard. Otherwise it takes ten steps a second, and the log reaches back further than the ring.
STEPS_PER_TICK = 2


class GuardThread:
    """The guard over the tables of a ring, and what it needs.

    Parameters
    ----------
    first_rows
        Number of the first row to judge in each table: rows come while this module is still loaded.

    Attributes
    ----------
    guard
        It accepts events from any thread.
    last_step_s
        Time in which it judges the last rows and events.
    waking
        To be called for every new row.
    """

    last_step_s = 2 * IDLE_WAKE_S

    def __init__(
        self,
        context: RunContext,
        ring: Ring,
        settings: SamplerSettings,
        *,
        supported_mhz: Mapping[str, tuple[float, ...]],
        ranges: Ranges,
        clock: Clock,
        on_suspicion: Callable[[], None],
        first_rows: Mapping[str, int],
    ) -> None:
        context.clocks_path.write_text(json_text(supported_mhz), encoding="utf-8")
        context.ranges_path.write_text(json_text(ranges), encoding="utf-8")
        self._kept = _kept_in(context) / "guard.json"
        self._actuator = ActuatorClient(context.actuator_socket)
        self._journal = context.journal_writer("guard")
        self._pulse = StepClock(clock)
        sag, judged = context.config.detectors.rail_sag, JudgedTables.of(ring)
        self._line = NonBlockingClient(context.actuator_socket)
        pipeline = _pipeline(context, judged, supported_mhz, ranges)
        self._reflex = Reflex(judged.specs, self._line, clock, limits=sag)
        self.guard = Guard(
            judged.tables,
            pipeline,
            self._actuator,
            self._journal,
            self._pulse,
            snapshot_path=self._kept,
            actions_path=context.journal_path("actuator"),
            responses_path=context.journal_path("responder"),
            events_path=context.slow_events_path,
            person_path=context.person_path,
            baselines_path=context.baselines_path,
            learnt=_learnt_files(context, clock, pipeline),
            spill_dir=context.run_dir,
            steps=_step_log(context, [*judged.tables], settings),
            reflex=self._reflex,
            on_suspicion=on_suspicion,
            first_rows=first_rows,
            later=SlowTables(judged, context.slow_ring_path, clock),
        )
        _note_jobs(context, pipeline)
        self.waking = Waking(ring.tables, self.guard.wake, clock, low_v=sag.minimum_v, on_low=self._reflex.look)
        self._thread: Thread | None = None

    def register_counters(self, counters: SamplerCounters) -> None:
        """Add the counters of the reflex to those of the process."""
        counters.reflexes = lambda: self._reflex.fired
        counters.reflexes_unconfirmed = lambda: self._reflex.unconfirmed

    def start(self, stop: Flag) -> None:
        """Run the guard in a thread until the stop is requested."""
        self._thread = Thread(target=run_guard, args=(self.guard, stop, self._kept), name="guard", daemon=True)
        self._thread.start()

    @property
    def is_silent(self) -> bool:
        """True if it takes no steps any more."""
        ended = self._thread is not None and not self._thread.is_alive()
        return ended or self._pulse.age_s > GUARD_SILENT_S

    def join(self) -> None:
        """Wait up to two seconds for the last step, after the stop was requested."""
        if self._thread is not None:
            self._thread.join(2.0)

    def close(self) -> None:
        """Close the connections to the actuator, and the journal."""
        self._actuator.close()
        self._line.close()
        self._journal.close()


class StepClock:
    """Clock of the guard that notes when each step began: a step begins by reading the time of day."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked_s = clock.monotonic_s()

    @property
    def age_s(self) -> float:
        """Seconds since the guard last read the time of day."""
        return self._clock.monotonic_s() - self._asked_s

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary start."""
        return self._clock.monotonic_s()

    def utc_ns(self) -> int:
        """Nanoseconds since 1970-01-01 UTC."""
        self._asked_s = self._clock.monotonic_s()
        return self._clock.utc_ns()

    def sleep_until(self, monotonic_s: float) -> None:
        """Return at that monotonic time."""
        self._clock.sleep_until(monotonic_s)


def run_guard(guard: Guard, stop: Flag, kept: Path) -> None:
    """Run the guard until the stop is requested; a snapshot that cannot be restored is renamed."""
    try:
        guard.run(stop)
    except Exception:
        logger.exception("guard cannot restore %s; renaming it to .bad", kept)
        if kept.exists():
            kept.replace(kept.with_suffix(".bad"))


def _note_jobs(context: RunContext, pipeline: Pipeline) -> None:
    """Pass the jobs journalled so far to the pipeline: the guard follows the journal from its present end."""
    jobs: tuple[tuple[str, str], ...] | None = None
    try:
        for record in context.journal_reader("slow", context.journal_starts().get("slow")).read():
            jobs = record.job_gpus if isinstance(record, Event) and record.job_gpus is not None else jobs
    except OSError as err:
        logger.warning("cannot read jobs from the journal: %s", err)
    if jobs is not None:
        pipeline.note_jobs(jobs)


def _kept_in(context: RunContext) -> Path:
    """Return the folder for what outlasts a run; nothing of a simulated node does."""
    return context.run_dir if context.simulated else context.config.data_dir


def _learnt_files(context: RunContext, clock: Clock, pipeline: Pipeline) -> LearntFiles:
    return LearntFiles(
        LearntFile(_kept_in(context) / "learnt", clock),
        LearntFile(context.boards_path, clock, content="power curves", every_s=BOARDS_EVERY_S),
        (LearntFile(context.standing_path, clock, content="standing verdict"), pipeline.standing),
    )


def _step_log(context: RunContext, names: Sequence[str], settings: SamplerSettings) -> StepLog | None:
    if context.config.recorder.use is SourceUse.OFF:
        return None
    rows = rows_for(context.config.sampling.ring, STEPS_PER_TICK * settings.fast.rate_hz)
    return StepLog(context.steps_ring_path, names, node=context.node, simulated=context.simulated, rows=rows)


def _pipeline(
    context: RunContext, judged: JudgedTables, supported_mhz: Mapping[str, tuple[float, ...]], ranges: Ranges
) -> Pipeline:
    settings = pipeline_settings(context.config, simulated=context.simulated)
    return Pipeline(judged.specs, judged.topology, settings, supported_mhz=supported_mhz, ranges=ranges)
