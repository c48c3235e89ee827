"""Power curves of the boards over a restart of the guard, in a file of their own."""

import logging
from pathlib import Path

import pytest

from agent.guard.learnt_file import BOARDS_EVERY_S, LearntFile, LearntFiles
from agent.guard.pipeline import Pipeline, PipelineSettings
from rules.limits.node import NodeLimits
from telemetry.entities import Topology
from tests.agent.fakes import FakeClock
from tests.analytics.board_curve.rows import GPUS, MAX_MHZ, SPEC, Rows


def pipeline() -> Pipeline:
    return Pipeline(
        [SPEC],
        Topology(entities=GPUS),
        PipelineSettings(policies=(), action_limits=NodeLimits()),
        supported_mhz={gpu.key: (210.0, MAX_MHZ) for gpu in GPUS},
    )


def files(folder: Path, clock: FakeClock) -> LearntFiles:
    return LearntFiles(
        LearntFile(folder / "learnt", clock),
        LearntFile(folder / "boards.json", clock, content="power curves", every_s=BOARDS_EVERY_S),
    )


def taught() -> Pipeline:
    found, rows = pipeline(), Rows()
    for ratio in (1.0, 0.8):
        for frame in rows.load(30.0, ratio=ratio):
            found.step((frame,), (), int(frame.time_ns[-1]))
    return found


def test_a_guard_that_ended_goes_on_with_the_curves_that_it_had(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    before, after, clock = taught(), pipeline(), FakeClock()
    files(tmp_path, clock).end(before, 0)
    files(tmp_path, clock).restore(after, 0)
    assert after.boards.states[GPUS[0].id].curve.steps == before.boards.states[GPUS[0].id].curve.steps == 1
    assert [one.getMessage() for one in caplog.records if "power curves" in one.getMessage()] == [
        f"restored learnt power curves: {tmp_path / 'boards.json'}: 2 of 2 boards"
    ]


@pytest.mark.parametrize("body", [b"", b"{}", b"\x00" * 100, b'{"version":1,"boards":{"gpu:GPU-0":{"mean":[]}}}'])
def test_a_damaged_file_is_one_log_line_and_the_boards_begin_from_the_table(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, body: bytes
) -> None:
    (tmp_path / "boards.json").write_bytes(body)
    after = pipeline()
    files(tmp_path, FakeClock()).restore(after, 0)
    assert len(caplog.records) == 1
    assert caplog.records[0].getMessage().startswith("cannot restore learnt power curves, learning again: ")
    assert not after.boards.states
    assert after.boards.curves[GPUS[0].id].steps == 0
    assert (tmp_path / "boards.bad").exists()
    assert not (tmp_path / "boards.json").exists()


def test_the_curves_are_written_every_minute_and_a_kill_leaves_a_whole_file(tmp_path: Path) -> None:
    clock = FakeClock()
    kept, before = files(tmp_path, clock), taught()
    kept.keep(before, 0)
    assert not (tmp_path / "boards.json").exists()
    clock.sleep_until(clock.monotonic_s() + BOARDS_EVERY_S)
    kept.keep(before, 0)
    kept.end(before, 0)
    assert [one.name for one in sorted(tmp_path.iterdir())] == ["boards.json", "learnt"]
    after = pipeline()
    files(tmp_path, clock).restore(after, 0)
    assert after.boards.states.keys() == before.boards.states.keys()
