"""GPUs that are not there when the process starts."""

from collections.abc import Sequence
from pathlib import Path

from agent.collectors.gpu.roster import GpuRoster
from telemetry.records import Event, EventKind, Severity
from tests.agent.fakes import FakeClock

FOUR = ("GPU-0", "GPU-1", "GPU-2", "GPU-3")


def start(
    folder: Path, uuids: Sequence[str], *, lost_at_open: Sequence[str] = (), clock: FakeClock | None = None
) -> GpuRoster:
    roster = GpuRoster(
        folder / "gpus.json", uuids=uuids, lost_at_open=lost_at_open, node="node0", clock=clock or FakeClock()
    )
    roster.open()
    return roster


def reported(folder: Path, uuids: Sequence[str], *, lost_at_open: Sequence[str] = ()) -> tuple[Event, ...]:
    return start(folder, uuids, lost_at_open=lost_at_open).poll(0.5)


def test_a_gpu_that_the_driver_counts_and_cannot_open_is_reported(tmp_path: Path) -> None:
    (event,) = reported(tmp_path, FOUR[:3], lost_at_open=("identify GPU 3: lost",))
    assert event.message == "1 of 4 GPUs do not respond at start: identify GPU 3: lost"
    assert (event.kind, event.severity, event.entity_id) == (EventKind.COLLECTOR, Severity.CRITICAL, "node:node0")


def test_a_gpu_of_the_last_run_that_is_gone_is_reported_at_every_start_until_it_is_back(tmp_path: Path) -> None:
    assert reported(tmp_path, FOUR) == ()
    for _ in range(2):
        (event,) = reported(tmp_path, FOUR[:3])
        way_out = f"removed on purpose? delete {tmp_path / 'gpus.json'}"
        assert event.message == f"1 of 4 GPUs do not respond at start: GPU-3; {way_out}"
    assert reported(tmp_path, FOUR) == ()


def test_after_the_way_out_that_is_reported_a_gpu_that_was_taken_out_is_missed_no_more(tmp_path: Path) -> None:
    reported(tmp_path, FOUR)
    (tmp_path / "gpus.json").unlink()
    for _ in range(2):
        assert reported(tmp_path, FOUR[:3]) == ()


def test_all_gpus_of_the_last_run_that_are_gone_are_reported(tmp_path: Path) -> None:
    reported(tmp_path, FOUR)
    assert reported(tmp_path, ())[0].message.startswith("4 of 4 GPUs do not respond at start")


def test_a_board_that_took_the_place_of_another_is_no_loss(tmp_path: Path) -> None:
    reported(tmp_path, FOUR)
    assert reported(tmp_path, (*FOUR[:3], "GPU-9")) == ()
    assert reported(tmp_path, (*FOUR[:3], "GPU-9")) == ()


def test_it_is_reported_again_every_minute_as_the_same_error(tmp_path: Path) -> None:
    clock = FakeClock()
    roster = start(tmp_path, FOUR[:3], lost_at_open=("identify GPU 3: lost",), clock=clock)
    events = [event for _ in range(250) for event in roster.poll(0.5)]
    assert len(events) == 3
    assert len({event.id for event in events}) == 1
    assert events[0].time_ns < events[1].time_ns


def test_a_file_that_makes_no_sense_is_written_again(tmp_path: Path) -> None:
    (tmp_path / "gpus.json").write_text("{")
    assert reported(tmp_path, FOUR) == ()
    assert len(reported(tmp_path, FOUR[:2])) == 1
