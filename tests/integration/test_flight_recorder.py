"""Flight recorder of a running node: its own recordings, and the files that a kill leaves."""

import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import psutil
import pytest

from agent.recorder.black_box import BlackBox
from agent.recorder.entries import EntryKind
from agent.recorder.recovery import recovered, runs_in
from agent.ring.ring import Ring
from railwatch.run_context import box_dir, left_dir
from telemetry.clock import NS_PER_S, SystemClock
from telemetry.recording import Recording, read_recording
from telemetry.records import Event, EventKind
from tests.integration.recorded import Recorded, assert_a_replay_is_equal, drop, one_recording, recorded, recorder
from tests.integration.running import PATIENCE_S, Done, Node, node_up, railwatch

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def last_value_ns(read: Recording, entity: str, signal: str) -> int:
    return max(
        int(frame.time_ns[row])
        for frame in read.frames()
        if signal in frame.spec.signals and entity in [one.key for one in frame.spec.entities]
        for place in [[one.key for one in frame.spec.entities].index(entity)]
        for row, value in enumerate(frame.signal(signal)[:, place].tolist())
        if value == value  # noqa: PLR0124 -- NaN: lost
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Run in which a GPU fell off the bus, and the output of the commands about its recordings before it ended."""

    run: Recorded
    asked: Done
    listed: Done
    shown: Done


@pytest.fixture(scope="module")
def dropped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dropped]:
    folder = tmp_path_factory.mktemp("dropped")
    with recorded(folder, *drop(folder)) as run:
        where = ("--data-dir", str(run.node.data_dir))
        asked = railwatch("record", *where, "--json")
        assert asked.status == 0, asked.err
        listed = railwatch("recordings", "list", *where, "--json")
        shown = railwatch("recordings", "show", Path(asked.rows[0]["file"]).name, *where)
        assert run.node.end() == 0, run.node.story()
        yield Dropped(run=run, asked=asked, listed=listed, shown=shown)


def test_a_bus_drop_is_recorded_at_full_rate_up_to_the_last_update_before_the_loss(dropped: Dropped) -> None:
    read = read_recording(dropped.run.by_itself)
    lines = [line for line in read.kernel_lines if "79" in line.text]
    assert lines, "the kernel log of that time stands in the recording"
    events = [record for record in read.records if isinstance(record, Event) and record.kind is EventKind.XID]
    reported = next(event for event in events if event.code == 79)
    assert reported.entity_id is not None
    gpu = reported.entity_id.removeprefix("gpu:")
    last_ns = last_value_ns(read, gpu, "power_w")
    # The row after the last value is the one that knows of the loss: 50 ms at 20 Hz, and the agent ticks late at times.
    others = {
        int(stamp)
        for frame in read.frames()
        if frame.spec.name == "gpu_fast"
        for stamp in frame.time_ns.tolist()
        if last_ns < stamp <= last_ns + NS_PER_S
    }
    first_without_ns = min(others)
    findings = dropped.run.node.of(type="finding", cause="gpu_lost")
    first_reported_ns = min([event.time_ns for event in events if event.code == 79] + [findings[0]["time_ns"]])
    to_event_s = (first_reported_ns - last_ns) / NS_PER_S
    sys.stderr.write(
        f"\nlast update to the row that knows of the loss: {(first_without_ns - last_ns) / 1e6:.0f} ms; "
        f"loss to the first event or finding: {to_event_s:.2f} s; span {read.span_ns}\n"
    )
    assert first_without_ns - last_ns < NS_PER_S // 4
    assert 0 <= to_event_s < 2.0
    assert read.span_ns is not None
    assert read.span_ns[0] <= last_ns - 4 * NS_PER_S
    assert read.span_ns[1] >= last_ns + NS_PER_S


def test_a_replay_of_the_drop_states_what_was_stated_live_to_the_byte(dropped: Dropped) -> None:
    assert_a_replay_is_equal(dropped.run)


def test_a_person_asks_for_a_recording_and_finds_it_in_the_list(dropped: Dropped) -> None:
    node, name = dropped.run.node, Path(dropped.asked.rows[0]["file"]).name
    reasons = {row["file"]: row["reason"] for row in dropped.listed.rows}
    assert len(reasons) == 2
    assert reasons[name] == "requested by hand"
    assert dropped.shown.status == 0, dropped.shown.err
    assert "gpu_fast" in dropped.shown.out
    assert not list(box_dir(node.data_dir).glob("*")), "a clean end leaves no black box"
    journal = (node.data_dir / "journal" / "recorder.jsonl").read_text()
    assert [json.loads(line)["kind"] for line in journal.splitlines()] == ["recording"] * 2


def test_a_kill_of_everything_loses_no_row_and_a_power_cut_no_more_than_a_flush(tmp_path: Path) -> None:
    options = ("--simulate", "v100x4", *recorder(tmp_path, before="5s"))
    with node_up(tmp_path / "data", *options) as node:
        node.until(lambda: flushes(node) > 3, what="rows stand in the black box")
        killed_ns = kill(node)
        ring = Ring.attach(node.run_dir / "ring").tables["gpu_fast"]
        last_row_ns = int(ring.read(ring.count - 1).frame.time_ns[-1])
        # The end of this block sweeps the ring away, which only a power cut would.
        ring_left = node.run_dir.with_name(f"{node.run_dir.name}.kept")
        node.run_dir.rename(ring_left)
    assert killed_ns - last_row_ns < 5 * NS_PER_S  # it sampled until then, on however busy a machine

    # The disk alone, elsewhere: the ring of a run belongs to its folder of data.
    after_power_cut = shutil.copytree(node.data_dir, tmp_path / "power-cut")
    ((facts, entries),) = runs_in(BlackBox(box_dir(after_power_cut), 0).leftovers())
    cut = recovered(facts, entries, before_s=5.0)
    assert cut is not None
    in_box_ns = max(int(frame.time_ns[-1]) for frame in cut.contents.frames() if frame.spec.name == "gpu_fast")
    sys.stderr.write(f"\na power cut would have cost {(last_row_ns - in_box_ns) / 1e9:.2f} s of rows\n")
    assert 0 <= last_row_ns - in_box_ns <= 1.0 * NS_PER_S + NS_PER_S  # one flush, and the look at which it is due
    read = recovered_by_the_next_run(after_power_cut, options)
    assert read.span_ns is not None
    assert read.span_ns[1] >= in_box_ns

    ring_left.rename(node.run_dir)
    read = recovered_by_the_next_run(node.data_dir, options)
    assert not left_dir(node.run_dir).exists()
    last_kept_ns = max(int(frame.time_ns[-1]) for frame in read.frames() if frame.spec.name == "gpu_fast")
    sys.stderr.write(f"\nkill -9 of everything lost {(last_row_ns - last_kept_ns) / 1e9:.3f} s of rows\n")
    assert last_kept_ns == last_row_ns


def flushes(node: Node) -> int:
    """Return how many entries with rows the black box holds."""
    box = BlackBox(box_dir(node.data_dir), 0)
    return sum(entry.kind is EntryKind.ROWS for _, entries in runs_in(box.leftovers()) for entry in entries)


def recovered_by_the_next_run(data_dir: Path, options: tuple[str, ...]) -> Recording:
    with node_up(data_dir, *options) as again:
        path = one_recording(again)
        assert again.end() == 0, again.story()
    read = read_recording(path)
    assert read.meta.about["recovered"] is True
    assert read.meta.simulated is True
    return read


def kill(node: Node) -> int:
    """Kill -9 every process of a run; return the time after the last signal.

    All are stopped first: one that outlives its supervisor by a moment would end cleanly and remove the black box.
    """
    pids = [node.process.pid, *node.pids()]
    for number, pid in product((signal.SIGSTOP, signal.SIGKILL), pids):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    now_ns = SystemClock().utc_ns()
    psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=PATIENCE_S)
    node.wait()
    return now_ns
