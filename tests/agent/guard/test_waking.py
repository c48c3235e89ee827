"""Rows that wake the guard at once, and rows that wait."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agent.guard.waking import EVERY_S, Waking
from agent.ring.ring import Ring, RingTable
from telemetry.entities import NOMINAL_TAG, Entity, EntityKind, Topology
from telemetry.frames import TableSpec
from tests.agent.fakes import FakeClock

RAIL = TableSpec(
    name="supply",
    kind=EntityKind.SUPPLY,
    entities=tuple(Entity(kind=EntityKind.SUPPLY, key=key, name=key) for key in ("psu0", "psu1")),
    signals=("voltage_v", "current_a", "voltage_min_v"),
)
GPU = TableSpec(
    name="gpu",
    kind=EntityKind.GPU,
    entities=(Entity(kind=EntityKind.GPU, key="u", name="gpu0"),),
    signals=("power_w",),
)
THROTTLED = TableSpec(
    name="gpu_fast",
    kind=EntityKind.GPU,
    entities=tuple(Entity(kind=EntityKind.GPU, key=key, name=key) for key in ("u", "v")),
    signals=("power_w", "throttle_reasons"),
)
POWER_CAP, POWER_BRAKE = float(0x4), float(0x84)


class Scene:
    def __init__(self, folder: Path) -> None:
        ring = Ring.create(
            folder / "ring",
            [RAIL, GPU, THROTTLED],
            node="box",
            topology=Topology(entities=(*RAIL.entities, *THROTTLED.entities)),
            simulated=True,
            rows={"supply": 8, "gpu": 8, "gpu_fast": 8},
        )
        self.tables: dict[str, RingTable] = ring.tables
        self.clock = FakeClock()
        self.woken = 0
        self.waking = Waking(ring.tables, self._wake, self.clock, low_v=11.4)

    def _wake(self) -> None:
        self.woken += 1

    def row(self, name: str, *values: list[float]) -> int:
        table = self.tables[name]
        array = np.array(values, dtype=np.float64)
        table.append(table.count, array, np.ones(array.shape, dtype=np.bool_))
        self.waking.note(name)
        return self.woken


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_rows_that_come_one_after_another_wake_once(scene: Scene) -> None:
    assert scene.row("gpu", [300.0]) == 1
    assert scene.row("gpu", [300.0]) == 1
    assert scene.row("supply", [12.0, 40.0, 11.9], [12.0, 40.0, 11.9]) == 1
    scene.clock.advance(1.01 * EVERY_S)
    assert scene.row("gpu", [300.0]) == 2


@pytest.mark.parametrize("low", [[11.3, 40.0, 11.3], [11.9, 40.0, 11.39], [float("nan"), 40.0, 11.0]])
def test_a_low_rail_wakes_at_once(scene: Scene, low: list[float]) -> None:
    scene.row("gpu", [300.0])
    assert scene.row("supply", [12.0, 40.0, 12.0], low) == 2
    assert scene.row("supply", low, [12.0, 40.0, 12.0]) == 3


@pytest.mark.parametrize("urgent", [POWER_BRAKE, float("nan")])
def test_a_gpu_that_brakes_or_is_lost_wakes_at_once_and_so_does_its_return(scene: Scene, urgent: float) -> None:
    scene.row("gpu_fast", [300.0, 0.0], [300.0, 0.0])
    assert scene.row("gpu_fast", [300.0, 0.0], [100.0, urgent]) == 2
    assert scene.row("gpu_fast", [300.0, 0.0], [100.0, urgent]) == 2, "nothing changed"
    assert scene.row("gpu_fast", [300.0, 0.0], [300.0, 0.0]) == 3


def test_a_gpu_at_its_power_limit_waits(scene: Scene) -> None:
    scene.row("gpu_fast", [300.0, 0.0], [300.0, 0.0])
    assert scene.row("gpu_fast", [300.0, POWER_CAP], [300.0, 0.0]) == 1


def test_a_rail_without_a_value_waits(scene: Scene) -> None:
    scene.row("gpu", [300.0])
    nothing = [float("nan")] * 3
    assert scene.row("supply", nothing, nothing) == 1


def test_a_rail_that_is_off_waits_and_hides_no_low_one(scene: Scene) -> None:
    scene.row("gpu", [300.0])
    off, high = [0.0, 0.0, 0.0], [12.0, 40.0, 12.0]
    assert scene.row("supply", off, high) == 1
    assert scene.row("supply", off, [11.3, 40.0, 11.3]) == 2


def test_a_low_rail_is_passed_on_with_its_row_before_the_guard_wakes(scene: Scene) -> None:
    reported: list[tuple[str, list[float], int]] = []
    scene.waking = Waking(
        scene.tables,
        scene._wake,
        scene.clock,
        low_v=11.4,
        on_low=lambda name, row: reported.append((name, list(row), scene.woken)),
    )
    low, high = [11.3, 40.0, 11.3], [12.0, 40.0, 12.0]
    scene.row("supply", high, high)
    scene.row("supply", high, low)
    assert reported == [("supply", [*high, *low], 1)]
    assert scene.woken == 2


def test_a_rail_of_54_v_wakes_the_guard_below_its_own_limit(tmp_path: Path) -> None:
    rail = replace(RAIL, entities=tuple(replace(one, tags=((NOMINAL_TAG, "54"),)) for one in RAIL.entities))
    ring = Ring.create(
        tmp_path / "ring",
        [rail],
        node="box",
        topology=Topology(entities=rail.entities),
        simulated=True,
        rows={"supply": 8},
    )
    woken: list[bool] = []
    waking = Waking(ring.tables, lambda: woken.append(True), FakeClock(), low_v=11.4)
    for volts in (53.5, 51.4, 51.2):
        table = ring.tables["supply"]
        values = np.array([[volts, 100.0, volts], [53.5, 100.0, 53.5]])
        table.append(table.count, values, np.ones(values.shape, dtype=np.bool_))
        waking.note("supply")
    assert len(woken) == 2, "the first row, and the one below 51.3 V"
