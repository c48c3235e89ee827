"""A guard that is started again goes on with the baselines that it had, and holds nothing raised from before."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.guard.judges import Judges
from agent.guard.learnt_file import KEEP_EVERY_S, MOST_BYTES, RETRY_S, LearntFile
from agent.guard.pipeline import Pipeline, PipelineSettings
from analytics.detectors.limits import DetectorLimits
from analytics.incidents.book_settings import BookSettings
from analytics.shards.learnt import Resumed
from rules.limits.node import NodeLimits
from telemetry.clock import NS_PER_S
from telemetry.frames import Frame
from telemetry.records import Cause, Finding, FindingStatus, IncidentState
from tests.agent.fakes import START_NS, FakeClock
from tests.agent.guard.box import WEAK_OHM
from tests.agent.guard.judged_rows import BOX, halves, judged, shifted
from tests.agent.guard.rig import Rig
from tests.agent.guard.test_accepting import accepted
from tests.analytics.detectors.supply_scenes import ageing
from tests.waiting import LIMIT_S


def pipeline_of(frame: Frame) -> Pipeline:
    return Pipeline(
        [frame.spec], BOX, PipelineSettings(policies=(), action_limits=NodeLimits(modes={})), supported_mhz={}
    )


class Run:
    """Run of a node's pipeline over rows, with its incidents and its file as the guard keeps them."""

    def __init__(self, folder: Path, clock: FakeClock, frame: Frame) -> None:
        self.file, self.clock = LearntFile(folder / "learnt", clock), clock
        self.pipeline = pipeline_of(frame)

    def restore(self, snapshot: dict[str, Any], now_ns: int) -> None:
        self.pipeline.restore(snapshot, now_ns)
        self.file.restore(self.pipeline, now_ns)

    def feed(self, rows: Sequence[Frame]) -> list[tuple[str, IncidentState]]:
        reported = [step for frame in rows for step in [self.pipeline.step([frame], (), int(frame.time_ns[-1]))]]
        return [(incident.id, incident.state) for step in reported for incident in step.incidents]


def pieces(frame: Frame) -> list[Frame]:
    return [frame.rows(first, first + 40) for first in range(0, len(frame), 40)]


def test_a_finding_that_holds_over_a_restart_is_one_incident_and_ends_by_what_is_measured(tmp_path: Path) -> None:
    frame, clock = ageing(1), FakeClock()
    ends_ns = int(frame.time_ns[-1])
    run = Run(tmp_path, clock, frame)
    (opened, *_) = run.feed(pieces(frame))
    run.file.end(run.pipeline, ends_ns)
    again = Run(tmp_path, clock, frame)
    again.restore(run.pipeline.snapshot(), ends_ns)
    rests = replace(frame, values=np.broadcast_to([12.1, 5.0], frame.values.shape))
    idle = [again.feed(shifted(pieces(rests), 60.0 * number)) for number in range(1, 5)]
    assert not any(idle), "an idle node tells nothing of its joint, and pages nobody"
    healthy = pieces(ageing(2, times=1.0))
    reported = [one for number in range(5, 10) for one in again.feed(shifted(healthy, 60.0 * number))]
    assert {incident_id for incident_id, _ in reported} == {opened[0]}
    assert reported[-1][1] is IncidentState.CLOSED


def test_the_file_is_written_now_and_then_and_whenever_it_is_asked_for(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "learnt"
    pipeline = pipeline_of(ageing(1))
    file = LearntFile(path, clock)
    file.keep(pipeline, 5)
    file.wait(LIMIT_S)
    assert not path.exists()
    file.keep(pipeline, 5, now=True)
    file.wait(LIMIT_S)
    written = path.read_bytes()
    path.unlink()
    clock.advance(KEEP_EVERY_S)
    file.keep(pipeline, 5)
    file.wait(LIMIT_S)
    assert path.read_bytes() == written
    pipeline.step([ageing(1)], (), int(ageing(1).time_ns[-1]))
    file.end(pipeline, 6)
    assert path.read_bytes() != written


def test_what_was_learnt_since_the_last_writing_is_all_that_a_kill_costs(tmp_path: Path) -> None:
    clock, frame = FakeClock(), ageing(1, times=1.0)
    killed, file = pipeline_of(frame), LearntFile(tmp_path / "learnt", clock)
    packed: list[bytes] = []
    for minute in range(13):
        for one in shifted(pieces(frame)[:4], 60.0 * minute):
            killed.step([one], (), int(one.time_ns[-1]))
        packed.append(killed.learnt(0)())
        file.keep(killed, 0)
        file.wait(LIMIT_S)
        clock.advance(60.0)
    again, *others = (pipeline_of(frame) for _ in range(3))
    LearntFile(tmp_path / "learnt", clock).restore(again, 0)
    for other, minute in zip(others, (10, 12), strict=True):
        other.take_learnt(packed[minute], 0)
    assert again.learnt(0)() == others[0].learnt(0)(), "written at the fifth and the tenth minute"
    assert again.learnt(0)() != others[1].learnt(0)()


def test_the_guard_does_not_wait_for_the_disk_and_writes_no_two_at_once(tmp_path: Path) -> None:
    slow = Slow()
    file = LearntFile(tmp_path / "learnt", FakeClock())
    file.keep(slow, 1, now=True)
    assert slow.began.wait(LIMIT_S)
    file.keep(slow, 2, now=True)
    assert slow.asked == [1], "it is asked again once the first one is written"
    slow.go.set()
    file.wait(LIMIT_S)
    file.keep(slow, 3)
    file.wait(LIMIT_S)
    assert slow.asked == [1, 3]


class Slow:
    """Learnt state that packs until `go` is set."""

    def __init__(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        self.asked: list[int] = []

    def learnt(self, now_ns: int) -> Callable[[], bytes]:
        self.asked.append(now_ns)
        return self._pack

    def _pack(self) -> bytes:
        self.began.set()
        assert self.go.wait(LIMIT_S)
        return b"packed"

    def take_learnt(self, blob: bytes, now_ns: int) -> Resumed:
        raise KeyError(len(blob), now_ns)


@pytest.mark.parametrize("body", [b"nothing of the kind", b""])
def test_a_file_that_cannot_be_used_is_put_aside_and_stated_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, body: bytes
) -> None:
    path = tmp_path / "learnt"
    path.write_bytes(body)
    LearntFile(path, FakeClock()).restore(pipeline_of(ageing(1)), 0)
    (output,) = caplog.messages
    assert "learning again" in output
    assert "\n" not in output
    assert not path.exists()
    assert path.with_suffix(".bad").read_bytes() == body


def test_a_file_of_any_length_is_not_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "learnt"
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    LearntFile(path, FakeClock()).restore(pipeline_of(ageing(1)), 0)
    assert "expected a regular file" in caplog.text


def test_a_file_that_fails_with_an_unexpected_error_does_not_keep_the_guard_from_starting(tmp_path: Path) -> None:
    path = tmp_path / "learnt"
    path.write_bytes(b"of a later version")
    LearntFile(path, FakeClock()).restore(Slow(), 0)
    assert path.with_suffix(".bad").exists()


def test_a_folder_that_cannot_be_written_is_stated_once_counted_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, pipeline = LearntFile(tmp_path / "nowhere" / "learnt", FakeClock()), pipeline_of(ageing(1))
    for _ in range(3):
        file.keep(pipeline, 0, now=True)
        file.wait(LIMIT_S)
    file.end(pipeline, 0)
    (output,) = caplog.messages
    assert "cannot save learnt baselines" in output
    assert file.failures == 4


def test_a_write_that_failed_is_tried_again_soon(tmp_path: Path) -> None:
    clock, path, pipeline = FakeClock(), tmp_path / "late" / "learnt", pipeline_of(ageing(1))
    file = LearntFile(path, clock)
    file.keep(pipeline, 0, now=True)
    file.wait(LIMIT_S)
    path.parent.mkdir()
    file.keep(pipeline, 0)
    file.wait(LIMIT_S)
    assert not path.exists()
    clock.advance(RETRY_S)
    file.keep(pipeline, 0)
    file.wait(LIMIT_S)
    assert path.exists()


def test_a_machine_without_a_thread_to_spare_costs_that_write_and_no_step(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    file, pipeline = LearntFile(tmp_path / "learnt", FakeClock()), pipeline_of(ageing(1))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fails)
        for _ in range(2):
            file.keep(pipeline, 0, now=True)
    (output,) = caplog.messages
    assert "can't start new thread" in output
    assert file.failures == 2
    file.end(pipeline, 0)
    assert (tmp_path / "learnt").exists()


def test_a_disk_that_hangs_is_stated_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    slow, clock = Slow(), FakeClock()
    file = LearntFile(tmp_path / "learnt", clock)
    file.keep(slow, 1, now=True)
    assert slow.began.wait(LIMIT_S)
    clock.advance(KEEP_EVERY_S - 1.0)
    file.keep(slow, 2, now=True)
    assert not caplog.messages
    for _ in range(3):
        clock.advance(1.0)
        file.keep(slow, 3, now=True)
    (output,) = caplog.messages
    assert "the disk does not answer" in output
    assert file.failures == 1
    slow.go.set()
    assert file.wait(LIMIT_S)


def test_a_start_by_a_wrong_clock_or_without_the_entities_does_not_spoil_since_when_they_are_frozen() -> None:
    frame, at_ns = ageing(1, times=1.0), 50 * NS_PER_S
    first = pipeline_of(frame)
    for one in pieces(frame):
        first.step([one], (), int(one.time_ns[-1]))
    stamps = {one.key: one.frozen_ns for one in first.note_baselines(at_ns)}
    assert at_ns in stamps.values()
    blob = first.learnt(at_ns)()
    empty = replace(frame, spec=replace(frame.spec, entities=()), values=frame.values[:, :0], fresh=frame.fresh[:, :0])
    for now_ns, rows in ((NS_PER_S, frame), (90 * NS_PER_S, empty)):
        again = pipeline_of(rows)
        again.take_learnt(blob, now_ns)
        shown = [one.frozen_ns for one in again.note_baselines(now_ns) if one.frozen_ns is not None]
        assert all(one <= now_ns for one in shown)
        blob = again.learnt(now_ns)()
    last = pipeline_of(frame)
    last.take_learnt(blob, 99 * NS_PER_S)
    assert {one.key: one.frozen_ns for one in last.note_baselines(99 * NS_PER_S)} == stamps


def test_what_a_person_accepted_while_it_was_away_does_not_come_back() -> None:
    frame = ageing(1)
    first = Judges(DetectorLimits(), [frame.spec])
    judged(first, halves(frame, 160)[0])
    absent = Judges(DetectorLimits(), [])
    absent.take_learnt(first.learnt(1, {})(), 1, ())
    assert ("source_resistance", "supply:psu0") in absent.away
    absent.step((), [accepted("supply:psu0", time_ns=2)], 2, BOX)
    back = Judges(DetectorLimits(), [frame.spec])
    back.take_learnt(absent.learnt(3, {})(), 3, ())
    own = next(state for detector, state in back.states() if detector.name == "source_resistance")
    assert np.isnan(own.reference.ohm).tolist() == [True, False]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.close()


def joints(rig: Rig) -> list[tuple[str, FindingStatus]]:
    findings = [one for one in rig.sink.records if isinstance(one, Finding) and one.detector == "source_resistance"]
    return [(one.entity_id, one.status) for one in findings if one.status is not FindingStatus.UPDATED]


def test_a_guard_that_is_killed_while_joints_are_bad_reports_of_them_once(rig: Rig) -> None:
    # A voltage that moved by the load's steps alone would be of a meter with steps as large.
    rig.box.ripple_v = 0.001
    rig.tick(300)
    rig.box.resistance_ohm = 0.7 * WEAK_OHM
    while not joints(rig):
        rig.tick(10)
        assert rig.clock.utc_ns() < START_NS + 60 * NS_PER_S
    assert rig.learnt.wait(LIMIT_S)
    reported, incidents = joints(rig), {one.id for one in rig.pipeline.incidents}
    rig.start_guard()
    rig.clock.advance(BookSettings().confirm_s + BookSettings().quiet_s)
    rig.tick(40)
    assert joints(rig) == reported
    assert {one.id for one in rig.pipeline.incidents} == incidents
    held = [one for incident in rig.pipeline.incidents for one in incident.findings if one.cause is Cause.JOINT_AGEING]
    assert {one.entity_id for one in held if one.status is not FindingStatus.CLEARED} == {one for one, _ in reported}
