"""Columns of other kinds: who gets whose value, and which value at which time."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from analytics.detectors.joined_columns import JoinedColumn, Relation
from analytics.detectors.panel import Panel, PanelState
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import Frame, TableSpec
from telemetry.records import Finding
from tests.analytics.scenes import frame_of, gpu, node_of, supply

TOPOLOGY = node_of(4, 2)
NODE = TOPOLOGY.entities[0]
GPUS = tuple(gpu(number) for number in range(4))
SUPPLIES = (supply(0), supply(1))
NAN = float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Frames that a detector received."""

    frames: tuple[Frame, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Onlooker:
    """Keeps the frames that it is given."""

    kind: EntityKind
    signals: tuple[str, ...]
    joined_columns: tuple[JoinedColumn, ...]
    name: str = "onlooker"

    def start(self, spec: TableSpec) -> Sight:
        assert set(spec.signals) >= {one.name for one in self.joined_columns}
        return Sight()

    def step(self, state: Sight, frame: Frame, topology: Topology) -> tuple[Sight, tuple[Finding, ...]]:
        return replace(state, frames=(*state.frames, frame)), ()


def inlet(values: list[float], start_s: float = 0.0) -> Frame:
    return frame_of(EntityKind.NODE, (NODE,), {"inlet_temp_c": values}, rate_hz=1.0, start_s=start_s, name="node")


def power(values: list[list[float]], start_s: float = 0.0) -> Frame:
    return frame_of(EntityKind.GPU, GPUS, {"power_w": values}, rate_hz=1.0, start_s=start_s, name="gpu")


def rail(values: list[float], entities: tuple[Entity, ...] = SUPPLIES) -> Frame:
    return frame_of(EntityKind.SUPPLY, entities, {"voltage_v": values}, rate_hz=1.0, start_s=0.5, name="supply")


def watched(onlooker: Onlooker, *steps: list[Frame]) -> tuple[Frame, ...]:
    panel = Panel(detectors=(onlooker,), event_detectors=())
    specs = {frame.spec.name: frame.spec for frames in steps for frame in frames}
    state: PanelState = panel.start(list(specs.values()))
    for frames in steps:
        state, _ = panel.step(state, frames, TOPOLOGY)
    sight: Sight = state.detectors[0]
    return sight.frames


WARMED = Onlooker(
    kind=EntityKind.GPU,
    signals=("power_w",),
    joined_columns=(JoinedColumn(kind=EntityKind.NODE, signal="inlet_temp_c"),),
)


def test_each_row_has_what_the_node_stated_at_its_time() -> None:
    (frame,) = watched(WARMED, [power([[200.0] * 4] * 4), inlet([25.0, 26.0], start_s=1.0)])
    column = frame.signal("inlet_temp_c")
    assert column[:, 3].tolist() == pytest.approx([NAN, 25.0, 26.0, 26.0], nan_ok=True)
    assert frame.fresh[:, 0, -1].tolist() == [False, True, True, False]


def test_what_was_stated_before_holds_in_later_steps_also_when_the_borrower_had_no_rows_then() -> None:
    frames = watched(WARMED, [power([[200.0] * 4])], [inlet([31.0], start_s=1.0)], [power([[200.0] * 4], start_s=2.0)])
    assert [frame.signal("inlet_temp_c")[0, 0] for frame in frames] == pytest.approx([NAN, 31.0], nan_ok=True)


def test_rows_given_in_two_steps_are_the_rows_given_in_one() -> None:
    gpus, node = power([[200.0] * 4] * 6), inlet([20.0, 21.0, 22.0, 23.0, 24.0, 25.0])
    (whole,) = watched(WARMED, [gpus, node])
    parts = watched(WARMED, [gpus.rows(0, 2), node.rows(0, 2)], [gpus.rows(2, 6), node.rows(2, 6)])
    assert np.array_equal(np.concatenate([part.values for part in parts]), whole.values)


@pytest.mark.parametrize(
    ("how", "expected"), [(Relation.SUM_BELOW, 600.0), (Relation.MAX_BELOW, 300.0), (Relation.MEAN_BELOW, 200.0)]
)
def test_a_supply_gets_what_its_gpus_have_together_and_a_gpu_without_a_value_is_left_out(
    how: Relation, expected: float
) -> None:
    terms = JoinedColumn(kind=EntityKind.GPU, signal="power_w", how=how, column="load_w")
    onlooker = Onlooker(kind=EntityKind.SUPPLY, signals=("voltage_v",), joined_columns=(terms,))
    (frame,) = watched(onlooker, [rail([12.0, 12.0]), power([[100.0, 200.0, 300.0, NAN], [NAN] * 4])])
    assert frame.signal("load_w")[0].tolist() == [expected, expected]
    assert np.isnan(frame.signal("load_w")[1]).all()


def test_a_column_without_a_source_table_is_absent() -> None:
    (frame,) = watched(WARMED, [power([[200.0] * 4])])
    assert np.isnan(frame.signal("inlet_temp_c")).all()
