"""The recorder process: the last minutes on disk, and a recording of whatever happens."""

import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from threading import Event as Flag
from typing import Any

from agent.collectors.events.kernel_log import KernelLog, Start
from agent.recorder.black_box import BlackBox
from agent.recorder.entries import Entry, EntryKind
from agent.recorder.row_follower import RowFollower, state_of
from agent.recorder.record_follower import Lines, LineSource, RecordFollower
from agent.recorder.recorder import Recorder, RunFacts
from agent.recorder.recovery import remaining_entries, recovered, runs_in
from agent.recorder.recording_folder import RecordingJob, RecordingFolder
from agent.recorder.triggers import BY_HAND, Trigger
from agent.recorder.writing import RecordingWriter, Result
from config.sources import SourceUse
from railwatch.processes.child import Ready, run_child
from railwatch.recorded_run import JOURNAL, box_dir, left_dir, recordings_dir, run_meta, wishes_dir
from railwatch.run_context import RunContext
from telemetry.atomic_files import replace_file
from telemetry.clock import Clock, SystemClock
from telemetry.errors import RailwatchError
from telemetry.record_journal import RecordJournalReader, RecordJournalWriter
from telemetry.records import Event, EventKind, Record, Severity

logger = logging.getLogger(__name__)

# A trigger is seen this late at most: its window is cut by the time at which it happened, so nothing is missed.
LOOK_S = 0.5
# What is followed: the events of slow sources stand in the guard's journal too.
FOLLOWED = ("guard", "actuator", "responder")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Packing a minute of eight GPUs takes some seconds; `railwatch.run` waits a little longer.
END_S = 15.0


class RecordingReporter:
    """Says what became of recordings: to the journal, to whoever asked, and in counts."""

    def __init__(self, context: RunContext, journal: RecordJournalWriter, box: BlackBox, clock: Clock) -> None:
        self._context = context
        self._journal = journal
        self._box = box
        self._clock = clock
        self._left_names: set[str] = set()
        self.written = self.removed = self.given_up = self.failed = 0

    def expect_left(self, names: Iterable[str]) -> None:
        """Learn which orders hold what the black box had left from runs before."""
        self._left_names.update(names)

    def cannot_read_left(self) -> None:
        """Report that what the run before left is lost."""
        self.failed += 1
        message = "What the run before left in the black box cannot be read; it is lost"
        self._tell("failed", message, Severity.WARNING)

    def hear(self, result: Result) -> None:
        """Report what became of one order; called as `RecordingWriter` says."""
        name = result.order.name
        if result.written is None:
            self.failed += 1
            self.given_up += result.given_up
            end = "it is lost" if result.given_up else "it waits in memory until there is room"
            self._tell("failed", f"Recording {name} cannot be written: {result.why}; {end}", Severity.WARNING)
            self._answer(result.order, {"failed": f"{result.why}; {end}"})
            return
        written = result.written
        self.written += 1
        size = f"{written.rows} rows, {written.size_bytes / 1024:.0f} KiB"
        self._tell("written", f"Recording {written.path.name} written: {size}", Severity.INFO)
        for gone in written.removed:
            self.removed += 1
            self._tell("removed", f"Recording {gone} removed: recorder.max_size is full", Severity.WARNING)
        if name in self._left_names:
            self._left_names.discard(name)
            if not self._left_names:
                self._box.left_is_safe = True
        self._answer(result.order, {"file": str(written.path), "rows": written.rows, "bytes": written.size_bytes})

    def _answer(self, order: RecordingJob, answer: dict[str, Any]) -> None:
        """Report what became of it to those who asked for it by hand."""
        for trigger in order.meta.about["triggers"]:
            if trigger["what"] == BY_HAND:
                _put(wishes_dir(self._context.run_dir) / f"{trigger['id']}.done", answer)

    def _tell(self, what: str, message: str, severity: Severity) -> None:
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
    """Record until told to stop."""
    clock, config = SystemClock(), context.config
    settings = config.recorder.settings()
    box = BlackBox(box_dir(config.data_dir), settings.box_bytes)
    journal = context.journal_writer(JOURNAL)
    teller = RecordingReporter(context, journal, box, clock)
    writer = RecordingWriter(RecordingFolder(recordings_dir(config.data_dir), settings.max_bytes), teller.hear)
    own = _take_over(context, box, writer, teller, before_s=settings.before_s)
    facts = RunFacts(started_ns=context.started_ns, boot=_boot(), meta=run_meta(context))
    recorder = Recorder(
        rows=RowFollower(context.ring_path, (*context.other_ring_paths, context.steps_ring_path)),
        moments=_moments(context, own, clock),
        box=box,
        clock=clock,
        settings=settings,
        facts=lambda: RunFacts(started_ns=facts.started_ns, boot=facts.boot, meta=run_meta(context)),
        submit=writer.submit,
    )
    recorder.go_on_from(own)
    wishes = wishes_dir(context.run_dir)
    wishes.mkdir(exist_ok=True)
    ready({})
    while not stop.wait(LOOK_S):
        for trigger in _wishes(wishes):
            recorder.ask(trigger)
        recorder.step()
        _put(context.recorder_status_path, _status(recorder, teller, writer))
    recorder.end()
    if writer.close(END_S) and not teller.given_up:
        box.forget()
    box.close()
    journal.close()


def _take_over(
    context: RunContext, box: BlackBox, writer: RecordingWriter, teller: RecordingReporter, *, before_s: float
) -> tuple[Entry, ...]:
    """Return what an earlier recorder of this very run left; of runs before, order the recording of their last window."""
    own: tuple[Entry, ...] = ()
    orders: list[RecordingJob] = []
    try:
        runs = list(runs_in(box.left()))
        if runs and (runs[-1][0].started_ns, runs[-1][0].boot) == (context.started_ns, _boot()):
            own = runs.pop()[1]
            box.go_on_from(len(own))
        orders.extend(_recovered(context, runs, before_s=before_s))
    except Exception:  # supervisor of what another version may have written: it must not end every start from now on
        logger.exception("what the run before left in the black box cannot be read")
        teller.cannot_read_left()
    box.left_is_safe = not orders
    teller.expect_left(order.name for order in orders)  # all of them, before the first can be written
    for order in orders:
        writer.submit(order)
    shutil.rmtree(left_dir(context.run_dir), ignore_errors=True)
    return own


def _recovered(
    context: RunContext, runs: Sequence[tuple[RunFacts, tuple[Entry, ...]]], *, before_s: float
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
        order = recovered(facts, entries, before_s=before_s)
        if order is not None:
            yield order


def _records_left(context: RunContext, entries: tuple[Entry, ...]) -> list[Record]:
    """Return the records that stand in the journals behind the last flush of a run before."""
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


def _moments(context: RunContext, own: tuple[Entry, ...], clock: Clock) -> RecordFollower:
    state = state_of(own, EntryKind.STATE)
    positions = context.journal_starts()
    if state is not None:
        positions = {name: tuple(position) for name, position in state["journals"].items()}
    lines = Lines(since_ns=context.started_ns)
    return RecordFollower(
        {name: context.journal_reader(name, positions.get(name)) for name in FOLLOWED},
        lines=lines,
        source=_kernel_log(context, lines, clock, after=None if state is None else state.get("kernel_log")),
    )


def _kernel_log(context: RunContext, lines: Lines, clock: Clock, *, after: int | None) -> LineSource | None:
    if context.config.sources.kernel_log is SourceUse.OFF:
        return None
    path = Path(context.kmsg)
    # The device keeps what was logged since the boot: what came while we started is there. A file may be of any age.
    start = Start.BEGINNING if context.simulated or path.is_char_device() else Start.END
    log = KernelLog(path, node=context.node.key, parser=lines, clock=clock, start=start, after=after)
    try:
        log.open()
    except RailwatchError as err:
        logger.warning("recordings hold no lines of the kernel log: %s", err)
        return None
    return log


def _wishes(folder: Path) -> Iterable[Trigger]:
    for path in sorted(folder.glob("*.wish")):
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            yield Trigger(what=BY_HAND, reason=str(fields["reason"]), time_ns=int(fields["time_ns"]), id=path.stem)
        except (OSError, ValueError, KeyError, TypeError) as err:
            logger.warning("%s is no wish: %s", path, err)
        path.unlink(missing_ok=True)


def _status(recorder: Recorder, teller: RecordingReporter, writer: RecordingWriter) -> dict[str, Any]:
    return {
        "recording": recorder.window is not None,
        "flushes": recorder.flushes,
        "history_bytes": recorder.history.size_bytes,
        "history_cut_bytes": recorder.history.cut_bytes,
        "ring_rows_lost": recorder.rows.rows_lost,
        "kernel_lines_lost": recorder.moments.lines_lost,
        "box_bytes": recorder.box.size_bytes,
        "box_trouble": recorder.box.trouble,
        **{f"box_{name}": value for name, value in asdict(recorder.box.counts).items()},
        "recordings_written": teller.written,
        "recordings_removed": teller.removed,
        "recordings_failed": teller.failed,
        "recordings_lost": teller.given_up,
        "recordings_waiting": writer.busy,
    }


def _boot() -> str:
    return BOOT_ID.read_text(encoding="ascii").strip() if BOOT_ID.exists() else ""


def _put(path: Path, fields: dict[str, Any]) -> None:
    try:
        replace_file(path, json.dumps(fields).encode(), synced=False)
    except OSError as err:
        logger.debug("%s cannot be written: %s", path, err.strerror)


if __name__ == "__main__":
    run_child(main)
