"""Of the meters of one bus the lowest decides whether a cap holds the voltage."""

from dataclasses import replace

import pytest

from physics.node_state import MeasuredNode, MeasuredSupply
from rules.caps.bus_meters import MOST_METER_ERROR, lower_meter_v, supplies_of_bus
from rules.caps.knobs import Scale
from rules.caps.setting import predict
from rules.caps.supply_basis import bases_now, bases_of
from rules.caps.targets import common_clocks_mhz
from telemetry.entities import NOMINAL_TAG, Entity, EntityKind, Topology
from telemetry.gpu import KnobKind
from tests.rules.scenes import GPUS, SAG, gpu_state, incident, node, topology

CLOCKS = Scale(knob=KnobKind.CLOCK, settings=common_clocks_mhz([gpu_state(GPUS[0])], min_clock_ratio=0.4))
PSU0, PSU1 = "supply:psu0", "supply:psu1"


def meter(name: str, *, error_v: float = 0.0, resistance_ohm: float = 0.0058) -> MeasuredSupply:
    """Return what a meter at the load's end shows of a bus that is at 12.30 V without load, and 11.42 V under it."""
    high_a = 0.88 / resistance_ohm
    return MeasuredSupply(
        entity_id=name,
        minimum_v=11.40 + error_v,
        open_circuit_v=12.30 + error_v,
        source_resistance_ohm=resistance_ohm,
        current_high_a=high_a,
        current_low_a=0.5 * high_a,
    )


def cap_mhz(state: MeasuredNode, *, hold_v: float = 11.50) -> float:
    bases, _ = bases_of(incident(numbers=SAG), state, targets=GPUS, topology=topology(2))
    return predict(bases, incident(numbers=SAG), state, scale=CLOCKS, hold_v=hold_v).setting


def test_a_cap_holds_the_voltage_at_a_meter_of_the_bus_that_no_finding_names() -> None:
    same = node(meter(PSU0), meter(PSU1))
    lower = node(meter(PSU0), meter(PSU1, error_v=-0.02))
    higher = node(meter(PSU0), meter(PSU1, error_v=0.02))
    assert cap_mhz(lower) < cap_mhz(same) == cap_mhz(higher)
    assert cap_mhz(lower) == pytest.approx(cap_mhz(same, hold_v=11.52), abs=7.5)


def test_the_correction_of_a_cap_reads_the_meters_again() -> None:
    first = node(meter(PSU0), meter(PSU1))
    bases, _ = bases_of(incident(numbers=SAG), first, targets=GPUS, topology=topology(2))
    later = node(meter(PSU0), meter(PSU1, error_v=-0.03))
    (basis,) = bases_now(bases, incident(numbers=SAG), later, targets=GPUS, topology=topology(2)) or ()
    assert bases[0].lower_meter_v == 0.0
    assert basis.lower_meter_v == pytest.approx(0.03)


def test_supplies_of_one_bus_may_carry_unlike_currents() -> None:
    state = node(meter(PSU0), meter(PSU1, error_v=-0.02, resistance_ohm=0.020))
    assert lower_meter_v(PSU0, (), state, topology(2)) == pytest.approx(0.02)


@pytest.mark.parametrize(
    "other",
    [
        meter(PSU1, error_v=-2.0 * MOST_METER_ERROR * 12.0),
        replace(meter(PSU1, error_v=-0.05), source_resistance_ohm=None),
        replace(meter(PSU1, error_v=-0.05), current_high_a=None),
    ],
    ids=["another place", "no source", "no current"],
)
def test_a_meter_that_shows_no_load_or_is_far_off_does_not_count(other: MeasuredSupply) -> None:
    assert lower_meter_v(PSU0, (), node(meter(PSU0), other), topology(2)) == 0.0


def test_a_supply_that_a_finding_names_is_predicted_by_its_own_meter() -> None:
    state = node(meter(PSU0), meter(PSU1, error_v=-0.05))
    assert lower_meter_v(PSU0, (PSU0, PSU1), state, topology(2)) == 0.0


def test_a_bus_is_the_supplies_of_one_rail_that_feed_the_same_gpus() -> None:
    gpus = topology(1).of_kind(EntityKind.GPU)
    nominals = {"psu0": "54", "psu1": "54", "psu2": "54", "converter": "12"}
    supplies = {
        name: Entity(kind=EntityKind.SUPPLY, key=name, name=name, tags=((NOMINAL_TAG, value),))
        for name, value in nominals.items()
    }
    fed = {"psu0": gpus[:2], "psu1": gpus[:2], "psu2": gpus[2:], "converter": gpus[:2]}
    edges = tuple((supplies[name].id, gpu.id) for name, own in fed.items() for gpu in own)
    two_buses = Topology(entities=(*supplies.values(), *gpus), edges=edges)
    assert supplies_of_bus(PSU0, two_buses) == (PSU0, PSU1)
    assert supplies_of_bus("supply:psu2", two_buses) == ("supply:psu2",)
    assert supplies_of_bus("supply:unwired", two_buses) == ()
