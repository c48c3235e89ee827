"""The clock that takes a number of watts off GPUs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from physics.node_state import MeasuredNode
from physics.supply_path import power_saved_w
from rules.caps.knobs import Scale
from rules.caps.setting import SettingChoice, choose
from rules.caps.supply_basis import gpu_load
from rules.policy.model import SettingRule
from telemetry.entities import Topology
from telemetry.gpu import KnobKind
from tests.rules.scenes import CLOCKS_MHZ, GPUS, gpu_state, incident, node, topology

CLOCKS = Scale(knob=KnobKind.CLOCK, settings=tuple(CLOCKS_MHZ))
SHED = SettingRule(shed="mend_w", fallback=0.85)


def chosen(numbers: dict[str, float], state: MeasuredNode) -> tuple[float | None, str]:
    choice = choose(
        SHED, incident(numbers=numbers), state, targets=GPUS, topology=topology(1), scale=CLOCKS, in_force=1530.0
    )
    return choice.setting, choice.reason


@given(shed_w=st.floats(1.0, 300.0))
def test_the_clock_takes_the_watts_off_and_the_next_higher_one_does_not(shed_w: float) -> None:
    state = node()
    loads = [load for gpu in state.gpus if (load := gpu_load(gpu)) is not None]
    clock_mhz, reason = chosen({"mend_w": shed_w}, state)
    assert clock_mhz is not None
    assert power_saved_w(loads, clock_mhz) >= shed_w
    assert power_saved_w(loads, CLOCKS.looser(clock_mhz)) < shed_w or CLOCKS.looser(clock_mhz) == clock_mhz
    assert reason == f"{clock_mhz:g} MHz: highest clock that takes {shed_w:.0f} W off the GPUs"


def test_no_clock_saves_power_above_the_one_in_use() -> None:
    loads = [load for gpu in node().gpus if (load := gpu_load(gpu)) is not None]
    assert power_saved_w(loads, 5000.0) == pytest.approx(0.0, abs=1e-9)


def test_more_watts_than_any_clock_saves_take_the_lowest_and_the_reason_names_what_it_saves() -> None:
    clock_mhz, reason = chosen({"mend_w": 5000.0}, node())
    assert clock_mhz == CLOCKS.strictest
    assert reason.startswith(f"not even {clock_mhz:g} MHz, the lowest clock allowed, takes 5000 W off the GPUs: ")


@pytest.mark.parametrize("numbers", [{}, {"mend_w": 0.0}])
def test_without_the_watts_the_fallback_sets_it(numbers: dict[str, float]) -> None:
    clock_mhz, reason = chosen(numbers, node())
    assert clock_mhz == pytest.approx(1297.5)
    assert reason.endswith("no finding names the watts (mend_w)")


def test_without_the_power_of_one_gpu_the_fallback_sets_it() -> None:
    state = node()
    blind = replace(state, gpus=(*state.gpus[:3], gpu_state(GPUS[3], power_high_w=None)))
    assert chosen({"mend_w": 100.0}, blind)[0] == pytest.approx(1297.5)


def two_buses() -> Topology:
    """Return a node whose first supply feeds two GPUs, the second the others, the third none."""
    whole = topology(3)
    edges = tuple(
        (above, below)
        for above, below in whole.edges
        if below not in GPUS or (above, below in GPUS[:2]) in {("supply:psu0", True), ("supply:psu1", False)}
    )
    return replace(whole, edges=edges)


def chosen_on(entities: tuple[str, ...], shed_w: float) -> SettingChoice:
    found = incident(numbers={"mend_w": shed_w}, entities=entities)
    return choose(SHED, found, node(), targets=GPUS, topology=two_buses(), scale=CLOCKS, in_force=1530.0)


def test_a_supply_that_feeds_no_known_gpu_caps_none_and_the_reason_names_it() -> None:
    choice = chosen_on(("supply:psu2",), 100.0)
    assert (choice.setting, choice.reason) == (None, "PSU 2 feeds no GPU that is known and can be capped")


def test_the_watts_of_a_feed_come_off_the_gpus_of_each_bus_by_its_own_part() -> None:
    alone, both = chosen_on(("supply:psu0",), 100.0), chosen_on(("supply:psu0", "supply:psu1"), 100.0)
    assert alone.setting == both.setting
    loads = [load for gpu in node().gpus[:2] if (load := gpu_load(gpu)) is not None]
    assert power_saved_w(loads, alone.setting or 0.0) >= 100.0


def test_the_watts_of_a_plug_come_off_its_own_gpu() -> None:
    choice = chosen_on((GPUS[0],), 50.0)
    (load,) = [load for gpu in node().gpus[:1] if (load := gpu_load(gpu)) is not None]
    assert power_saved_w([load], choice.setting or 0.0) >= 50.0


def test_each_finding_on_one_supply_counts_and_not_the_newest_alone() -> None:
    much, little = (incident(numbers={"mend_w": watts}, name=f"i{watts}") for watts in (150.0, 20.0))
    found = replace(much, findings=(*much.findings, *little.findings))
    choice = choose(SHED, found, node(), targets=GPUS, topology=topology(1), scale=CLOCKS, in_force=1530.0)
    assert choice.setting == chosen({"mend_w": 150.0}, node())[0]
