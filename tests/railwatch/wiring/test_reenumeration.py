"""Re-enumeration of the GPUs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agent.ring.ring import Ring
from railwatch.wiring.reenumeration import APART_S, COUNTED_FILE, SETTLE_S, Recount, Reenumeration
from telemetry.entities import EntityKind
from telemetry.frames import TableSpec
from telemetry.records import Event, EventKind, Severity
from tests.agent.fakes import START_NS, FakeClock, gpu_entities, node_topology
from tests.analytics.scenes import event_of

BOUND = event_of(kind=EventKind.DRIVER_BOUND, code=None, severity=Severity.INFO, message="bound")


@pytest.mark.parametrize("kind", [EventKind.DRIVER_BOUND, EventKind.DEVICE_ADDED])
def test_gpus_are_counted_when_the_last_one_has_come(tmp_path: Path, kind: EventKind) -> None:
    clock = FakeClock()
    reenumeration = Reenumeration(clock, tmp_path)
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
    reenumeration = Reenumeration(clock, tmp_path)
    reenumeration.note([event])
    clock.advance(2 * SETTLE_S)
    assert not reenumeration.is_due


def test_a_gpu_that_comes_and_goes_is_counted_once_a_minute(tmp_path: Path) -> None:
    clock = FakeClock()
    first = Reenumeration(clock, tmp_path)
    first.leave_mark()
    clock.advance(5.0)
    second = Reenumeration(clock, tmp_path)
    second.note([BOUND])
    clock.advance(APART_S - 5.1)
    assert not second.is_due
    clock.advance(0.2)
    assert second.is_due


@pytest.mark.parametrize("text", ["", "<html>", "99999999.0", "nan"])
def test_a_mark_that_makes_no_sense_or_is_of_another_boot_delays_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / COUNTED_FILE).write_text(text, encoding="ascii")
    clock = FakeClock()
    reenumeration = Reenumeration(clock, tmp_path)
    reenumeration.note([BOUND])
    clock.advance(SETTLE_S)
    assert reenumeration.is_due


def test_a_mark_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    Reenumeration(FakeClock(), tmp_path / "no").leave_mark()


def _rare(folder: Path) -> Ring:
    spec = TableSpec(
        name="gpu_rare", kind=EntityKind.GPU, entities=gpu_entities(2), signals=("remapped_rows", "mig_mode")
    )
    return Ring.create(
        folder / "ring", [spec], node="n", topology=node_topology(2), simulated=True, rows={"gpu_rare": 10}
    )


def _show(ring: Ring, *modes: float) -> None:
    values = np.array([[0.0, mode] for mode in modes])
    ring.tables["gpu_rare"].append(START_NS, values, np.ones(values.shape, dtype=np.bool_))


def test_gpus_are_counted_once_one_is_split_into_instances(tmp_path: Path) -> None:
    clock, ring = FakeClock(), _rare(tmp_path)
    reenumeration, recount = Reenumeration(clock, tmp_path), Recount(tmp_path)
    recount.look_at(ring.tables.values())  # there is no row yet
    for modes in ((0.0, 1.0), (0.0, np.nan), (0.0, 1.0)):
        _show(ring, *modes)
        recount.look_at(ring.tables.values())
        reenumeration.look()
    clock.advance(SETTLE_S)
    assert not reenumeration.is_due, "nothing was split since"
    _show(ring, 1.0, 1.0)
    for _ in range(3):
        recount.look_at(ring.tables.values())
        reenumeration.look()
        clock.advance(SETTLE_S / 3)
    assert reenumeration.is_due
    assert reenumeration.reason == f"{gpu_entities(2)[0].name} is split into instances"
    ring.close()


def test_who_reads_the_gpus_too_receives_that_they_were_counted_again_since_it_began(tmp_path: Path) -> None:
    clock = FakeClock()
    Reenumeration(clock, tmp_path).leave_mark()
    recount = Recount(tmp_path)
    assert not recount.was_done
    clock.advance(APART_S)
    Reenumeration(clock, tmp_path).leave_mark()
    assert recount.was_done
    assert not Recount(tmp_path).was_done


def test_a_request_that_cannot_be_written_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ring, recount = _rare(tmp_path), Recount(tmp_path / "no")
    for mode in (1.0, 0.0):
        _show(ring, mode, 0.0)
        recount.look_at(ring.tables.values())
    assert "is whole again, but cannot request a count of the GPUs" in caplog.text
    ring.close()
