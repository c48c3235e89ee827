"""The suite `control`: its parts by themselves, small enough for a unit test."""

from dataclasses import replace

import numpy as np
import pytest

from evaluation.control.check import CapState, TierAgreement
from evaluation.control.controllers import AimdController, RailwatchController, policies_holding
from evaluation.control.months import MonthCase, MonthResult, Strategy, worn
from evaluation.control.plan import CONTROL, ControlPlan
from evaluation.control.story import (
    JobStartPlan,
    JobStartResult,
    law_mhz,
    least_drops,
    settings_holding,
    simulate_start,
    steps_apart,
    true_limit_mhz,
)
from evaluation.control.suite import check_rows, law_rows, month_rows, story_month_rows, story_rows
from evaluation.control.windows import ROWS, NodeStates, SampleWindow, WindowSource
from evaluation.rehearsal.outcome import RunOutcome
from physics.board_parts import curve_of
from physics.two_level import supply_state
from rules.limits.node import UnmeasuredStart
from simulator.files.node import NodeFile, load_node
from simulator.files.workload import load_workload
from simulator.fleet.fleet import Fleet
from simulator.plant.steady import supply_figures
from simulator.runs.description import START_NS
from telemetry.clock import NS_PER_S
from telemetry.documents import load_document

_STEP_NS = 1200 * NS_PER_S


def _moment(node: NodeFile, n_nodes: int, *, clock_mhz: float, branch_mohm: float) -> NodeStates:
    joints = [unit.joint_mohm for unit in worn(node, branch_mohm).supply.units]
    return NodeStates(
        clock_mhz=np.full((n_nodes, node.gpu_count), clock_mhz),
        die_c=np.full((n_nodes, node.gpu_count), 60.0),
        joint_mohm=np.tile(joints, (n_nodes, 1)),
        other_w=np.full(n_nodes, 350.0),
    )


def _windows(node: NodeFile, n_nodes: int) -> WindowSource:
    return WindowSource(node, load_workload(node.workload), n_nodes, seed=1)


def test_the_law_finds_the_clock_that_the_plant_itself_holds() -> None:
    plan = load_document(ControlPlan, CONTROL).story
    node = load_node(plan.node)
    true_mhz, computed_mhz = true_limit_mhz(node, plan.limit_v), law_mhz(node, plan.limit_v)
    assert steps_apart(node, true_mhz, computed_mhz) <= 1
    assert abs(computed_mhz - 1057) <= 60


def test_the_law_is_compared_with_the_plant_on_every_kind_of_node_at_a_clock_that_a_worn_path_needs() -> None:
    plan = load_document(ControlPlan, CONTROL).law
    rows = list(law_rows(plan))
    assert len(rows) == len(plan.nodes) == 4
    assert not any(row.missed for row in rows)
    for name, branches_mohm in plan.nodes.items():
        node = load_node(name)
        limit_v = plan.limit_ratio * node.supply.nominal_rail_v
        assert true_limit_mhz(node, limit_v) == node.gpu.clocks.max_mhz
        assert true_limit_mhz(worn(node, max(branches_mohm)), limit_v) < node.gpu.clocks.max_mhz


def test_a_node_that_is_well_holds_its_highest_clock() -> None:
    node = load_node("v100x4-double-ring")
    assert true_limit_mhz(node, 11.40) == 1530
    assert law_mhz(node, 11.40) == 1530


@pytest.mark.parametrize("clock_mhz", [1530.0, 1305.0])
def test_a_window_shows_the_source_and_the_dips_of_the_closed_form(clock_mhz: float) -> None:
    node = load_node("v100x4-corroded-3psu")
    windows = _windows(node, 6)
    window = windows.of(_moment(node, 6, clock_mhz=clock_mhz, branch_mohm=17.0))
    assert window.voltage_v.shape == (ROWS, 6, 3)
    fleet = Fleet([node], seed=1, step_s=600.0)
    fleet.obey(clock_cap_mhz=clock_mhz)
    truth = fleet.advance(1).truth
    # The monitor's mean over 4 ms lies above the bottom of the dip, its noise of 4 mV may take it below.
    lowest_v = np.median(window.voltage_v.min(axis=(0, 2)))
    assert -0.02 < lowest_v - truth.v_min_v[0, 0] < 0.04
    volts, amps = window.voltage_v[:, :, 0].T.tolist(), window.current_a[:, :, 0].T.tolist()
    shown = [supply_state("supply:one", *pair) for pair in zip(volts, amps, strict=True)]
    # A branch is seen with the bus in which its siblings' currents flow as well: 17 + 3 x 0.3 milliohm.
    known = [one.source_resistance_ohm for one in shown if one.source_resistance_ohm is not None]
    assert np.median(known) == pytest.approx(0.0179, rel=0.05)
    assert supply_figures(worn(node, 17.0)).source_mohm == pytest.approx(17.9 / 3.0)


def _looked(
    answer: AimdController | RailwatchController, node: NodeFile, *, branch_mohm: float, looks: int
) -> np.ndarray:
    windows, caps = _windows(node, 1), np.full((1, node.gpu_count), np.inf)
    for look in range(looks):
        clock_mhz = float(np.minimum(caps, 1530.0).min())
        window = windows.of(_moment(node, 1, clock_mhz=clock_mhz, branch_mohm=branch_mohm))
        caps = answer.caps_mhz(window, np.ones(1, dtype=np.bool_), START_NS + look * _STEP_NS)
    return caps


def test_ours_caps_a_rail_that_sags_and_leaves_one_that_does_not() -> None:
    node = load_node("v100x4-corroded-3psu")
    policies = policies_holding(11.50)
    assert np.isinf(_looked(RailwatchController(node, 1, policies=policies), node, branch_mohm=10.0, looks=3)).all()
    caps = _looked(RailwatchController(node, 1, policies=policies), node, branch_mohm=18.0, looks=3)
    assert (caps == caps[0, 0]).all(), "all GPUs of a synchronous job alike"
    assert 900.0 < caps[0, 0] < 1350.0


def test_a_higher_voltage_to_hold_takes_a_lower_clock() -> None:
    node = load_node("v100x4-corroded-3psu")
    caps = [
        _looked(RailwatchController(node, 1, policies=policies_holding(hold_v)), node, branch_mohm=18.0, looks=3).min()
        for hold_v in (11.45, 11.55)
    ]
    assert caps[1] < caps[0]


@pytest.mark.parametrize("name", ["v100x4", "h100x8"])
def test_caps_are_computed_with_the_power_curve_of_the_nodes_own_boards(name: str) -> None:
    node = load_node(name)
    controller = RailwatchController(node, 1, policies=policies_holding(None))
    curves = controller._nodes[0]._window.boards
    table = curve_of(node.gpu.name)
    assert table is not None
    assert [curve.idle_w for curve in curves.values()] == [table.idle_w] * node.gpu_count


def test_a_supply_of_one_of_two_buses_feeds_the_gpus_of_its_own_bus() -> None:
    controller = RailwatchController(load_node("h100x8-two-bus"), 1, policies=policies_holding(None))
    below = [{one.name for one in controller._topology.children(supply.id)} for supply in controller._nodes[0].supplies]
    assert below == [{f"gpu{place}" for place in range(4)}] * 3 + [{f"gpu{place}" for place in range(4, 8)}] * 3


def test_a_node_that_lost_a_gpu_is_left_as_it_is() -> None:
    node = load_node("v100x4-corroded-3psu")
    answer = RailwatchController(node, 1, policies=policies_holding(11.50))
    window = _windows(node, 1).of(_moment(node, 1, clock_mhz=1530.0, branch_mohm=18.0))
    assert np.isinf(answer.caps_mhz(window, np.zeros(1, dtype=np.bool_), START_NS)).all()


def test_the_simple_answer_steps_down_at_a_dip_and_up_by_one_clock() -> None:
    node = load_node("v100x4-corroded-3psu")
    answer = AimdController(node, 1, limit_v=11.40)

    def seen(voltage_v: float) -> SampleWindow:
        rail = np.full((ROWS, 1, 3), voltage_v)
        return SampleWindow(
            at_s=np.linspace(0.05, 2.0, ROWS),
            voltage_v=rail,
            current_a=rail,
            power_w=np.ones((ROWS, 1, 4)),
            clock_mhz=np.full((1, 4), 1530.0),
        )

    alive = np.ones(1, dtype=np.bool_)
    down = answer.caps_mhz(seen(11.30), alive, START_NS)[0, 0]
    assert down == pytest.approx(0.85 * 1530, abs=8)
    assert answer.caps_mhz(seen(11.50), alive, START_NS + _STEP_NS)[0, 0] == pytest.approx(down + 7.5, abs=1)


def test_a_month_with_too_many_drops_misses_its_goal() -> None:
    plan = load_document(ControlPlan, CONTROL).months
    good = MonthResult(drops=(0, 1), goodput=(0.99, 0.985), clock_mhz=(1400.0, 1390.0), v_min_v=(11.49, 11.49))
    bad = MonthResult(drops=(3, 4), goodput=(0.97, 0.96), clock_mhz=(1400.0, 1390.0), v_min_v=(11.3, 11.3))
    for result, missed in ((good, 0), (bad, 2)):
        rows = list(month_rows(plan, [(MonthCase(plan=plan, strategy=Strategy.OURS), result)]))
        assert sum(row.missed for row in rows) == missed


@pytest.mark.parametrize(("drops", "missed"), [(0, False), (4, False), (5, True)])
def test_a_node_that_no_clock_saves_is_measured_against_what_the_lowest_clock_leaves(
    drops: int, *, missed: bool
) -> None:
    plan = load_document(ControlPlan, CONTROL)
    months = MonthResult(drops=(drops, *[0] * 7), goodput=(0.8,) * 8, clock_mhz=(700.0,) * 8, v_min_v=(11.6,) * 8)
    assert [row.missed for row in story_month_rows(plan, months) if row.name.startswith("drops in")] == [missed]


@pytest.mark.parametrize(("cap_mhz", "missed"), [(990.0, True), (1030.0, False), (1132.0, False)])
def test_a_held_clock_may_be_higher_than_the_laws_answer_and_not_much_lower(cap_mhz: float, *, missed: bool) -> None:
    plan = load_document(ControlPlan, CONTROL).story
    start = JobStartPlan(plan=plan, seed=1, watched=True, hold_v=plan.limit_v)
    rows = story_rows(plan, [(start, replace(_ended(0), cap_mhz=cap_mhz))])
    assert [row.missed for row in rows if row.name.startswith("that clock below")] == [missed]


def _ended(drops: int) -> JobStartResult:
    outcome = RunOutcome(
        drops=drops,
        first_drop_s=None,
        steps=50,
        rail_min_v=11.3,
        below_s=0.0,
        first_below_s=None,
        clock_mean_mhz=1000.0,
        clock_lowest_mhz=900.0,
    )
    return JobStartResult(outcome=outcome, cap_mhz=1057.0, settled_min_v=11.43, next_min_v=11.43)


@pytest.mark.parametrize(("reported_drops", "missed"), [(0, False), (1, True)])
def test_a_job_lost_at_once_is_a_miss_where_the_path_was_called_weak_and_a_figure_elsewhere(
    reported_drops: int, *, missed: bool
) -> None:
    plan = load_document(ControlPlan, CONTROL).story
    starts = [
        (JobStartPlan(plan=plan, seed=1, watched=True, reported=True), _ended(reported_drops)),
        (JobStartPlan(plan=plan, seed=1, watched=True), _ended(1)),
        (JobStartPlan(plan=plan, seed=1, watched=False), _ended(2)),
        (JobStartPlan(plan=plan, seed=1, watched=True, hold_v=plan.limit_v), _ended(0)),
    ]
    lost = [row for row in story_rows(plan, starts) if row.name.startswith("jobs lost")]
    assert [(row.value, row.missed) for row in lost] == [(1.0, False), (1.0, False), (float(reported_drops), missed)]


def test_a_start_of_which_only_the_loss_counts_ends_with_it() -> None:
    plan = load_document(ControlPlan, CONTROL).story
    ended = simulate_start(JobStartPlan(plan=plan, seed=plan.first_seed, watched=False))
    assert ended.outcome.drops >= 1
    assert ended.outcome.first_drop_s is not None
    assert ended.outcome.below_s < ended.outcome.first_drop_s < plan.start / 2


def test_a_path_reported_as_weak_changes_the_limits_alone() -> None:
    reported, untold = settings_holding(None, reported=True), settings_holding(None)
    assert (reported.action_limits.unmeasured_start, untold.action_limits.unmeasured_start) == (
        UnmeasuredStart.RAMP,
        UnmeasuredStart.FULL,
    )
    assert reported.policies == untold.policies


def test_no_clock_cap_brings_the_storys_node_to_no_drop_at_all() -> None:
    floor_mhz, drops = least_drops(load_node(load_document(ControlPlan, CONTROL).story.node), 30.0)
    assert floor_mhz == pytest.approx(0.4 * 1530, abs=8)
    assert 0.02 < drops < 0.5
    assert least_drops(load_node("v100x4-double-ring"), 30.0)[1] < drops / 10


def test_the_tiers_are_judged_by_their_worst_state() -> None:
    state = CapState(node="v100x4", branch_mohm=4.4, clock_mhz=1530.0, duration_s=60.0, seed=1)
    well = TierAgreement(state=state, v_min_v=(11.5, 11.505), steps_per_s=(1.0, 1.01), drops_per_day=(1.0, 1.1))
    off = TierAgreement(state=state, v_min_v=(11.5, 11.55), steps_per_s=(1.0, 1.01), drops_per_day=(1.0, 0.5))
    plan = load_document(ControlPlan, CONTROL).check
    assert [row.missed for row in check_rows(plan, [well])] == [False, False, False]
    assert [row.missed for row in check_rows(plan, [well, off])] == [True, False, True]
