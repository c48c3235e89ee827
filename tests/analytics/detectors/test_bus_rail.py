"""Rails of a board with two main buses: each is judged by itself, against the supplies of its own bus."""

from pathlib import Path

import numpy as np
import pytest

from analytics.connectivity.bus_rails import bus_label
from analytics.detectors.board_rail import BoardRailState
from analytics.detectors.bus_rail import BusRail
from analytics.detectors.panel import Panel
from analytics.detectors.supply_limits import BoardRailLimits
from analytics.incidents.book import IncidentBook
from analytics.shards.learnt import pack_learnt, with_learnt
from evaluation.judgement.runs import JudgedRun, order_of
from evaluation.replay import recorded_topology
from rules.caps.targets import targets_of
from rules.policy.model import Target
from simulator.runs.node_run import record_run
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind, Topology
from telemetry.frames import Frame
from telemetry.recording import read_recording
from telemetry.records import Cause, FaultClass, Finding, FindingStatus
from tests.analytics.detectors.board_scenes import ROWS, worn
from tests.analytics.detectors.bus_rail_scenes import (
    RAILS,
    UNKNOWN_RAILS,
    Half,
    frame,
    half,
    switched_off,
    topology,
)
from tests.analytics.scenes import gpu
from tests.rules import scenes as rule_scenes

DETECTOR = BusRail(limits=BoardRailLimits())
TOPOLOGY = topology()


def run(rows: Frame, wired: Topology = TOPOLOGY) -> tuple[BoardRailState, list[Finding]]:
    state, found = DETECTOR.step(DETECTOR.start(rows.spec), rows, wired)
    return state, list(found)


def raised(rows: Frame, wired: Topology = TOPOLOGY) -> list[tuple[Cause, str]]:
    return [(one.cause, one.entity_id) for one in run(rows, wired)[1] if one.status is FindingStatus.RAISED]


@pytest.mark.parametrize("aged", [0, 1])
@pytest.mark.parametrize("seed", range(5))
def test_joints_of_one_bus_that_all_age_are_found_on_its_rail_alone(aged: int, seed: int) -> None:
    halves = [half(worn_times=6.0 if place == aged else 1.0, seed=seed + place) for place in range(2)]
    assert raised(frame(halves, seed=seed)) == [(Cause.JOINT_AGEING, RAILS[aged].id)]


def test_the_summary_names_the_bus_and_the_numbers_are_those_of_its_supplies() -> None:
    rows = frame((half(worn_times=6.0), half(high=200.0)))
    found = next(one for one in run(rows)[1] if one.cause is Cause.JOINT_AGEING)
    assert found.summary.startswith("left (P54V_A): joints between the supplies and the board drop ")
    assert found.number("joint_rise_ohm") == pytest.approx(5 * 0.004, rel=0.2)
    assert found.number("current_a") == pytest.approx(80.0, rel=0.15)


def test_a_rail_below_95_per_cent_sags_while_the_other_bus_is_idle() -> None:
    idle = Half(load_a=np.full(ROWS, 3.0), times=worn(times=1.0))
    found = run(frame((half(worn_times=11.0), idle)))[1]
    sag = next(one for one in found if one.cause is Cause.SUPPLY_SAG)
    assert (sag.entity_id, sag.detector) == (RAILS[0].id, "bus_rail.supply_sag")
    assert sag.summary.startswith("left (P54V_A): board rail sags to ")


def test_load_that_moves_from_one_bus_to_the_other_is_quiet() -> None:
    """The drop of each bus goes with its own current: the mean of both outputs would show a rise here."""
    first = np.where(np.arange(ROWS) < 200, 150.0, 60.0)
    halves = [Half(load_a=load, times=worn(times=1.0)) for load in (first, 210.0 - first)]
    assert raised(frame(halves)) == []


def test_a_supply_that_is_off_is_no_output_of_its_bus() -> None:
    assert raised(switched_off(frame((half(), half())), 0, since=150)) == []


def test_rails_of_which_nothing_names_the_bus_are_judged_by_their_own_reading_alone() -> None:
    wired = topology(UNKNOWN_RAILS)
    assert raised(frame((half(worn_times=6.0), half()), rails=UNKNOWN_RAILS), wired) == []
    state, found = run(frame((half(worn_times=11.0), half()), rails=UNKNOWN_RAILS), wired)
    assert {(one.cause, one.entity_id) for one in found} == {(Cause.SUPPLY_SAG, UNKNOWN_RAILS[0].id)}
    assert found[0].summary.startswith("P54V_A, bus not known: board rail sags to ")
    assert not state.usual.known.any()


def test_rails_of_a_node_with_one_bus_are_left_to_the_detector_of_its_node() -> None:
    supplies = tuple(
        type(one)(kind=one.kind, key=one.key, name=one.name, tags=one.tags[:1]) for one in topology().entities[1:5]
    )
    assert raised(frame((half(worn_times=11.0), half()), rails=UNKNOWN_RAILS), topology(UNKNOWN_RAILS, supplies)) == []


def test_outputs_that_only_the_controller_measures_serve_too() -> None:
    rows = frame((half(worn_times=6.0), half()), signals=("output_voltage_v", "output_current_a"))
    assert raised(rows) == [(Cause.JOINT_AGEING, RAILS[0].id)]


def test_a_cap_reaches_the_gpus_of_the_ageing_bus_alone() -> None:
    found = [one for one in run(frame((half(), half(worn_times=6.0))))[1] if one.cause is Cause.JOINT_AGEING]
    (incident,) = IncidentBook().step(found[:1], found[0].time_ns, TOPOLOGY)[-1:]
    assert (incident.cause, incident.entity_id) == (Cause.JOINT_AGEING, RAILS[1].id)
    assert incident.hypotheses[0].cause is FaultClass.JOINT_AGEING
    targets = targets_of(Target.ALL_GPUS_OF_SUPPLY, incident, rule_scenes.node(), TOPOLOGY)
    assert targets == (gpu(2).id, gpu(3).id)


@pytest.mark.parametrize("cause", [Cause.JOINT_AGEING, Cause.SUPPLY_SAG])
def test_a_baseline_and_its_findings_outlast_a_restart(cause: Cause) -> None:
    panel = Panel(detectors=(DETECTOR,), event_detectors=())
    rows = frame((half(worn_times=16.0, until=300), half()))
    state, found = panel.step(panel.start([rows.spec]), [rows.rows(0, 200)], TOPOLOGY)
    holding = [one for one in found if one.status is FindingStatus.RAISED]
    now_ns = int(rows.time_ns[199])
    blob = pack_learnt(panel, state, now_ns, frozen={})
    resumed = with_learnt(panel, panel.start([rows.spec]), blob, now_ns=now_ns, holding=holding)
    assert resumed.is_whole
    assert set(resumed.going_on) == set(holding)
    _, after = panel.step(resumed.state, [rows.rows(200, ROWS)], TOPOLOGY)
    (before,) = [one for one in holding if one.cause is cause]
    ended = [one for one in after if one.cause is cause and one.status is not FindingStatus.UPDATED]
    assert [(one.id, one.status) for one in ended] == [(before.id, FindingStatus.CLEARED)]


def test_a_rail_is_labelled_with_its_bus() -> None:
    assert [bus_label(one) for one in (RAILS[1], UNKNOWN_RAILS[1])] == ["right (P54V_B)", "P54V_B, bus not known"]


@pytest.mark.parametrize(("node", "aged"), [("h100x8-two-bus", "bmc-p54v-a"), ("a100x16", "bmc-p54v-a")])
def test_a_simulated_bus_whose_joints_all_age_is_named(node: str, aged: str, tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    record_run(order_of(JudgedRun(scenario="psu-sag", node=node, seed=2, duration_s=50.0)), path)
    recording, panel = read_recording(path), Panel(detectors=(DETECTOR,), event_detectors=())
    wired = recorded_topology(recording)
    state = panel.start([spec for spec in recording.tables if not spec.is_late])
    found: list[Finding] = []
    for rows in recording.frames(window_ns=NS_PER_S // 4):
        if not rows.spec.is_late:
            state, new = panel.step(state, [rows], wired)
            found += new
    assert {one.entity_id for one in found} == {f"{EntityKind.SUPPLY}:{aged}"}
    assert Cause.JOINT_AGEING in {one.cause for one in found}
