"""The standing verdict: written once it is renewed, and read by other processes as it was."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from agent.guard.learnt_file import LearntFile, LearntFiles
from agent.guard.pipeline import Pipeline, PipelineSettings
from analytics.supply.standing import StandingVerdict
from railwatch.operator.standing import read_standing, standing_lines
from rules.limits.node import NodeLimits
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.frames import Frame
from telemetry.ratings import RatingSource, rating_tags
from tests.agent.fakes import FakeClock
from tests.analytics.scenes import frame_of, node_of, supply


def rails(seconds: float) -> Frame:
    members = tuple(supply(number) for number in range(2))
    tagged = tuple(replace(one, tags=rating_tags(1100.0, RatingSource.SUPPLY)) for one in members)
    amps = np.where(np.arange(round(seconds * 10)) % 10 < 5, 80.0, 40.0)[:, np.newaxis] * np.ones(2)
    return frame_of(EntityKind.SUPPLY, tagged, {"voltage_v": 12.3 - 0.005 * amps, "current_a": amps}, rate_hz=10.0)


def judging(frame: Frame) -> Pipeline:
    return Pipeline(
        [frame.spec], node_of(4, 2), PipelineSettings(policies=(), action_limits=NodeLimits()), supported_mhz={}
    )


def run(pipeline: Pipeline, files: LearntFiles, frame: Frame) -> None:
    for start in range(0, len(frame), 10):
        part = frame.rows(start, start + 10)
        pipeline.step((part,), (), int(part.time_ns[-1]))
        files.keep(pipeline, int(part.time_ns[-1]))


def test_the_verdict_is_written_once_there_is_one_and_read_as_it_was(tmp_path: Path) -> None:
    frame, clock, path = rails(90.0), FakeClock(), tmp_path / "standing.json"
    pipeline = judging(frame)
    standing, file = pipeline.standing, LearntFile(path, clock, content="standing verdict")
    files = LearntFiles(
        LearntFile(tmp_path / "learnt", clock), LearntFile(tmp_path / "boards", clock), (file, standing)
    )
    run(pipeline, files, frame.rows(0, 150))
    assert standing.verdict == StandingVerdict()
    assert read_standing(path, clock.utc_ns()) is None
    run(pipeline, files, frame.rows(150, 900))
    # 90 s of rows pass in less time than the disk may need for the verdict of a minute ago: then the next step writes.
    assert file.wait(10.0)
    files.keep(pipeline, int(frame.time_ns[-1]) + 30 * NS_PER_S)
    assert file.wait(10.0)
    assert not standing.is_new(int(frame.time_ns[-1]) + 60 * NS_PER_S)
    written_ns = path.stat().st_mtime_ns
    read = read_standing(path, written_ns + 70 * NS_PER_S)
    assert read == standing.verdict
    assert read is not None
    lines = [*standing_lines(read)]
    assert read_standing(path, written_ns + 200 * NS_PER_S) is None, "a guard that does not judge any more"
    assert max(map(len, lines)) <= 80
    assert "    without PSU 0 11.70 V, steps 11.50 V" in lines
    assert "  Without PSU 0: PSU 1 1920 of 1100 W in load steps, over its rating" in lines
    assert any(line.endswith(" W less mends it") for line in lines)


def test_a_damaged_file_is_no_verdict(tmp_path: Path) -> None:
    path = tmp_path / "standing.json"
    for body in (b"", b"{", b'{"supplies": 3}', b'{"supplies": {"buses": []}}'):
        path.write_bytes(body)
        assert read_standing(path, path.stat().st_mtime_ns) is None
