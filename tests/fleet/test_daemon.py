"""Jobs of the daemon run one at a time; failed and skipped ones are counted and published."""

import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.daemon import FleetDaemon
from telemetry.clock import SystemClock
from tests.fleet.fakes import FakeFleetReader
from tests.fleet.test_loop import FleetClock, losing, rig
from tests.waiting import wait_for


def test_it_looks_at_once_saves_at_its_end_and_reports_of_itself(tmp_path: Path) -> None:
    clock = FleetClock().at(70.0)
    with rig(tmp_path, FakeFleetReader(losing()), clock) as made:
        daemon = FleetDaemon(made.loop, made.outbox, SystemClock(), name="fleet", every_s=60.0, keep_every_s=60.0)
        daemon.start()
        _until(lambda: made.loop.metrics.windows == 11)
        daemon.stop()
    assert (tmp_path / "fleet.state").exists()
    own = [line for line in made.server.lines if line.startswith("agent,by=fleet,entity=fleet,")]
    assert own
    assert re.search(r"fleet_windows=0*11\b", own[-1])


def test_a_look_that_is_not_over_is_not_begun_again_and_one_that_fails_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    entered, leave = threading.Event(), threading.Event()
    looks: list[int] = []

    with rig(tmp_path, FakeFleetReader(losing()), FleetClock().at(70.0)) as made:

        def step() -> None:
            looks.append(threading.get_ident())
            entered.set()
            leave.wait(60.0)
            raise RuntimeError("a defect")

        made.loop.step = step  # type: ignore[method-assign]
        daemon = FleetDaemon(made.loop, made.outbox, SystemClock(), name="fleet", every_s=0.05, keep_every_s=60.0)
        daemon.start()
        assert entered.wait(60.0)
        _until(lambda: daemon.counts["skipped"] >= 2)
        assert len(looks) == 1
        leave.set()
        _until(lambda: daemon.counts["failures"] >= 2)
        daemon.stop()
    assert len(set(looks)) == 1  # one thread owns the state
    assert "a defect" in caplog.text


def test_the_state_is_kept_behind_a_look_however_long_it_takes(tmp_path: Path) -> None:
    leave, calls = threading.Event(), list[str]()

    def step() -> None:
        calls.append("step")
        leave.wait(60.0)

    with rig(tmp_path, FakeFleetReader(losing()), FleetClock().at(70.0)) as made:
        made.loop.step = step  # type: ignore[method-assign]
        made.loop.save = lambda: calls.append("save")  # type: ignore[method-assign]
        daemon = FleetDaemon(made.loop, made.outbox, SystemClock(), name="fleet", every_s=0.05, keep_every_s=0.1)
        daemon.start()
        leave.wait(1.5)  # longer than a look may come late
        leave.set()
        _until(lambda: len(calls) >= 2)
        daemon.stop()
    assert calls[:2] == ["step", "save"]


def _until(holds: Callable[[], bool]) -> None:
    wait_for(holds)
