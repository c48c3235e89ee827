import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.files.rack import RackAir, RackFeed
from simulator.plant.rack_site import RackBreaker, inlet_c, input_ratio, next_noise_k

AIR = RackAir.model_validate(
    {"crac_c": 20.0, "recirculation_k_per_w": 0.0002, "noise_k": 0.5, "noise_memory": "60s", "diurnal_k": 2.0}
)
FEED = RackFeed.model_validate(
    {"swing": 0.01, "drop_at_rating": 0.02, "breaker_w": 8000.0, "breaker_after": "10s", "efficiency": 0.92}
)
HOUR_S = 3600.0


def test_inlet_air_is_the_rooms_plus_what_comes_round_plus_the_day_plus_noise() -> None:
    assert inlet_c(AIR, power_w=5000.0, noise_k=0.3, time_s=0.0) == pytest.approx(21.3)
    assert inlet_c(AIR, power_w=5000.0, noise_k=0.3, time_s=6 * HOUR_S) == pytest.approx(23.3)
    assert inlet_c(AIR, power_w=0.0, noise_k=0.0, time_s=18 * HOUR_S) == pytest.approx(18.0)
    assert inlet_c(AIR, power_w=0.0, noise_k=0.0, time_s=0.0, crac_c=30.0) == pytest.approx(30.0)


def test_the_voltage_of_the_pdu_swings_by_one_per_cent_and_falls_with_load() -> None:
    assert input_ratio(FEED, power_w=0.0, time_s=0.0) == pytest.approx(1.0)
    assert input_ratio(FEED, power_w=0.0, time_s=6 * HOUR_S) == pytest.approx(0.99)
    assert input_ratio(FEED, power_w=0.0, time_s=18 * HOUR_S) == pytest.approx(1.01)
    assert input_ratio(FEED, power_w=8000.0, time_s=0.0) == pytest.approx(0.98)
    assert input_ratio(FEED, power_w=4000.0, time_s=0.0, mains_ratio=0.85) == pytest.approx(0.84)


@given(powers=st.lists(st.floats(0.0, 20_000.0), min_size=1, max_size=8), time_s=st.floats(0.0, 1e7))
def test_many_racks_side_by_side_are_as_many_racks_one_by_one(powers: list[float], time_s: float) -> None:
    power_w = np.array(powers)
    noise_k = np.linspace(-1.0, 1.0, len(powers))
    air = inlet_c(AIR, power_w=power_w, noise_k=noise_k, time_s=time_s)
    feed = input_ratio(FEED, power_w=power_w, time_s=time_s)
    later = next_noise_k(AIR, noise_k, after_s=3.0, normal=noise_k)
    for rack, power in enumerate(powers):
        noise = float(noise_k[rack])
        assert air[rack] == inlet_c(AIR, power_w=power, noise_k=noise, time_s=time_s)
        assert feed[rack] == input_ratio(FEED, power_w=power, time_s=time_s)
        assert later[rack] == next_noise_k(AIR, noise, after_s=3.0, normal=noise)


@given(one=st.floats(0.0, 2e4), other=st.floats(0.0, 2e4), time_s=st.floats(0.0, 1e6))
def test_more_load_is_never_cooler_nor_at_a_higher_voltage(one: float, other: float, time_s: float) -> None:
    less, more = sorted((one, other))
    air = [inlet_c(AIR, power_w=power_w, noise_k=0.0, time_s=time_s) for power_w in (less, more)]
    feed = [input_ratio(FEED, power_w=power_w, time_s=time_s) for power_w in (less, more)]
    assert air[0] <= air[1]
    assert feed[0] >= feed[1]


@pytest.mark.parametrize("after_s", [1.0, 30.0, 600.0])
def test_the_airs_noise_keeps_its_spread_and_forgets_as_fast_as_the_file_states(after_s: float) -> None:
    chance = np.random.default_rng(1)
    before = 0.5 * chance.standard_normal(200_000)
    after = next_noise_k(AIR, before, after_s=after_s, normal=chance.standard_normal(200_000))
    assert after.std() == pytest.approx(0.5, rel=0.02)
    remembered = float(np.mean(before * after)) / 0.25
    assert remembered == pytest.approx(np.exp(-after_s / 60.0), abs=0.01)


def test_a_breaker_opens_only_once_the_load_was_too_high_for_too_long_and_stays_open() -> None:
    breaker = RackBreaker(FEED)
    for power_w in [9000.0] * 9 + [7000.0] + [9000.0] * 10:
        breaker.advance(1.0, power_w)
        assert breaker.closed
    breaker.advance(1.0, 9000.0)
    assert not breaker.closed
    breaker.advance(1000.0, 0.0)
    assert not breaker.closed
    breaker.turn(closed=True)
    breaker.advance(9.0, 9000.0)
    assert breaker.closed
