"""The flight recorder: keeps the last minutes of rows and records, and writes them at a trigger."""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from agent.recorder.black_box import BlackBox
from agent.recorder.entries import BoxEntry, EntryKind, json_entry
from agent.recorder.record_follower import RecordFollower
from agent.recorder.recording_folder import RecordingJob, name_of
from agent.recorder.row_follower import RingLayout, RowFollower, state_of
from agent.recorder.settings import RecorderSettings
from agent.recorder.triggers import RecordingWindow, Trigger, TriggerJudge, widen
from agent.recorder.unpacking import contents_of, records_entry
from telemetry.clock import NS_PER_S, Clock
from telemetry.recording import RecordingMeta
from telemetry.records import Record

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class EntryBuffer:
    """Entries by the time at which they were taken, at most `max_bytes` of them.

    Times are monotonic, so a wall clock that is stepped moves no window. `cut_bytes` counts entries that were dropped
    although they were still wanted, the newest of them taken at `cut_until_ns`.
    """

    max_bytes: int
    cut_bytes: int = 0
    cut_until_ns: int = 0
    _entries: deque[BoxEntry] = field(default_factory=deque)
    _size_bytes: int = 0

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        """Packed size of the entries."""
        return self._size_bytes

    def add(self, entry: BoxEntry) -> None:
        """Add an entry; drop the oldest above `max_bytes`."""
        self._entries.append(entry)
        self._size_bytes += len(entry.body)
        while self._size_bytes > self.max_bytes and len(self._entries) > 1:
            self.cut_until_ns = self._entries[0].taken_ns
            self.cut_bytes += self._drop()

    def drop_before(self, keep_from_ns: int) -> None:
        """Drop the entries taken before that time."""
        while self._entries and self._entries[0].taken_ns < keep_from_ns:
            self._drop()

    def between(self, first_ns: int, last_ns: int) -> tuple[BoxEntry, ...]:
        """Return the entries taken from `first_ns` to `last_ns`, oldest first."""
        return tuple(entry for entry in self._entries if first_ns <= entry.taken_ns <= last_ns)

    def _drop(self) -> int:
        size_bytes = len(self._entries.popleft().body)
        self._size_bytes -= size_bytes
        return size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Run of the recorder; times of the monotonic clock compare within one boot only."""

    started_ns: int
    boot: str
    meta: RecordingMeta

    def to_entry(self, taken_ns: int) -> BoxEntry:
        """Return the run as an entry."""
        fields = {
            "started_ns": self.started_ns,
            "boot": self.boot,
            "node": self.meta.node,
            "simulated": self.meta.simulated,
            "config": dict(self.meta.config),
        }
        return json_entry(EntryKind.RUN, taken_ns, fields)

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> "RunFacts":
        """Parse the fields of `to_entry`."""
        meta = RecordingMeta(node=fields["node"], simulated=fields["simulated"], config=fields["config"])
        return cls(started_ns=fields["started_ns"], boot=fields["boot"], meta=meta)


@dataclass(slots=True)
class Recorder:
    """Recorder of one run; call `step` when there may be a new record, or `due_s` has passed.

    Parameters
    ----------
    facts
        Called whenever a segment begins, since some facts are known only after a while.
    submit
        Called with each recording to write.
    """

    rows: RowFollower
    record_follower: RecordFollower
    box: BlackBox
    clock: Clock
    settings: RecorderSettings
    facts: Callable[[], RunFacts]
    submit: Callable[[RecordingJob], None]
    window: RecordingWindow | None = None
    flushes: int = 0
    history: EntryBuffer = field(init=False)
    _judge: TriggerJudge = field(default_factory=TriggerJudge)
    _layouts: dict[int, RingLayout] = field(default_factory=dict)
    _records: list[Record] = field(default_factory=list)
    _flush_at_ns: int = 0

    def __post_init__(self) -> None:
        """Create the entry buffer."""
        self.history = EntryBuffer(self.settings.memory_bytes)

    def resume_from(self, entries: Sequence[BoxEntry]) -> None:
        """Resume from the entries of an earlier recorder of the same run; an open recording stays open."""
        for entry in entries:
            if entry.kind is EntryKind.TABLES:
                layout = RingLayout.of_entry(entry)
                self._layouts[layout.number] = self.rows.layout = layout
            elif entry.kind is not EntryKind.RUN:
                self.history.add(entry)
        state = state_of(entries, EntryKind.STATE)
        if state is not None:
            self.rows.resume_from(state["rows"])
            self.window = _window_of(state["window"])

    def request_recording(self, trigger: Trigger) -> None:
        """Open a recording around now, or widen the open one."""
        self.window = widen(
            self.window,
            trigger,
            now_ns=self._now_ns(),
            utc_ns=self.clock.utc_ns(),
            before_s=self.settings.before_s,
            after_s=self.settings.after_s,
            longest_s=self.settings.longest_s,
        )

    def step(self) -> None:
        """Look for triggers; flush when due; submit the recording that is complete."""
        self._read_records()
        now_ns = self._now_ns()
        complete = self.window is not None and now_ns >= self.window.end_ns
        if complete or now_ns >= self._flush_at_ns:
            self.flush()
            self._flush_at_ns = now_ns + round(self.settings.flush_s * NS_PER_S)
        if complete:
            self._order()

    @property
    def due_s(self) -> float:
        """Seconds until the next flush or the end of the recording that is open."""
        due_ns = self._flush_at_ns if self.window is None else min(self._flush_at_ns, self.window.end_ns)
        return (due_ns - self._now_ns()) / NS_PER_S

    def end(self) -> None:
        """Submit the open recording as it is, at the clean end of a run."""
        self._read_records()
        self.flush()
        if self.window is not None:
            self._order()

    def flush(self) -> None:
        """Read new rows and records and write them to the black box."""
        now_ns = self._now_ns()
        entries = self.rows.read(now_ns)
        for entry in entries:
            if entry.kind is EntryKind.TABLES:
                layout = RingLayout.of_entry(entry)
                self._layouts[layout.number] = layout
        lines = self.record_follower.lines()
        if self._records or lines:
            entries.append(records_entry(self._records, lines, taken_ns=now_ns))
            self._records = []
        for entry in entries:
            if entry.kind is not EntryKind.TABLES:
                self.history.add(entry)
        keep_from_ns = now_ns - round((self.settings.before_s + self.settings.flush_s) * NS_PER_S)
        if self.window is not None:
            keep_from_ns = min(keep_from_ns, self.window.start_ns)
        self.history.drop_before(keep_from_ns)
        entries.append(self._state(now_ns))
        self.box.append(entries, opening=lambda: self._opening(now_ns), keep_from_ns=keep_from_ns)
        self.flushes += 1

    def _read_records(self) -> None:
        for record in self.record_follower.records():
            self._records.append(record)
            trigger = self._judge.judge(record)
            if trigger is not None:
                self.request_recording(trigger)

    def _order(self) -> None:
        """Submit the open recording."""
        window, self.window = self.window, None
        if window is None:
            return
        contents = contents_of(self.history.between(window.start_ns, self._now_ns()), self._layouts)
        first = window.triggers[0]
        about = {
            "recovered": False,
            "reason": first.reason,
            "triggers": [asdict(trigger) for trigger in window.triggers],
            "more_triggers": window.more_triggers,
            "ring_rows_lost": self.rows.lost_since(window.start_ns),
            "cut_s": max(0, self.history.cut_until_ns - window.start_ns) / NS_PER_S,
        }
        meta = self.facts().meta.with_about(about)
        self.submit(RecordingJob(name=name_of(first.what, first.time_ns), contents=contents, meta=meta))

    def _opening(self, now_ns: int) -> list[BoxEntry]:
        """Return the entries that make a segment readable alone."""
        layout = self.rows.layout
        return [self.facts().to_entry(now_ns), *([] if layout is None else [layout.to_entry(now_ns)])]

    def _state(self, now_ns: int) -> BoxEntry:
        fields = {
            "utc_ns": self.clock.utc_ns(),
            "rows": self.rows.positions,
            "journals": self.record_follower.positions,
            "kernel_log": self.record_follower.sequence,
            "window": None if self.window is None else asdict(self.window),
        }
        return json_entry(EntryKind.STATE, now_ns, fields)

    def _now_ns(self) -> int:
        return round(self.clock.monotonic_s() * NS_PER_S)


def _window_of(fields: Mapping[str, Any] | None) -> RecordingWindow | None:
    if fields is None:
        return None
    triggers = tuple(Trigger(**trigger) for trigger in fields["triggers"])
    return RecordingWindow(
        start_ns=fields["start_ns"],
        end_ns=fields["end_ns"],
        triggers=triggers,
        more_triggers=fields["more_triggers"],
    )
