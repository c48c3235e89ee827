import numpy as np
import pytest

from analytics.detectors.limits import DetectorLimits
from analytics.detectors.panel import Panel
from analytics.detectors.table_join import join, start_join
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame
from telemetry.records import Cause
from tests.analytics.scenes import event_of, frame_of, gpu, node_of, supply

GPUS = tuple(gpu(number) for number in range(4))


def test_rows_of_a_slow_table_are_held_between_its_updates() -> None:
    fast = frame_of(EntityKind.GPU, GPUS, {"power_w": np.arange(10.0)}, rate_hz=10.0, name="fast")
    slow = frame_of(EntityKind.GPU, GPUS, {"gpu_temp_c": [50.0, 51.0]}, rate_hz=2.0, start_s=0.25, name="slow")
    _, joined = join(start_join([fast.spec, slow.spec]), [fast, slow])
    assert joined.spec.signals == ("power_w", "gpu_temp_c")
    assert (np.diff(joined.time_ns) > 0).all()
    temps_c = joined.signal("gpu_temp_c")[:, 0]
    assert np.isnan(temps_c[:3]).all()
    assert temps_c[3:].tolist() == [50.0] * 6 + [51.0] * 3
    assert int(joined.fresh[:, 0, 1].sum()) == 2
    assert int(joined.fresh[:, 0, 0].sum()) == 10


def test_joining_in_two_steps_returns_the_rows_of_one() -> None:
    rng = np.random.default_rng(3)
    fast = frame_of(EntityKind.GPU, GPUS, {"power_w": rng.random((40, 4))}, rate_hz=10.0, name="fast")
    slow = frame_of(EntityKind.GPU, GPUS, {"gpu_temp_c": rng.random((4, 4))}, rate_hz=1.0, name="slow")
    _, whole = join(start_join([fast.spec, slow.spec]), [fast, slow])
    state = start_join([fast.spec, slow.spec])
    state, first = join(state, [fast.rows(0, 20), slow.rows(0, 2)])
    _, second = join(state, [slow.rows(2, 4), fast.rows(20, 40)])
    assert np.array_equal(np.concatenate([first.values, second.values]), whole.values, equal_nan=True)
    assert np.array_equal(np.concatenate([first.fresh, second.fresh]), whole.fresh)


def test_a_late_row_takes_the_time_joined_last_and_time_never_goes_back() -> None:
    fast = frame_of(EntityKind.GPU, GPUS, {"power_w": np.arange(10.0)}, rate_hz=10.0, name="fast")
    slow = frame_of(EntityKind.GPU, GPUS, {"gpu_temp_c": [50.0]}, rate_hz=1.0, start_s=0.2, name="slow")
    state, first = join(start_join([fast.spec, slow.spec]), [fast])
    state, late = join(state, [slow])
    assert late.time_ns.tolist() == [first.time_ns[-1]]
    assert late.signal("power_w")[0, 0] == 9.0
    assert late.signal("gpu_temp_c")[0, 0] == 50.0
    assert len(join(state, [])[1]) == 0


def test_tables_of_two_kinds_cannot_be_joined() -> None:
    gpus = frame_of(EntityKind.GPU, GPUS, {"power_w": [1.0]})
    supplies = frame_of(EntityKind.SUPPLY, (supply(0),), {"voltage_v": [12.0]})
    with pytest.raises(ValueError, match="one kind"):
        start_join([gpus.spec, supplies.spec])


def test_a_panel_runs_what_the_tables_allow_and_names_what_stays_idle() -> None:
    panel = Panel.build(DetectorLimits())
    rails = frame_of(EntityKind.SUPPLY, (supply(0), supply(1)), {"voltage_v": np.full((5, 2), 11.2)}, name="rails")
    fast = frame_of(
        EntityKind.GPU,
        GPUS,
        {"power_w": np.full(5, 200.0), "sm_clock_mhz": np.full(5, 1400.0), "throttle_reasons": np.full(5, 0x80)},
        name="fast",
    )
    state = panel.start([rails.spec, fast.spec])
    idle = set(panel.idle(state))
    assert {"thermal_margin", "hotter_than_siblings", "fan_stopped"} <= idle
    assert not {"rail_sag", "power_brake", "hw_slowdown"} & idle
    state, findings = panel.step(state, [rails, fast], node_of())
    assert {finding.cause for finding in findings} == {Cause.SUPPLY_SAG, Cause.POWER_BRAKE}
    _, found = panel.step_events(state, [event_of(code=48)], fast.time_ns[-1].item(), node_of())
    assert [finding.cause for finding in found] == [Cause.GPU_ERROR]


def outputs_of(volts: FloatArray, amps: FloatArray, *, prefix: str) -> Frame:
    signals = {f"{prefix}voltage_v": volts, f"{prefix}current_a": amps}
    return frame_of(EntityKind.SUPPLY, (supply(0), supply(1)), signals, rate_hz=1.0, name=f"{prefix}bmc")


def test_supplies_that_only_a_slow_meter_shows_are_judged_by_it() -> None:
    rng = np.random.default_rng(5)
    amps = rng.normal(40.0, 4.0, (200, 2))
    amps[150:] = np.stack((rng.normal(0.0, 0.05, 50), 2.0 * amps[150:, 1]), axis=1)
    volts = 12.3 - 0.005 * amps
    volts[150:, 0] = 0.0
    lost = outputs_of(volts, amps, prefix="output_")
    panel = Panel.build(DetectorLimits())
    _, findings = panel.step(panel.start([lost.spec]), [lost], node_of())
    assert (Cause.SUPPLY_LOST, supply(0).id) in {(one.cause, one.entity_id) for one in findings}
    rails = outputs_of(np.full((200, 2), 12.2), np.full((200, 2), 40.0), prefix="")
    _, beside = panel.step(panel.start([rails.spec, lost.spec]), [rails, lost], node_of())
    assert Cause.SUPPLY_LOST not in {one.cause for one in beside}, "the same supplies a second time"
