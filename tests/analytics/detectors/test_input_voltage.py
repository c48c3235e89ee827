"""Inputs that sag, are lost, drift, or have never been connected."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.detectors.input_voltage import InputVoltage
from analytics.supply.input_voltage import rides_s
from physics.wiring import Bus, Origin, WiredSupply, Wiring
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame
from telemetry.records import Cause, Finding, FindingStatus, Severity
from tests.analytics.scenes import frame_of, node_of, supply

DETECTOR = InputVoltage(name="input_voltage", signal="input_voltage_v", sees_loss=True)
TWO_FEEDS = Wiring(
    origin=Origin.CONFIGURED,
    supplies=tuple(
        WiredSupply(name=f"psu{one}", sensors=(f"psu{one}",), feed=feed)
        for one, feed in enumerate(("a", "a", "b", "b"))
    ),
    buses=(Bus(name="bus", nominal_v=12.0, supplies=("psu0", "psu1", "psu2", "psu3")),),
)


def inputs(volts: FloatArray, *, every_s: float = 1.0, amps: FloatArray | float = 40.0) -> Frame:
    """Return readings of shape ``(n_rows, n_supplies)``, all of them new."""
    members = tuple(supply(one) for one in range(volts.shape[1]))
    columns = {"input_voltage_v": volts, "current_a": np.broadcast_to(amps, volts.shape)}
    return frame_of(EntityKind.SUPPLY, members, columns, rate_hz=1.0 / every_s)


def found(frame: Frame, detector: InputVoltage = DETECTOR) -> tuple[Finding, ...]:
    return detector.step(detector.start(frame.spec), frame, node_of(4, len(frame.spec.entities)))[1]


def raised(frame: Frame, detector: InputVoltage = DETECTOR) -> list[Finding]:
    return [one for one in found(frame, detector) if one.status is FindingStatus.RAISED]


def sag_of(ratio: float, *, rows: int, of: int = 2, all_of: int = 2) -> FloatArray:
    """Return a minute of 230 V, a sag on the first `of` supplies, and a minute of 230 V."""
    volts = np.full((120 + rows, all_of), 230.0)
    volts[60 : 60 + rows, :of] *= ratio
    return volts


@pytest.mark.parametrize("usual_v", [100.0, 120.0, 208.0, 230.0, 277.0, 400.0])
def test_a_feed_that_sags_is_found_on_all_of_its_supplies_at_any_mains(usual_v: float) -> None:
    summaries = found(inputs(sag_of(0.8, rows=10) * usual_v / 230.0))
    assert [(one.cause, one.status) for one in summaries] == [
        (Cause.INPUT_SAG, FindingStatus.RAISED),
        (Cause.INPUT_SAG, FindingStatus.RAISED),
        (Cause.INPUT_SAG, FindingStatus.CLEARED),
        (Cause.INPUT_SAG, FindingStatus.CLEARED),
    ]
    assert "2 of 2 input meters: check the feed" in summaries[0].summary


def test_two_meters_need_one_reading_each() -> None:
    assert len(raised(inputs(sag_of(0.8, rows=1)))) == 2


def test_one_failed_conversion_of_one_meter_is_no_sag() -> None:
    assert not raised(inputs(sag_of(0.8, rows=1, of=1)))


def test_one_supply_alone_has_a_bad_inlet_or_meter() -> None:
    (one,) = raised(inputs(sag_of(0.8, rows=10, of=1, all_of=4)))
    assert one.entity_id == "supply:psu0"
    assert one.summary.endswith("others as before: check its inlet and meter")


def test_the_only_meter_speaks_for_its_feed() -> None:
    (one,) = raised(inputs(sag_of(0.8, rows=10, of=1, all_of=1)))
    assert one.summary.endswith("check its feed")


def test_supplies_are_compared_with_those_of_their_own_feed() -> None:
    wired = DETECTOR.with_wiring(TWO_FEEDS)
    both = raised(inputs(sag_of(0.8, rows=10, of=2, all_of=4)), wired)
    assert ["2 of 2 input meters" in one.summary for one in both] == [True, True]


def test_a_loss_is_found_within_seconds_where_the_clock_was_set_back_at_its_first_second() -> None:
    volts, amps = sag_of(0.0, rows=30), np.full((150, 2), 40.0)
    amps[60:90] = 0.0
    frame = inputs(volts, amps=amps)
    back_ns = np.where(np.arange(len(frame)) >= 62, 3600 * NS_PER_S, 0)
    lost = [one for one in raised(replace(frame, time_ns=frame.time_ns - back_ns)) if one.cause is Cause.SUPPLY_LOST]
    assert len(lost) == 2
    assert all(one.time_ns < frame.time_ns[66] - back_ns[66] for one in lost)


# Inside of the ITIC curve, and outside of it.
@pytest.mark.parametrize(
    ("ratio", "seconds", "worst"),
    [
        (0.85, 8, Severity.WARNING),
        (0.85, 20, Severity.CRITICAL),
        (0.72, 8, Severity.CRITICAL),
        (0.5, 3, Severity.CRITICAL),
    ],
)
def test_a_sag_is_critical_where_the_itic_curve_is_left(ratio: float, seconds: int, worst: Severity) -> None:
    held = [one for one in found(inputs(sag_of(ratio, rows=seconds))) if one.status is not FindingStatus.CLEARED]
    assert held[-1].severity is worst


@given(st.floats(0.0, 1.2), st.floats(0.0, 1.2))
def test_a_deeper_sag_is_never_ridden_through_for_longer(one: float, other: float) -> None:
    assert rides_s(min(one, other)) <= rides_s(max(one, other))


def test_a_feed_at_nothing_loses_its_supplies_and_is_no_sag() -> None:
    volts, amps = sag_of(0.0, rows=30, of=2, all_of=4), np.full((150, 4), 40.0)
    amps[60:90, :2] = 0.0
    both = raised(inputs(volts, amps=amps))
    assert [(one.cause, one.entity_id) for one in both] == [
        (Cause.SUPPLY_LOST, "supply:psu0"),
        (Cause.SUPPLY_LOST, "supply:psu1"),
    ]
    assert both[0].summary == "PSU 0 is off: input at 0.00 V, usually 230 V, 2 of 4 input meters; check the feed"


def test_a_supply_that_carries_on_without_input_is_information() -> None:
    (one,) = raised(inputs(sag_of(0.0, rows=30, of=1, all_of=4)))
    assert one.severity is Severity.INFO


@pytest.mark.parametrize("shows", [0.0, np.nan, 40.0])
def test_an_input_that_was_never_connected_is_not_judged(shows: float) -> None:
    volts = np.full((300, 2), 230.0)
    volts[:, 1] = shows
    assert not found(inputs(volts))


def test_an_input_that_is_connected_later_is_judged_from_then_on() -> None:
    volts = sag_of(0.8, rows=20, of=2, all_of=2)
    volts[:30, 1] = 0.0
    assert len(raised(inputs(volts))) == 2


def test_other_mains_are_learnt_and_a_rise_is_no_finding() -> None:
    volts = np.full((400, 2), 120.0)
    volts[100:] = 230.0
    volts[300:310] = 0.8 * 230.0
    assert {one.cause for one in raised(inputs(volts))} == {Cause.INPUT_SAG}


@settings(max_examples=20, deadline=None)
@given(
    every_s=st.sampled_from([1.0, 2.0, 5.0, 10.0]),
    step_v=st.sampled_from([0.25, 0.5, 1.0, 2.0]),
    usual_v=st.sampled_from([100.0, 115.0, 208.0, 230.0, 240.0]),
    noise_v=st.floats(0.0, 1.0),
    seed=st.integers(0, 10_000),
)
def test_mains_that_drift_on_coarse_meters_are_quiet(
    every_s: float, step_v: float, usual_v: float, noise_v: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    at_s = np.arange(0.0, 7200.0, every_s)
    drift = 1.0 + 0.03 * np.sin(2 * np.pi * at_s / 3600.0 + rng.uniform(0.0, 6.0))
    volts = usual_v * drift[:, np.newaxis] * (1.0 + rng.normal(0.0, 0.005, 3))
    volts += noise_v * rng.normal(size=volts.shape)
    volts[rng.random(volts.shape) < 0.01] = np.nan
    assert not found(inputs(np.round(volts / step_v) * step_v, every_s=every_s))


@pytest.mark.parametrize("every_s", [1.0, 5.0, 10.0])
def test_a_feed_that_falls_over_minutes_is_found_and_clears(every_s: float) -> None:
    at_s = np.arange(0.0, 4000.0, every_s)
    ratio = np.interp(at_s, [0.0, 900.0, 1800.0, 3000.0, 3300.0], [1.0, 1.0, 0.82, 0.82, 1.0])
    records = found(inputs(230.0 * ratio[:, np.newaxis] * np.ones(3), every_s=every_s))
    assert {one.cause for one in records} == {Cause.INPUT_SAG}
    assert [one.status for one in records][-3:] == [FindingStatus.CLEARED] * 3


def test_accepted_inputs_are_learnt_afresh() -> None:
    volts = sag_of(0.85, rows=240, of=2, all_of=2)[:200]
    frame = inputs(volts)
    state, _ = DETECTOR.step(DETECTOR.start(frame.spec), frame, node_of(4, 2))
    assert state.sag.active.all()
    state = DETECTOR.accept(state, np.array([True, False]))
    assert np.isnan(state.levels.usual_v[0])
    assert np.isfinite(state.levels.usual_v[1])
