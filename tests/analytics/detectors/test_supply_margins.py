"""Verdicts on the margins of supplies, plugs and feeds, on boxes like those of the field report."""

from dataclasses import replace

import numpy as np
import pytest

from analytics.detectors.supply_margins import SupplyMargins
from analytics.detectors.supply_margins_limits import SupplyMarginsLimits
from physics.breakers import BreakerCurve
from physics.wiring import Bus, MainsFeed, Origin, Plugs, Redundancy, WiredSupply, Wiring
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame
from telemetry.ratings import RatingSource, rating_tags
from telemetry.records import Cause, Finding, FindingStatus, Severity
from tests.analytics.scenes import frame_of, node_of, supply

# blbadger.github.io/gpu-server: supplies of 1100 W, 1600 W at full load, banana plugs of 15 A, then XT60 of 30 A.
RATED_W, FULL_W, RATE_HZ = 1100.0, 1600.0, 2.0
BANANA, XT60 = Plugs(name="banana", rating_a=15.0), Plugs(name="XT60", rating_a=30.0, peak_a=60.0)


def box(
    n_supplies: int = 2,
    *,
    plugs: Plugs | None = None,
    redundancy: Redundancy | None = None,
    rated_w: float | None = RATED_W,
    breaker_a: float | None = None,
) -> Wiring:
    names = [f"psu{number}" for number in range(n_supplies)]
    return Wiring(
        origin=Origin.CONFIGURED,
        supplies=tuple(
            WiredSupply(name=name, sensors=(name,), rated_w=rated_w, feed="A", plugs=() if plugs is None else (plugs,))
            for name in names
        ),
        buses=(Bus(name="main", nominal_v=12.0, supplies=tuple(names), redundancy=redundancy),),
        feeds=(MainsFeed(name="A", nominal_v=120.0, breaker_a=breaker_a, curve=BreakerCurve.C),),
    )


def rails(
    powers_w: list[float], *, n_supplies: int = 2, shares: tuple[float, ...] = (), rated_w: float | None = None
) -> Frame:
    """Return rows of which each holds the power of the whole bus, 12 V, shared evenly unless `shares` differ."""
    parts = np.array(shares or [1.0 / n_supplies] * n_supplies)
    amps: FloatArray = np.array(powers_w)[:, np.newaxis] / 12.0 * parts
    members = tuple(
        replace(supply(number), tags=rating_tags(rated_w, RatingSource.SUPPLY)) for number in range(n_supplies)
    )
    columns = {"voltage_v": np.full(amps.shape, 12.0), "current_a": amps}
    return frame_of(EntityKind.SUPPLY, members, columns, rate_hz=RATE_HZ)


def minutes(count: float, power_w: float) -> list[float]:
    return [power_w] * round(count * 60 * RATE_HZ)


def judged(
    wiring: Wiring | None, frame: Frame, *, limits: SupplyMarginsLimits | None = None, n_supplies: int = 2
) -> list[Finding]:
    detector = SupplyMargins(limits=limits or SupplyMarginsLimits(), wiring=wiring)
    _, found = detector.step(detector.start(frame.spec), frame, node_of(4, n_supplies))
    return list(found)


def test_a_pair_that_is_described_as_redundant_and_is_not_is_a_warning_that_names_the_watts() -> None:
    (one,) = judged(box(redundancy=Redundancy.N_PLUS_1), rails(minutes(1, FULL_W)))
    assert (one.cause, one.severity, one.entity_id) == (Cause.REDUNDANCY_LOST, Severity.WARNING, "supply:psu0")
    assert one.summary == "If PSU 0 is lost: PSU 1 at 1600 of 1100 W; 500 W less mends it"
    assert one.number("mend_w") == pytest.approx(500.0)
    assert one.since_ns == one.time_ns
    assert one.number("limit_ratio") == pytest.approx(1600.0 / 1100.0)


def test_the_first_verdict_takes_twenty_seconds_of_load() -> None:
    frame = rails(minutes(1, FULL_W))
    (one,) = judged(box(redundancy=Redundancy.N_PLUS_1), frame)
    assert one.time_ns - frame.time_ns[0] == 20 * NS_PER_S


@pytest.mark.parametrize(
    ("redundancy", "expected"),
    [(Redundancy.N, []), (None, [Severity.INFO]), (Redundancy.N_PLUS_N, [Severity.WARNING])],
)
def test_the_severity_follows_what_was_described(redundancy: Redundancy | None, expected: list[Severity]) -> None:
    found = judged(box(redundancy=redundancy), rails(minutes(1, FULL_W)))
    assert [one.severity for one in found] == expected


def test_three_supplies_bear_the_loss_of_one() -> None:
    wiring = box(3, redundancy=Redundancy.N_PLUS_1)
    assert judged(wiring, rails(minutes(5, FULL_W), n_supplies=3), n_supplies=3) == []


def test_a_third_supply_that_is_off_is_not_counted_on() -> None:
    wiring = box(3, redundancy=Redundancy.N_PLUS_1)
    frame = rails(minutes(1, FULL_W), n_supplies=3, shares=(0.5, 0.5, 0.0))
    (one,) = judged(wiring, frame, n_supplies=3)
    assert one.summary.startswith("If PSU 0 is lost: PSU 1 at 1600 of 1100 W")


def test_load_steps_that_would_trip_the_rest_count_although_the_mean_is_within_its_rating() -> None:
    steps = [1600.0, 400.0] * round(60 * RATE_HZ / 2)
    (one,) = judged(box(redundancy=Redundancy.N_PLUS_1), rails(steps))
    assert one.summary == "If PSU 0 is lost: PSU 1 at 1600 of 1100 W in load steps, limit 130 %; 106 W less mends it"


def test_one_wrong_reading_is_no_load_step() -> None:
    powers = minutes(1, 700.0)
    powers[30] = 9000.0
    assert judged(box(redundancy=Redundancy.N_PLUS_1), rails(powers)) == []


def test_without_a_rating_nothing_is_judged() -> None:
    assert judged(box(redundancy=Redundancy.N_PLUS_1, rated_w=None), rails(minutes(2, FULL_W))) == []
    assert judged(None, rails(minutes(2, FULL_W))) == []


def test_without_a_description_the_edges_and_the_ratings_of_the_supplies_themselves_decide() -> None:
    (one,) = judged(None, rails(minutes(1, FULL_W), rated_w=RATED_W))
    assert (one.cause, one.severity) == (Cause.REDUNDANCY_LOST, Severity.INFO)


def test_a_bus_of_which_a_supply_is_not_measured_is_not_judged() -> None:
    wiring = box(3, redundancy=Redundancy.N_PLUS_1)
    assert judged(wiring, rails(minutes(2, FULL_W))) == []


def test_the_banana_plugs_of_three_supplies_carry_three_times_their_rating_now() -> None:
    wiring = box(3, plugs=BANANA, redundancy=Redundancy.N)
    found = judged(wiring, rails(minutes(1, FULL_W), n_supplies=3), n_supplies=3)
    assert [(one.cause, one.severity) for one in found] == [(Cause.PLUG_OVER_RATING, Severity.CRITICAL)] * 3
    assert found[0].summary == "PSU 0 banana at 44.4 of 15 A; 1060 W less mends it"


def test_a_plug_that_only_a_loss_would_overload_names_the_loss() -> None:
    wiring = box(3, plugs=replace(XT60, count=2), redundancy=Redundancy.N_PLUS_1)
    found = judged(wiring, rails(minutes(1, FULL_W), n_supplies=3), n_supplies=3)
    assert [one.severity for one in found] == [Severity.WARNING] * 3
    assert found[2].summary == "If PSU 0 is lost: PSU 2 2x XT60 at 66.7 of 60 A; 160 W less mends it"


def test_load_steps_over_a_rating_are_noted_and_over_the_short_time_rating_are_a_warning() -> None:
    steps = [900.0, 300.0] * round(60 * RATE_HZ / 2)
    banana = judged(box(plugs=replace(BANANA, rating_a=30.0), redundancy=Redundancy.N), rails(steps))
    assert [one.severity for one in banana] == [Severity.INFO] * 2
    assert banana[0].summary == "PSU 0 banana at 37.5 of 30 A in load steps; 120 W less mends it"
    assert judged(box(plugs=XT60, redundancy=Redundancy.N), rails(steps)) == []
    hard = [1600.0, 20.0] * round(60 * RATE_HZ / 2)
    found = judged(box(plugs=replace(XT60, rating_a=50.0), redundancy=Redundancy.N), rails(hard))
    assert [one.severity for one in found] == [Severity.WARNING] * 2


def test_a_feed_is_judged_by_the_rule_for_lasting_loads_and_by_its_trip_curve() -> None:
    lasting = judged(box(redundancy=Redundancy.N, breaker_a=16.0), rails(minutes(1, FULL_W)))
    assert [(one.cause, one.severity) for one in lasting] == [(Cause.FEED_OVER_RATING, Severity.WARNING)]
    assert lasting[0].summary == "Feed A at 15.3 of 16 A, over the 80 % for a lasting load; 264 W less mends it"
    (trips,) = judged(box(redundancy=Redundancy.N, breaker_a=10.0), rails(minutes(1, FULL_W)))
    assert trips.severity is Severity.CRITICAL
    assert trips.summary.startswith("Feed A at 15.3 of 10 A, breaker trips within an hour; ")
    assert judged(box(redundancy=Redundancy.N, breaker_a=20.0), rails(minutes(1, FULL_W))) == []


def test_a_job_that_comes_and_goes_gives_one_finding_that_clears_after_an_hour_without() -> None:
    powers = (minutes(5, FULL_W) + minutes(20, 300.0)) * 4 + minutes(65, 300.0)
    found = judged(box(redundancy=Redundancy.N_PLUS_1), rails(powers))
    assert [one.status for one in found] == [FindingStatus.RAISED, FindingStatus.CLEARED]
    assert found[1].summary == "PSU 1 within its rating again: 300 of 1100 W if PSU 0 is lost"


def test_a_load_about_its_limit_does_not_flap() -> None:
    rng = np.random.default_rng(1)
    powers = [1100.0 * (1.0 + 0.02 * noise) for noise in rng.standard_normal(round(6 * 3600 * RATE_HZ))]
    found = judged(box(redundancy=Redundancy.N_PLUS_1), rails(powers))
    assert [one.status for one in found] == [FindingStatus.RAISED]


def test_a_load_that_grows_by_a_tenth_of_the_rating_is_reported_again() -> None:
    powers = minutes(3, 1200.0) + minutes(3, 1500.0)
    found = judged(box(redundancy=Redundancy.N_PLUS_1), rails(powers))
    assert [one.status for one in found] == [FindingStatus.RAISED, FindingStatus.UPDATED]


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, -5.0])
def test_values_that_are_none_are_no_load(wrong: float) -> None:
    frame = rails(minutes(2, FULL_W))
    values = frame.values.copy()
    values[:, 1, 1] = wrong
    found = judged(box(redundancy=Redundancy.N_PLUS_1), replace(frame, values=values))
    assert found == []


def test_a_gap_in_the_rows_begins_a_new_minute() -> None:
    frame = rails(minutes(0.25, FULL_W))
    later = replace(frame, time_ns=frame.time_ns + 600 * NS_PER_S)
    detector = SupplyMargins(limits=SupplyMarginsLimits(), wiring=box(redundancy=Redundancy.N_PLUS_1))
    state, first = detector.step(detector.start(frame.spec), frame, node_of(4, 2))
    _, second = detector.step(state, later, node_of(4, 2))
    assert [*first, *second] == []


@pytest.mark.parametrize(
    "wrong", [{"continuous_ratio": 0.0}, {"clear_ratio": 1.2}, {"over_current_ratio": 0.9}, {"first_after_s": 90.0}]
)
def test_limits_that_contradict_themselves_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SupplyMarginsLimits(**wrong)
