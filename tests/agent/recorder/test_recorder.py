from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agent.collectors.events.kernel_log import KernelLog, StartPosition
from agent.recorder.black_box import BlackBox
from agent.recorder.entries import EntryKind, place_of_rows, unpack_rows
from agent.recorder.record_follower import RecordFollower
from agent.recorder.recording_folder import RecordingFolder
from agent.recorder.recovery import recovered, remaining_entries, runs_in
from agent.recorder.row_follower import RowFollower, state_of
from agent.recorder.triggers import Trigger
from agent.recorder.unpacking import contents_of
from agent.ring.ring import Ring
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind
from telemetry.frames import TableSpec
from telemetry.recording import read_recording
from telemetry.recording_rows import KernelLogRow
from telemetry.records import Finding
from tests.agent.fakes import START_NS
from tests.agent.recorder.rig import SETTINGS, SUPPLY, Rig, a_finding, a_ring, span_s

WIDER = replace(SUPPLY, signals=("voltage_v", "current_a", "power_w"))


def test_nothing_is_written_while_nothing_happens(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.run(40)
    assert rig.orders == []
    # Ten seconds and what is between two flushes.
    assert len(rig.recorder.history) * 2 < 2 * (10 + 2 * 2)


def test_a_finding_makes_one_recording_of_the_window_around_it_with_every_row(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.run(30)
    finding = a_finding(rig.clock.utc_ns())
    at = rig.number
    rig.journal.append(finding)
    rig.run(10)
    (job,) = rig.orders
    numbers = rig.numbers(job)
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert at - 14 * 20 < numbers[0] <= at - 10 * 20
    assert at + 5 * 20 <= numbers[-1] < at + 7 * 20
    assert job.contents.records == (finding,)
    assert job.meta.about["reason"] == "psu0 sags"
    assert job.meta.about["recovered"] is False
    assert job.meta.about["cut_s"] == 0
    assert job.contents.topology.edges == (("node:box", "supply:psu0"),)


def test_findings_that_follow_each_other_extend_one_recording_and_later_ones_begin_another(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.run(20)
    for number in range(3):
        rig.journal.append(a_finding(rig.clock.utc_ns(), number=number))
        rig.run(4)
    rig.run(6)
    rig.journal.append(a_finding(rig.clock.utc_ns(), number=9))
    rig.run(10)
    first, second = rig.orders
    assert [trigger["id"] for trigger in first.meta.about["triggers"]] == ["f-0", "f-1", "f-2"]
    assert 10 + 8 + 5 <= span_s(first) <= 10 + 8 + 5 + 5
    assert [trigger["id"] for trigger in second.meta.about["triggers"]] == ["f-9"]


def test_a_storm_of_findings_does_not_make_an_endless_recording(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.run(20)
    for number in range(60):
        rig.journal.append(a_finding(rig.clock.utc_ns(), number=number))
        rig.run(1)
    assert len(rig.orders) >= 2
    assert all(span_s(job) <= SETTINGS.longest_s + 5 for job in rig.orders)


def test_lines_of_the_kernel_log_stand_in_the_recording(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.run(5)
    rig.lines._waiting.append(KernelLogRow(time_ns=rig.clock.utc_ns(), text="NVRM: Xid 79"))
    rig.recorder.request_recording(Trigger(what="by-hand", reason="asked", time_ns=rig.clock.utc_ns(), id="1"))
    rig.run(8)
    (job,) = rig.orders
    assert [line.text for line in job.contents.kernel_lines] == ["NVRM: Xid 79"]
    assert job.name.endswith("-by-hand")


KMSG = "6,{number},{logged_us},-;{text}\n"


def with_a_kernel_log(rig: Rig, *, after: int | None = None) -> RecordFollower:
    path = rig.folder / "kmsg"
    path.touch()
    log = KernelLog(path, node="box", parser=rig.lines, clock=rig.clock, start=StartPosition.BEGINNING, after=after)
    return RecordFollower({}, lines=rig.lines, source=log)


def log_a_line(rig: Rig, number: int, text: str) -> None:
    with (rig.folder / "kmsg").open("a", encoding="ascii") as file:
        file.write(KMSG.format(number=number, logged_us=round(rig.clock.monotonic_s() * 1e6), text=text))


def test_lines_of_the_kernel_log_are_kept_after_the_wall_clock_was_set_back_and_older_ones_are_not(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path)
    record_follower = with_a_kernel_log(rig)
    log_a_line(rig, 1, "of before the run")
    rig.clock.advance(5)
    rig.lines.since_ns = rig.clock.utc_ns()
    log_a_line(rig, 2, "of the run")
    assert [line.text for line in record_follower.lines()] == ["of the run"]
    rig.clock.step_utc(-3600)
    log_a_line(rig, 3, "after the step")
    assert [line.text for line in record_follower.lines()] == ["after the step"]


def test_a_recorder_that_starts_again_reads_no_line_of_the_kernel_log_twice(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    record_follower = with_a_kernel_log(rig)
    log_a_line(rig, 1, "one")
    assert len(record_follower.lines()) == 1
    rig.clock.advance(300)  # a stamp of so long ago is not believed in a file
    log_a_line(rig, 2, "two")
    again = with_a_kernel_log(rig, after=record_follower.sequence)
    assert [line.text for line in again.lines()] == ["two"]
    log_a_line(rig, 9, "nine")
    assert [line.text for line in again.lines()] == ["nine"]
    assert again.lines_lost == 6


def test_a_backlog_of_the_kernel_log_is_read_in_one_look(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    record_follower = with_a_kernel_log(rig)
    for number in range(6000):
        log_a_line(rig, number + 1, "a line like any other one of the many that a boot writes")
    assert len(record_follower.lines()) == 6000


def test_a_recording_reports_the_rows_that_it_lacks_and_not_those_that_another_one_lacked(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.run(5)
    table = rig.ring.tables[rig.spec.name]
    for _ in range(2500):  # more than the ring holds, before anybody looks
        table.append(rig.clock.utc_ns(), np.zeros(rig.spec.shape), np.ones(rig.spec.shape, dtype=np.bool_))
    rig.journal.append(a_finding(rig.clock.utc_ns(), number=1))
    rig.run(30)
    rig.journal.append(a_finding(rig.clock.utc_ns(), number=2))
    rig.run(10)
    first, second = rig.orders
    assert first.meta.about["ring_rows_lost"] == rig.recorder.rows.rows_lost >= 500
    assert second.meta.about["ring_rows_lost"] == 0


def test_a_wall_clock_that_steps_an_hour_moves_no_window(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.run(20)
    rig.clock.step_utc(3600)
    rig.run(5)
    rig.journal.append(a_finding(rig.clock.utc_ns()))
    rig.run(10)
    (job,) = rig.orders
    numbers = rig.numbers(job)
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert 15 * 20 <= len(numbers) < 21 * 20


def test_memory_is_bounded_and_what_it_could_not_keep_is_counted(tmp_path: Path) -> None:
    rig = Rig(tmp_path, settings=replace(SETTINGS, memory_bytes=500))
    rig.run(40)
    assert rig.recorder.history.size_bytes <= 500
    assert rig.recorder.history.cut_bytes > 0
    rig.journal.append(a_finding(rig.clock.utc_ns()))
    rig.run(10)
    (job,) = rig.orders
    assert span_s(job) + job.meta.about["cut_s"] == pytest.approx(15.0, abs=2 * SETTINGS.flush_s)
    assert job.meta.about["cut_s"] > 5


def test_a_clean_end_writes_the_recording_that_is_open(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.run(20)
    rig.journal.append(a_finding(rig.clock.utc_ns()))
    rig.run(1)
    rig.recorder.end()
    (job,) = rig.orders
    assert rig.numbers(job)[-1] == rig.number - 1


def test_tables_that_change_within_a_recording_are_joined(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.run(12)
    rig.journal.append(a_finding(rig.clock.utc_ns()))
    rig.run(1)
    rig.ring.close()
    rig.ring, rig.spec = a_ring(tmp_path / "ring", WIDER), WIDER
    rig.run(8)
    (job,) = rig.orders
    assert job.contents.tables["supply"].signals == ("voltage_v", "current_a", "power_w")
    written = RecordingFolder(tmp_path / "out", 1 << 30).write(job)
    frames = list(read_recording(written.path).frames())
    numbers = sorted({number for frame in frames for number in frame.signal("voltage_v")[:, 0].tolist()})
    assert numbers == list(range(int(numbers[0]), rig.number - rig.number % 10))[: len(numbers)]
    assert frames[0].signal("power_w")[0, 0] != frames[0].signal("power_w")[0, 0]  # NaN before there was one
    assert frames[-1].signal("power_w")[-1, 0] == numbers[-1]


def test_a_recorder_that_is_killed_and_started_again_goes_on_where_it_was(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.run(20)
    rig.journal.append(a_finding(rig.clock.utc_ns()))
    rig.run(2.5)
    rig.box.close()  # what a kill does
    rig.box = BlackBox(tmp_path / "box", SETTINGS.box_bytes)
    left = rig.box.leftovers()
    ((facts, own),) = runs_in(left)
    state = state_of(own, EntryKind.STATE)
    assert state is not None
    rig.recorder = rig.a_recorder({name: (inode, offset) for name, (inode, offset) in state["journals"].items()})
    rig.recorder.resume_from(own)
    assert facts.started_ns == START_NS
    rig.run(8)
    (job,) = rig.orders
    numbers = rig.numbers(job)
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert 15 * 20 <= len(numbers) <= 22 * 20
    assert [trigger["id"] for trigger in job.meta.about["triggers"]] == ["f-1"]


def test_a_power_cut_costs_what_came_after_the_last_flush_and_a_kill_costs_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.run(31.3)
    ((facts, entries),) = runs_in(BlackBox(tmp_path / "box", 1 << 30).leftovers())
    cut = recovered(facts, entries, before_s=10.0)
    whole = recovered(
        facts, remaining_entries(entries, RowFollower(tmp_path / "ring"), [a_finding(START_NS)]), before_s=10.0
    )
    assert cut is not None
    assert whole is not None
    assert cut.meta.about["recovered"] is True
    assert cut.meta.config == {"node": {"name": "box"}}
    kept, all_of_it = rig.numbers(cut), rig.numbers(whole)
    assert rig.number - SETTINGS.flush_s * 20 - 10 <= kept[-1] < rig.number - 1
    assert kept == list(range(kept[0], kept[-1] + 1))
    assert all_of_it == list(range(kept[0], rig.number))
    assert [record.id for record in whole.contents.records if isinstance(record, Finding)] == ["f-1"]


def test_two_runs_that_both_ended_badly_are_two_recordings(tmp_path: Path) -> None:
    first = Rig(tmp_path)
    first.run(10)
    first.box.close()
    first.ring.close()
    second = Rig(tmp_path, started_ns=START_NS + 3600 * NS_PER_S)
    second.box.leftovers()
    second.run(10)
    runs = list(runs_in(BlackBox(tmp_path / "box", 1 << 30).leftovers()))
    assert [facts.started_ns for facts, _ in runs] == [START_NS, START_NS + 3600 * NS_PER_S]
    assert all(recovered(facts, entries, before_s=10.0) is not None for facts, entries in runs)


@pytest.mark.parametrize("before_s", [3.0, 10.0])
def test_what_is_recovered_is_the_last_window(tmp_path: Path, before_s: float) -> None:
    rig = Rig(tmp_path)
    rig.run(30)
    ((facts, entries),) = runs_in(BlackBox(tmp_path / "box", 1 << 30).leftovers())
    job = recovered(facts, entries, before_s=before_s)
    assert job is not None
    assert before_s <= span_s(job) + 0.05 <= before_s + 2 * SETTINGS.flush_s


def test_a_follower_that_skips_returns_what_comes_then_also_out_of_another_ring(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.run(5)
    follower = RowFollower(tmp_path / "ring")
    follower.skip_to_end()
    first = rig.number
    rig.run(1)
    entries = follower.read(0)
    rig.ring.close()
    rig.ring, rig.spec = a_ring(tmp_path / "ring", WIDER), WIDER
    rig.run(1)
    entries += follower.read(0)
    contents = contents_of(entries, {})
    numbers = [int(volts) for frame in contents.frames() for volts in frame.signal("voltage_v")[:, 0].tolist()]
    assert numbers == list(range(first, rig.number))
    assert contents.tables["supply"].signals == WIDER.signals


def test_rows_that_come_late_stand_in_the_recording_too(tmp_path: Path) -> None:
    gpu = Entity(kind=EntityKind.GPU, key="GPU-0", name="gpu0")
    rig = Rig(tmp_path, spec=TableSpec(name="gpu_samples", kind=EntityKind.GPU, entities=(gpu,), signals=("power_w",)))
    assert rig.spec.is_late
    rig.run(20)
    rig.journal.append(a_finding(rig.clock.utc_ns()))
    rig.run(10)
    (job,) = rig.orders
    read = read_recording(RecordingFolder(tmp_path / "out", 1 << 30).write(job).path)
    values = [
        watts for frame in read.frames() if frame.spec.is_late for watts in frame.signal("power_w")[:, 0].tolist()
    ]
    assert values == list(range(int(values[0]), int(values[-1]) + 1))
    assert len(values) > 10 * 20


def test_a_ring_is_let_go_of_once_another_one_stands_in_its_place(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.run(5)
    follower = rig.recorder.rows
    rig.ring.close()
    rig.ring = Ring.create(
        tmp_path / "ring", [WIDER], node="box", topology=rig.ring.topology, simulated=True, rows={"supply": 50}
    )
    assert follower.layout is not None
    assert follower.layout.number == 1
    rig.recorder.flush()
    assert follower.layout.number == 2
    assert follower.rows_lost == 0


def test_a_ring_that_was_replaced_is_read_from_its_first_row_however_many_it_has_by_then(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.run(2)
    rig.recorder.flush()
    rig.ring.close()
    rig.ring, rig.spec = a_ring(tmp_path / "ring", WIDER), WIDER
    rig.recorder.settings = replace(SETTINGS, flush_s=1000.0)
    rig.recorder._flush_at_ns = 1 << 62
    rig.run(4)  # more rows than the ring before had
    rig.recorder.flush()
    rows = [entry for entry in rig.recorder.history.between(0, 1 << 62) if entry.kind is EntryKind.ROWS]
    fresh = [entry for entry in rows if place_of_rows(entry)[0] == 2]
    assert sum(len(unpack_rows(entry, WIDER)) for entry in fresh) == 4 * 20
