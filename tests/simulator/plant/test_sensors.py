import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.plant.sensors import PowerSensor, PowerSensorModel, ShuntMonitorModel, read_rail

EXACT = PowerSensorModel(period_ms=20, window_ms=10, gain_error=0.0, quantum_w=0.01)


def sensor(model: PowerSensorModel = EXACT, *, seed: int = 3, n_gpus: int = 4) -> PowerSensor:
    return PowerSensor(model, power_w=np.full(n_gpus, 100.0), chance=np.random.default_rng(seed))


def test_each_board_is_renewed_once_per_period_at_its_own_phase() -> None:
    boards = sensor()
    times = [[] for _ in range(4)]  # type: list[list[int]]
    for start_ms in range(0, 400, 10):
        for gpu in boards.advance(start_ms, np.full((10, 4), 100.0)):
            times[gpu].append(int(boards.time_ms[gpu]))
    for of_board in times:
        assert np.diff(of_board).tolist() == [20] * 19
    assert len({of_board[0] for of_board in times}) > 1


@given(seed=st.integers(0, 1000))
def test_the_value_is_the_mean_of_the_window_before(seed: int) -> None:
    boards = sensor(seed=seed)
    ramp_w = np.arange(400.0)[:, None] + np.zeros(4)
    for start_ms in range(0, 400, 10):
        for gpu in boards.advance(start_ms, ramp_w[start_ms : start_ms + 10]):
            end_ms = int(boards.time_ms[gpu])
            if end_ms >= 10:
                expected_w = ramp_w[end_ms - 10 : end_ms, gpu].mean()
                assert boards.power_w[gpu] == pytest.approx(expected_w, abs=0.006)


def test_no_board_is_off_by_more_than_five_percent() -> None:
    boards = sensor(PowerSensorModel(period_ms=20, window_ms=10, gain_error=0.025, quantum_w=0.01), n_gpus=5000)
    assert np.abs(boards.gain - 1.0).max() <= 0.05 + 1e-9
    assert boards.gain.std() == pytest.approx(0.024, abs=0.002)


def test_voltage_and_current_come_from_the_same_milliseconds() -> None:
    model = ShuntMonitorModel(window_ms=4, noise_v=0.0, noise_a=0.0)
    voltage_v = np.linspace(12.0, 11.0, 10)
    current_a = np.stack([np.linspace(10.0, 20.0, 10)] * 2, axis=1)
    reading = read_rail(model, voltage_v=voltage_v, current_a=current_a, chance=np.random.default_rng(1))
    assert reading.voltage_v == pytest.approx([voltage_v[-4:].mean()] * 2)
    assert reading.current_a == pytest.approx([current_a[-4:, 0].mean()] * 2)
