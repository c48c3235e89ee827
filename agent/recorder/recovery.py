"""Recovery of the recording that a killed run or a power cut left in the black box."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from agent.recorder.entries import BoxEntry, EntryKind
from agent.recorder.recorder import RunFacts
from agent.recorder.recording_folder import RecordingJob, name_of
from agent.recorder.row_follower import RingLayout, RowFollower, state_of
from agent.recorder.unpacking import contents_of, records_entry
from telemetry.clock import NS_PER_S
from telemetry.records import Record


def runs_in(entries: Sequence[BoxEntry]) -> Iterator[tuple[RunFacts, tuple[BoxEntry, ...]]]:
    """Yield the entries of each run, oldest first; entries before the first `RUN` entry belong to none."""
    starts = [place for place, entry in enumerate(entries) if entry.kind is EntryKind.RUN]
    facts = [RunFacts.of_fields(entries[place].fields()) for place in starts]
    # Each segment repeats its run, and the last one has most facts.
    firsts = [0, *(n for n in range(1, len(facts)) if _key(facts[n]) != _key(facts[n - 1])), len(facts)]
    for first, after in pairwise(firsts if facts else [0]):
        stop = starts[after] if after < len(starts) else len(entries)
        yield facts[after - 1], tuple(entries[starts[first] : stop])


def remaining_entries(
    entries: Sequence[BoxEntry], ring: RowFollower, records: Sequence[Record]
) -> tuple[BoxEntry, ...]:
    """Return entries with the rows that are still in the rings of that run, and the records after its last flush.

    After a kill the rings are still in memory, and no row is lost; after a power cut they are not.
    """
    layouts = [RingLayout.of_entry(entry) for entry in entries if entry.kind is EntryKind.TABLES]
    state = state_of(entries, EntryKind.STATE)
    if state is None or not layouts:
        return tuple(entries)
    ring.layout = layouts[-1]
    ring.resume_from(state["rows"])
    taken_ns = entries[-1].taken_ns
    more = ring.read(taken_ns)
    if records:
        more.append(records_entry(records, (), taken_ns=taken_ns))
    return (*entries, *more)


def recovered(facts: RunFacts, entries: Sequence[BoxEntry], *, before_s: float) -> RecordingJob | None:
    """Return the recording job of the last window of a run that did not end cleanly, None without any row of it."""
    state = state_of(entries, EntryKind.STATE)
    rows = [entry for entry in entries if entry.kind is EntryKind.ROWS]
    if state is None or not rows:
        return None
    window = state["window"]
    start_ns = rows[-1].taken_ns - round(before_s * NS_PER_S)
    if window is not None:
        start_ns = min(start_ns, window["start_ns"])
    kept = [entry for entry in entries if entry.kind is EntryKind.TABLES or entry.taken_ns >= start_ns]
    about = {
        "recovered": True,
        "reason": "the run before did not end cleanly: a kill or a power cut",
        "triggers": [] if window is None else window["triggers"],
        "more_triggers": 0 if window is None else window["more_triggers"],
    }
    return RecordingJob(
        name=name_of("recovered", state["utc_ns"]), contents=contents_of(kept, {}), meta=facts.meta.with_about(about)
    )


def _key(facts: RunFacts) -> tuple[int, str]:
    return facts.started_ns, facts.boot
