"""The computed cap against the field report, a naive search and its own symmetries."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from physics.power_curve import DEFAULT_CURVE, PowerCurve
from physics.supply_path import (
    GpuLoad,
    SupplyLoad,
    SupplyPath,
    VoltageCap,
    highest_clock,
    terminal_voltage_v,
    worst_dip_v,
)
from tests.rules.scenes import CLOCKS_MHZ

OTHER_W = 350.0
V100 = GpuLoad(max_clock_mhz=1530.0, clock_mhz=1530.0, power_high_w=350.0, power_low_w=149.8)


def _cap(branch_ohm: float, branches: int, *, limit_v: float = 11.40) -> VoltageCap:
    # Supplies in parallel behind a short bus, each with 4 mΩ of transient impedance.
    path = SupplyPath(
        open_circuit_v=12.30,
        source_resistance_ohm=branch_ohm / branches + 0.0003,
        transient_ohm=0.004 / branches,
    )
    load = SupplyLoad(
        power_high_w=4 * 350.0 + OTHER_W, power_low_w=4 * 149.8 + OTHER_W, share_ratio=1.0, gpus=(V100,) * 4
    )
    return highest_clock(path, load, limit_v=limit_v, clocks_mhz=CLOCKS_MHZ)


@pytest.mark.parametrize(
    ("branch_ohm", "branches", "clock_mhz", "within_mhz"),
    [
        (0.0148, 2, 1057.0, 8.0),  # two supplies on banana plugs; the builder found 1005 MHz by hand
        (0.0156, 2, 990.0, 15.0),  # aged joints
        (0.0170, 3, 1380.0, 22.5),  # three supplies, corroded
        (0.0044, 3, 1530.0, 0.0),  # three supplies on bolted rings: no cap
        (0.0078, 2, 1530.0, 0.0),  # two supplies on XT60: no cap
    ],
)
def test_the_states_of_the_field_report_get_their_clocks(
    branch_ohm: float, branches: int, clock_mhz: float, within_mhz: float
) -> None:
    answer = _cap(branch_ohm, branches)
    assert answer.holds
    assert answer.setting == pytest.approx(clock_mhz, abs=within_mhz)


def test_a_limit_that_no_clock_holds_returns_the_lowest_and_states_so() -> None:
    answer = _cap(0.0148, 2, limit_v=12.25)
    assert not answer.holds
    assert answer.setting == CLOCKS_MHZ[0]


def test_there_must_be_a_clock_to_choose_from() -> None:
    path = SupplyPath(open_circuit_v=12.0, source_resistance_ohm=0.005)
    load = SupplyLoad(power_high_w=100.0, power_low_w=50.0, share_ratio=1.0, gpus=())
    with pytest.raises(ValueError, match="no clock"):
        highest_clock(path, load, limit_v=11.4, clocks_mhz=())


def test_a_load_beyond_what_the_source_can_carry_has_no_voltage() -> None:
    path = SupplyPath(open_circuit_v=12.0, source_resistance_ohm=0.02)
    assert math.isnan(terminal_voltage_v(path, 1801.0))
    assert terminal_voltage_v(path, 1800.0) == pytest.approx(6.0)


def test_the_power_curve_meets_the_measured_points_of_a_v100() -> None:
    assert 350.0 * DEFAULT_CURVE.share(1.0) == pytest.approx(350.0)
    assert 350.0 * DEFAULT_CURVE.share(1005 / 1530) == pytest.approx(205.0, abs=1.0)
    assert 350.0 * DEFAULT_CURVE.share(0.2, 0.0) == pytest.approx(42.0)


@given(
    low=st.floats(0.0, 1.0),
    high=st.floats(0.0, 1.0),
    load=st.floats(0.0, 1.0),
    curve=st.builds(
        PowerCurve,
        idle=st.floats(0.05, 0.2),
        static=st.floats(0.2, 0.5),
        voltage_floor=st.floats(0.5, 0.9),
        knee=st.floats(0.1, 0.8),
    ),
)
def test_power_never_falls_with_the_clock_and_the_load_is_found_again(
    low: float, high: float, load: float, curve: PowerCurve
) -> None:
    low, high = sorted((low, high))
    assert curve.share(low, load) <= curve.share(high, load) + 1e-12
    if curve.share(high, 1.0) - curve.share(high, 0.0) > 1e-6:  # else every load draws the same, and none is found
        assert curve.load_of(curve.share(high, load), high) == pytest.approx(load, abs=1e-6)


PATHS = st.builds(
    SupplyPath,
    open_circuit_v=st.floats(11.5, 12.6),
    source_resistance_ohm=st.floats(0.0005, 0.02),
    transient_ohm=st.floats(0.0, 0.005),
)


@st.composite
def loads(draw: st.DrawFn) -> SupplyLoad:
    gpus = []
    for _ in range(draw(st.integers(1, 6))):
        high_w = draw(st.floats(60.0, 700.0))
        gpus.append(
            GpuLoad(
                max_clock_mhz=1530.0,
                clock_mhz=draw(st.sampled_from(CLOCKS_MHZ[80:])),
                power_high_w=high_w,
                power_low_w=high_w * draw(st.floats(0.05, 1.0)),
            )
        )
    share = draw(st.floats(0.2, 1.0))
    high_w = share * sum(gpu.power_high_w for gpu in gpus) + draw(st.floats(0.0, 500.0))
    swing_w = share * sum(gpu.power_high_w - gpu.power_low_w for gpu in gpus)
    return SupplyLoad(power_high_w=high_w, power_low_w=high_w - swing_w, share_ratio=share, gpus=tuple(gpus))


def _naive(path: SupplyPath, load: SupplyLoad, limit_v: float) -> float | None:
    """Search every clock, with the currents written out."""
    best = None
    for clock_mhz in CLOCKS_MHZ:
        high_w, low_w = load.power_high_w, load.power_low_w
        for gpu in load.gpus:
            here, there = gpu.clock_mhz / 1530.0, clock_mhz / 1530.0
            full_w = gpu.power_high_w / DEFAULT_CURVE.share(here)
            busy = DEFAULT_CURVE.load_of(gpu.power_low_w / full_w, here)
            change_high_w = full_w * (DEFAULT_CURVE.share(there) - DEFAULT_CURVE.share(here))
            change_low_w = full_w * (DEFAULT_CURVE.share(there, busy) - DEFAULT_CURVE.share(here, busy))
            high_w, low_w = high_w + load.share_ratio * change_high_w, low_w + load.share_ratio * change_low_w
        e, r = path.open_circuit_v, path.source_resistance_ohm
        high_w = max(high_w, 0.0)
        low_w = min(max(low_w, 0.0), high_w)
        if e * e < 4 * r * high_w:
            continue
        high_v, low_v = ((e + math.sqrt(e * e - 4 * r * power_w)) / 2 for power_w in (high_w, low_w))
        if high_v - path.transient_ohm * (high_w / high_v - low_w / low_v) >= limit_v:
            best = clock_mhz
    return best


@given(path=PATHS, load=loads(), limit_v=st.floats(10.5, 12.0))
def test_it_finds_what_a_search_of_every_clock_finds(path: SupplyPath, load: SupplyLoad, limit_v: float) -> None:
    answer = highest_clock(path, load, limit_v=limit_v, clocks_mhz=CLOCKS_MHZ)
    best = _naive(path, load, limit_v)
    assert answer.holds is (best is not None)
    assert answer.setting == (CLOCKS_MHZ[0] if best is None else best)


@given(path=PATHS, load=loads())
def test_the_dip_never_gets_shallower_as_the_clock_rises(path: SupplyPath, load: SupplyLoad) -> None:
    dips = [worst_dip_v(path, load, clock_mhz) for clock_mhz in CLOCKS_MHZ[::10]]
    held = [dip for dip in dips if not math.isnan(dip)]
    assert held == dips[: len(held)]
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(held))


@given(path=PATHS, load=loads(), limit_v=st.floats(10.5, 12.0), worse=st.floats(1.0, 1.5))
def test_a_worse_source_never_gets_a_higher_clock(
    path: SupplyPath, load: SupplyLoad, limit_v: float, worse: float
) -> None:
    aged = SupplyPath(
        open_circuit_v=path.open_circuit_v,
        source_resistance_ohm=worse * path.source_resistance_ohm,
        transient_ohm=path.transient_ohm,
    )
    before = highest_clock(path, load, limit_v=limit_v, clocks_mhz=CLOCKS_MHZ)
    after = highest_clock(aged, load, limit_v=limit_v, clocks_mhz=CLOCKS_MHZ)
    assert after.setting <= before.setting


@given(load=loads())
def test_at_the_measured_clocks_the_load_is_the_measured_one(load: SupplyLoad) -> None:
    clock_mhz = load.gpus[0].clock_mhz
    alike = SupplyLoad(
        power_high_w=load.power_high_w,
        power_low_w=load.power_low_w,
        share_ratio=load.share_ratio,
        gpus=tuple(
            GpuLoad(
                max_clock_mhz=1530.0,
                clock_mhz=clock_mhz,
                power_high_w=gpu.power_high_w,
                power_low_w=gpu.power_low_w,
            )
            for gpu in load.gpus
        ),
    )
    path = SupplyPath(open_circuit_v=12.3, source_resistance_ohm=0.001)
    predicted_v = worst_dip_v(path, alike, clock_mhz)
    assert predicted_v == pytest.approx(terminal_voltage_v(path, load.power_high_w), nan_ok=True)
