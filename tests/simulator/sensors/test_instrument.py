import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.files.scenario import SensorFaultKind
from simulator.files.sensor import Channel
from simulator.sensors.columns import ColumnFault, columns_of
from simulator.sensors.instrument import Instrument, UpdateLosses
from telemetry.frames import FloatArray

NAMES = [f"gpu{index}.power_w" for index in range(4)]
EXACT = {"window": "10ms", "quantum": 0.01}


def instrument(
    channel: dict[str, object] | None = None,
    *,
    seed: int = 3,
    names: list[str] | None = None,
    period_s: float = 0.02,
    missing_share: float = 0.0,
    stale_share: float = 0.0,
    fault: ColumnFault | None = None,
) -> Instrument:
    columns = columns_of(
        [(Channel.model_validate(channel or EXACT), names or NAMES)],
        period_s=period_s,
        together=False,
        chance=np.random.default_rng(seed),
    )
    made = Instrument(
        columns,
        losses=UpdateLosses(missing_share=missing_share, stale_share=stale_share),
        faults=() if fault is None else (fault,),
        chance=np.random.default_rng(seed + 1),
    )
    made.begin(np.full(len(made.labels), 100.0))
    return made


def fault_of(kind: SensorFaultKind, *, value: float = 0.0, start_ms: float = 100.0) -> ColumnFault:
    return ColumnFault(start_ms=start_ms, end_ms=300.0, kind=kind, value=value, columns=np.array([1]))


def ramp(sensor: Instrument, *, until_ms: int = 400) -> list[tuple[int, int, float]]:
    """Return (column, time, value) of every update while all sources rise by one a millisecond."""
    reported = []
    for start_ms in range(0, until_ms, 10):
        block = np.arange(start_ms, start_ms + 10.0)[:, None] + np.zeros(len(sensor.labels))
        sensor.advance(start_ms, block)
        reported += [(int(c), int(sensor.at_ms[c]), float(sensor.shown[c])) for c in sensor.renewed]
    return reported


def test_each_sensor_is_renewed_once_per_period_at_its_own_phase() -> None:
    reported = ramp(instrument())
    times = [[at_ms for column, at_ms, _ in reported if column == gpu] for gpu in range(4)]
    for of_one in times:
        assert np.diff(of_one).tolist() == [20] * 19
    assert len({of_one[0] for of_one in times}) > 1


@given(seed=st.integers(0, 1000), window_ms=st.integers(1, 200), period=st.integers(1, 10))
def test_the_value_is_the_mean_of_the_window_before(seed: int, window_ms: int, period: int) -> None:
    sensor = instrument({"window": f"{window_ms}ms", "quantum": 0.001}, seed=seed, period_s=period / 100.0)
    before_and_ramp = np.concatenate([np.full(1000, 100.0), np.arange(400.0)])
    for _, at_ms, value in ramp(sensor):
        expected = before_and_ramp[1000 + at_ms - window_ms : 1000 + at_ms].mean()
        assert value == pytest.approx(expected, abs=0.0006)


def test_means_stay_exact_when_old_sums_are_thrown_away() -> None:
    for _, at_ms, value in ramp(instrument(), until_ms=20_000)[-8:]:
        assert value == pytest.approx(np.arange(at_ms - 10.0, at_ms).mean(), abs=0.006)


def test_no_board_is_off_by_more_than_twice_its_gain_error() -> None:
    names = [f"gpu{index}.power_w" for index in range(5000)]
    sensor = instrument({"window": "10ms", "gain_error": 0.025}, names=names)
    gain = sensor.shown / 100.0
    assert np.abs(gain - 1.0).max() <= 0.05 + 1e-9
    assert gain.std() == pytest.approx(0.024, abs=0.002)


def steady(sensor: Instrument, *, until_ms: int = 4000) -> FloatArray:
    """Return what all sensors show of a truth of 100 that never changes, shape ``(n_blocks, n_sensors)``."""
    reported = []
    for start_ms in range(0, until_ms, 10):
        sensor.advance(start_ms, np.full((10, len(sensor.labels)), 100.0))
        reported.append(sensor.shown.copy())
    return np.array(reported)


def test_the_offset_of_a_sensor_is_its_own_and_stays() -> None:
    reported = steady(
        instrument({"window": "10ms", "offset_error": 0.5}, names=[f"gpu{i}.power_w" for i in range(500)])
    )
    assert (reported == reported[0]).all()
    assert (reported[0] - 100.0).std() == pytest.approx(0.48, abs=0.05)
    assert np.abs(reported[0] - 100.0).max() <= 1.0


def test_noise_is_new_with_every_value() -> None:
    reported = steady(instrument({"window": "10ms", "noise": 0.5}, period_s=0.01))
    assert reported.std(axis=0) == pytest.approx([0.5] * 4, rel=0.2)
    assert (np.diff(reported, axis=0) != 0.0).all()
    assert np.abs(np.corrcoef(reported.T) - np.eye(4)).max() < 0.3


def test_voltage_and_current_of_one_monitor_come_from_the_same_milliseconds() -> None:
    channel = Channel.model_validate({"window": "4ms"})
    columns = columns_of(
        [(channel, ["psu0.voltage_v", "psu1.voltage_v"]), (channel, ["psu0.current_a", "psu1.current_a"])],
        period_s=0.01,
        together=False,
        chance=np.random.default_rng(1),
    )
    assert columns.phase_ms[:2].tolist() == columns.phase_ms[2:].tolist()


def test_a_delayed_channel_is_converted_later_in_the_period() -> None:
    first, second = (
        Channel.model_validate({"window": "4ms"}),
        Channel.model_validate({"window": "4ms", "delay": "23ms"}),
    )
    columns = columns_of(
        [(first, ["psu0.voltage_v"]), (second, ["psu0.current_a"])],
        period_s=0.05,
        together=False,
        chance=np.random.default_rng(1),
    )
    assert (columns.phase_ms[1] - columns.phase_ms[0]) % 50 == 23


def test_a_share_of_the_updates_never_comes_and_another_repeats_the_value_before() -> None:
    reported = ramp(instrument(missing_share=0.1, stale_share=0.1, seed=5), until_ms=40_000)
    assert len(reported) == pytest.approx(4 * 2000 * 0.9, rel=0.03)
    last: dict[int, float] = {}
    repeats = 0
    for column, _, value in reported:
        repeats += last.get(column) == value
        last[column] = value
    assert repeats == pytest.approx(800, rel=0.15)


def test_a_probe_follows_with_its_lag() -> None:
    sensor = instrument({"lag": "1s"}, period_s=0.1, names=["node.inlet_temp_c"])
    for start_ms in range(0, 1000, 10):
        if sensor.awaits(start_ms):
            sensor.advance(start_ms, np.array([200.0]))
    assert sensor.shown[0] == pytest.approx(100.0 + 100.0 * (1.0 - np.exp(-1.0)), abs=0.01)


def test_values_are_reported_in_steps_and_within_their_range() -> None:
    sensor = instrument({"window": "10ms", "quantum": 0.063, "lowest": 25.2, "highest": 40.95})
    values = [value for _, _, value in ramp(sensor)]
    assert (min(values), max(values)) == (25.2, 40.95)
    for value in values:
        assert abs(value / 0.063 - round(value / 0.063)) < 1e-6


def test_a_stuck_sensor_repeats_its_last_value_as_if_it_were_new() -> None:
    reported = [item for item in ramp(instrument(fault=fault_of(SensorFaultKind.STUCK))) if item[0] == 1]
    assert len(reported) == 20
    assert len({value for _, at_ms, value in reported if 100 < at_ms <= 300}) == 1
    assert reported[-1][2] == pytest.approx(np.arange(reported[-1][1] - 10.0, reported[-1][1]).mean(), abs=0.006)


def test_a_stale_sensor_keeps_its_old_time() -> None:
    reported = [item for item in ramp(instrument(fault=fault_of(SensorFaultKind.STALE))) if item[0] == 1]
    assert len(reported) == 10
    assert not [at_ms for _, at_ms, _ in reported if 101 <= at_ms <= 300]


def test_gain_and_offset_faults_act_on_the_value() -> None:
    for kind, value, expected in ((SensorFaultKind.GAIN, 2.0, 1.0), (SensorFaultKind.OFFSET, 5.0, 0.0)):
        reported = [item for item in ramp(instrument(fault=fault_of(kind, value=value))) if item[0] == 1]
        for _, at_ms, shown in reported:
            true = np.arange(at_ms - 10.0, at_ms).mean() if at_ms >= 10 else None
            if true is not None and 101 <= at_ms <= 300:
                assert shown == pytest.approx(true * (1.0 + expected) + (5.0 if expected == 0.0 else 0.0), abs=0.01)


@pytest.mark.parametrize("late_ms", [10, 35, 90])
def test_a_skewed_sensor_shows_what_was_true_before(late_ms: int) -> None:
    reported = [
        item
        for item in ramp(instrument(fault=fault_of(SensorFaultKind.SKEW, value=late_ms / 1000.0, start_ms=200.0)))
        if item[0] == 1
    ]
    for _, at_ms, shown in reported:
        if 201 <= at_ms <= 300:
            assert shown == pytest.approx(np.arange(at_ms - late_ms - 10.0, at_ms - late_ms).mean(), abs=0.006)


def test_a_skewed_sample_shows_what_was_true_before() -> None:
    fault = fault_of(SensorFaultKind.SKEW, value=0.1, start_ms=200.0)
    sensor = instrument({"quantum": 0.01}, period_s=0.05, fault=fault)
    for start_ms in range(0, 300, 10):
        if sensor.awaits(start_ms):
            sensor.advance(start_ms, np.full(4, float(start_ms)))
            if 1 in sensor.renewed:
                assert sensor.shown[1] == pytest.approx(start_ms - 100.0 if start_ms >= 200 else start_ms, abs=40.0)
                last_ms = start_ms
    assert sensor.shown[1] <= last_ms - 100.0


def test_a_dead_sensor_states_nothing_once_and_comes_back() -> None:
    reported = [item for item in ramp(instrument(fault=fault_of(SensorFaultKind.DEAD))) if item[0] == 1]
    dead = [value for _, at_ms, value in reported if 100 < at_ms <= 300]
    assert len(dead) == 1
    assert np.isnan(dead[0])
    assert not np.isnan(reported[-1][2])


def test_lost_updates_follow_their_share() -> None:
    fault = ColumnFault(start_ms=0.0, end_ms=1e9, kind=SensorFaultKind.LOSS, value=0.5, columns=np.array([0, 1, 2, 3]))
    assert len(ramp(instrument(fault=fault), until_ms=20_000)) == pytest.approx(2000, rel=0.1)


def test_a_sensor_that_does_not_answer_keeps_what_it_showed() -> None:
    sensor = instrument()
    answering = np.array([True, False, True, True])
    for start_ms in range(0, 40, 10):
        sensor.advance(start_ms, np.full((10, 4), 500.0), answering=answering)
    assert sensor.shown.tolist() == [500.0, 100.0, 500.0, 500.0]


def test_what_does_not_answer_keeps_what_it_showed_whatever_else_is_lost() -> None:
    fault = ColumnFault(start_ms=0.0, end_ms=1e9, kind=SensorFaultKind.LOSS, value=1.0, columns=np.array([0]))
    sensor = instrument(fault=fault)
    for start_ms in range(0, 40, 10):
        sensor.advance(start_ms, np.full((10, 4), 500.0), answering=np.array([True, False, True, True]))
    assert sensor.shown.tolist() == [100.0, 100.0, 500.0, 500.0]
