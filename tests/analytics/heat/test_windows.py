import numpy as np
import pytest

from analytics.heat.windows import HeatColumns, HeatWindow, HeatWindowSums, add_rows
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, TimeArray

WINDOW_NS = 120 * NS_PER_S
START_NS = 1_700_000_040 * NS_PER_S // WINDOW_NS * WINDOW_NS


def columns(temp_c: FloatArray, power_w: FloatArray, air_c: float = 22.0) -> HeatColumns:
    return HeatColumns(
        temp_c=temp_c,
        power_w=power_w,
        air_c=np.full(temp_c.shape, air_c),
        fan_ratio=np.broadcast_to(np.nan, temp_c.shape),
        part=power_w / power_w.mean(axis=1, keepdims=True),
        cut=np.zeros(temp_c.shape, dtype=np.bool_),
    )


def cut_rows(whole: HeatColumns, start: int, stop: int) -> HeatColumns:
    return HeatColumns(
        temp_c=whole.temp_c[start:stop],
        power_w=whole.power_w[start:stop],
        air_c=whole.air_c[start:stop],
        fan_ratio=whole.fan_ratio[start:stop],
        part=whole.part[start:stop],
        cut=whole.cut[start:stop],
    )


def windows_of(time_ns: TimeArray, whole: HeatColumns, *cuts: int) -> list[HeatWindow]:
    sums = HeatWindowSums.start(whole.temp_c.shape[1])
    ended: list[HeatWindow] = []
    for start, stop in zip((0, *cuts), (*cuts, len(time_ns)), strict=True):
        for _, after, window in add_rows(sums, time_ns[start:stop], cut_rows(whole, start, stop), window_ns=WINDOW_NS):
            sums = after
            ended += [] if window is None else [window]
    return ended


def seconds(count: int) -> TimeArray:
    return START_NS + np.arange(count, dtype=np.int64) * NS_PER_S


def test_a_window_returns_means() -> None:
    rows = 241
    temp_c = np.stack([50.0 + 0.02 * np.arange(rows), np.full(rows, 60.0)], axis=1)
    ended = windows_of(seconds(rows), columns(temp_c, np.full((rows, 2), 250.0)))
    assert len(ended) == 2
    assert ended[1].temp_c == pytest.approx([50.0 + 0.02 * 179.5, 60.0], abs=1e-3)
    assert ended[1].power_w == pytest.approx([250.0, 250.0])
    assert ended[1].air_c == pytest.approx([22.0, 22.0])
    assert np.isnan(ended[1].fan_ratio).all()
    assert ended[1].ended_ns == START_NS + 240 * NS_PER_S


def test_what_the_heat_sink_carried_is_known_from_the_second_window_on_whatever_the_load_does() -> None:
    rows = 1201
    power_w = np.where(np.arange(rows) % 170 < 80, 290.0, 60.0)[:, np.newaxis]
    ended = windows_of(seconds(rows), columns(np.full((rows, 1), 60.0), power_w))
    delayed_w = np.empty(rows)
    level = delayed_w[0] = power_w[0, 0]
    for row in range(1, rows):
        level += (power_w[row - 1, 0] - level) * -np.expm1(-1.0 / 48.0)
        delayed_w[row] = level
    assert np.isnan(ended[0].sink_w[0])
    for number, window in enumerate(ended[2:], start=2):
        assert window.sink_w[0] == pytest.approx(delayed_w[number * 120 : number * 120 + 120].mean(), abs=3.0)
    assert max(abs(window.sink_w[0] - window.power_w[0]) for window in ended[2:]) > 30.0


def test_after_a_gap_the_heat_sink_is_unknown() -> None:
    time_ns = np.concatenate([seconds(241), seconds(241) + 3600 * NS_PER_S])
    ended = windows_of(time_ns, columns(np.full((482, 1), 60.0), np.full((482, 1), 250.0)))
    assert [bool(np.isnan(window.sink_w[0])) for window in ended] == [True, False, True, True, False]


@pytest.mark.parametrize(("every_s", "windows", "length_s"), [(10.0, 6, 240), (60.0, 24, 960), (1800.0, 6, 28_800)])
def test_few_rows_make_windows_as_long_as_it_takes(every_s: float, windows: int, length_s: int) -> None:
    rows = round(windows * length_s / every_s) + 1
    time_ns = START_NS + np.round((np.arange(rows) + 0.5) * every_s * NS_PER_S).astype(np.int64)
    whole = columns(np.full((rows, 2), 60.0), np.full((rows, 2), 250.0))
    ended = windows_of(time_ns, whole)
    assert abs(len(ended) - windows) <= 2
    assert all(window.temp_c.tolist() == [60.0, 60.0] for window in ended[1:])
    assert ended[-1].sink_w == pytest.approx([250.0, 250.0], abs=0.1)
    for cut in (1, 17, rows // 2):
        assert [one.ended_ns for one in windows_of(time_ns, whole, cut)] == [one.ended_ns for one in ended]


def test_few_rows_of_different_times_make_no_window() -> None:
    time_ns = np.concatenate([seconds(10), seconds(10) + 5 * 3600 * NS_PER_S, seconds(1) + 6 * 3600 * NS_PER_S])
    ended = windows_of(time_ns, columns(np.full((21, 1), 60.0), np.full((21, 1), 250.0)))
    assert all(np.isnan(window.temp_c).all() for window in ended)


def test_windows_do_not_depend_on_how_the_rows_are_cut_to_the_last_bit() -> None:
    rng = np.random.default_rng(4)
    whole = columns(rng.uniform(40, 80, (500, 3)), rng.uniform(40, 300, (500, 3)))
    in_one = windows_of(seconds(500), whole)
    in_many = windows_of(seconds(500), whole, 1, 7, 130, 131, 377)
    assert len(in_one) == len(in_many) == 4
    for one, other in zip(in_one, in_many, strict=True):
        assert one.temp_c.tolist() == other.temp_c.tolist()
        assert np.array_equal(one.sink_w, other.sink_w, equal_nan=True)
        assert one.power_w.tolist() == other.power_w.tolist()


def test_too_few_samples_or_a_stretch_that_is_too_short_report_nothing() -> None:
    temp_c = np.full((121, 3), 60.0)
    temp_c[3:, 0] = np.nan  # three samples
    temp_c[60:, 1] = np.nan  # a minute of two
    ended = windows_of(seconds(121), columns(temp_c, np.full((121, 3), 250.0)))
    assert np.isnan(ended[0].temp_c).tolist() == [True, True, False]


def test_a_broken_conversion_and_a_nan_leave_the_mean_alone() -> None:
    temp_c = np.full((121, 1), 60.0)
    temp_c[5:50:5] = np.nan
    temp_c[7], temp_c[9] = 1e9, np.inf
    ended = windows_of(seconds(121), columns(temp_c, np.full((121, 1), 250.0)))
    assert ended[0].temp_c == pytest.approx([60.0])


def test_a_clock_that_is_set_back_ends_the_window_and_no_sample_counts_twice() -> None:
    time_ns = np.concatenate([seconds(100), seconds(100) - 3600 * NS_PER_S])
    temp_c = np.repeat([[60.0], [40.0]], 100, axis=0)
    ended = windows_of(time_ns, columns(temp_c, np.full((200, 1), 250.0)))
    assert ended[0].temp_c == pytest.approx([60.0])


def test_the_inlet_is_unknown_where_it_was_missing_most_of_the_time() -> None:
    whole = columns(np.full((121, 2), 60.0), np.full((121, 2), 250.0))
    whole.air_c[:80, 0] = np.nan
    ended = windows_of(seconds(121), whole)
    assert np.isnan(ended[0].air_c[0])
    assert ended[0].air_c[1] == 22.0


def test_a_share_of_the_power_that_is_a_matter_of_chance_is_reported_from_one_that_is_the_same_in_every_step() -> None:
    rng = np.random.default_rng(3)
    step_w = np.where(np.arange(121) % 10 < 7, 300.0, 150.0)[:, np.newaxis]
    together = windows_of(seconds(121), columns(np.full((121, 2), 60.0), step_w * np.array([1.0, 1.1])))
    by_chance = np.where(rng.random((121, 2)) < 0.3, 300.0, 60.0)
    alone = windows_of(seconds(121), columns(np.full((121, 2), 60.0), by_chance))
    assert together[0].part_error == pytest.approx([0.0, 0.0], abs=1e-3)
    assert (alone[0].part_error > 0.03).all()
