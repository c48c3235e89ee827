"""Tables of slow sources come while the guard runs: they are judged from then on, and nothing that holds is lost."""

import errno
import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agent.guard.judged_tables import TAKE_EVERY_S, JudgedTables, SlowTables
from agent.guard.step_log import TABLE as STEPS
from agent.guard.step_log import StepLog, tables_of
from agent.ring.ring import Ring
from analytics.incidents.book_settings import BookSettings
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import TableSpec
from telemetry.records import ActionState, Cause, Finding, FindingStatus
from tests.agent.guard.box import NODE, SPECS, SUPPLIES
from tests.agent.guard.rig import Rig

FANS = tuple(Entity(kind=EntityKind.FAN, key=f"fan{number}", name=f"fan{number}") for number in range(3))
FAN_TABLE = TableSpec(name="bmc_fan", kind=EntityKind.FAN, entities=FANS, signals=("fan_rpm",))
OUTLETS = TableSpec(
    name="pdu",
    kind=EntityKind.SUPPLY,
    entities=(Entity(kind=EntityKind.SUPPLY, key="outlet1", name="outlet1"),),
    signals=("input_voltage_v",),
)
TURN_RPM = 4000.0


def slow_ring(folder: Path, *specs: TableSpec) -> Ring:
    """Create the ring of the process for slow sources, as a process does that starts there."""
    entities = tuple(dict.fromkeys(entity for spec in specs for entity in spec.entities))
    topology = Topology(entities=(NODE, *entities), edges=tuple((NODE.id, entity.id) for entity in entities))
    rows = {spec.name: 400 for spec in specs}
    return Ring.create(folder / "ring-slow", specs, node="node0", topology=topology, simulated=True, rows=rows)


class SlowRig(Rig):
    """A rig whose guard watches for a ring of slow sources; `slow` is written too where there is one."""

    slow: Ring | None = None
    log: StepLog | None = None
    rpm: tuple[float, ...] = (TURN_RPM,) * 3

    def start_watching(self) -> None:
        if self.log is not None:
            self.log.close()
        node = Entity(kind=EntityKind.NODE, key="node0", name="node0")
        names = [spec.name for spec in SPECS]
        self.log = self.guard._steps = StepLog(self.folder / "ring-steps", names, node=node, simulated=True, rows=4000)
        self.guard._later = SlowTables(JudgedTables.of(self.ring), self.folder / "ring-slow", self.clock)

    def row(self) -> None:
        super().row()
        fans = None if self.slow is None else self.slow.tables.get(FAN_TABLE.name)
        if fans is not None and self.box.rows % 20 == 0:
            fans.append(self.box.time_ns, np.array(self.rpm)[:, None], np.ones((3, 1), dtype=np.bool_))

    def raised(self, cause: Cause) -> list[str]:
        return [
            one.entity_id
            for one in self.sink.records
            if isinstance(one, Finding) and one.cause is cause and one.status is FindingStatus.RAISED
        ]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SlowRig]:
    made = SlowRig(tmp_path)
    made.start_watching()
    yield made
    made.close()


def stop_a_fan(rig: SlowRig) -> None:
    rig.tick(400)
    rig.rpm = (TURN_RPM, 0.0, TURN_RPM)
    rig.tick(500)


def test_a_table_that_comes_late_is_judged_from_then_on(rig: SlowRig, caplog: pytest.LogCaptureFixture) -> None:
    rig.tick(100)
    with caplog.at_level(logging.INFO):
        rig.slow = slow_ring(rig.folder, FAN_TABLE)
        stop_a_fan(rig)
    assert rig.raised(Cause.AIRFLOW) == ["fan:fan1"]
    assert "detector fan_stopped is idle" not in caplog.text
    assert "detector mains_voltage is idle: no source has its signals" in caplog.text
    assert rig.guard.failures == 0


def test_a_sag_and_its_caps_go_on_while_tables_come(rig: SlowRig) -> None:
    rig.sag()
    (incident_id,), (capped_mhz,) = rig.pipeline._incidents, rig.capped()
    rig.slow = slow_ring(rig.folder, FAN_TABLE)
    rig.tick(200)
    assert [*rig.pipeline._incidents] == [incident_id]
    (now_mhz,) = rig.capped()
    assert (now_mhz or 1530.0) <= (capped_mhz or 0.0) < 1530.0, "no cap was loosened"
    assert ActionState.RELEASED not in rig.states()
    assert len(rig.raised(Cause.SUPPLY_SAG)) == 2, "each of the two supplies once: the book waits for the detectors"


def test_what_was_learnt_before_a_table_came_is_not_learnt_again(rig: SlowRig) -> None:
    rig.tick(2400)
    before = {one.key: one.learnt_ratio for one in rig.pipeline.baselines}
    assert any(before.values())
    rig.slow = slow_ring(rig.folder, FAN_TABLE)
    rig.tick(30)
    after = {one.key: one.learnt_ratio for one in rig.pipeline.baselines}
    assert all(after[key] >= ratio for key, ratio in before.items())


def test_a_ring_in_the_place_of_another_with_the_same_tables_starts_nothing_over(rig: SlowRig) -> None:
    rig.slow = slow_ring(rig.folder, FAN_TABLE, OUTLETS)
    rig.tick(400)
    topology = rig.pipeline._topology
    rig.slow.close()
    rig.slow = slow_ring(rig.folder, FAN_TABLE)
    rig.tick(round(TAKE_EVERY_S) * 20)
    assert rig.pipeline._topology is topology
    stop_a_fan(rig)
    assert rig.raised(Cause.AIRFLOW) == ["fan:fan1"], "of the ring that is there now"
    assert rig.guard.failures == 0


def test_tables_that_change_all_the_time_are_taken_once_a_minute(rig: SlowRig) -> None:
    taken = []
    for second in range(round(2.5 * TAKE_EVERY_S)):
        if second % 2 == 0:
            if rig.slow is not None:
                rig.slow.close()
            rig.slow = slow_ring(rig.folder, replace(FAN_TABLE, name=f"fans{second}"))
        rig.tick(20)
        taken.append(rig.pipeline._topology)
    assert len({id(one) for one in taken}) == 3, "at the start, and then once a minute"
    assert len(rig.guard._reader.nexts) == len(SPECS) + 3


def test_what_a_detector_holds_goes_on_where_its_own_table_is_the_same(rig: SlowRig) -> None:
    rig.slow = slow_ring(rig.folder, FAN_TABLE)
    stop_a_fan(rig)
    rig.slow.close()
    rig.slow = slow_ring(rig.folder, FAN_TABLE, OUTLETS)
    rig.tick(round(BookSettings().confirm_s + TAKE_EVERY_S) * 20)
    (incident,) = rig.pipeline._incidents.values()
    assert [one.status for one in incident.findings] == [FindingStatus.RAISED], "the fan stands still all the while"
    assert rig.raised(Cause.AIRFLOW) == ["fan:fan1"]


def test_a_damaged_ring_is_named_once_and_the_guard_goes_on(rig: SlowRig, caplog: pytest.LogCaptureFixture) -> None:
    (rig.folder / "ring-slow").write_bytes(b"RWRING\x00\x01")
    rig.sag()
    rig.tick(200)
    assert caplog.text.count("cannot judge what slow sources read, will retry") == 1
    assert rig.raised(Cause.SUPPLY_SAG)
    (rig.folder / "ring-slow").unlink()
    rig.slow = slow_ring(rig.folder, FAN_TABLE)
    stop_a_fan(rig)
    assert rig.raised(Cause.AIRFLOW) == ["fan:fan1"]


def test_the_log_of_steps_counts_the_rows_of_the_tables_that_came(rig: SlowRig) -> None:
    rig.slow = slow_ring(rig.folder, FAN_TABLE)
    rig.tick(100)
    steps = Ring.attach(rig.folder / "ring-steps").tables[STEPS]
    assert tables_of(steps.spec) == ("gpu_fast", "supply", "bmc_fan")
    nexts = dict(zip(steps.spec.signals, steps.read(steps.count - 1).frame.values[0, 0].tolist(), strict=True))
    assert nexts["next_gpu_fast"] == 100
    assert nexts["next_bmc_fan"] == rig.slow.tables["bmc_fan"].count


def test_without_memory_for_another_log_of_steps_the_guard_goes_on(
    rig: SlowRig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig.slow = slow_ring(rig.folder, FAN_TABLE)
    monkeypatch.setattr("agent.ring.ring.os.posix_fallocate", full)
    rig.sag()
    stop_a_fan(rig)
    assert rig.raised(Cause.AIRFLOW) == ["fan:fan1"]
    assert caplog.text.count("steps of the guard are not logged any more") == 1
    assert rig.guard.failures == 0


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_table_of_the_sampler_keeps_its_place_beside_one_of_its_name(rig: SlowRig) -> None:
    slow_ring(rig.folder, TableSpec(name="supply", kind=EntityKind.FAN, entities=FANS, signals=("fan_rpm",)))
    found = SlowTables(JudgedTables.of(rig.ring), rig.folder / "ring-slow", rig.clock).look()
    assert found is not None
    assert [*found.tables] == ["gpu_fast", "supply"]
    assert found.tables["supply"] is rig.ring.tables["supply"]


def test_what_was_learnt_of_a_slow_table_goes_on_over_a_restart(rig: SlowRig, caplog: pytest.LogCaptureFixture) -> None:
    inputs = TableSpec(
        name="board_supplies", kind=EntityKind.SUPPLY, entities=SUPPLIES, signals=("input_voltage_v", "power_w")
    )
    rig.slow = slow_ring(rig.folder, inputs, FAN_TABLE)

    def tick(rows: int) -> None:
        for _ in range(rows):
            rig.tick()
            if rig.slow is not None and rig.box.rows % 20 == 0:
                values = np.array([[230.0, 600.0]] * 2)
                rig.slow.tables[inputs.name].append(rig.box.time_ns, values, np.ones((2, 2), dtype=np.bool_))

    def learnt() -> dict[str, float]:
        return {one.key: one.learnt_ratio for one in rig.pipeline.baselines if one.key.startswith("input_voltage")}

    tick(6000)
    before = learnt()
    assert any(before.values())
    rig.learnt.end(rig.pipeline, rig.clock.utc_ns())
    with caplog.at_level(logging.WARNING):
        rig.start_guard()
        rig.start_watching()
        tick(60)
    assert {key: ratio for key, ratio in learnt().items() if ratio < before[key]} == {}
    assert "restored learnt" not in caplog.text, "nothing is missing: the slow tables come"
