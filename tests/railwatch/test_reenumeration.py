"""When the GPUs are counted anew."""

from dataclasses import replace
from pathlib import Path

import pytest

from railwatch.reenumeration import APART_S, SETTLE_S, Reenumeration
from telemetry.records import Event, EventKind, Severity
from tests.agent.fakes import FakeClock
from tests.analytics.scenes import event_of

BOUND = event_of(kind=EventKind.DRIVER_BOUND, code=None, severity=Severity.INFO, message="bound")


@pytest.mark.parametrize("kind", [EventKind.DRIVER_BOUND, EventKind.DEVICE_ADDED])
def test_gpus_are_counted_when_the_last_one_has_come(tmp_path: Path, kind: EventKind) -> None:
    clock = FakeClock()
    reenumeration = Reenumeration(clock, tmp_path / "mark")
    for _ in range(4):
        reenumeration.note([replace(BOUND, kind=kind)])
        clock.advance(SETTLE_S - 1.0)
        assert not reenumeration.is_due
    clock.advance(1.0)
    assert reenumeration.is_due
    assert reenumeration.reason == "bound"


@pytest.mark.parametrize(
    "event",
    [
        replace(BOUND, severity=Severity.WARNING),
        replace(BOUND, kind=EventKind.DRIVER_UNBOUND),
        event_of(kind=EventKind.BUS_DROP, code=None),
        event_of(),
    ],
)
def test_a_gpu_that_goes_or_is_given_to_another_driver_is_no_reason(tmp_path: Path, event: Event) -> None:
    clock = FakeClock()
    reenumeration = Reenumeration(clock, tmp_path / "mark")
    reenumeration.note([event])
    clock.advance(2 * SETTLE_S)
    assert not reenumeration.is_due


def test_a_gpu_that_comes_and_goes_is_counted_once_a_minute(tmp_path: Path) -> None:
    clock = FakeClock()
    first = Reenumeration(clock, tmp_path / "mark")
    first.leave_mark()
    clock.advance(5.0)
    second = Reenumeration(clock, tmp_path / "mark")
    second.note([BOUND])
    clock.advance(APART_S - 5.1)
    assert not second.is_due
    clock.advance(0.2)
    assert second.is_due


@pytest.mark.parametrize("text", ["", "<html>", "99999999.0", "nan"])
def test_a_mark_that_makes_no_sense_or_is_of_another_boot_delays_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "mark").write_text(text, encoding="ascii")
    clock = FakeClock()
    reenumeration = Reenumeration(clock, tmp_path / "mark")
    reenumeration.note([BOUND])
    clock.advance(SETTLE_S)
    assert reenumeration.is_due


def test_a_mark_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    Reenumeration(FakeClock(), tmp_path / "no" / "mark").leave_mark()
