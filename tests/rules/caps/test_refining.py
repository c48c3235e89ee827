"""A cap is corrected by what the rail was measured to carry under it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from physics.node_state import MeasuredNode, MeasuredSupply, of_two_levels
from physics.power_curve import DEFAULT_CURVE
from rules.caps.refining import DIP_WINDOWS, MOST_RATIO, SETBACK_FACTOR, WINDOW_NS, WINDOWS, deep_dip_ohm
from rules.caps.supply_basis import WHOLE_DIP_RATIO
from rules.engine.claims import CapClaim
from rules.engine.engine import Engine
from rules.policy.model import Verb
from telemetry.records import Decision
from tests.rules.scenes import CAP, ENFORCED, SAG, gpu_state, incident, node, policy, topology

PSU = "supply:psu0"


def measured(
    resistance_ohm: float,
    clock_mhz: float,
    *,
    dip_ohm: float = 0.0,
    pause: bool = False,
    job_w: float = 350.0,
    open_v: float = 12.30,
) -> MeasuredNode:
    """Return the node under a clock, behind a source; `pause` is a window without a load step.

    `job_w` is the power of each GPU at its highest clock, `dip_ohm` the depth of a dip per ampere of a load step.
    """
    power_w = job_w * DEFAULT_CURVE.share(clock_mhz / 1530.0)
    high_a, low_a = 4.0 * power_w / 11.6 + 31.0, 80.0
    lowest_v = open_v - resistance_ohm * high_a - dip_ohm * (high_a - low_a)
    supply = MeasuredSupply(
        entity_id=PSU,
        minimum_v=lowest_v,
        open_circuit_v=None if pause else open_v,
        source_resistance_ohm=None if pause else resistance_ohm,
        current_high_a=None if pause else high_a,
        current_low_a=None if pause else low_a,
        band=of_two_levels(low_a=low_a, high_a=high_a, level_sd_v=0.0005),
    )
    gpus = tuple(replace(gpu_state(gpu.entity_id, power_high_w=power_w), clock_mhz=clock_mhz) for gpu in node().gpus)
    return MeasuredNode(gpus=gpus, supplies=(supply,))


class Cap:
    """An engine with a cap in force on a path that was misjudged at first."""

    def __init__(self, resistance_ohm: float) -> None:
        self.engine = Engine((policy(replace(CAP, settle_s=3600.0)),), limits=ENFORCED, topology=topology())
        self.now_ns = 0
        self.engine.step([incident(numbers=SAG)], measured(resistance_ohm, 1530.0), 0)
        self.first_mhz = self.claim.strictest

    @property
    def claim(self) -> CapClaim:
        (claim,) = self.engine.claims
        return claim

    def windows(self, count: int, state: MeasuredNode) -> list[Decision]:
        found: list[Decision] = []
        for _ in range(count):
            self.now_ns += WINDOW_NS
            found += self.engine.step([], state, self.now_ns)
        return found


def test_a_cap_that_a_passing_estimate_made_too_strict_is_relaxed_after_twelve_seconds() -> None:
    cap = Cap(0.0095)
    state = measured(0.0058, cap.first_mhz)
    assert not cap.windows(WINDOWS - 1, state)
    (relaxed,) = cap.windows(1, state)
    assert relaxed.action == Verb.CLOCK_RELAX
    assert relaxed.setting is not None
    assert relaxed.setting > cap.first_mhz
    assert len(relaxed.targets) == 4
    assert "measured over 12 s" in relaxed.reason
    assert cap.claim.strictest == relaxed.setting


def test_a_cap_that_holds_no_more_than_it_must_stays() -> None:
    cap = Cap(0.0058)
    stays = measured(0.0058, cap.first_mhz)
    cap.windows(3 * WINDOWS, stays)
    assert abs(cap.claim.strictest - cap.first_mhz) < 0.03 * 1530.0


def test_one_correction_relaxes_by_a_limited_share() -> None:
    cap = Cap(0.0160)
    cap.windows(WINDOWS, measured(0.0030, cap.first_mhz))
    assert cap.first_mhz < cap.claim.strictest <= MOST_RATIO * cap.first_mhz


def test_windows_of_a_pause_relax_nothing() -> None:
    cap = Cap(0.0095)
    assert not cap.windows(5 * WINDOWS, measured(0.0058, cap.first_mhz, pause=True))


@pytest.mark.parametrize("job_w", [290.0, 150.0])
def test_a_lighter_load_relaxes_nothing_since_the_one_that_sagged_may_return(job_w: float) -> None:
    cap = Cap(0.0075)
    held_mhz = cap.first_mhz
    assert not cap.windows(20 * WINDOWS, measured(0.0075, held_mhz, job_w=job_w))
    cap.windows(WINDOWS, measured(0.0075, held_mhz))
    assert cap.claim.strictest <= 1.03 * held_mhz


def test_windows_of_the_same_load_count_across_a_lighter_phase() -> None:
    cap = Cap(0.0095)
    state, lighter = measured(0.0058, cap.first_mhz), measured(0.0058, cap.first_mhz, job_w=150.0)
    assert not cap.windows(WINDOWS - 1, state)
    assert not cap.windows(WINDOWS, lighter)
    assert [one.action for one in cap.windows(1, state)] == [Verb.CLOCK_RELAX]


def test_a_load_that_grew_is_the_one_to_hold_from_then_on() -> None:
    cap = Cap(0.0075)
    cap.windows(2 * WINDOWS, measured(0.0075, cap.first_mhz, job_w=400.0))
    tightened_mhz = cap.claim.strictest
    assert tightened_mhz < cap.first_mhz
    assert not cap.windows(5 * WINDOWS, measured(0.0075, tightened_mhz, job_w=330.0))


def test_a_path_that_still_moves_begins_the_windows_again() -> None:
    cap = Cap(0.0095)
    decisions = [
        one for ohm in (0.0085, 0.0075, 0.0066, 0.0058) for one in cap.windows(1, measured(ohm, cap.first_mhz))
    ]
    assert not decisions


def test_after_a_setback_it_waits_four_times_as_long() -> None:
    cap = Cap(0.0095)
    cap.windows(WINDOWS, measured(0.0058, cap.first_mhz))
    (worse,) = cap.windows(1, measured(0.0095, cap.claim.strictest))
    now_mhz = cap.claim.strictest
    assert worse.action == Verb.CLOCK_CAP
    assert cap.claim.setbacks == 1
    assert not cap.windows(SETBACK_FACTOR * WINDOWS - 1, measured(0.0058, now_mhz))
    assert [one.action for one in cap.windows(1, measured(0.0058, now_mhz))] == [Verb.CLOCK_RELAX]


def test_one_window_of_many_that_allows_no_more_delays_no_relaxation_after_a_setback() -> None:
    cap = Cap(0.0095)
    cap.windows(WINDOWS, measured(0.0058, cap.first_mhz))
    cap.windows(1, measured(0.0095, cap.claim.strictest))
    now_mhz = cap.claim.strictest
    spare, none = measured(0.0058, now_mhz), measured(0.0058, now_mhz, open_v=11.96)
    cap.windows(2 * WINDOWS - 1, spare)
    cap.windows(1, none)
    (relaxed,) = cap.windows(2 * WINDOWS, spare)
    assert relaxed.action == Verb.CLOCK_RELAX
    assert cap.claim.strictest > now_mhz


def test_a_snapshot_keeps_what_was_measured() -> None:
    cap = Cap(0.0095)
    cap.windows(WINDOWS - 1, measured(0.0058, cap.first_mhz))
    again = Engine((policy(replace(CAP, settle_s=3600.0)),), limits=ENFORCED, topology=topology())
    again.restore(cap.engine.snapshot())
    assert again.claims == cap.engine.claims
    assert again.claims[0].measured is not None


@pytest.mark.parametrize("dip_ohm", [0.0005, 0.0012])
def test_dips_keep_it_stricter_and_by_more_than_the_monitor_shows_of_them(dip_ohm: float) -> None:
    settled = []
    for depth_ohm in (0.0, dip_ohm, WHOLE_DIP_RATIO * dip_ohm):
        cap = Cap(0.0160)
        for _ in range(10):
            cap.windows(WINDOWS, measured(0.0066, cap.claim.strictest, dip_ohm=depth_ohm))
        settled.append(cap.claim.strictest)
    assert settled[0] > settled[1] > settled[2]


NOISE_OHM = 0.0002


def test_equal_dips_are_as_deep_as_their_mean_however_many_windows_show_them() -> None:
    chance = np.random.default_rng(7)
    for windows in (4, 8, DIP_WINDOWS):
        rows = 0.004 + NOISE_OHM * chance.standard_normal((2000, windows))
        found = [deep_dip_ohm(row, NOISE_OHM) for row in rows.tolist()]
        assert abs(float(np.mean(found)) - 0.004) < 0.6 * NOISE_OHM
        assert float(np.std(found)) < NOISE_OHM
    deepest = float(np.mean(rows.max(axis=1)))
    assert deepest > 0.004 + 1.5 * NOISE_OHM


def test_three_deep_dips_of_sixteen_windows_count_in_full() -> None:
    assert deep_dip_ohm((*[0.001] * 13, 0.0049, 0.0050, 0.0051), NOISE_OHM) == pytest.approx(0.005)


def test_false_dips_of_two_windows_do_not_count() -> None:
    assert deep_dip_ohm((*[0.003] * 6, 0.009, 0.020), NOISE_OHM) == pytest.approx(0.003)
    assert deep_dip_ohm((0.009, 0.020, 0.003), NOISE_OHM) == pytest.approx(0.003)


@given(st.lists(st.floats(0.0, 0.05), min_size=1, max_size=DIP_WINDOWS), st.floats(0.0, 0.01))
def test_a_dip_lies_between_the_shallowest_and_the_deepest(dips_ohm: list[float], noise_ohm: float) -> None:
    rounding_ohm = 1e-12
    assert min(dips_ohm) - rounding_ohm <= deep_dip_ohm(dips_ohm, noise_ohm) <= max(dips_ohm) + rounding_ohm
