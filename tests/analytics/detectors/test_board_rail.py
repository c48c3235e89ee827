"""Rail of the board behind supplies of 48 and 54 V: joints that all age alike, and a board that sags."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analytics.detectors.board_rail import BoardRail, BoardRailState
from analytics.detectors.panel import Panel
from analytics.detectors.supply_limits import BoardRailLimits
from analytics.incidents.book import IncidentBook
from analytics.shards.learnt import pack_learnt, with_learnt
from analytics.supply.board_drop import BLOCK_S
from analytics.supply.usual_share import LEARN_BLOCKS
from evaluation.judgement.runs import JudgedRun, order_of
from evaluation.replay import recorded_topology
from rules.caps.targets import targets_of
from rules.policy.model import Target
from simulator.runs.node_run import record_run
from telemetry.clock import NS_PER_S
from telemetry.entities import NOMINAL_TAG, Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, TableSpec
from telemetry.recording import read_recording
from telemetry.records import Cause, FaultClass, Finding, FindingStatus, Severity
from tests.analytics.detectors.board_scenes import NODE, ROWS, Board, job, worn
from tests.analytics.scenes import frame_of, gpu, node_of, supply
from tests.rules import scenes as rule_scenes

DETECTOR = BoardRail(limits=BoardRailLimits())
TOPOLOGY = node_of(4, 2)
SOUND = np.ones(ROWS)


def run(frame: Frame, topology: Topology = TOPOLOGY) -> tuple[BoardRailState, list[Finding]]:
    state, found = DETECTOR.step(DETECTOR.start(frame.spec), frame, topology)
    return state, list(found)


def reported(frame: Frame, topology: Topology = TOPOLOGY) -> list[Finding]:
    return run(frame, topology)[1]


def at_s(frame: Frame, finding: Finding) -> float:
    return (finding.time_ns - int(frame.time_ns[0])) / NS_PER_S


@pytest.mark.parametrize("round_s", [1, 5, 10])
@pytest.mark.parametrize("seed", range(5))
def test_joints_that_all_age_alike_are_found_on_the_node_within_a_minute(seed: int, round_s: int) -> None:
    frame = Board(round_s=round_s).frame(job(seed=seed), worn(times=7.0), seed=seed)
    found = [one for one in reported(frame) if one.cause is Cause.JOINT_AGEING]
    assert (found[0].entity_id, found[0].status, found[0].severity) == (
        NODE.id,
        FindingStatus.RAISED,
        Severity.WARNING,
    )
    assert 0.0 < at_s(frame, found[0]) - 100.0 < 60.0
    assert "joints between the supplies and the board drop" in found[0].summary


@pytest.mark.parametrize("seed", range(5))
def test_the_numbers_are_those_of_the_joints(seed: int) -> None:
    """The path of 1.8 milliohm rises by 10.8, which costs 200 to 280 W."""
    board = Board(step_v=0.01)
    found = reported(board.frame(job(seed=seed, low=155.0), worn(times=7.0), seed=seed))
    (raised,) = [one for one in found if one.cause is Cause.JOINT_AGEING and one.status is FindingStatus.RAISED]
    rise_ohm, rise_w, drop_v, usual_v, risen_v = (
        raised.number(name) for name in ("joint_rise_ohm", "joint_extra_w", "drop_v", "usual_drop_v", "risen_v")
    )
    assert rise_ohm == pytest.approx(6 * board.path_ohm, rel=0.08)
    assert rise_w == pytest.approx(6 * board.path_ohm * 159.0**2, rel=0.1)
    assert usual_v == pytest.approx(board.path_ohm * 159.0, abs=0.03)
    assert drop_v == pytest.approx(7 * board.path_ohm * 159.0, rel=0.08)
    assert risen_v == pytest.approx(6 * board.path_ohm * 159.0, rel=0.08)


def test_its_incident_is_an_ageing_joint_and_a_cap_reaches_every_gpu_of_the_node() -> None:
    found = [one for one in reported(Board().frame(job(), worn(times=7.0))) if one.cause is Cause.JOINT_AGEING]
    (incident,) = IncidentBook().step(found[:1], found[0].time_ns, TOPOLOGY)[-1:]
    assert (incident.cause, incident.entity_id) == (Cause.JOINT_AGEING, NODE.id)
    assert incident.hypotheses[0].cause is FaultClass.JOINT_AGEING
    answering = rule_scenes.node()
    assert targets_of(Target.ALL_GPUS_OF_SUPPLY, incident, answering, TOPOLOGY) == rule_scenes.GPUS


def test_joints_that_are_mended_clear() -> None:
    found = reported(Board().frame(job(), worn(times=7.0, until=250)))
    joints = [
        one.status for one in found if one.cause is Cause.JOINT_AGEING and one.status is not FindingStatus.UPDATED
    ]
    assert joints == [FindingStatus.RAISED, FindingStatus.CLEARED]


def test_what_rose_at_full_load_does_not_clear_at_half_of_it() -> None:
    load = np.concatenate((job(200), job(ROWS - 200, high=100.0, low=90.0)))
    found = [one for one in reported(Board().frame(load, worn(times=7.0))) if one.cause is Cause.JOINT_AGEING]
    assert FindingStatus.CLEARED not in {one.status for one in found}


LOADS: dict[str, FloatArray] = {
    "a job": job(),
    "idle, then a job": np.concatenate((job(200, high=30.0, low=28.0), job(200))),
    "a job, then idle": np.concatenate((job(200), job(200, high=30.0, low=28.0))),
    "jobs of all sizes": np.concatenate([job(40, high=high, low=0.6 * high) for high in (160, 90, 220, 130, 300) * 2]),
    "a load that grows": np.linspace(40.0, 320.0, ROWS),
    "almost nothing": np.full(ROWS, 3.0),
}


@pytest.mark.parametrize("round_s", [1, 5, 10])
@pytest.mark.parametrize("gain", [0.98, 1.0, 1.02])
@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("seed", range(2))
def test_a_sound_path_is_quiet_under_any_load_and_any_constant_gain(
    load: str, gain: float, round_s: int, seed: int
) -> None:
    # Without its own sag: a meter that reads 2 % low at 4 % of droop lies below 95 %.
    board = Board(gain=gain, round_s=round_s, droop_ohm=0.0005)
    assert reported(board.frame(LOADS[load], SOUND, seed=seed)) == []


@pytest.mark.parametrize("seed", range(20))
def test_a_reading_that_walks_a_step_up_and_down_is_quiet(seed: int) -> None:
    rng = np.random.default_rng(seed)
    walk = np.clip(np.cumsum(rng.integers(-1, 2, ROWS)), -1, 1) * 0.25
    board_v = np.round((53.7 + walk) / 0.25) * 0.25
    assert reported(Board().frame(job(seed=seed), SOUND, board_v=board_v, seed=seed)) == []


@pytest.mark.parametrize("wrong_v", [0.0, 27.5, 45.0, 63.75])
def test_a_bad_reading_that_is_shown_for_a_round_is_quiet(wrong_v: float) -> None:
    board = Board(round_s=10)
    board_v = board.readings(job(), SOUND)
    board_v[200:210] = wrong_v
    assert reported(board.frame(job(), SOUND, board_v=board_v)) == []


def test_a_rise_that_a_meter_may_explain_is_quiet() -> None:
    """Two steps of a quarter volt are no more than rounding and drift may be."""
    board_v = Board().readings(np.full(ROWS, 150.0), SOUND)
    board_v[100:] -= 0.5
    assert reported(Board().frame(np.full(ROWS, 150.0), SOUND, board_v=board_v)) == []


@pytest.mark.parametrize(("nominal_v", "limit_v"), [(54.0, 51.3), (48.0, 45.6)])
def test_a_board_below_95_per_cent_sags(nominal_v: float, limit_v: float) -> None:
    board = Board(nominal_v=nominal_v)
    board_v = board.readings(job(), SOUND)
    board_v[150:200] = limit_v - 0.8
    found = [one for one in reported(board.frame(job(), SOUND, board_v=board_v)) if one.cause is Cause.SUPPLY_SAG]
    assert [one.status for one in found] == [FindingStatus.RAISED, FindingStatus.CLEARED]
    assert (found[0].entity_id, found[0].severity) == (NODE.id, Severity.CRITICAL)
    assert found[0].number("limit_v") == pytest.approx(limit_v)
    assert found[0].number("minimum_v") == pytest.approx(limit_v - 0.8)


def test_a_board_within_a_step_of_the_limit_does_not_sag() -> None:
    board_v = np.where(np.arange(ROWS) % 3 == 0, 51.25, 51.5)
    assert reported(Board().frame(job(), SOUND, board_v=board_v)) == []


def test_a_node_of_12_v_is_not_judged() -> None:
    board = Board(nominal_v=12.0, step_v=0.06)
    state, found = run(board.frame(job(), worn(times=20.0)))
    assert found == []
    assert not state.usual.known.any()


def two_buses(nominal_v: str = "54") -> Topology:
    node = Entity(kind=EntityKind.NODE, key="box", name="box")
    supplies = [replace(supply(n), tags=((NOMINAL_TAG, nominal_v),)) for n in range(2)]
    gpus = [gpu(n) for n in range(4)]
    edges = [(node.id, one.id) for one in (*supplies, *gpus)]
    edges += [(supplies[n // 2].id, gpus[n].id) for n in range(4)]
    return Topology(entities=(node, *supplies, *gpus), edges=tuple(edges))


def test_the_rail_of_a_node_with_two_buses_is_not_judged() -> None:
    """Nothing names the bus that the controller measures."""
    assert reported(Board().frame(job(), worn(times=12.0)), two_buses()) == []


def test_a_bus_that_feeds_some_of_the_gpus_only_is_not_judged() -> None:
    buses = two_buses()
    others = tuple(replace(one, tags=((NOMINAL_TAG, "12"),)) if one.name == "psu1" else one for one in buses.entities)
    assert reported(Board().frame(job(), worn(times=12.0)), Topology(entities=others, edges=buses.edges)) == []


def test_a_loaded_rail_is_judged_by_the_nominal_voltage_of_its_supplies() -> None:
    """50.5 V are a good rail of 48 V and a sag of one of 54 V."""
    tagged = tuple(replace(supply(n), tags=((NOMINAL_TAG, "54"),)) for n in range(2))
    entities = tuple(tagged[int(one.key[3:])] if one.kind is EntityKind.SUPPLY else one for one in TOPOLOGY.entities)
    frame = Board().frame(job(), SOUND, board_v=np.full(ROWS, 50.5))
    assert reported(frame) == []
    found = reported(frame, Topology(entities=entities, edges=TOPOLOGY.edges))
    assert {one.cause for one in found} == {Cause.SUPPLY_SAG}


def test_a_baseline_and_its_finding_outlast_a_restart() -> None:
    panel = Panel(detectors=(DETECTOR,), event_detectors=())
    frame = Board().frame(job(), worn(times=7.0, since=100, until=300))
    state, found = panel.step(panel.start([frame.spec]), [frame.rows(0, 150)], TOPOLOGY)
    raised = [one for one in found if one.status is FindingStatus.RAISED]
    assert [one.cause for one in raised] == [Cause.JOINT_AGEING]
    now_ns = int(frame.time_ns[149])
    blob = pack_learnt(panel, state, now_ns, frozen={})
    resumed = with_learnt(panel, panel.start([frame.spec]), blob, now_ns=now_ns, holding=raised)
    assert resumed.is_whole
    assert resumed.going_on == tuple(raised)
    _, after = panel.step(resumed.state, [frame.rows(150, ROWS)], TOPOLOGY)
    ended = [one for one in after if one.cause is Cause.JOINT_AGEING and one.status is not FindingStatus.UPDATED]
    assert [(one.id, one.status) for one in ended] == [(raised[0].id, FindingStatus.CLEARED)]


def test_what_a_person_accepted_becomes_the_new_baseline() -> None:
    frame = Board().frame(job(), worn(times=7.0))
    state, _ = DETECTOR.step(DETECTOR.start(frame.spec), frame.rows(0, 200), TOPOLOGY)
    state = DETECTOR.accept(state, np.array([True]))
    assert not state.usual.known.any()
    state, _ = DETECTOR.step(state, frame.rows(200, 200 + BLOCK_S * (LEARN_BLOCKS + 2)), TOPOLOGY)
    assert state.usual.known.all()
    assert not state.test.over.any()


def test_outputs_that_only_the_controller_measures_serve_too() -> None:
    frame = Board().frame(job(), worn(times=7.0))
    names = {"fast_v": "output_v", "fast_mean_a": "mean_a", "fast_total_a": "total_a"}
    signals = tuple(names.get(name, name) for name in frame.spec.signals)
    spec = TableSpec(name="node", kind=EntityKind.NODE, entities=frame.spec.entities, signals=signals)
    assert Cause.JOINT_AGEING in {one.cause for one in reported(replace(frame, spec=spec))}


def test_the_bus_of_54_v_goes_before_another_rail_of_the_board() -> None:
    frame = Board().frame(job(), worn(times=7.0))
    columns = {name: frame.signal(name) for name in frame.spec.signals}
    columns = {
        "main_bus_voltage_v": columns.pop("rail_voltage_v"),
        **columns,
        "rail_voltage_v": np.full((ROWS, 1), 12.1),
    }
    both = frame_of(EntityKind.NODE, (NODE,), columns, rate_hz=1.0, name="node")
    assert Cause.JOINT_AGEING in {one.cause for one in reported(both)}


@pytest.mark.parametrize("node", ["h100x8", "b200x8", "h100x8-orv3"])
def test_a_simulated_bus_whose_joints_all_age_is_named(node: str, tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    record_run(order_of(JudgedRun(scenario="psu-sag", node=node, seed=2, duration_s=45.0)), path)
    found = judged(path)
    assert {one.entity_id for one in found} == {f"node:{node}"}
    (raised,) = [one for one in found if one.cause is Cause.JOINT_AGEING and one.status is FindingStatus.RAISED]
    assert raised.time_ns - raised.since_ns < 20 * NS_PER_S


def test_a_simulated_node_whose_load_changes_is_quiet(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    record_run(order_of(JudgedRun(scenario="load-change", node="h100x8", seed=3)), path)
    assert judged(path) == []


def judged(path: Path) -> list[Finding]:
    recording, panel = read_recording(path), Panel(detectors=(DETECTOR,), event_detectors=())
    state, topology = panel.start([spec for spec in recording.tables if not spec.is_late]), recorded_topology(recording)
    found: list[Finding] = []
    for frame in recording.frames(window_ns=NS_PER_S // 4):
        if not frame.spec.is_late:
            state, new = panel.step(state, [frame], topology)
            found += new
    return found
