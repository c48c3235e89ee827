"""A guard that is started again goes on with the baselines that it had, and holds nothing raised from before."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.guard.judges import Judges
from agent.guard.learnt_file import KEEP_EVERY_S, LearntFile
from agent.guard.pipeline import Pipeline, PipelineSettings
from analytics.detectors.limits import DetectorLimits
from analytics.detectors.novelty_limits import NoveltyLimits
from rules.rails import Rails
from telemetry.entities import Topology
from telemetry.frames import Frame
from telemetry.records import Finding, FindingStatus
from tests.agent.fakes import FakeClock
from tests.analytics.detectors.novelty_scenes import node
from tests.analytics.detectors.supply_scenes import ageing
from tests.analytics.scenes import node_of

BOX = node_of(0, 2)


def judged(judges: Judges, frames: Sequence[Frame], topology: Topology = BOX) -> list[Finding]:
    return [one for frame in frames for one in judges.step([frame], (), int(frame.time_ns[-1]), topology)]


def halves(frame: Frame, row: int) -> tuple[list[Frame], list[Frame]]:
    rows = [frame.rows(first, min(first + 10, len(frame))) for first in range(0, len(frame), 10)]
    return rows[: row // 10], rows[row // 10 :]


def risen(findings: Sequence[Finding]) -> list[str]:
    return [
        one.entity_id for one in findings if one.detector == "source_resistance" and one.status is FindingStatus.RAISED
    ]


def test_a_joint_that_went_bad_while_the_guard_was_down_is_told_against_the_baseline_of_before() -> None:
    frame = ageing(1)
    before, after = halves(frame, 160)
    first = Judges(DetectorLimits(), [frame.spec])
    assert risen(judged(first, before)) == []
    again, forgetful = Judges(DetectorLimits(), [frame.spec]), Judges(DetectorLimits(), [frame.spec])
    again.take_learnt(first.learnt)
    assert risen(judged(again, after)) == ["supply:psu0"]
    assert risen(judged(forgetful, after)) == [], "without it the bad joint is what it first saw"


def test_what_was_raised_before_is_told_again_by_what_is_measured_now() -> None:
    frame = ageing(1)
    before, after = halves(frame, 300)
    first = Judges(DetectorLimits(), [frame.spec])
    assert risen(judged(first, before)) == ["supply:psu0"]
    again = Judges(DetectorLimits(), [frame.spec])
    again.take_learnt(first.learnt)
    assert risen(judged(again, after)) == ["supply:psu0"]


def test_an_entity_that_is_gone_or_new_does_not_keep_the_others_from_going_on() -> None:
    limits = DetectorLimits(novelty=NoveltyLimits(learn_windows=30, blocks=3, block_windows=5))
    frame = node(1, rows=100)
    settings = PipelineSettings(policies=(), rails=Rails(modes={}), limits=limits)
    before = Pipeline([frame.spec], node_of(4, 0), settings, supported_mhz={})
    for row in range(len(frame)):
        before.step([frame.rows(row, row + 1)], (), int(frame.time_ns[row]))
    fewer = type(frame.spec)(
        name=frame.spec.name, kind=frame.spec.kind, entities=frame.spec.entities[1:], signals=frame.spec.signals
    )
    again = Pipeline([fewer], node_of(4, 0), settings, supported_mhz={})
    again.take_learnt(before.learnt)
    learnt = {one.entity_id: one.learnt_ratio for one in again.baselines if one.detector == "novelty"}
    assert set(learnt) == {entity.id for entity in fewer.entities}
    assert set(learnt.values()) == {1.0}


def test_the_file_is_written_now_and_then_and_whenever_it_is_asked_for(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "learnt"
    pipeline = Judges(DetectorLimits(), [ageing(1).spec])
    file = LearntFile(path, clock)
    file.keep(pipeline)
    assert not path.exists()
    file.keep(pipeline, now=True)
    written = path.read_bytes()
    path.unlink()
    clock.advance(KEEP_EVERY_S)
    file.keep(pipeline)
    assert path.read_bytes() == written
    LearntFile(path, clock).restore(Judges(DetectorLimits(), [ageing(1).spec]))
    assert path.exists()


def test_a_file_that_does_not_fit_is_put_aside_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock, path = FakeClock(), tmp_path / "learnt"
    path.write_bytes(b"nothing of the kind")
    LearntFile(path, clock).restore(Judges(DetectorLimits(), [ageing(1).spec]))
    assert "learnt anew" in caplog.text
    assert not path.exists()
    assert path.with_suffix(".bad").exists()


class Unforeseen:
    """Takes nothing up, for a reason that nobody thought of."""

    learnt = b""

    def take_learnt(self, blob: bytes) -> None:
        raise KeyError(len(blob))


def test_a_file_that_fails_in_a_way_nobody_foresaw_does_not_keep_the_guard_from_starting(tmp_path: Path) -> None:
    path = tmp_path / "learnt"
    path.write_bytes(b"of a later version")
    LearntFile(path, FakeClock()).restore(Unforeseen())
    assert path.with_suffix(".bad").exists()


def test_a_folder_that_cannot_be_written_is_said_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = LearntFile(tmp_path / "nowhere" / "learnt", FakeClock())
    file.keep(Judges(DetectorLimits(), [ageing(1).spec]), now=True)
    assert "cannot be kept" in caplog.text
