"""The standing verdict of a minute: voltages, shares, loads, what is off, and what cannot be judged."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from analytics.detectors.supply_margins import SupplyMargins
from analytics.detectors.supply_margins_limits import SupplyMarginsLimits
from analytics.supply.standing import SupplyVerdict
from physics.link_loads import LinkKind
from physics.wiring import Bus, Origin, Redundancy, WiredSupply, Wiring
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray
from tests.analytics.scenes import frame_of, node_of, supply

RATE_HZ, NOMINAL_V, OPEN_V, OHM = 5.0, 54.0, 54.5, 0.01


def wired(n_supplies: int = 2, *, rated_w: float | None = 3300.0, redundancy: Redundancy | None = None) -> Wiring:
    names = tuple(f"psu{number}" for number in range(n_supplies))
    supplies = tuple(WiredSupply(name=name, sensors=(name,), rated_w=rated_w) for name in names)
    bus = Bus(name="hgx", nominal_v=NOMINAL_V, supplies=names, redundancy=redundancy)
    return Wiring(origin=Origin.CONFIGURED, supplies=supplies, buses=(bus,))


def verdict_of(wiring: Wiring, amps: FloatArray, **others: FloatArray | float) -> SupplyVerdict:
    """Return the verdict on supplies with these currents, shape ``(n_rows, n_supplies)``, behind equal sources."""
    volts = np.where(amps > 0.0, OPEN_V - OHM * amps, OPEN_V)
    columns = {"voltage_v": volts, "current_a": amps}
    columns |= {name: np.broadcast_to(values, amps.shape).copy() for name, values in others.items()}
    frame = frame_of(EntityKind.SUPPLY, tuple(map(supply, range(amps.shape[1]))), columns, rate_hz=RATE_HZ)
    detector = SupplyMargins(limits=SupplyMarginsLimits(), wiring=wiring)
    state, _ = detector.step(detector.start(frame.spec), frame, node_of(4, amps.shape[1]))
    assert state.verdict is not None
    return state.verdict


def job(*shares: float, low_a: float = 20.0, high_a: float = 40.0) -> FloatArray:
    """Return 90 s of a job that changes its load every 5 s, shared between supplies."""
    seconds = np.arange(round(90 * RATE_HZ)) / RATE_HZ
    amps: FloatArray = np.where(seconds % 10.0 < 5.0, high_a, low_a)[:, np.newaxis] * np.array(shares)
    return amps


def test_each_supply_has_its_share_of_the_bus_now_and_in_load_steps() -> None:
    (bus,) = verdict_of(wired(), job(1.5, 0.5)).buses
    assert [one.share for one in bus.supplies] == pytest.approx([0.75, 0.25], abs=0.002)
    assert bus.supplies[0].step_w == pytest.approx(60.0 * (OPEN_V - OHM * 60.0), rel=0.02)
    assert bus.limit_v == pytest.approx(0.95 * NOMINAL_V)


def test_the_voltage_after_a_loss_is_predicted_from_the_source_that_the_load_shows() -> None:
    (bus,) = verdict_of(wired(), job(1.0, 1.0)).buses
    assert bus.lowest_v == pytest.approx(OPEN_V - OHM * 30.0, abs=0.01)
    assert bus.step_v == pytest.approx(OPEN_V - OHM * 40.0, abs=0.01)
    assert bus.loss_v == pytest.approx(OPEN_V - OHM * 60.0, abs=0.02)
    assert bus.loss_step_v == pytest.approx(OPEN_V - OHM * 80.0, abs=0.02)
    assert bus.without.startswith("without PSU ")


def test_under_a_load_that_does_not_move_the_source_is_unknown_and_nothing_is_predicted() -> None:
    (bus,) = verdict_of(wired(), job(1.0, 1.0, low_a=40.0)).buses
    assert (bus.loss_v, bus.loss_step_v) == (None, None)


@pytest.mark.parametrize(
    ("wiring", "shares", "expected"),
    [
        (wired(rated_w=None), (1.0, 1.0), ["bus hgx after a loss: PSUs 0-1: no rating given"]),
        (
            wired(rated_w=None),
            (1.0, 0.0),
            [
                "bus hgx after a loss: PSUs 0-1: no rating given",
                "bus hgx after a loss: PSU 1: no current now, so not counted on after a loss",
            ],
        ),
        (wired(), (1.0, 0.0), ["bus hgx after a loss: PSU 1: no current now, so not counted on after a loss"]),
        (wired(3), (1.0, 1.0), ["bus hgx after a loss: PSU 2: not measured"]),
        (wired(redundancy=Redundancy.N), (1.0, 0.0), []),
        (wired(), (1.0, 1.0), []),
    ],
)
def test_a_loss_that_cannot_be_judged_is_unknown_with_the_reason(
    wiring: Wiring, shares: tuple[float, ...], expected: list[str]
) -> None:
    assert list(verdict_of(wiring, job(*shares)).unknown) == expected


def test_each_link_has_its_worst_load_now_in_steps_and_after_a_loss() -> None:
    links = verdict_of(wired(rated_w=2000.0), job(1.0, 1.0)).links
    of_psu0 = {(one.basis, bool(one.without)): one.load for one in links if one.part == "psu0"}
    assert of_psu0["now", False] == pytest.approx(30.0 * OPEN_V, rel=0.01)
    assert of_psu0["step peaks", False] == pytest.approx(40.0 * OPEN_V, rel=0.02)
    lost = [one for one in links if one.without and one.basis == "after a loss"]
    assert {one.kind for one in lost} == {LinkKind.SUPPLY}
    assert all(one.is_over and one.load == pytest.approx(60.0 * OPEN_V, rel=0.02) for one in lost)


def off_of(others: Mapping[str, FloatArray]) -> list[tuple[str, bool, float | None, float | None]]:
    amps = job(1.0, 0.0)
    amps[:, 1] = others.get("amps", np.zeros(1))[0]
    found = verdict_of(wired(), amps, **{name: one for name, one in others.items() if name != "amps"})
    return [(one.supply, one.is_off, one.input_w, one.leak_a) for one in found.off]


def test_a_supply_on_standby_shows_its_draw_where_a_meter_sees_it() -> None:
    assert off_of({"input_power_w": np.array([1700.0, 14.0])}) == [("psu1", False, 14.0, None)]
    assert off_of({}) == []


def test_a_current_through_a_supply_that_is_off_is_a_leak() -> None:
    amps = job(1.0, 0.0)
    amps[:, 1] = -1.8
    frame_volts = np.column_stack([OPEN_V - OHM * amps[:, 0], np.full(len(amps), 2.0)])
    found = verdict_of(wired(), amps, voltage_v=frame_volts)
    assert [(one.supply, one.is_off) for one in found.off] == [("psu1", True)]
    assert [one.leak_a for one in found.off] == pytest.approx([-1.8])


def test_supplies_that_only_slow_meters_show_are_judged_by_those() -> None:
    amps = job(1.0, 1.0)
    columns = {"output_voltage_v": np.full(amps.shape, 54.0), "output_current_a": amps}
    frame = frame_of(EntityKind.SUPPLY, (supply(0), supply(1)), columns, rate_hz=1.0)
    detector = SupplyMargins(limits=SupplyMarginsLimits(), wiring=wired())
    state, _ = detector.step(detector.start(frame.spec), frame, node_of(4, 2))
    assert state.verdict is not None
    assert [one.power_w for one in state.verdict.buses[0].supplies] == pytest.approx([30.0 * 54.0] * 2, rel=0.1)


def test_a_bus_that_is_off_has_no_voltage_to_judge() -> None:
    dark = verdict_of(wired(), np.zeros((450, 2)), voltage_v=0.5, input_power_w=7.0)
    assert dark.buses == ()
    assert dark.input_w == pytest.approx(14.0)


def test_the_rating_of_a_tied_bus_is_unknown_after_a_loss() -> None:
    wiring = wired()
    tied = replace(wiring, buses=(replace(wiring.buses[0], joins=("other",)),))
    (line,) = verdict_of(tied, job(1.0, 1.0)).unknown
    assert line.endswith("share their load with a tied bus, in unknown parts")
