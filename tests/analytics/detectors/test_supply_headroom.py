import numpy as np
import pytest

from analytics.detectors.panel import Panel
from analytics.detectors.supply_headroom import SupplyHeadroom
from analytics.detectors.supply_limits import SupplyHeadroomLimits
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import Frame
from telemetry.records import Cause, Finding, Severity
from tests.analytics.detectors import supply_scenes as scenes
from tests.analytics.scenes import frame_of, gpu, node_of, supply

TOPOLOGY = node_of(4, 2)


def reported(frame: Frame, limits: SupplyHeadroomLimits | None = None) -> tuple[Finding, ...]:
    detector = SupplyHeadroom(limits=limits or SupplyHeadroomLimits())
    return detector.step(detector.start(frame.spec), frame, TOPOLOGY)[1]


@pytest.mark.parametrize("seed", range(5))
def test_steps_beyond_the_rating_of_supplies_are_reported_with_a_sound_path(seed: int) -> None:
    found = reported(scenes.overload(seed))
    assert {one.cause for one in found} == {Cause.SYNCHRONOUS_OVERLOAD}
    assert {one.entity_id for one in found} == {supply(0).id, supply(1).id}
    assert found[0].number("rated_w") == pytest.approx(1020.0)
    assert "(rated 1020 W)" in found[0].summary
    assert found[0].number("rise_ratio") == pytest.approx(1.0, abs=0.06)
    worst_v, lowest_v = found[0].number("predicted_dip_v"), found[0].number("minimum_v")
    assert worst_v is not None
    assert lowest_v is not None
    assert worst_v < lowest_v


@pytest.mark.parametrize("seed", range(5))
def test_a_training_job_within_the_rating_is_silent(seed: int) -> None:
    amps = scenes.load(seed)
    assert reported(scenes.frame(scenes.rail(amps, seed=seed), amps, rated_w=scenes.RATED_W)) == ()


@pytest.mark.parametrize(("over", "warned"), [(0.97, False), (1.03, False), (1.07, True)])
def test_steps_count_as_beyond_the_rating_from_what_two_meters_may_differ(over: float, warned: bool) -> None:  # noqa: FBT001
    amps = scenes.load(1)
    volts = scenes.rail(amps, seed=1)
    found = reported(scenes.frame(volts, amps, rated_w=float((volts * amps).max()) / over))
    assert {one.cause for one in found} == ({Cause.SYNCHRONOUS_OVERLOAD} if warned else set())
    assert {one.severity for one in found} == ({Severity.WARNING} if warned else set())


@pytest.mark.parametrize("seed", range(5))
def test_no_number_of_watts_is_too_many_where_the_rating_is_unknown(seed: int) -> None:
    assert reported(scenes.overload(seed, rated_w=None)) == ()


def test_gpus_on_two_buses_are_no_rating_of_either() -> None:
    # Each bus carries half of the GPUs: their power limits, 1200 W over four supplies, name no supply's size.
    node = Entity(kind=EntityKind.NODE, key="box", name="box")
    edges = [(node.id, one.id) for one in scenes.MEMBERS]
    edges += [(scenes.MEMBERS[number // 2].id, gpu(number).id) for number in range(4)]
    two_buses = Topology(entities=(node, *scenes.MEMBERS, *map(gpu, range(4))), edges=tuple(edges))
    amps = scenes.load(1, low=51.0, high=115.0)
    supplies = scenes.frame(scenes.rail(amps, seed=1), amps)
    limits_w = {"power_limit_w": np.full((scenes.ROWS, 4), 150.0)}
    gpus = frame_of(EntityKind.GPU, tuple(map(gpu, range(4))), limits_w, rate_hz=scenes.RATE_HZ, name="gpu")
    panel = Panel(detectors=(SupplyHeadroom(limits=SupplyHeadroomLimits()),), event_detectors=())
    assert panel.step(panel.start([supplies.spec, gpus.spec]), [gpus, supplies], two_buses)[1] == ()


def test_a_configured_rating_goes_before_the_one_that_a_supply_reports() -> None:
    amps = scenes.load(1)
    volts = scenes.rail(amps, seed=1)
    for frame in (scenes.frame(volts, amps), scenes.frame(volts, amps, rated_w=scenes.RATED_W)):
        assert reported(frame) == ()
        found = reported(frame, SupplyHeadroomLimits(rated_w=750.0))
        assert {one.cause for one in found} == {Cause.SYNCHRONOUS_OVERLOAD}


def test_a_supply_that_is_left_with_all_is_overloaded_before_it_trips() -> None:
    amps = scenes.load(2)
    amps[300:302, 0] = 150.0
    found = reported(scenes.frame(scenes.rail(amps, seed=2), amps, rated_w=scenes.RATED_W))
    (finding,) = (one for one in found if one.status == "raised")
    assert (finding.cause, finding.entity_id) == (Cause.SUPPLY_OVERLOAD, supply(0).id)
    assert finding.number("peak_w") == pytest.approx(150.0 * 11.55, rel=0.01)


def test_dips_below_the_limit_with_more_load_than_ever_are_the_loads() -> None:
    early = np.arange(scenes.ROWS)[:, np.newaxis] < 200
    amps = np.where(early, scenes.load(3), scenes.load(3, low=90.0, high=190.0))
    found = reported(scenes.frame(scenes.rail(amps, seed=3), amps))
    assert {one.cause for one in found} == {Cause.SYNCHRONOUS_OVERLOAD}
    assert {one.number("rated_w") for one in found} == {None}
    assert all("(rating unknown)" in one.summary for one in found if one.status == "raised")


@pytest.mark.parametrize("seed", range(3))
def test_supplies_that_all_fall_steeply_at_more_current_than_ever_are_overloaded(seed: int) -> None:
    found = [one for one in reported(scenes.at_limit(seed)) if one.status == "raised"]
    assert {(one.cause, one.entity_id) for one in found} == {
        (Cause.SUPPLY_OVERLOAD, supply(0).id),
        (Cause.SUPPLY_OVERLOAD, supply(1).id),
    }
    assert all("below usual" in one.summary for one in found)


def test_watts_far_over_the_rating_are_an_overload_whatever_the_path_does() -> None:
    found = [one for one in reported(scenes.at_limit(1, rated_w=800.0)) if one.status == "raised"]
    assert {one.cause for one in found} >= {Cause.SUPPLY_OVERLOAD}
    assert {one.entity_id for one in found} == {supply(0).id, supply(1).id}


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


def test_a_load_that_draws_more_current_because_the_input_sags_is_no_overload() -> None:
    amps = scenes.load(5)
    volts = scenes.rail(amps, seed=5)
    power_w = volts * amps
    volts[200:] *= 0.88
    assert reported(scenes.frame(volts, power_w / volts)) == ()
