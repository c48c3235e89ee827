import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.files.node import load_node
from simulator.plant.ageing import Joints, aged_joint_mohm, joint_rise_k

MODEL = load_node("v100x4").supply.ageing
NO = np.zeros(2)


def aged(joint_mohm: float, days: float, *, current_a: float = 46.0, duty: float = 0.6) -> float:
    return float(aged_joint_mohm(np.array(joint_mohm), np.array(current_a), days, MODEL, duty))


def joints(*, current_a: float = 46.0, seed: int = 1) -> Joints:
    chance = np.random.default_rng(seed)
    return Joints(MODEL, joint_mohm=np.full(2, 3.4), current_a=np.full(2, current_a), chance=chance)


def test_a_joint_of_three_at_full_load_ages_slowly_and_then_runs_away() -> None:
    # The law's reference: 46 A per branch during 0.6 of the time.
    assert [aged(3.4, days) for days in (60.0, 120.0, 180.0)] == pytest.approx([4.9, 7.7, 16.0], rel=0.02)


def test_the_joint_then_turns_34_w_into_heat_where_it_began_with_7() -> None:
    warmth_w = [
        float(joint_rise_k(np.array(path_mohm), np.array(46.0), MODEL)) / MODEL.k_per_w
        for path_mohm in (3.4, aged(3.4, 180.0))
    ]
    assert warmth_w == pytest.approx([7.2, 34.0], abs=0.5)


def test_it_gets_no_worse_than_burnt_and_a_joint_that_is_worse_stays() -> None:
    assert aged(3.4, 1000.0) == MODEL.max_mohm
    assert aged(40.0, 1000.0) == 40.0


@given(
    joint_mohm=st.floats(0.5, 24.0),
    current_a=st.floats(0.0, 90.0),
    first_d=st.floats(0.0, 90.0),
    then_d=st.floats(0.0, 90.0),
)
def test_it_only_gets_worse_and_the_days_add_up(
    joint_mohm: float, current_a: float, first_d: float, then_d: float
) -> None:
    middle = aged(joint_mohm, first_d, current_a=current_a)
    end = aged(middle, then_d, current_a=current_a)
    assert joint_mohm <= middle <= end
    assert end == pytest.approx(aged(joint_mohm, first_d + then_d, current_a=current_a), rel=2e-3)


def test_many_joints_at_once_age_as_each_alone() -> None:
    path_mohm, current_a = np.array([3.4, 8.0, 15.0]), np.array([46.0, 30.0, 60.0])
    together = aged_joint_mohm(path_mohm, current_a, np.array([10.0, 0.0, 30.0]), MODEL)
    alone = [
        float(aged_joint_mohm(np.array(r), np.array(i), d, MODEL))
        for r, i, d in zip(path_mohm, current_a, (10.0, 0.0, 30.0), strict=True)
    ]
    assert together == pytest.approx(alone, rel=1e-3)
    assert together[1] == 8.0


def test_without_ageing_or_flicker_a_joint_is_what_the_scenario_states() -> None:
    both = joints()
    asked = np.array([3.4, 7.0])
    assert both.follow(0, 10, asked_mohm=asked, flicker=NO, ageing=NO).tolist() == [3.4, 7.0]
    assert both.settled


def test_age_goes_on_from_what_a_change_made_of_the_joint() -> None:
    both = joints()
    fast = np.array([1e8, 0.0])  # 10 ms stand for 11.6 days
    worn = both.follow(0, 10, asked_mohm=np.full(2, 3.4), flicker=NO, ageing=fast)
    assert worn[0] > 3.5
    assert worn[1] == 3.4
    repaired = both.follow(10, 10, asked_mohm=np.array([2.0, 3.4]), flicker=NO, ageing=NO)
    assert repaired.tolist() == [2.0, 3.4]


def test_a_loose_joint_jumps_between_two_values_a_few_times_a_second() -> None:
    both = joints()
    seen = np.array(
        [
            both.follow(now_ms, 10, asked_mohm=np.full(2, 10.0), flicker=np.array([0.2, 0.0]), ageing=NO).copy()
            for now_ms in range(0, 600_000, 10)
        ]
    )
    assert set(seen[:, 0].tolist()) == {8.0, 12.0}
    assert (seen[:, 1] == 10.0).all()
    switches_hz = np.count_nonzero(np.diff(seen[:, 0])) / 600.0
    assert 0.1 < switches_hz < 10.0


def test_a_joint_follows_its_heat_within_a_minute_or_two() -> None:
    both = joints(current_a=0.0)
    for _ in range(15_000):
        both.warm(np.full((10, 2), 46.0))
    assert both.rise_k == pytest.approx(MODEL.k_per_w * 46.0**2 * 0.0034, rel=0.01)
