"""Feeds of one node judged by each other: one that is lost, shares that move, supplies that waste, factors, twins."""

import numpy as np
import pytest

from telemetry.frames import FloatArray, Frame
from telemetry.records import Cause, Finding, FindingStatus, Severity
from tests.analytics.detectors.feed_scenes import feeds_frame, load_of, panel_findings, server_of, volts_of

ROWS = 600
FROM = 360
NAN = np.nan


def shared(parts: tuple[float, ...], *, rows: int = ROWS, seed: int = 1, watts: float = 1200.0) -> FloatArray:
    """Watts of feeds that share a load by these parts, each meter with 0.1 % of noise."""
    noise = 1.0 + 0.001 * np.random.default_rng(seed + 7).standard_normal((rows, len(parts)))
    load_w = load_of(rows, idle_w=0.5 * watts, loaded_w=watts, seed=seed)
    return np.asarray(load_w[:, np.newaxis] * np.array(parts) * noise)


def judged(power_w: FloatArray, *, volts: float = 206.0, with_volts: bool = True) -> list[Finding]:
    n_feeds = power_w.shape[1]
    voltage_v = volts_of(len(power_w), n_feeds, volts=volts)
    frame = feeds_frame(power_w, voltage_v, power_w / voltage_v / 0.96)
    return panel_findings(frame if with_volts else watts_only(frame), topology=server_of(n_feeds))


def watts_only(frame: Frame) -> Frame:
    values = frame.values.copy()
    values[:, :, :2] = NAN
    return Frame(spec=frame.spec, time_ns=frame.time_ns, values=values, fresh=frame.fresh & np.isfinite(values))


def moved(power_w: FloatArray, rows: slice, by: FloatArray | float) -> FloatArray:
    """Move a part of the first feed's watts to the second one."""
    after = power_w.copy()
    after[rows, 0] -= by * power_w[rows, 0]
    after[rows, 1] += by * power_w[rows, 0]
    return after


# A server of 206 V, and a small one with two feeds of 120 V and 2.5 A each.
@pytest.mark.parametrize(("volts", "watts"), [(206.0, 1200.0), (120.0, 580.0)])
@pytest.mark.parametrize("with_volts", [True, False])
def test_a_dead_supply_behind_a_sound_feed_is_lost_and_its_meter_is_sound(
    volts: float, watts: float, *, with_volts: bool
) -> None:
    power_w = moved(shared((0.52, 0.48), watts=watts), slice(FROM, FROM + 60), 1.0)
    found = judged(power_w, volts=volts, with_volts=with_volts)
    assert {(one.cause, one.entity_id) for one in found} == {(Cause.SUPPLY_LOST, "supply:feed0")}
    found = [one for one in found if one.detector == "feed_lost"]
    assert [one.status for one in found] == [FindingStatus.RAISED, FindingStatus.CLEARED]
    assert "the other feed took over" in found[0].summary
    assert (f" at {volts:.0f} V;" in found[0].summary) is with_volts


@pytest.mark.parametrize(("light_s", "lost"), [(60, False), (400, True)])
def test_a_feed_that_never_slept_at_a_light_load_is_lost_there_and_another_one_may_sleep(
    light_s: int, *, lost: bool
) -> None:
    rows = 200 + light_s + 60
    power_w = shared((0.52, 0.48), rows=rows)
    power_w[200:] *= 0.35
    found = judged(moved(power_w, slice(200 + light_s, rows), 1.0), with_volts=False)
    assert [one.entity_id for one in found if one.detector == "feed_lost"] == ["supply:feed0"] * lost


def test_a_feed_whose_load_ended_is_not_lost() -> None:
    power_w = shared((0.5, 0.5))
    power_w[FROM:, 0] = 0.0
    assert not [one for one in judged(power_w) if one.cause is Cause.SUPPLY_LOST]


@pytest.mark.parametrize("by", [0.03, 0.1])
def test_a_share_that_moved_is_an_imbalance_of_the_feed_that_carries_less(by: float) -> None:
    found = judged(moved(shared((0.52, 0.48)), slice(FROM, ROWS), by))
    assert [(one.cause, one.entity_id, one.severity) for one in found] == [
        (Cause.FEED_IMBALANCE, "supply:feed0", Severity.WARNING)
    ]
    share = 0.52 * (1.0 - by)
    assert f"(206 V) carries {share:.1%}".replace("%", " %") in found[0].summary
    assert "usually 52.0 %" in found[0].summary


def test_a_share_that_drifts_is_an_imbalance_too() -> None:
    """A tenth in an hour and a half: no mean of five seconds shows it."""
    power_w = shared((0.52, 0.48), rows=6000)
    by = np.clip((np.arange(6000) - 600) / 54_000.0, 0.0, None)
    found = judged(moved(power_w, slice(None), by))
    assert {(one.cause, one.entity_id) for one in found} == {(Cause.FEED_IMBALANCE, "supply:feed0")}


def test_feeds_that_never_shared_alike_are_no_imbalance() -> None:
    assert not judged(shared((0.7, 0.2, 0.1), rows=1200))


def test_a_feed_that_draws_one_per_cent_more_while_the_others_do_not_feeds_a_supply_that_wastes() -> None:
    power_w = np.repeat(np.array([[640.0, 560.0]]), ROWS, axis=0)
    power_w *= 1.0 + 0.001 * np.random.default_rng(3).standard_normal(power_w.shape)
    power_w[:60] *= 0.5
    power_w[FROM:, 1] *= 1.012
    found = judged(power_w)
    assert {(one.cause, one.entity_id) for one in found} == {(Cause.EFFICIENCY_LOSS, "supply:feed1")}
    assert "the others as before" in found[0].summary


@pytest.mark.parametrize(("times", "is_found"), [(1.0, False), (0.9, True), (1.15, True)])
def test_watts_that_leave_volts_and_amperes_are_of_a_faulty_meter(times: float, *, is_found: bool) -> None:
    power_w, voltage_v = shared((1.0,)), volts_of(ROWS, 1, volts=120.0)
    current_a = power_w / voltage_v / 0.96
    power_w[FROM:] *= times
    found = panel_findings(feeds_frame(power_w, voltage_v, current_a), topology=server_of(1))
    assert {one.cause for one in found} == ({Cause.SENSOR_FAULT} if is_found else set())
    assert all("power factor" in one.summary and "120 V" in one.summary for one in found)


def test_a_low_power_factor_from_the_first_day_is_no_fault() -> None:
    """Watts of small supplies are 0.4 to 0.6 of their volt-amperes by nature."""
    power_w, voltage_v = shared((1.0,), watts=60.0), volts_of(ROWS, 1, volts=120.0)
    assert not panel_findings(feeds_frame(power_w, voltage_v, power_w / voltage_v / 0.5), topology=server_of(1))


@pytest.mark.parametrize(("channel", "what"), [("copy", "one meter by every bit"), ("mean", "mean"), ("sum", "sum")])
def test_a_channel_that_is_no_meter_of_its_own_is_named_as_information(channel: str, what: str) -> None:
    power_w = shared((0.4, 0.35, 0.25))
    extra = {"copy": power_w[:, 0], "mean": power_w.mean(axis=1), "sum": power_w.sum(axis=1)}[channel]
    volts = np.repeat(volts_of(ROWS, 1, volts=206.0), 4, axis=1)
    frame = feeds_frame(np.column_stack((np.round(power_w, 1), extra)), volts)
    values = frame.values.copy()
    values[:, 3, 2] = extra
    values[:, 3] = values[:, 0] if channel == "copy" else values[:, 3]
    found = panel_findings(
        Frame(spec=frame.spec, time_ns=frame.time_ns, values=values, fresh=frame.fresh), topology=server_of(4)
    )
    twins = [one for one in found if one.detector == "meter_twins_of_feeds"]
    assert what in twins[0].summary
    assert {one.severity for one in twins} == {Severity.INFO}
