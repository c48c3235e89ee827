"""Fleet loop over a fake store: watermark, gaps, late rows, an unreachable store, kills."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from analytics.fleet.judge import FleetSettings
from analytics.fleet.window import FleetWindow
from fleet.loop import LATE_LOOK_NS, FleetLoop, LoopSettings
from fleet.outbox import Outbox, Published
from telemetry.clock import NS_PER_S
from telemetry.errors import TransientError
from telemetry.records import Finding
from telemetry.store.records import RecordFile
from tests.analytics.fleet.windows import START_NS, fleet_tables, gpu_of, window_of
from tests.fleet.fakes import FakeFleetReader, FakeServer

NODES = ("node1", "node2")
EVERY_S, LATENESS_S = 5, 15


class FleetClock:
    """Clock in seconds since the first window; only the test moves it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def at(self, second: float) -> "FleetClock":
        self.now_s = second
        return self

    def monotonic_s(self) -> float:
        return self.now_s

    def utc_ns(self) -> int:
        return START_NS + round(self.now_s * NS_PER_S)

    def sleep_until(self, monotonic_s: float) -> None:
        self.now_s = max(self.now_s, monotonic_s)


def losing(until_s: int = 100, lost_from_s: int = 20) -> dict[int, FleetWindow]:
    windows = (
        window_of(second, fleet_tables(NODES, lost=gpu_of("node2", 3) if second >= lost_from_s else None))
        for second in range(0, until_s, EVERY_S)
    )
    return {window.start_ns: window for window in windows}


def every_start(until_s: int) -> list[tuple[int, int]]:
    return [(second, START_NS + second * NS_PER_S) for second in range(0, until_s, EVERY_S)]


class Rig:
    """Build a loop on a folder; a second one is the next process."""

    def __init__(self, folder: Path, reader: FakeFleetReader, clock: FleetClock, **settings: float) -> None:
        self.folder, self.server, self.published = folder, FakeServer(), list[Published]()
        self.outbox = Outbox(folder, self.server, clock, name="fleet", spool_max_bytes=1 << 20)
        self.loop = FleetLoop(
            reader,
            self.outbox,
            FleetSettings(),
            LoopSettings(
                every_s=EVERY_S,
                lateness_s=LATENESS_S,
                deadline_s=settings.get("deadline_s", 10.0),
                catch_up_s=settings.get("catch_up_s", 3600.0),
                since_ns=None if "anywhere" in settings else START_NS,
            ),
            clock,
            state_path=folder / "fleet.state",
            on_published=self.published.extend,
        )

    def kept(self) -> list[tuple[str, int]]:
        records = RecordFile(self.folder / "records", read_only=True)
        _, found = records.after(0)
        records.close()
        return [(one.id, one.time_ns) for one in found]


@contextmanager
def rig(folder: Path, reader: FakeFleetReader, clock: FleetClock, **settings: float) -> Iterator[Rig]:
    made = Rig(folder, reader, clock, **settings)
    try:
        yield made
    finally:
        made.outbox.close()


def ids(records: list[Published]) -> list[tuple[str, int]]:
    return [(one.id, one.time_ns) for one in records]


def test_a_window_is_judged_when_its_rows_had_time_to_come(tmp_path: Path) -> None:
    reader, clock = FakeFleetReader(losing()), FleetClock()
    with rig(tmp_path, reader, clock) as made:
        clock.at(19.9)
        made.loop.step()
        assert reader.requested == []
        clock.at(20.0)
        made.loop.step()
        assert reader.requested == [START_NS]
        clock.at(51.0)
        made.loop.step()
        assert [(asked - START_NS) // NS_PER_S for asked in reader.requested] == [0, 5, 10, 15, 20, 25, 30]


def test_what_it_finds_is_ordered_to_the_store_beside_the_node_and_kept(tmp_path: Path) -> None:
    clock = FleetClock().at(70.0)
    with rig(tmp_path, FakeFleetReader(losing()), clock) as made:
        made.loop.step()
        assert any(isinstance(one, Finding) and one.entity_id == gpu_of("node2", 3).id for one in made.published)
        assert made.kept() == ids(made.published)
    published = [line for line in made.server.lines if line.startswith("finding")]
    assert published
    assert all(",by=fleet," in line and ",node=node2," in line for line in published)


def test_a_loop_that_was_killed_loses_nothing_and_states_nothing_twice(tmp_path: Path) -> None:
    straight, clock = tmp_path / "straight", FleetClock().at(130.0)
    with rig(straight, FakeFleetReader(losing()), clock) as made:
        made.loop.step()
        wanted = ids(made.published)
    assert len(wanted) >= 3
    for saved_s in (15, 45):
        folder, published = tmp_path / f"killed-{saved_s}", list[tuple[str, int]]()
        for now_s in (saved_s, 75, 130):  # each a process: it saves, judges on, and is gone without a word
            with rig(folder, FakeFleetReader(losing()), clock) as made:
                clock.at(saved_s if now_s == saved_s else now_s)
                made.loop.step()
                if now_s == saved_s:
                    made.loop.save()
                published += ids(made.published)
                kept = made.kept()
        assert published == wanted
        assert kept == wanted


def test_a_window_that_was_reported_but_not_marked_is_kept_once(tmp_path: Path) -> None:
    clock = FleetClock().at(35.0)
    with rig(tmp_path, FakeFleetReader(losing()), clock) as made:
        made.loop.step()
        made.loop.save()
        clock.at(40.0)
        made.loop.step()
        wanted = made.kept()
    assert wanted
    # Killed between the records and the marker of their publication.
    (tmp_path / "fleet.told.json").write_text(json.dumps({"told_until_ns": START_NS + 20 * NS_PER_S}))
    with rig(tmp_path, FakeFleetReader(losing()), clock) as made:
        made.loop.step()
        assert made.outbox.published_until_ns == START_NS + 25 * NS_PER_S
        assert made.kept() == wanted


def test_what_rows_that_came_meanwhile_add_to_a_window_that_is_judged_again_is_reported(tmp_path: Path) -> None:
    clock = FleetClock().at(35.0)
    quiet = {start_ns: window_of(start_s, fleet_tables(NODES)) for start_s, start_ns in every_start(until_s=60)}
    with rig(tmp_path, FakeFleetReader(quiet), clock) as made:
        made.loop.step()
        made.loop.save()
        clock.at(75.0)
        made.loop.step()
        assert made.kept() == []
    # Killed without a chance to save; the rows that show a lost GPU came since.
    with rig(tmp_path, FakeFleetReader(losing()), clock) as made:
        made.loop.step()
        assert made.kept() == ids(made.published) != []
        assert made.outbox.published_until_ns == START_NS + 60 * NS_PER_S


def test_a_loop_that_was_killed_before_it_saved_goes_on_behind_what_it_had_reported(tmp_path: Path) -> None:
    reader, clock = FakeFleetReader(losing()), FleetClock()
    for now_s in (20.0, 60.0):
        with rig(tmp_path, reader, clock, anywhere=1) as made:
            for step_s in (now_s, now_s + EVERY_S):
                clock.at(step_s)
                made.loop.step()
    assert [(asked - START_NS) // NS_PER_S for asked in reader.requested] == list(range(5, 50, EVERY_S))


def test_records_that_the_disk_did_not_take_are_reported_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> None:
        raise TransientError("records: disk full")

    clock = FleetClock().at(70.0)
    with rig(tmp_path, FakeFleetReader(losing()), clock) as made:
        monkeypatch.setattr(RecordFile, "append", lambda _, records: full(records))
        made.loop.step()
        assert made.outbox.is_blocked
        made.loop.save()  # as at SIGTERM
        assert made.kept() == []
    monkeypatch.undo()
    with rig(tmp_path, FakeFleetReader(losing()), clock) as made:
        made.loop.step()
        assert any("gpu_lost" in record_id for record_id, _ in made.kept())


def test_a_clock_that_stood_far_ahead_is_begun_again_from_once_it_is_set_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reader, clock = FakeFleetReader(losing()), FleetClock().at(86_400.0)
    with rig(tmp_path, reader, clock, catch_up_s=60.0, anywhere=1) as made:
        made.loop.step()
        clock.at(20.0)
        made.loop.step()
        assert made.loop.metrics.gaps == 1
        for now_s in range(25, 90, EVERY_S):
            clock.at(now_s)
            made.loop.step()
        assert made.loop.until_ns == START_NS + 70 * NS_PER_S
        assert made.kept() == ids(made.published) != []
    assert "was set back" in caplog.text


def test_a_store_that_is_away_is_waited_for_and_reported_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reader, clock = FakeFleetReader(losing(), away=True), FleetClock().at(70.0)
    with rig(tmp_path, reader, clock) as made:
        for _ in range(3):
            made.loop.step()
        assert made.loop.until_ns == START_NS
        assert made.loop.metrics.failures == 3
        assert sum("cannot read the store" in record.message for record in caplog.records) == 1
        reader.away = False
        made.loop.step()
        assert made.loop.until_ns == START_NS + 55 * NS_PER_S


def test_what_comes_late_is_counted_by_node_and_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    reader, clock = FakeFleetReader(losing()), FleetClock().at(20.0)
    with rig(tmp_path, reader, clock) as made:
        made.loop.step()
        reader.late = {"node1": 12, "node9": 3}
        made.loop.look_for_late()
        assert made.loop.metrics.late_values.total() == 0  # not yet: it may be no more than slow
        clock.at(20.0 + LATE_LOOK_NS / NS_PER_S)
        made.loop.look_for_late()
        assert dict(made.loop.metrics.late_values) == {"node1": 12, "node9": 3}
        assert "12 of node1" in caplog.text


def test_an_absence_that_is_too_long_is_a_gap_and_not_a_flood_of_questions(tmp_path: Path) -> None:
    reader, clock = FakeFleetReader(losing()), FleetClock().at(40.0)
    with rig(tmp_path, reader, clock, catch_up_s=60.0, anywhere=1) as made:
        made.loop.step()
        clock.at(10_000.0)
        reader.requested.clear()
        made.loop.step()
        assert made.loop.metrics.gaps == 1
        assert len(reader.requested) == 60 // EVERY_S


def test_a_look_past_its_deadline_ends_between_windows_and_goes_on_at_the_next(tmp_path: Path) -> None:
    clock = FleetClock().at(70.0)
    with rig(tmp_path, FakeFleetReader(losing()), clock, deadline_s=-1.0) as made:
        made.loop.step()
        assert made.loop.metrics.overruns == 1
        assert made.loop.until_ns == START_NS


def test_a_node_that_falls_silent_is_reported_and_delays_no_window(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    windows = {
        START_NS + second * NS_PER_S: window_of(second, fleet_tables(NODES if second < 10 else NODES[:1]))
        for second in range(0, 50, EVERY_S)
    }
    clock = FleetClock().at(65.0)
    with rig(tmp_path, FakeFleetReader(windows), clock) as made:
        made.loop.step()
        assert made.loop.until_ns == START_NS + 50 * NS_PER_S
        assert made.loop.metrics.silent_nodes == 1
    assert [record.message for record in caplog.records if "sends no data" in record.message] == [
        "node node2 sends no data"
    ]


def test_a_state_that_cannot_be_read_is_stated_and_begun_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "fleet.state").write_bytes(b"not a state")
    with rig(tmp_path, FakeFleetReader(losing()), FleetClock().at(20.0)) as made:
        made.loop.step()
        assert made.loop.until_ns == START_NS + 5 * NS_PER_S
    assert "cannot restore fleet state, starting without it: state: damaged" in caplog.text
