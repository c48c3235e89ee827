"""The last seconds of a node as the rules see them."""

from dataclasses import replace

import numpy as np
import pytest

from agent.guard.node_window import WINDOW_S, NodeWindow
from physics.board_parts import curve_of
from telemetry.clock import NS_PER_S
from telemetry.frames import Frame, TableSpec
from tests.agent.fakes import V100_CLOCKS_MHZ
from tests.agent.guard.box import GPUS, SUPPLIES, SUPPORTED_MHZ, WEAK_OHM, Box


def fed(box: Box, rows: int, window: NodeWindow | None = None) -> NodeWindow:
    window = window or NodeWindow(SUPPORTED_MHZ)
    for frame in (frame for _ in range(rows) for frame in box.frames(1)):
        window.feed(frame)
    return window


def test_an_empty_window_knows_nothing() -> None:
    state = NodeWindow(SUPPORTED_MHZ).state()
    assert (state.gpus, state.supplies) == ((), ())


def test_it_returns_both_phases_of_the_load_and_the_path_of_every_supply() -> None:
    state = fed(Box(resistance_ohm=WEAK_OHM), 60).state()
    assert [gpu.entity_id for gpu in state.gpus] == [gpu.id for gpu in GPUS]
    assert state.gpus[0].power_high_w == pytest.approx(350.0)
    assert state.gpus[0].power_low_w == pytest.approx(150.0)
    assert (state.gpus[0].clock_mhz, state.gpus[0].supported_mhz) == (1530.0, V100_CLOCKS_MHZ)
    supply = state.supply(SUPPLIES[0].id)
    assert supply is not None
    assert supply.open_circuit_v == pytest.approx(12.3)
    assert supply.source_resistance_ohm == pytest.approx(WEAK_OHM)


def test_a_lost_gpu_and_one_whose_clocks_cannot_be_set_are_left_out() -> None:
    box = Box()
    window = NodeWindow({gpu.key: V100_CLOCKS_MHZ for gpu in GPUS[:3]})
    fed(box, 30, window)
    box.lost = {1}
    assert [gpu.entity_id for gpu in fed(box, 1, window).state().gpus] == [GPUS[0].id, GPUS[2].id]


def test_nothing_from_before_a_change_of_clock_counts() -> None:
    box = Box(resistance_ohm=WEAK_OHM)
    window = fed(box, 60)
    window.note_clock_change(box.time_ns + 1)
    assert all(gpu.power_high_w is None for gpu in window.state().gpus)
    assert all(supply.minimum_v is None for supply in window.state().supplies)
    box.clock_mhz = lambda _: 1005.0
    state = fed(box, 40, window).state()
    assert state.gpus[0].clock_mhz == 1005.0
    assert state.gpus[0].power_high_w == pytest.approx(150 + 200 * (1005 / 1530) ** 2)


def test_a_supply_has_the_limits_of_the_rail_that_it_shows() -> None:
    window = NodeWindow(SUPPORTED_MHZ)
    for frame in (frame for _ in range(60) for frame in Box().frames(1)):
        window.feed(replace(frame, values=frame.values * 4.5) if frame.spec.name == "supply" else frame)
    assert {supply.limit_scale for supply in window.state().supplies} == {4.5}
    assert {supply.limit_scale for supply in fed(Box(), 60).state().supplies} == {1.0}


def test_memory_is_bounded_by_the_window() -> None:
    window = fed(Box(), 1000)
    assert max(len(frames) for frames in window._frames.values()) <= WINDOW_S * 20 + 2


@pytest.mark.parametrize("step_s", [-3600, 3600])
def test_a_wall_clock_that_is_set_costs_one_window_and_no_more(step_s: int) -> None:
    box = Box(resistance_ohm=WEAK_OHM)
    window = fed(box, 60)
    window.note_clock_change(box.time_ns)
    box.time_ns += step_s * NS_PER_S
    fed(box, 200, window)
    assert max(len(frames) for frames in window._frames.values()) <= WINDOW_S * 20 + 2
    supply = window.state().supply(SUPPLIES[0].id)
    assert supply is not None
    assert supply.source_resistance_ohm == pytest.approx(WEAK_OHM)
    assert window.state().gpus[0].power_high_w == pytest.approx(350.0)


def test_tables_that_lack_the_second_signal_leave_it_unknown() -> None:
    gpus, supplies = Box().frames(40)
    window = NodeWindow(SUPPORTED_MHZ)
    window.feed(_only(gpus, "power_w"))
    window.feed(_only(supplies, "voltage_v"))
    state = window.state()
    assert [gpu.power_high_w for gpu in state.gpus] == [None] * 4
    assert [supply.source_resistance_ohm for supply in state.supplies] == [None] * 2


def test_a_table_with_neither_power_nor_voltage_is_left_aside() -> None:
    window = NodeWindow(SUPPORTED_MHZ)
    window.feed(_only(Box().frames(2)[0], "gpu_temp_c"))
    assert window.state().gpus == ()


def _only(frame: Frame, name: str) -> Frame:
    spec: TableSpec = replace(frame.spec, signals=(name,))
    values = frame.signal(name)[:, :, np.newaxis]
    return Frame(spec=spec, time_ns=frame.time_ns, values=values, fresh=np.ones(values.shape, dtype=np.bool_))


def test_what_the_driver_states_can_be_set_is_there_from_the_first_row_on() -> None:
    first, second = GPUS[0], GPUS[1]
    ranges = {"power_cap": {first.key: (100.0, 300.0)}, "fan": {second.key: (0.3, 1.0)}}
    window = NodeWindow({second.key: V100_CLOCKS_MHZ}, ranges)
    limited, blown = fed(Box(), 1, window).state().gpus
    assert (limited.entity_id, limited.limit_min_w, limited.limit_default_w) == (first.id, 100.0, 300.0)
    assert (limited.supported_mhz, limited.fan_min_ratio) == ((), None)
    assert (blown.entity_id, blown.limit_min_w, blown.fan_min_ratio) == (second.id, None, 0.3)


@pytest.mark.parametrize(("reason", "clock_mhz"), [(0x4, 1200.0), (0x0, 1530.0), (0x2, 1530.0)])
def test_the_clock_is_that_of_the_high_phase_where_the_power_limit_holds_it_down(reason: int, clock_mhz: float) -> None:
    gpus = Box().frames(60)[0]
    spec = replace(gpus.spec, signals=("power_w", "sm_clock_mhz", "throttle_reasons"))
    values = np.empty((60, len(spec.entities), 3))
    high = (np.arange(60) % 20 < 14)[:, None]
    values[:, :, 0] = np.where(high, 300.0, 120.0)
    values[:, :, 1] = np.where(high, 1200.0, 1530.0)  # it recovers in each pause
    values[:, :, 2] = np.where(high, reason, 0.0)
    window = NodeWindow(SUPPORTED_MHZ)
    window.feed(Frame(spec=spec, time_ns=gpus.time_ns, values=values, fresh=np.ones(values.shape, dtype=np.bool_)))
    assert [gpu.clock_mhz for gpu in window.state().gpus] == [clock_mhz] * 4


def test_each_gpu_has_the_power_curve_of_its_board_as_it_is_now() -> None:
    learnt = {GPUS[0].id: curve_of("NVIDIA H100 80GB HBM3")}
    window = fed(Box(), 20, NodeWindow(SUPPORTED_MHZ, boards={key: one for key, one in learnt.items() if one}))
    assert [gpu.board is learnt.get(gpu.entity_id) for gpu in window.state().gpus] == [True] * 4
    assert window.state().gpus[0].board is not None
