"""The flight recorder of a running node: what it writes by itself, and what a kill leaves."""

import contextlib
import json
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from agent.recorder.black_box import BlackBox
from agent.recorder.recovery import recovered, runs_in
from agent.ring import Ring
from railwatch.recorded_run import box_dir, left_dir
from telemetry.clock import NS_PER_S, SystemClock
from telemetry.recording import Recording, read_recording
from telemetry.records import Event, EventKind
from tests.integration.recorded import SETTINGS, one_recording, options
from tests.integration.running import Node, node_up, railwatch

pytestmark = [pytest.mark.integration, pytest.mark.timeout(90)]


def last_value_ns(read: Recording, entity: str, signal: str) -> int:
    return max(
        int(frame.time_ns[row])
        for frame in read.frames()
        if signal in frame.spec.signals and entity in [one.key for one in frame.spec.entities]
        for place in [[one.key for one in frame.spec.entities].index(entity)]
        for row, value in enumerate(frame.signal(signal)[:, place].tolist())
        if value == value  # noqa: PLR0124 -- NaN: lost
    )


def test_a_bus_drop_is_recorded_at_full_rate_up_to_the_last_update_before_the_loss(tmp_path: Path) -> None:
    with node_up(tmp_path / "data", *options(tmp_path)) as node:
        path = one_recording(node, within_s=40.0)
        assert node.end() == 0, node.story()
    read = read_recording(path)
    lines = [line for line in read.kernel_lines if "79" in line.text]
    assert lines, "the kernel log of that time stands in the recording"
    events = [record for record in read.records if isinstance(record, Event) and record.kind is EventKind.XID]
    dropped = next(event for event in events if event.code == 79)
    assert dropped.entity_id is not None
    gpu = dropped.entity_id.removeprefix("gpu:")
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
    findings = node.of(type="finding", cause="gpu_lost")
    first_told_ns = min([event.time_ns for event in events if event.code == 79] + [findings[0]["time_ns"]])
    to_event_s = (first_told_ns - last_ns) / NS_PER_S
    sys.stderr.write(
        f"\nlast update to the row that knows of the loss: {(first_without_ns - last_ns) / 1e6:.0f} ms; "
        f"loss to the first event or finding: {to_event_s:.2f} s; span {read.span_ns}\n"
    )
    assert first_without_ns - last_ns < NS_PER_S // 4
    assert 0 <= to_event_s < 2.0
    assert read.span_ns is not None
    assert read.span_ns[0] <= last_ns - 4 * NS_PER_S
    assert read.span_ns[1] >= last_ns + 2 * NS_PER_S


def test_a_kill_of_everything_loses_no_row_and_a_power_cut_no_more_than_a_flush(tmp_path: Path) -> None:
    with node_up(tmp_path / "data", "--simulate", "v100x4", "--config", config(tmp_path)) as node:
        assert node.url
        nap(6.0)
        killed_ns = kill(node)
        ring = Ring.attach(node.run_dir / "ring").tables["gpu_fast"]
        last_row_ns = int(ring.read(ring.count - 1).frame.time_ns[-1])
    ((facts, entries),) = runs_in(BlackBox(box_dir(node.data_dir), 0).left())
    cut = recovered(facts, entries, before_s=5.0)
    assert cut is not None
    in_box_ns = max(int(frame.time_ns[-1]) for frame in cut.contents.frames() if frame.spec.name == "gpu_fast")
    # What the end of the first run's fixture swept away the kill had left: put the ring back where it was.
    assert not node.run_dir.exists()
    sys.stderr.write(f"\na power cut would have cost {(last_row_ns - in_box_ns) / 1e9:.2f} s of rows\n")
    assert 0 <= last_row_ns - in_box_ns <= 1.0 * NS_PER_S + NS_PER_S  # one flush, and the look at which it is due
    assert killed_ns - last_row_ns < 5 * NS_PER_S  # it sampled until then, on however busy a machine
    with node_up(node.data_dir, "--simulate", "v100x4", "--config", config(tmp_path)) as again:
        assert again.url
        path = one_recording(again, within_s=20.0)
        assert again.end() == 0, again.story()
    read = read_recording(path)
    assert read.meta.about["recovered"] is True
    assert read.meta.simulated is True
    assert read.span_ns is not None
    assert read.span_ns[1] >= in_box_ns


def test_after_a_kill_the_rows_that_were_only_in_memory_are_recovered_too(tmp_path: Path) -> None:
    with node_up(tmp_path / "data", "--simulate", "v100x4", "--config", config(tmp_path)) as node:
        assert node.url
        nap(5.0)
        kill(node)
        ring = Ring.attach(node.run_dir / "ring").tables["gpu_fast"]
        last_row_ns = int(ring.read(ring.count - 1).frame.time_ns[-1])
        ring_left = node.run_dir.with_name(f"{node.run_dir.name}.kept")
        node.run_dir.rename(ring_left)
    ring_left.rename(node.run_dir)
    with node_up(node.data_dir, "--simulate", "v100x4", "--config", config(tmp_path)) as again:
        assert again.url
        path = one_recording(again, within_s=20.0)
        assert not left_dir(node.run_dir).exists()
        assert again.end() == 0, again.story()
    read = read_recording(path)
    last_kept_ns = max(int(frame.time_ns[-1]) for frame in read.frames() if frame.spec.name == "gpu_fast")
    sys.stderr.write(f"\nkill -9 of everything lost {(last_row_ns - last_kept_ns) / 1e9:.3f} s of rows\n")
    assert last_kept_ns == last_row_ns


def test_a_person_asks_for_a_recording_and_finds_it_in_the_list(tmp_path: Path) -> None:
    with node_up(tmp_path / "data", "--simulate", "v100x4", "--config", config(tmp_path)) as node:
        assert node.url
        done = railwatch("record", "--data-dir", str(node.data_dir), "--json")
        assert done.status == 0, done.err
        listed = railwatch("recordings", "list", "--data-dir", str(node.data_dir), "--json")
        shown = railwatch("recordings", "show", Path(done.rows[0]["file"]).name, "--data-dir", str(node.data_dir))
        assert node.end() == 0, node.story()
    assert [row["file"] for row in listed.rows] == [Path(done.rows[0]["file"]).name]
    assert listed.rows[0]["reason"] == "asked for by hand"
    assert shown.status == 0, shown.err
    assert "gpu_fast" in shown.out
    assert not list(box_dir(node.data_dir).glob("*")), "a clean end leaves no black box"
    journal = (node.data_dir / "journal" / "recorder.jsonl").read_text()
    assert [json.loads(line)["kind"] for line in journal.splitlines()] == ["recording"]


def config(folder: Path) -> str:
    (folder / "conf.yaml").write_text(SETTINGS)
    return str(folder / "conf.yaml")


def kill(node: Node) -> int:
    """Kill -9 every process of a run, the supervisor first; gives the time at which all were told."""
    pids = [node.process.pid, *node.pids()]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    now_ns = SystemClock().utc_ns()
    psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=5)
    node.wait()
    return now_ns


def nap(seconds: float) -> None:
    clock = SystemClock()
    clock.sleep_until(clock.monotonic_s() + seconds)
