"""The oracle is sure of what differs from all that is healthy, and of nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from evaluation.domain.oracle import Oracle, SeenFault
from evaluation.domain.plant.drawn import Wanted
from evaluation.domain.plant.faults import Fault, FaultKind
from evaluation.domain.plant.machines import Machines
from evaluation.domain.plant.meters import MeterKind
from tests.evaluation.domain.worlds import machines_of, world_of

AT_S = 60.0


def seen_of(
    machines: Machines, *faults: Fault, seconds: int = 140, work: str = "training", rate_hz: float = 5.0
) -> list[SeenFault]:
    world = world_of(machines, *faults, seconds=seconds, work=work, rate_hz=rate_hz)
    oracle = Oracle(world)
    for stretch in world.stretches():
        oracle.watch(stretch)
    return [oracle.seen(node) for node in range(len(faults))]


def test_a_larger_joint_is_more_certain_and_sooner() -> None:
    sizes = (0.1, 0.4, 1.6)
    faults = [Fault(kind=FaultKind.JOINT, at_s=AT_S, size=size) for size in sizes]
    seen = seen_of(machines_of((3, 3, 3)), *faults)
    assert seen[0].sigma < seen[1].sigma < seen[2].sigma
    assert seen[2].sure_after_s is not None
    assert seen[1].sure_after_s is None or seen[1].sure_after_s >= seen[2].sure_after_s


def test_a_coarser_meter_makes_a_joint_less_certain() -> None:
    fault = Fault(kind=FaultKind.JOINT, at_s=AT_S, size=0.5)
    machines = machines_of((3, 3), wanted=Wanted(nominal_v=54.0, shared=False))
    coarse = machines.meters.v_step * np.array([1.0, 50.0]), machines.meters.a_step * np.array([1.0, 50.0])
    machines = replace(machines, meters=replace(machines.meters, v_step=coarse[0], a_step=coarse[1]))
    fine, rough = seen_of(machines, fault, fault)
    assert rough.sigma < 0.5 * fine.sigma


def test_meters_that_drift_make_a_joint_less_certain() -> None:
    fault = Fault(kind=FaultKind.ALL_JOINTS, at_s=AT_S, size=0.5)
    machines = machines_of((3, 3), wanted=Wanted(nominal_v=54.0, at_output=False, stiff=True))
    meters = machines.meters
    half = len(meters.drift_v) // 2
    times = np.repeat([1.0, 100.0], half)
    machines = replace(machines, meters=replace(meters, drift_v=meters.drift_v * times, drift_a=meters.drift_a * times))
    steady, drifting = seen_of(machines, fault, fault)
    # The steps of the load still show it: a drift does not follow them.
    assert drifting.sigma < 0.8 * steady.sigma


def test_a_sag_that_outputs_ride_through_shows_on_meters_of_the_input_alone() -> None:
    fault = Fault(kind=FaultKind.SAG, at_s=AT_S, size=0.2, lasts_s=20.0)
    for mains in (True, False):
        (seen,) = seen_of(machines_of((4,), wanted=Wanted(mains=mains)), fault)
        assert (seen.sure_after_s is not None) is mains
        assert mains or seen.sigma == 0.0


@pytest.mark.parametrize(("work", "sure"), [("training", True), ("steady", False)])
def test_a_current_that_repeats_is_a_fault_only_where_it_would_have_moved(*, work: str, sure: bool) -> None:
    wanted = Wanted(nominal_v=54.0, meter=MeterKind.ADC)
    machines = machines_of((2,), wanted=wanted)
    still = replace(machines.nodes, base_ratio=np.zeros(1))
    meters = replace(
        machines.meters, a_step=np.full(1, 2.0), noise_a=np.zeros(1), drift_a=np.zeros(len(machines.supplies.node))
    )
    (seen,) = seen_of(
        replace(machines, nodes=still, meters=meters), Fault(kind=FaultKind.STUCK_A, at_s=AT_S), work=work
    )
    assert (seen.sure_after_s is not None) is sure


def test_less_air_is_certain_only_where_the_fans_are_shown() -> None:
    machines = machines_of((5, 5))
    shown = np.array([True, False])
    nodes = replace(
        machines.nodes, shows_duty=shown, shows_rpm=np.zeros(2, dtype=np.bool_), shows_inlet=np.ones(2, dtype=np.bool_)
    )
    fault = Fault(kind=FaultKind.FANS, at_s=AT_S, size=0.5)
    sees, blind = seen_of(replace(machines, nodes=nodes), fault, fault, seconds=300, work="steady")
    assert sees.sure_after_s is not None
    assert blind.sigma < 0.5 * sees.sigma


def test_a_hang_is_certain_only_where_something_beside_the_power_shows_it() -> None:
    machines = machines_of((6, 6))
    names = ("shows_steps", "shows_threads", "shows_memory", "shows_memory_use")
    nodes = replace(
        machines.nodes, **{name: np.array([True, False]) for name in names}, shows_util=np.ones(2, dtype=np.bool_)
    )
    fault = Fault(kind=FaultKind.HANG, at_s=AT_S)
    sees, blind = seen_of(replace(machines, nodes=nodes), fault, fault)
    assert sees.sure_after_s is not None
    assert blind.sure_after_s is None


def test_a_set_point_that_may_wander_hides_a_joint_under_a_steady_load() -> None:
    machines = machines_of((2, 2), wanted=Wanted(nominal_v=54.0, shared=False, at_output=True, stiff=False))
    wander = np.repeat([1e-6, 5e-3], len(machines.supplies.node) // 2)
    nodes = replace(machines.nodes, base_ratio=np.full(2, 0.01))
    machines = replace(machines, nodes=nodes, supplies=replace(machines.supplies, wander_ratio=wander))
    fault = Fault(kind=FaultKind.JOINT, at_s=AT_S, size=0.3)
    steady, wandering = seen_of(machines, fault, fault, work="steady")
    assert wandering.sigma < 0.3 * steady.sigma
