"""Verdicts on the plugs of GPUs and branches, and on load steps over a power limit."""

from dataclasses import replace

import numpy as np
import pytest

from analytics.detectors.gpu_margins import GpuMargins
from analytics.detectors.supply_margins_limits import SupplyMarginsLimits
from physics.wiring import Branch, Bus, Origin, Plugs, WiredSupply, Wiring
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame
from telemetry.records import Cause, Finding, FindingStatus, Severity
from tests.analytics.scenes import frame_of, gpu, node_of

RATE_HZ, BUS_V = 10.0, 12.0
EIGHT_PIN, LUG = Plugs(name="8-pin PCIe", rating_a=13.5), Plugs(name="lug-M4", rating_a=35.0)


def cards(branch: Branch) -> Wiring:
    supply = WiredSupply(name="psu0", sensors=("psu0",))
    bus = Bus(name="main", nominal_v=BUS_V, supplies=("psu0",), branches=(branch,))
    return Wiring(origin=Origin.CONFIGURED, supplies=(supply,), buses=(bus,))


def powers(
    watts: FloatArray | float,
    *,
    seconds: float = 70.0,
    limit_w: float = 300.0,
    rate_hz: float = RATE_HZ,
    model: str = "",
) -> Frame:
    """Return rows of two GPUs whose default power limit is 300 W."""
    members = tuple(replace(gpu(index), tags=(("model", model),)) for index in range(2))
    shape = (round(seconds * rate_hz), 2)
    columns = {
        "power_w": np.broadcast_to(watts, shape).copy(),
        "power_limit_w": np.full(shape, limit_w),
        "power_limit_default_w": np.full(shape, 300.0),
    }
    return frame_of(EntityKind.GPU, members, columns, rate_hz=rate_hz)


def judged(wiring: Wiring | None, frame: Frame) -> list[Finding]:
    detector = GpuMargins(limits=SupplyMarginsLimits(), wiring=wiring)
    _, found = detector.step(detector.start(frame.spec), frame, node_of(2, 1))
    return list(found)


def test_a_card_behind_one_auxiliary_plug_is_judged_by_what_its_slot_cannot_carry() -> None:
    wiring = cards(Branch(gpus=("0", "1"), plugs_each=(EIGHT_PIN,)))
    found = judged(wiring, powers(np.array([230.0, 261.0])))
    (one,) = found
    assert (one.cause, one.severity, one.entity_id) == (Cause.PLUG_OVER_RATING, Severity.WARNING, gpu(1).id)
    # 261 W less the 75 W of a slot are 15.5 A at 12 V.
    assert one.summary == "GPU 1 8-pin PCIe at least 15.5 of 13.5 A; 24 W less mends it"
    assert one.number("mend_w") == pytest.approx(24.0)


def test_the_plug_of_a_branch_is_over_its_rating_on_each_of_its_gpus_with_its_own_watts() -> None:
    wiring = cards(Branch(gpus=None, plugs=(LUG,)))
    first, second = judged(wiring, powers(np.array([300.0, 200.0])))
    assert first.summary == second.summary == "GPUs 0-1 lug-M4 at 41.7 of 35 A; 80 W less mends it"
    assert [one.number("mend_w") for one in (first, second)] == pytest.approx([48.0, 32.0])


def test_without_a_description_no_plug_is_judged() -> None:
    assert judged(None, powers(900.0)) == []


def steps(low_w: float, high_w: float, *, seconds: float = 70.0) -> FloatArray:
    return np.tile(np.array([[high_w]] * 5 + [[low_w]] * 5), (round(seconds * RATE_HZ / 10), 1))


def test_load_steps_over_a_power_limit_that_is_set_are_a_note() -> None:
    found = judged(None, powers(steps(80.0, 340.0), limit_w=200.0))
    assert [(one.cause, one.severity) for one in found] == [(Cause.STEPS_OVER_LIMIT, Severity.INFO)] * 2
    assert found[0].summary == "GPU 0: load steps of 340 W over its limit of 200 W; a clock cap bounds them"


def test_load_steps_over_the_default_limit_are_none() -> None:
    assert judged(None, powers(steps(80.0, 340.0), limit_w=300.0)) == []


def test_steps_that_also_exceed_a_plug_are_a_warning() -> None:
    wiring = cards(Branch(gpus=None, plugs_each=(EIGHT_PIN,)))
    found = judged(wiring, powers(steps(60.0, 340.0), limit_w=210.0))
    assert [(one.cause, one.severity) for one in found] == [(Cause.STEPS_OVER_LIMIT, Severity.WARNING)] * 2
    assert "over 13.5 A of 8-pin PCIe" in found[0].summary


def test_one_wrong_reading_is_no_step() -> None:
    watts = np.full((700, 2), 150.0)
    watts[300, 0] = 900.0
    assert judged(None, powers(watts, limit_w=200.0)) == []


@pytest.mark.parametrize(("watts", "expected"), [(190.0, 2), (90.0, 0)])
def test_where_power_is_read_too_seldom_the_record_of_the_part_stands_for_a_gpu_near_its_limit(
    watts: float, expected: int
) -> None:
    found = judged(None, powers(watts, limit_w=200.0, rate_hz=1.0, model="Tesla V100-SXM2-16GB"))
    assert len(found) == expected
    assert all("load steps of 350 W" in one.summary for one in found)


def test_the_verdict_holds_each_plug_and_whether_any_gpu_draws_power() -> None:
    detector = GpuMargins(limits=SupplyMarginsLimits(), wiring=cards(Branch(gpus=None, plugs=(LUG,))))
    for watts, off in ((150.0, False), (0.0, True), (np.nan, True)):
        frame = powers(watts)
        state, _ = detector.step(detector.start(frame.spec), frame, node_of(2, 1))
        assert state.verdict is not None
        assert state.verdict.are_off is off
    (link,) = detector.step(detector.start(frame.spec), powers(150.0), node_of(2, 1))[0].verdict.links  # type: ignore[union-attr]
    assert (link.part, link.name, link.load) == ("GPUs 0-1", "lug-M4", pytest.approx(25.0))


def test_a_plug_clears_after_an_hour_below_its_rating() -> None:
    watts = np.concatenate([np.full((120, 2), 300.0), np.full((3700, 2), 100.0)])
    wiring = cards(Branch(gpus=None, plugs=(LUG,)))
    found = judged(wiring, powers(watts, seconds=3820.0, rate_hz=1.0))
    assert [one.status for one in found] == [FindingStatus.RAISED] * 2 + [FindingStatus.CLEARED] * 2
