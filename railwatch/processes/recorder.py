"""The recorder process: keeps the last minutes on disk and writes a recording of each trigger."""

import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from threading import Event as Flag
from typing import Any

from agent.collectors.events.kernel_log import KernelLog, StartPosition
from agent.recorder.black_box import BlackBox
from agent.recorder.entries import BoxEntry, EntryKind
from agent.recorder.record_follower import LineSource, RawLineParser, RecordFollower
from agent.recorder.recorder import Recorder, RunFacts
from agent.recorder.recording_folder import RecordingFolder, RecordingJob
from agent.recorder.recovery import recovered, remaining_entries, runs_in
from agent.recorder.row_follower import RowFollower, state_of
from agent.recorder.triggers import BY_HAND, Trigger
from agent.recorder.writing import JobResult, RecordingWriter
from config.sources import SourceUse
from railwatch.processes.child import Ready, run_child
from railwatch.recorded_run import JOURNAL, run_meta
from railwatch.run_context import RunContext, box_dir, left_dir, recordings_dir, wishes_dir
from telemetry.atomic_files import replace_file
from telemetry.clock import Clock, SystemClock
from telemetry.errors import RailwatchError
from telemetry.json_text import json_bytes
from telemetry.record_journal import RecordJournalReader, RecordJournalWriter
from telemetry.records import Event, EventKind, Record, Severity

logger = logging.getLogger(__name__)

# Least time between two looks at the journals. A window is cut by the time of its trigger, so no row is missed.
LOOK_S = 0.5
# Journals to follow; the guard's contains the events of slow sources.
FOLLOWED = ("guard", "actuator", "responder")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Packing a minute of eight GPUs takes some seconds; `railwatch.run` waits a little longer.
END_S = 15.0


class RecordingReporter:
    """Reporter of the results of recordings: to the journal, to the requester, and in counts."""

    def __init__(self, context: RunContext, journal: RecordJournalWriter, box: BlackBox, clock: Clock) -> None:
        self._context = context
        self._journal = journal
        self._box = box
        self._clock = clock
        self._left_names: set[str] = set()
        self.written = self.removed = self.abandoned = self.failed = 0

    def expect_left(self, names: Iterable[str]) -> None:
        """Note the recordings of entries that earlier runs left in the black box."""
        self._left_names.update(names)

    def cannot_read_left(self) -> None:
        """Report that the entries of the previous run are lost."""
        self.failed += 1
        message = "Black box of the previous run cannot be read; its last minutes are lost"
        self._publish("failed", message, Severity.WARNING)

    def report(self, result: JobResult) -> None:
        """Report the result of one recording; `RecordingWriter` calls it."""
        name = result.job.name
        if result.written is None:
            self.failed += 1
            self.abandoned += result.abandoned
            end = "lost" if result.abandoned else "held in memory, will retry"
            self._publish("failed", f"Recording {name} cannot be written: {result.why}; {end}", Severity.WARNING)
            self._answer(result.job, {"failed": f"{result.why}; {end}"})
            return
        written = result.written
        self.written += 1
        size = f"{written.rows} rows, {written.size_bytes / 1024:.0f} KiB"
        self._publish("written", f"Recording {written.path.name} written: {size}", Severity.INFO)
        for gone in written.removed:
            self.removed += 1
            self._publish("removed", f"Recording {gone} removed: recorder.max_size is full", Severity.WARNING)
        if name in self._left_names:
            self._left_names.discard(name)
            if not self._left_names:
                self._box.leftovers_saved = True
        self._answer(result.job, {"file": str(written.path), "rows": written.rows, "bytes": written.size_bytes})

    def _answer(self, job: RecordingJob, answer: dict[str, Any]) -> None:
        """Write the result for the command that requested the recording."""
        for trigger in job.meta.about["triggers"]:
            if trigger["what"] == BY_HAND:
                _put(wishes_dir(self._context.run_dir) / f"{trigger['id']}.done", answer)

    def _publish(self, what: str, message: str, severity: Severity) -> None:
        time_ns = self._clock.utc_ns()
        node = self._context.node
        event = Event(
            id=f"recording:{what}:{time_ns}",
            time_ns=time_ns,
            kind=EventKind.RECORDING,
            entity_id=node.id,
            code=None,
            severity=severity,
            message=message,
            sources=("recorder",),
        )
        self._journal.append(event)


def main(context: RunContext, stop: Flag, ready: Ready) -> None:
    """Record until the request to stop."""
    clock, config = SystemClock(), context.config
    settings = config.recorder.settings()
    box = BlackBox(box_dir(config.data_dir), settings.box_bytes)
    journal = context.journal_writer(JOURNAL)
    reporter = RecordingReporter(context, journal, box, clock)
    writer = RecordingWriter(RecordingFolder(recordings_dir(config.data_dir), settings.max_bytes), reporter.report)
    own = _take_over(context, box, writer, reporter, before_s=settings.before_s)
    facts = RunFacts(started_ns=context.started_ns, boot=_boot(), meta=run_meta(context))
    recorder = Recorder(
        rows=RowFollower(context.ring_path, (*context.other_ring_paths, context.steps_ring_path)),
        record_follower=_record_follower(context, own, clock),
        box=box,
        clock=clock,
        settings=settings,
        facts=lambda: RunFacts(started_ns=facts.started_ns, boot=facts.boot, meta=run_meta(context)),
        submit=writer.submit,
    )
    recorder.resume_from(own)
    wishes = wishes_dir(context.run_dir)
    wishes.mkdir(exist_ok=True)
    changes = context.watch_journals(stop, clock, wishes, gap_s=LOOK_S)
    ready({})
    published: dict[str, Any] = {}
    while not changes.wait(recorder.due_s):
        for trigger in _requests(wishes):
            recorder.request_recording(trigger)
        recorder.step()
        status = _status(recorder, reporter, writer)
        if status != published:
            _put(context.recorder_status_path, status)
            published = status
    changes.close()
    recorder.end()
    if writer.close(END_S) and not reporter.abandoned:
        box.forget()
    box.close()
    journal.close()


def _take_over(
    context: RunContext, box: BlackBox, writer: RecordingWriter, reporter: RecordingReporter, *, before_s: float
) -> tuple[BoxEntry, ...]:
    """Return the entries that an earlier recorder of this run left; record the last window of earlier runs."""
    own: tuple[BoxEntry, ...] = ()
    orders: list[RecordingJob] = []
    try:
        runs = list(runs_in(box.leftovers()))
        if runs and (runs[-1][0].started_ns, runs[-1][0].boot) == (context.started_ns, _boot()):
            own = runs.pop()[1]
            box.resume_from(len(own))
        orders.extend(_recovered(context, runs, before_s=before_s))
    except Exception:  # another version may have written it, which must not prevent every later start
        logger.exception("cannot read the black box of the previous run")
        reporter.cannot_read_left()
    box.leftovers_saved = not orders
    reporter.expect_left(job.name for job in orders)  # all of them, before the first is written
    for job in orders:
        writer.submit(job)
    shutil.rmtree(left_dir(context.run_dir), ignore_errors=True)
    return own


def _recovered(
    context: RunContext, runs: Sequence[tuple[RunFacts, tuple[BoxEntry, ...]]], *, before_s: float
) -> Iterator[RecordingJob]:
    """Yield the order for the last window of each run that did not end cleanly."""
    left, others = left_dir(context.run_dir), (*context.other_ring_paths, context.steps_ring_path)
    for number, (facts, entries) in enumerate(runs):
        if number == len(runs) - 1:
            entries = remaining_entries(  # noqa: PLW2901 -- only the newest run can have rows left in its rings
                entries,
                RowFollower(left / context.ring_path.name, tuple(left / path.name for path in others)),
                _records_left(context, entries),
            )
        job = recovered(facts, entries, before_s=before_s)
        if job is not None:
            yield job


def _records_left(context: RunContext, entries: tuple[BoxEntry, ...]) -> list[Record]:
    """Return the records in the journals behind the last flush of an earlier run."""
    state = state_of(entries, EntryKind.STATE)
    if state is None:
        return []
    found = [
        record
        for name, position in state["journals"].items()
        for record in RecordJournalReader(
            context.journal_path(name), tuple(position), spill_dir=left_dir(context.run_dir)
        ).read()
    ]
    return sorted(
        (record for record in found if record.time_ns < context.started_ns), key=lambda record: record.time_ns
    )


def _record_follower(context: RunContext, own: tuple[BoxEntry, ...], clock: Clock) -> RecordFollower:
    state = state_of(own, EntryKind.STATE)
    positions = context.journal_starts()
    if state is not None:
        positions = {name: tuple(position) for name, position in state["journals"].items()}
    lines = RawLineParser(since_ns=context.started_ns)
    return RecordFollower(
        {name: context.journal_reader(name, positions.get(name)) for name in FOLLOWED},
        lines=lines,
        source=_kernel_log(context, lines, clock, after=None if state is None else state.get("kernel_log")),
    )


def _kernel_log(context: RunContext, lines: RawLineParser, clock: Clock, *, after: int | None) -> LineSource | None:
    if context.config.sources.kernel_log is SourceUse.OFF:
        return None
    path = Path(context.kmsg)
    # The device keeps the log since boot, with the lines of our start. A file may be of any age.
    start = StartPosition.BEGINNING if context.simulated or path.is_char_device() else StartPosition.END
    log = KernelLog(path, node=context.node.key, parser=lines, clock=clock, start=start, after=after)
    try:
        log.open()
    except RailwatchError as err:
        logger.warning("cannot read the kernel log, recordings go without it: %s", err)
        return None
    return log


def _requests(folder: Path) -> Iterable[Trigger]:
    for path in sorted(folder.glob("*.wish")):
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            yield Trigger(what=BY_HAND, reason=str(fields["reason"]), time_ns=int(fields["time_ns"]), id=path.stem)
        except (OSError, ValueError, KeyError, TypeError) as err:
            logger.warning("ignoring malformed recording request %s: %s", path, err)
        path.unlink(missing_ok=True)


def _status(recorder: Recorder, reporter: RecordingReporter, writer: RecordingWriter) -> dict[str, Any]:
    return {
        "recording": recorder.window is not None,
        "flushes": recorder.flushes,
        "history_bytes": recorder.history.size_bytes,
        "history_cut_bytes": recorder.history.cut_bytes,
        "ring_rows_lost": recorder.rows.rows_lost,
        "kernel_lines_lost": recorder.record_follower.lines_lost,
        "box_bytes": recorder.box.size_bytes,
        "box_trouble": recorder.box.trouble,
        **{f"box_{name}": value for name, value in asdict(recorder.box.counts).items()},
        "recordings_written": reporter.written,
        "recordings_removed": reporter.removed,
        "recordings_failed": reporter.failed,
        "recordings_lost": reporter.abandoned,
        "recordings_waiting": writer.busy,
    }


def _boot() -> str:
    return BOOT_ID.read_text(encoding="ascii").strip() if BOOT_ID.exists() else ""


def _put(path: Path, fields: dict[str, Any]) -> None:
    try:
        replace_file(path, json_bytes(fields), synced=False)
    except OSError as err:
        logger.debug("%s cannot be written: %s", path, err.strerror)


if __name__ == "__main__":
    run_child(main)
