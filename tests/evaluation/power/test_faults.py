from dataclasses import replace

import numpy as np
import pytest

from evaluation.injection.traces import FeedTrace, NodeTrace
from evaluation.power.cases import chain_cases
from evaluation.power.chains import FIELDS, Chain, Half
from evaluation.power.differences import fit_steps, usual_current
from evaluation.power.faults import decimals_of, known_resistance, places_of, targets_of, with_fault
from evaluation.power.oracle import as_normal, sigmas
from evaluation.power.plan import PowerFault, PowerPlan, Put, Track, load_plan
from tests.evaluation.power.made_up import OHM, feed_chain, node_chain, pin_chain

CHAINS = {Track.FEEDS: feed_chain(), Track.NODES: node_chain(), Track.PINS: pin_chain()}


@pytest.fixture(scope="module")
def plan() -> PowerPlan:
    return load_plan()


def fault_of(plan: PowerPlan, put: Put, track: Track = Track.FEEDS) -> PowerFault:
    return next(fault for fault in plan.faults.values() if fault.put is put and fault.track is track)


def test_every_fault_changes_its_rows_alone_and_in_the_steps_of_the_meter(plan: PowerPlan) -> None:
    for name, fault in plan.faults.items():
        chain = CHAINS[fault.track]
        places = places_of(chain, fault)
        assert places, name
        put = with_fault(chain, fault, slice(300, 330), places[-1])
        changed = False
        for field in FIELDS[type(put)]:
            before, after = getattr(chain.trace, field), getattr(put, field)
            assert decimals_of(after) <= max(decimals_of(before), 3), name
            outside = np.delete(after, slice(300, 330), axis=0)
            assert fault.put is Put.TWIN or np.array_equal(outside, np.delete(before, slice(300, 330), axis=0)), name
            changed |= not np.array_equal(before, after)
        assert changed, name


def test_a_contact_of_a_tenth_raises_the_measured_resistance_by_a_tenth(plan: PowerPlan) -> None:
    chain = feed_chain(1200)
    trace = chain.trace
    assert isinstance(trace, FeedTrace)
    known = known_resistance(trace, 1)
    assert known is not None
    assert known.ohm == pytest.approx(OHM, rel=0.05)
    put = with_fault(chain, plan.faults["contact +10 %"], slice(0, 1200), 1)
    assert isinstance(put, FeedTrace)
    fit = fit_steps(put.time_ns, put.voltage_v[:, 1], put.current_a[:, 1], usual_a=usual_current(put.current_a[:, 1]))
    assert fit is not None
    assert fit.ohm / known.ohm == pytest.approx(1.1, abs=0.01)


def test_feeds_without_a_known_resistance_or_without_siblings_have_no_such_fault(plan: PowerPlan) -> None:
    single = feed_chain(feeds=1)
    assert places_of(single, fault_of(plan, Put.LOSS)) == places_of(single, fault_of(plan, Put.SHARE)) == ()
    assert places_of(single, fault_of(plan, Put.OUTAGE)) == (0,)
    steady = single.trace
    assert isinstance(steady, FeedTrace)
    steady = replace(steady, current_a=np.full_like(steady.current_a, 9.0))
    assert places_of(replace(single, trace=steady), fault_of(plan, Put.RESISTANCE)) == ()
    idle = feed_chain().trace
    assert isinstance(idle, FeedTrace)
    watts = idle.power_w.copy()
    watts[:, 2] = 1.0
    spare = replace(feed_chain(), trace=replace(idle, power_w=watts))
    assert places_of(spare, fault_of(plan, Put.LOSS)) == (0, 1)


def test_a_node_by_itself_is_unlike_no_other(plan: PowerPlan) -> None:
    alone = node_chain(nodes=1)
    assert places_of(alone, fault_of(plan, Put.UNLIKE, Track.NODES)) == ()
    assert places_of(alone, fault_of(plan, Put.TWIN, Track.NODES)) == ()
    assert places_of(alone, fault_of(plan, Put.STUCK, Track.NODES)) == (0,)


def test_targets_are_who_has_the_fault_or_the_whole_server(plan: PowerPlan) -> None:
    trace = CHAINS[Track.FEEDS].trace
    assert targets_of(trace, fault_of(plan, Put.RESISTANCE), 1) == {"", "feed1"}
    assert targets_of(trace, fault_of(plan, Put.SAG), 0) == {"", "feed0", "feed1", "feed2"}
    nodes = CHAINS[Track.NODES].trace
    assert isinstance(nodes, NodeTrace)
    assert targets_of(nodes, fault_of(plan, Put.TWIN, Track.NODES), 4) == {"", "node_4", "node_0"}
    assert targets_of(CHAINS[Track.PINS].trace, fault_of(plan, Put.OPEN_PIN, Track.PINS), 0) == {"", "pin1"}


def test_a_fault_of_twice_the_size_stands_out_further_and_a_contact_twice_as_far(plan: PowerPlan) -> None:
    for put, track in ((Put.RESISTANCE, Track.FEEDS), (Put.UNLIKE, Track.NODES), (Put.SAG, Track.FEEDS)):
        chain, fault = CHAINS[track], fault_of(plan, put, track)
        rows = slice(300, 600)
        once, twice = (
            sigmas(chain, fault.model_copy(update={"size": size}), rows, 1, look_s=60.0) for size in (0.02, 0.04)
        )
        assert twice > once > 0.0, put
        if put is Put.RESISTANCE:
            assert twice == pytest.approx(2.0 * once, rel=0.05)


@pytest.mark.parametrize(("freedom", "t_975", "t_995"), [(3.0, 3.182, 5.841), (9.0, 2.262, 3.250)])
def test_what_few_stretches_show_stands_out_less(freedom: float, t_975: float, t_995: float) -> None:
    assert as_normal(t_975, freedom) == pytest.approx(1.960, rel=0.02)
    assert as_normal(t_995, freedom) == pytest.approx(2.576, rel=0.02)


def test_a_machine_never_seen_without_work_loses_no_gpu(plan: PowerPlan) -> None:
    for chain, track in ((node_chain(), Track.NODES), (feed_chain(), Track.FEEDS)):
        fault = fault_of(plan, Put.GPU_LEFT, track)
        assert places_of(chain, fault)
        busy = chain.trace.power_w if isinstance(chain.trace, NodeTrace | FeedTrace) else None
        assert busy is not None
        work = replace(chain, trace=replace(chain.trace, power_w=np.maximum(busy, 0.9 * np.max(busy, axis=0))))
        assert places_of(work, fault) == ()


def test_the_background_is_the_change_of_means(plan: PowerPlan) -> None:
    rng = np.random.default_rng(5)
    watts = np.round(10_000.0 * np.ones((2000, 4)) + rng.normal(0.0, 100.0, (2000, 4)))
    trace = node_chain(2000, nodes=4).trace
    assert isinstance(trace, NodeTrace)
    chain = replace(node_chain(2000, nodes=4), trace=replace(trace, power_w=watts))
    fault = fault_of(plan, Put.UNLIKE, Track.NODES).model_copy(update={"size": 0.01})
    # 100 W on one node and 100 sqrt(1.35 / 3) on the median of three, means of 25, and the difference of two of these.
    expected = 100.0 / (np.sqrt(1.0 + 1.35 / 3.0) * 100.0 / 5.0 * np.sqrt(2.0))
    assert sigmas(chain, fault, slice(1000, 1100), 0, look_s=25.0) == pytest.approx(expected, rel=0.15)


def test_cases_are_the_same_for_the_same_seed_and_begin_where_they_are_judged(plan: PowerPlan) -> None:
    chain = feed_chain(1500)
    cases = list(chain_cases(chain, plan, draws=3))
    again = list(chain_cases(chain, plan, draws=3))
    assert [case.label for case in cases] == [case.label for case in again]
    labels = [case.label for case in cases if case.label is not None]
    assert len(cases) == len(labels) + 1
    assert all(chain.learn_rows <= label.rows.start for label in labels)
    for label in labels:
        window_s = (label.until_ns - label.begin_ns) / 1e9
        assert window_s <= label.fault.within + 1.0
        assert window_s >= min(label.fault.within, 600.0) - 1.0
    begins = {label.rows.start for label in labels if label.name.startswith("contact")}
    assert len(begins) <= 3  # the sizes of one draw are put into the same rows
    other = list(chain_cases(chain, plan.model_copy(update={"seed": 7}), draws=3))
    assert [case.label for case in other] != [case.label for case in cases]


def test_the_calibration_half_has_no_faults(plan: PowerPlan) -> None:
    chain: Chain = feed_chain(half=Half.CALIBRATION)
    assert [case.label for case in chain_cases(chain, plan, draws=2)] == [None]
