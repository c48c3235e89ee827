import numpy as np
import pytest

from analytics.detectors.supply_headroom import SupplyHeadroom
from analytics.detectors.supply_limits import SupplyHeadroomLimits
from telemetry.frames import Frame
from telemetry.records import Cause, Finding
from tests.analytics.detectors import supply_scenes as scenes
from tests.analytics.scenes import node_of, supply

TOPOLOGY = node_of(4, 2)


def reported(frame: Frame, limits: SupplyHeadroomLimits | None = None) -> tuple[Finding, ...]:
    detector = SupplyHeadroom(limits=limits or SupplyHeadroomLimits())
    return detector.step(detector.start(frame.spec), frame, TOPOLOGY)[1]


@pytest.mark.parametrize("seed", range(5))
def test_steps_beyond_what_supplies_were_chosen_for_are_reported_with_a_sound_path(seed: int) -> None:
    found = reported(scenes.overload(seed))
    assert {one.cause for one in found} == {Cause.SYNCHRONOUS_OVERLOAD}
    assert {one.entity_id for one in found} == {supply(0).id, supply(1).id}
    assert found[0].number("chosen_for_w") == pytest.approx(1020.0)
    assert found[0].number("rise_ratio") == pytest.approx(1.0, abs=0.06)
    worst_v, lowest_v = found[0].number("predicted_dip_v"), found[0].number("minimum_v")
    assert worst_v is not None
    assert lowest_v is not None
    assert worst_v < lowest_v


@pytest.mark.parametrize("seed", range(5))
def test_a_training_job_within_the_size_is_silent(seed: int) -> None:
    amps = scenes.load(seed)
    limits = np.full(amps.shape, scenes.LIMITS_W)
    assert reported(scenes.frame(scenes.rail(amps, seed=seed), amps, gpu_limits_w=limits)) == ()


def test_a_rating_that_is_known_counts_instead() -> None:
    amps = scenes.load(1)
    frame = scenes.frame(scenes.rail(amps, seed=1), amps)
    assert reported(frame) == ()
    assert {one.cause for one in reported(frame, SupplyHeadroomLimits(rated_w=750.0))} == {Cause.SYNCHRONOUS_OVERLOAD}


def test_a_supply_that_is_left_with_all_is_overloaded_before_it_trips() -> None:
    amps = scenes.load(2)
    amps[300:302, 0] = 150.0
    limits = np.full(amps.shape, scenes.LIMITS_W)
    (finding,) = (
        one
        for one in reported(scenes.frame(scenes.rail(amps, seed=2), amps, gpu_limits_w=limits))
        if one.status == "raised"
    )
    assert (finding.cause, finding.entity_id) == (Cause.SUPPLY_OVERLOAD, supply(0).id)
    assert finding.number("peak_w") == pytest.approx(150.0 * 11.55, rel=0.01)


def test_dips_below_the_limit_with_more_load_than_ever_are_the_loads() -> None:
    early = np.arange(scenes.ROWS)[:, np.newaxis] < 200
    amps = np.where(early, scenes.load(3), scenes.load(3, low=90.0, high=190.0))
    found = reported(scenes.frame(scenes.rail(amps, seed=3), amps))
    assert {one.cause for one in found} == {Cause.SYNCHRONOUS_OVERLOAD}


def test_dips_of_a_path_that_aged_are_not_the_loads() -> None:
    amps = scenes.load(4)
    ohm = np.where(np.arange(scenes.ROWS) < 160, 0.005, 0.014)[:, np.newaxis]
    assert reported(scenes.frame(scenes.rail(amps, seed=4, ohm=ohm), amps)) == ()


def test_dips_of_a_path_that_was_weak_from_its_first_day_are_not_the_loads() -> None:
    amps = scenes.load(5)
    assert reported(scenes.frame(scenes.rail(amps, seed=5, ohm=0.014), amps)) == ()


def test_a_voltage_in_millivolts_is_no_overload() -> None:
    amps = scenes.load(6)
    assert reported(scenes.frame(scenes.rail(amps, seed=6) * 1000.0, amps)) == ()
