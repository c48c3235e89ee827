"""The fleet's judgement over made-up windows: what it raises, what it leaves to the nodes, and how it goes on."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from analytics.fleet.already_explained import NodeReports
from analytics.fleet.judge import FleetJudge, FleetSettings, WindowRecords
from analytics.fleet.snapshot import pack_judge, unpack_judge
from analytics.fleet.topology import FeedsAndRacks
from analytics.fleet.window import FleetTable, FleetWindow, NodeIncident
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.records import Cause, Event, EventKind, Finding, FindingStatus, Incident, IncidentState, Record, Severity
from tests.analytics.fleet.windows import START_NS, fleet_tables, gpu_of, supply_of, table_of, window_of

NODES = ("node1", "node2", "node3")
FED = FleetSettings(above=FeedsAndRacks(feeds={"pdu-a": ("node1", "node2"), "pdu-b": ("node3", "node4")}))


def records_of(judge: FleetJudge, windows: Sequence[FleetWindow]) -> list[Record]:
    reported: list[Record] = []
    for window in windows:
        judged = judge.step(window)
        reported += [*judged.findings, *judged.incidents]
    return reported


def losing(lost_from_s: int = 20, until_s: int = 60) -> list[FleetWindow]:
    """Return windows in which a GPU of node2 falls silent."""
    lost = gpu_of("node2", 3)
    return [
        window_of(second, fleet_tables(NODES, lost=lost if second >= lost_from_s else None))
        for second in range(0, until_s, 5)
    ]


def own_incident(node: str, cause: Cause, at_s: float, state: IncidentState = IncidentState.OPEN) -> NodeIncident:
    return NodeIncident(
        node=node, time_ns=START_NS + round(at_s * NS_PER_S), entity_id=f"node:{node}", cause=cause, state=state
    )


def sag_of(node: str, at_s: float, status: FindingStatus = FindingStatus.RAISED) -> Finding:
    entity_id = supply_of(node).id
    return Finding(
        id=f"rail_sag:{entity_id}:1",
        time_ns=START_NS + round(at_s * NS_PER_S),
        since_ns=START_NS + round(at_s * NS_PER_S),
        detector="rail_sag",
        cause=Cause.SUPPLY_SAG,
        entity_id=entity_id,
        status=status,
        severity=Severity.CRITICAL,
        score=0.5,
        summary=f"{node} sags",
        evidence=(),
    )


def causes(judged: WindowRecords) -> set[tuple[Cause, str]]:
    return {(one.cause, one.entity_id) for one in judged.findings if one.status is not FindingStatus.CLEARED}


def test_a_gpu_that_falls_silent_beside_its_siblings_is_lost_on_its_node() -> None:
    reported = records_of(FleetJudge(FleetSettings()), losing())
    lost = [one for one in reported if isinstance(one, Finding) and one.cause is Cause.GPU_LOST]
    assert [one.entity_id for one in lost] == [gpu_of("node2", 3).id]
    assert 20 * NS_PER_S <= lost[0].time_ns - START_NS <= 30 * NS_PER_S


def test_a_node_at_work_raises_nothing() -> None:
    windows = [window_of(second, fleet_tables(NODES)) for second in range(0, 120, 5)]
    assert records_of(FleetJudge(FleetSettings()), windows) == []


def test_supplies_of_which_a_node_has_only_slow_outputs_are_judged_by_them_those_of_the_others_are_not() -> None:
    rng = np.random.default_rng(2)
    supplies = tuple(supply_of(node, number) for node in ("node1", "node2") for number in (0, 1))

    def supplies_at(second: int) -> FleetTable:
        amps = np.repeat(rng.normal(40.0, 4.0, (5, 2)), 2, axis=1)
        rails = {"voltage_v": np.where([True, True, False, False], 12.3 - 0.005 * amps, np.nan), "current_a": amps}
        rails["current_a"] = np.where([True, True, False, False], amps, np.nan)
        outputs = {"output_voltage_v": 12.3 - 0.005 * amps, "output_current_a": amps}
        if second >= 150:  # the first supply of each node goes off, as its own outputs show
            outputs["output_current_a"] = amps * [0.0, 2.0, 0.0, 2.0] + rng.normal(0.0, 0.02, amps.shape)
            outputs["output_voltage_v"] = outputs["output_voltage_v"] * [0.0, 1.0, 0.0, 1.0]
        return table_of(EntityKind.SUPPLY, supplies, {**rails, **outputs}, seconds=5)

    nodes = ("node1", "node2")
    windows = [
        window_of(second, fleet_tables(nodes) | {EntityKind.SUPPLY: supplies_at(second)}) for second in range(0, 200, 5)
    ]
    found = {(one.cause, one.entity_id) for one in records_of(FleetJudge(FED), windows) if isinstance(one, Finding)}
    assert found == {(Cause.SUPPLY_LOST, supply_of("node2", 0).id)}


def test_a_silent_node_holds_up_no_other_and_is_no_bus_drop() -> None:
    lost = gpu_of("node1", 0)
    windows = [
        window_of(second, fleet_tables(NODES if second < 20 else NODES[:2], lost=lost if second >= 20 else None))
        for second in range(0, 90, 5)
    ]
    reported = [one for one in records_of(FleetJudge(FleetSettings()), windows) if isinstance(one, Finding)]
    assert {one.entity_id for one in reported if one.cause is Cause.GPU_LOST} == {lost.id}


def test_a_node_that_falls_silent_is_one_incident_there_whatever_it_has() -> None:
    def tables(nodes: Sequence[str]) -> dict[EntityKind, FleetTable]:
        supplies = [supply_of(node, number) for node in nodes for number in range(2)]
        rails = table_of(EntityKind.SUPPLY, supplies, {"voltage_v": 12.05, "current_a": 45.0}, seconds=5)
        return fleet_tables(nodes) | {EntityKind.SUPPLY: rails}

    windows = [window_of(second, tables(NODES if second < 20 else NODES[:2])) for second in range(0, 90, 5)]
    reported = [one for one in records_of(FleetJudge(FleetSettings()), windows) if isinstance(one, Incident)]
    assert {(one.id, one.cause, one.entity_id) for one in reported} == {
        (reported[0].id, Cause.SENSOR_LOST, "node:node3")
    }


def test_what_a_node_reported_itself_is_not_reported_again() -> None:
    windows = losing()
    reported = own_incident("node2", Cause.GPU_LOST, 20.4)
    judge = FleetJudge(FleetSettings())
    judged = [judge.step(replace(window, incidents=(reported,) if window.start_ns > START_NS + 15 * NS_PER_S else ()))
              for window in windows]  # fmt: skip
    assert sum(one.folded for one in judged) == 1
    assert not any(one.incidents for one in judged)


@pytest.mark.parametrize(("named", "is_reported"), [("GPU-node2-3", False), ("GPU-node2-1", True)])
def test_the_readings_of_a_gpu_that_its_node_reported_is_lost_are_not_missed(named: str, *, is_reported: bool) -> None:
    incident = replace(own_incident("node2", Cause.GPU_LOST, 20.4), entity_id=f"gpu:{named}")
    reported = NodeReports()
    reported.receive([incident])
    now_ns = START_NS + 60 * NS_PER_S
    assert reported.explains("node2", Cause.SENSOR_LOST, gpu_of("node2", 3).id, now_ns) is not is_reported
    assert not reported.explains("node1", Cause.SENSOR_LOST, gpu_of("node2", 3).id, now_ns)
    reported.receive([replace(incident, time_ns=now_ns, state=IncidentState.CLOSED)])
    assert not reported.explains("node2", Cause.SENSOR_LOST, gpu_of("node2", 3).id, now_ns + 121 * NS_PER_S)


def test_an_incident_of_the_fleet_ends_when_the_node_comes_to_report_of_it_itself() -> None:
    judge = FleetJudge(FleetSettings())
    windows = losing(until_s=180)
    states = []
    for number, window in enumerate(windows):
        reported = own_incident("node2", Cause.GPU_LOST, 60.0)
        judged = judge.step(replace(window, incidents=(reported,) if number >= 12 else ()))
        states += [one.state for one in judged.incidents]
        if number == 12:
            assert [one.status for one in judged.findings] == [FindingStatus.CLEARED]
    assert states[0] is IncidentState.OPEN
    assert states[-1] is IncidentState.CLOSED


def test_two_nodes_on_one_feed_that_sag_together_point_to_the_feed() -> None:
    judge = FleetJudge(FED)
    nodes = (*NODES, "node4")
    judge.step(window_of(0, fleet_tables(nodes)))
    judge.step(window_of(5, fleet_tables(nodes), findings=[sag_of("node1", 6.0)]))
    judged = judge.step(window_of(10, fleet_tables(nodes), findings=[sag_of("node2", 11.0)]))
    assert causes(judged) == {(Cause.INPUT_SAG, "supply:feed/pdu-a")}
    assert judged.incidents[0].entity_id == "supply:feed/pdu-a"
    assert "node1, node2" in judged.incidents[0].summary
    cleared = [sag_of("node1", 31.0, FindingStatus.CLEARED), sag_of("node2", 31.0, FindingStatus.CLEARED)]
    over = judge.step(window_of(30, fleet_tables(nodes), findings=cleared))
    assert [one.status for one in over.findings] == [FindingStatus.CLEARED]


@pytest.mark.parametrize(
    ("sagging", "seconds"),
    [
        (("node1",), (6.0,)),  # one node alone
        (("node1", "node3"), (6.0, 6.5)),  # one on each feed
        (("node1", "node2", "node3", "node4"), (6.0, 6.1, 6.2, 6.3)),  # all alike, so it is neither feed's
        (("node1", "node2"), (6.0, 66.0)),  # not together
    ],
)
def test_nodes_that_have_no_feed_to_blame_do_not_point_to_one(
    sagging: tuple[str, ...], seconds: tuple[float, ...]
) -> None:
    judge = FleetJudge(FED)
    nodes = (*NODES, "node4")
    for start in range(0, 90, 5):
        findings = [
            sag_of(node, at_s) for node, at_s in zip(sagging, seconds, strict=True) if start <= at_s < start + 5
        ]
        assert causes(judge.step(window_of(start, fleet_tables(nodes), findings=findings))) == set()


def test_nodes_whose_rails_are_not_read_are_no_evidence_that_a_feed_is_sound() -> None:
    nodes = (*NODES, "node4", "node5")
    judge = FleetJudge(FleetSettings(above=FeedsAndRacks(feeds={"pdu-a": nodes})))

    def read(start: int, *findings: Finding) -> WindowRecords:
        tables = fleet_tables(nodes)
        rails = tables[EntityKind.SUPPLY]
        unread = np.isin(rails.nodes, ("node3", "node4", "node5"))[np.newaxis, :, np.newaxis]
        tables[EntityKind.SUPPLY] = replace(rails, values=np.where(unread, np.nan, rails.values))
        return judge.step(window_of(start, tables, findings=list(findings)))

    read(0)
    judged = read(5, sag_of("node1", 6.0), sag_of("node2", 6.5))
    assert causes(judged) == {(Cause.INPUT_SAG, "supply:feed/pdu-a")}
    assert judged.findings[-1].number("of_nodes") == 2


def test_a_gpu_that_was_drained_on_its_node_is_not_lost_to_the_fleet() -> None:
    released = Event(
        id="e1",
        time_ns=START_NS + 19 * NS_PER_S,
        kind=EventKind.DRIVER_UNBOUND,
        entity_id=gpu_of("node2", 3).id,
        code=None,
        severity=Severity.INFO,
        message="the driver released gpu3",
        sources=("uevents",),
    )
    judge = FleetJudge(FleetSettings())
    windows = [
        replace(one, events=(released,)) if one.start_ns == START_NS + 15 * NS_PER_S else one for one in losing()
    ]
    reported = [one for one in records_of(judge, windows) if isinstance(one, Finding)]
    assert not any(one.cause is Cause.GPU_LOST for one in reported)


@pytest.mark.parametrize("cut", [1, 4, 5, 7])
def test_a_judge_that_was_kept_goes_on_to_the_same_records(cut: int) -> None:
    windows = losing(until_s=240)
    straight = FleetJudge(FED)
    records_of(straight, windows[:cut])
    resumed, restart_reason = unpack_judge(FED, pack_judge(straight))
    assert not restart_reason
    assert records_of(resumed, windows[cut:]) == records_of(straight, windows[cut:])


def test_under_other_limits_detectors_begin_again_and_what_was_open_is_confirmed_or_closed() -> None:
    judge = FleetJudge(FED)
    records_of(judge, losing(until_s=40))
    (before,) = judge.state.book.incidents
    other = replace(FED, limits=replace(FED.limits, gpu_lost=replace(FED.limits.gpu_lost, hold_s=99.0)))
    resumed, restart_reason = unpack_judge(other, pack_judge(judge))
    assert "gpu_lost: limits" in restart_reason
    assert "\n" not in restart_reason
    reported = records_of(resumed, [window_of(second, fleet_tables(NODES)) for second in range(40, 260, 5)])
    ends = [(one.id, one.state) for one in reported if isinstance(one, Incident)]
    assert ends[-1] == (before.id, IncidentState.CLOSED)


def test_a_damaged_state_is_refused() -> None:
    with pytest.raises(ValueError, match="damaged"):
        unpack_judge(FED, pack_judge(FleetJudge(FED))[:-200])


def test_what_was_reported_of_a_node_that_is_forgotten_is_taken_back_and_its_incident_ends() -> None:
    judge = FleetJudge(replace(FED, forget_s=30.0))
    records_of(judge, losing())
    assert judge.state.book.incidents
    reported = records_of(judge, [window_of(second, fleet_tables(NODES[:1])) for second in range(60, 240, 5)])
    assert any(isinstance(one, Finding) and "forgotten" in one.summary for one in reported)
    assert [one.state for one in reported if isinstance(one, Incident)][-1] is IncidentState.CLOSED
    assert not judge.state.standing
    assert not judge.state.book.incidents


def test_a_card_that_was_put_into_another_node_is_there() -> None:
    judge = FleetJudge(FED)
    judge.step(window_of(0, fleet_tables(NODES)))
    moved = gpu_of("node2", 3)
    tables = fleet_tables(NODES)
    table = tables[EntityKind.GPU]
    there = tuple(replace(one, tags=(("node", "node1"),)) if one.id == moved.id else one for one in table.entities)
    tables[EntityKind.GPU] = replace(table, entities=there, nodes=tuple(one.tag("node") or "" for one in there))
    judge.step(window_of(5, tables))
    assert judge.state.kinship.top(moved.id) == "node:node1"
    assert len(judge.state.members.of(EntityKind.GPU)) == len(there)


def test_a_node_that_is_simulated_stays_so_while_it_is_silent_and_over_a_restart() -> None:
    judge = FleetJudge(FED)
    judge.step(replace(window_of(0, fleet_tables(NODES)), simulated=frozenset({"node1", "node2"})))
    judge.step(replace(window_of(5, fleet_tables(NODES[1:])), simulated=frozenset()))  # node2 is a real one now
    assert unpack_judge(FED, pack_judge(judge))[0].state.simulated == {"node1"}


def test_a_window_that_cannot_be_judged_is_not_met_again() -> None:
    judge = FleetJudge(FED)
    tables = fleet_tables(NODES)
    tables[EntityKind.GPU] = replace(tables[EntityKind.GPU], values=tables[EntityKind.GPU].values[:, :, :-1])
    with pytest.raises(ValueError, match="shape"):
        judge.step(window_of(0, tables))
    assert judge.state.until_ns == START_NS + 5 * NS_PER_S


def test_a_feed_is_over_though_its_nodes_run_warm_still() -> None:
    judge = FleetJudge(FED)
    nodes = (*NODES, "node4")
    warm = [
        replace(sag_of(node, 1.0), id=f"airflow:node:{node}:1", entity_id=f"node:{node}", cause=Cause.AIRFLOW)
        for node in NODES[:2]
    ]
    sags = [sag_of(node, 6.0) for node in NODES[:2]]
    judge.step(window_of(0, fleet_tables(nodes), findings=warm))
    assert causes(judge.step(window_of(5, fleet_tables(nodes), findings=sags)))
    over = [sag_of(node, 31.0, FindingStatus.CLEARED) for node in NODES[:2]]
    judged = judge.step(window_of(30, fleet_tables(nodes), findings=over))
    assert [(one.entity_id, one.status) for one in judged.findings] == [("supply:feed/pdu-a", FindingStatus.CLEARED)]


def test_an_entity_that_was_silent_for_long_is_forgotten() -> None:
    judge = FleetJudge(replace(FED, forget_s=30.0))
    judge.step(window_of(0, fleet_tables(NODES)))
    for second in range(5, 60, 5):
        judge.step(window_of(second, fleet_tables(NODES[:1])))
    assert judge.state.members.nodes == ("node1",)
    assert all("node1" in one.id for one in judge.state.members.of(EntityKind.GPU))


def test_a_storm_of_nan_and_mixed_up_units_page_no_one() -> None:
    judge = FleetJudge(FED)
    for second in range(0, 60, 5):
        tables = fleet_tables(NODES)
        if second >= 20:
            cards, supplies = tables[EntityKind.GPU].entities, tables[EntityKind.SUPPLY].entities
            tables = {
                EntityKind.GPU: table_of(EntityKind.GPU, cards, {}, seconds=5),
                EntityKind.SUPPLY: table_of(EntityKind.SUPPLY, supplies, {"voltage_v": 12050.0}, seconds=5),
            }
        judged = judge.step(window_of(second, tables))
        assert all(one.severity is not Severity.CRITICAL for one in judged.incidents)
