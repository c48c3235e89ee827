"""Rails behind converters: a weak converter, a bus that takes the rail down with it, and what must stay quiet."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.detectors.converter_rail import ConverterRail
from analytics.detectors.supply_limits import CoarseRailLimits
from analytics.incidents.book import IncidentBook
from physics.feeding import feeding_of
from rules.caps.targets import targets_of
from rules.policy.model import Target
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import Frame, TableSpec
from telemetry.records import Cause, FaultClass, Finding, FindingStatus, Severity
from telemetry.topology import topology_of
from tests.analytics.detectors.converter_scenes import MEMBERS, P12V, Converter
from tests.analytics.scenes import gpu
from tests.rules import scenes as rule_scenes

DETECTOR = ConverterRail(limits=CoarseRailLimits())
GPUS = tuple(gpu(number) for number in range(4))
NODE = Entity(kind=EntityKind.NODE, key="box", name="box")


def node_of(*supplies: Entity) -> Topology:
    """The topology of a node as a run makes it: what feeds what is inferred."""
    specs = [
        TableSpec(name="supply", kind=EntityKind.SUPPLY, entities=supplies, signals=("voltage_v",)),
        TableSpec(name="gpu", kind=EntityKind.GPU, entities=GPUS, signals=("power_w",)),
    ]
    return topology_of(NODE, specs, lambda supplies, gpus: feeding_of(None, supplies, gpus))


TOPOLOGY = node_of(*MEMBERS)


def reported(frame: Frame, topology: Topology = TOPOLOGY) -> list[Finding]:
    return list(DETECTOR.step(DETECTOR.start(frame.spec), frame, topology)[1])


def at_s(frame: Frame, finding: Finding) -> float:
    return (finding.time_ns - int(frame.time_ns[0])) / NS_PER_S


@pytest.mark.parametrize("round_s", [1, 5, 10])
@pytest.mark.parametrize("seed", range(5))
def test_a_weak_converter_is_named_and_not_the_supplies(seed: int, round_s: int) -> None:
    frame = Converter(weak_ohm=0.016, round_s=round_s).frame(seed=seed)
    first = reported(frame)[0]
    assert (first.cause, first.entity_id, first.status) == (Cause.SUPPLY_SAG, P12V.id, FindingStatus.RAISED)
    assert 0.0 < at_s(frame, first) - 100.0 < 40.0
    assert first.summary.startswith("P12V (bmc) sags to 11.")
    assert first.summary.endswith("limit 11.40 V; 54 V bus within limits: converter or its load")
    margin, share = first.number("bus_margin_ratio"), first.number("nominal_ratio")
    assert margin is not None
    assert margin > 0.5
    assert share == pytest.approx(0.93, abs=0.015)


@pytest.mark.parametrize("seed", range(5))
def test_a_converter_of_fixed_ratio_that_follows_its_bus_blames_the_bus(seed: int) -> None:
    first = reported(Converter(is_fixed_ratio=True, bus_sag_v=4.0).frame(seed=seed))[0]
    assert first.summary.endswith("limit 11.40 V; its 54 V bus is at 50.00 V")
    margin = first.number("bus_margin_ratio")
    assert margin is not None
    assert margin < 0.0


def test_a_drop_between_supplies_and_board_is_of_the_bus_too() -> None:
    first = reported(Converter(is_fixed_ratio=True, board_drop_v=4.0).frame())[0]
    assert first.summary.endswith("its 54 V bus is at 50.00 V")


def test_a_bus_that_is_not_measured_is_not_called_healthy() -> None:
    frame = Converter(weak_ohm=0.016).frame()
    values = frame.values.copy()
    values[:, :3] = np.nan
    first = reported(replace(frame, values=values))[0]
    assert first.summary.endswith("limit 11.40 V; its 54 V bus is not measured")
    assert first.number("bus_margin_ratio") is None


def test_its_incident_blames_no_supply_and_no_mains_and_caps_no_gpu() -> None:
    first = reported(Converter(weak_ohm=0.016).frame())[0]
    (incident,) = IncidentBook().step([first], first.time_ns, TOPOLOGY)[-1:]
    assert (incident.cause, incident.entity_id) == (Cause.SUPPLY_SAG, P12V.id)
    assert incident.hypotheses[0].cause is FaultClass.UNKNOWN
    ranked = {one.cause: one.probability for one in incident.hypotheses}
    assert ranked.get(FaultClass.SUPPLY_LOST, 0.0) < 0.02
    assert ranked.get(FaultClass.INPUT_SAG, 0.0) < 0.02
    assert targets_of(Target.ALL_GPUS_OF_SUPPLY, incident, rule_scenes.node(), TOPOLOGY) == ()


def test_a_converter_that_is_exchanged_clears() -> None:
    found = reported(Converter(weak_ohm=0.016, until=250).frame())
    assert [one.status for one in found if one.status is not FindingStatus.UPDATED] == [
        FindingStatus.RAISED,
        FindingStatus.CLEARED,
    ]


def test_a_deep_sag_is_critical() -> None:
    assert reported(Converter(weak_ohm=0.03).frame())[0].severity is Severity.CRITICAL


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1_000),
    load_a=st.floats(0.0, 100.0),
    set_v=st.floats(11.9, 12.3),
    bus_sag_v=st.floats(0.0, 6.0),
    step_v=st.sampled_from((0.01, 0.063, 0.1)),
    round_s=st.sampled_from((1, 5, 10)),
)
def test_a_converter_that_regulates_is_quiet_whatever_its_bus_does(
    *, seed: int, load_a: float, set_v: float, bus_sag_v: float, step_v: float, round_s: int
) -> None:
    one = Converter(load_a=load_a, set_v=set_v, bus_sag_v=bus_sag_v, step_v=step_v, round_s=round_s)
    assert reported(one.frame(seed=seed)) == []


def test_one_low_reading_that_is_shown_for_ten_seconds_is_no_sag() -> None:
    frame = Converter().frame()
    values = frame.values.copy()
    values[200:210, 3, 1] = 10.5
    assert reported(replace(frame, values=values)) == []


def test_a_12_v_rail_of_a_node_without_a_main_bus_is_left_to_its_supplies() -> None:
    frame = Converter(weak_ohm=0.016).frame()
    kept = (P12V,)
    spec = replace(frame.spec, entities=kept)
    lone = Frame(spec=spec, time_ns=frame.time_ns, values=frame.values[:, 3:], fresh=frame.fresh[:, 3:])
    assert reported(lone, node_of(*kept)) == []


def test_rows_at_full_rate_are_judged_once_a_second() -> None:
    slow = Converter(weak_ohm=0.016).frame()
    fast = Frame(
        spec=slow.spec,
        time_ns=np.repeat(slow.time_ns, 20) + np.tile(np.arange(20) * 50_000_000, len(slow.time_ns)),
        values=np.repeat(slow.values, 20, axis=0),
        fresh=np.repeat(slow.fresh, 20, axis=0),
    )
    assert [(one.time_ns, one.summary) for one in reported(fast)] == [
        (one.time_ns, one.summary) for one in reported(slow)
    ]
