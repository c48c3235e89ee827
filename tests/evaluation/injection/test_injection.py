"""What is put into a trace: where it begins, what it touches, and what physics it keeps."""

from collections.abc import Callable

import numpy as np
import pytest

from evaluation.injection import feeds, meters, nodes
from evaluation.injection.traces import FeedTrace, NodeTrace, rows_from
from telemetry.clock import NS_PER_S

ROWS = slice(60, 90)


def feed_trace(n_feeds: int = 3) -> FeedTrace:
    rng = np.random.default_rng(1)
    volts = 230.0 + rng.normal(0.0, 0.1, (120, n_feeds))
    watts = 500.0 + rng.normal(0.0, 5.0, (120, n_feeds))
    return FeedTrace(
        name="a",
        time_ns=np.arange(120, dtype=np.int64) * NS_PER_S,
        voltage_v=volts,
        current_a=watts / volts / 0.96,
        power_w=watts,
    )


def node_trace() -> NodeTrace:
    rng = np.random.default_rng(2)
    watts = 6000.0 + rng.normal(0.0, 50.0, (120, 4))
    watts[1::2, 1] = np.nan
    return NodeTrace(
        name="b",
        nodes=tuple(f"node_{number}" for number in range(4)),
        time_ns=np.arange(120, dtype=np.int64) * NS_PER_S,
        power_w=watts,
    )


KEEP_TOTAL: dict[str, Callable[[FeedTrace], FeedTrace]] = {
    "sag": lambda trace: feeds.sag(trace, ROWS, left=0.9),
    "outage": lambda trace: feeds.outage(trace, ROWS, feed=1),
    "loss": lambda trace: feeds.loss(trace, ROWS, feed=0),
    "share": lambda trace: feeds.moved_share(trace, ROWS, feed=2, by=0.1),
    "drift": lambda trace: feeds.moved_share(trace, ROWS, feed=2, by=0.1, over_s=20.0),
    "contact": lambda trace: feeds.resistance(trace, ROWS, feed=0, ohm=0.5),
}
CHANGE_TOTAL: dict[str, Callable[[FeedTrace], FeedTrace]] = {
    "over power": lambda trace: feeds.over_power(trace, ROWS, times=1.3),
    "efficiency": lambda trace: feeds.less_efficient(trace, ROWS, feed=1, by=0.01),
    "gpu left": lambda trace: feeds.gpu_left(trace, ROWS, gpus=8, idle_w=700.0),
}


@pytest.mark.parametrize("name", [*KEEP_TOTAL, *CHANGE_TOTAL])
def test_it_touches_only_its_rows_and_keeps_the_power_factor(name: str) -> None:
    trace = feed_trace()
    spoiled = (KEEP_TOTAL | CHANGE_TOTAL)[name](trace)
    before, after = trace.frame().values, spoiled.frame().values
    assert np.array_equal(before[:60], after[:60])
    assert np.array_equal(before[90:], after[90:])
    assert not np.array_equal(before[60:90], after[60:90])
    product = spoiled.voltage_v * spoiled.current_a
    live = product > 0.0
    assert np.allclose(spoiled.power_w[live] / product[live], 0.96)


@pytest.mark.parametrize("name", KEEP_TOTAL)
def test_a_node_draws_what_it_needs_whatever_its_feeds_do(name: str) -> None:
    assert np.allclose(KEEP_TOTAL[name](feed_trace()).total_w, feed_trace().total_w)


def test_a_feed_alone_takes_the_node_down_with_it() -> None:
    assert not feeds.outage(feed_trace(1), ROWS, feed=0).total_w[ROWS].any()


def test_a_gpu_takes_its_share_of_what_is_above_idle() -> None:
    lost = feed_trace().total_w[ROWS] - feeds.gpu_left(feed_trace(), ROWS, gpus=8, idle_w=700.0).total_w[ROWS]
    assert np.allclose(lost, (feed_trace().total_w[ROWS] - 700.0) / 8)
    trace = node_trace()
    left = nodes.gpu_left(trace, ROWS, node=1, gpus=8, idle_w=2000.0)
    assert np.allclose(left.power_w[60, 1], trace.power_w[60, 1] - (trace.power_w[60, 1] - 2000.0) / 8)
    assert np.array_equal(np.isnan(left.power_w), np.isnan(trace.power_w))


def test_what_sticks_repeats_the_reading_before_and_comes_as_often() -> None:
    trace = feed_trace()
    spoiled = meters.stuck(trace, ROWS, feed=0, signals=("power_w",))
    assert set(spoiled.power_w[ROWS, 0]) == {trace.power_w[59, 0]}
    assert spoiled.voltage_v is trace.voltage_v
    own = meters.node_stuck(node_trace(), ROWS, node=1).power_w[ROWS, 1]
    assert set(own[np.isfinite(own)]) == {node_trace().power_w[58, 1]}
    assert np.isnan(own[1::2]).all()


def test_one_meter_under_two_names_shows_the_same_bits() -> None:
    spoiled = meters.twin(node_trace(), node=3, of=0)
    assert np.array_equal(spoiled.power_w[:, 3], spoiled.power_w[:, 0])


def test_a_channel_of_means_is_that() -> None:
    spoiled = meters.with_mean(feed_trace())
    assert np.allclose(spoiled.voltage_v[:, 3], feed_trace().voltage_v.mean(axis=1))
    assert np.allclose(spoiled.power_w[:, 3], feed_trace().total_w)


def test_a_clock_that_is_off_moves_the_readings_of_one_node() -> None:
    trace = node_trace()
    spoiled = meters.clock_off(trace, node=2, by_s=18_000.0)
    own = np.isfinite(spoiled.power_w[:, 2])
    assert np.array_equal(spoiled.time_ns[own], trace.time_ns + 18_000 * NS_PER_S)
    assert np.array_equal(spoiled.power_w[own, 2], trace.power_w[:, 2])
    assert np.isfinite(spoiled.power_w[:120, 0]).all()


def test_rows_of_a_stretch_are_counted_in_time() -> None:
    assert rows_from(feed_trace().time_ns, 60, 30.0) == ROWS


def test_a_node_without_a_new_reading_is_shown_with_its_last() -> None:
    frame = node_trace().frame()
    assert np.isfinite(frame.values).all()
    assert not frame.fresh[1::2, 1].any()
    assert (meters.failed_rows(feed_trace(), ROWS).power_w[ROWS] == -1.0).all()
    assert np.isnan(feeds.watts_only(feed_trace()).voltage_v).all()
    assert meters.gain(feed_trace(), ROWS, feed=0, times=1.15).power_w[60, 0] > feed_trace().power_w[60, 0]
    assert nodes.less_efficient(node_trace(), ROWS, node=0, by=0.01).power_w[60, 0] > node_trace().power_w[60, 0]
