"""Caps with the power curve of each board: the table's bound at first, its own once its steps were seen."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from physics.board_curve import BoardCurve
from physics.board_parts import curve_of
from physics.node_state import MeasuredNode
from physics.power_curve import DEFAULT_CURVE, HeightCurve, PowerCurve
from rules.caps.knobs import Scale
from rules.caps.setting import choose, predict
from rules.caps.supply_basis import bases_of, load_now
from rules.engine.engine import Engine
from rules.policy.model import SettingRule
from telemetry.gpu import KnobKind
from tests.rules.scenes import CLOCKS_MHZ, ENFORCED, GPUS, SAG, incident, node, policy, topology

ALLOWED = tuple(clock for clock in CLOCKS_MHZ if clock >= 612.0)
CLOCKS = Scale(knob=KnobKind.CLOCK, settings=ALLOWED)
V100, H100 = "Tesla V100-SXM2-16GB", "NVIDIA H100 80GB HBM3"
# What the boards of a scene really are: 350 W at 1530 MHz, of which less follows the clock than a V100's would.
STEPS = (1.0, 0.85, 0.95, 0.88, 0.8, 0.92, 0.87, 1.0, 0.9)
TRUTH = PowerCurve(idle=0.12, static=0.42, voltage_floor=0.78, knee=0.60)


def named(model: str) -> BoardCurve:
    found = curve_of(model)
    assert found is not None
    return found


def taught(
    board: BoardCurve, ratios: Sequence[float], truth: PowerCurve = TRUTH, *, full_w: float = 350.0
) -> BoardCurve:
    """Return the curve after steps under a load that draws `full_w` at the highest clock."""
    for low, high in pairwise(ratios):
        from_w, to_w = (full_w * truth.share(ratio) - board.idle_w for ratio in (low, high))
        slope = 1.0 / from_w - 1.0 / to_w
        board = board.with_step(low, high, math.log(to_w / from_w), 0.003, ln_change_per_idle_w=slope)
    return board


def of_boards(board: BoardCurve | None) -> MeasuredNode:
    return MeasuredNode(gpus=tuple(replace(gpu, board=board) for gpu in node().gpus))


def clock(board: BoardCurve | None) -> float:
    found = choose(
        SettingRule(hold_v=11.50),
        incident(numbers=SAG),
        of_boards(board),
        targets=GPUS,
        topology=topology(),
        scale=CLOCKS,
        in_force=1530.0,
    ).setting
    assert found is not None
    return found


def true_clock(truth: PowerCurve = TRUTH) -> float:
    """Return the cap that the true curve of the boards sets."""
    bases, _ = bases_of(incident(numbers=SAG), node(), targets=GPUS, topology=topology())
    loads = [replace(one.load, gpus=tuple(replace(gpu, curve=truth) for gpu in one.load.gpus)) for one in bases]
    sure = [replace(one, load=load) for one, load in zip(bases, loads, strict=True)]
    # No GPU of the state, no present curve: the one in the basis counts.
    return predict(sure, incident(numbers=SAG), MeasuredNode(gpus=()), scale=CLOCKS, hold_v=11.50).setting


def test_a_v100_of_which_nothing_was_seen_is_capped_as_ever() -> None:
    assert clock(named(V100)) == clock(None) == pytest.approx(1372.5)


def test_a_part_of_the_table_is_capped_by_its_upper_bound_until_its_own_curve_is_known() -> None:
    assert clock(named(H100)) < true_clock() - 50.0


def test_a_learnt_curve_caps_at_most_two_steps_below_the_true_one_and_never_above() -> None:
    learnt = taught(named(H100), STEPS)
    assert true_clock() - 2 * 7.5 <= clock(learnt) <= true_clock()


@pytest.mark.parametrize("full_w", [250.0, 280.0, 350.0, 500.0])
def test_steps_under_another_load_above_an_assumed_idle_power_never_cap_above_the_true_clock(full_w: float) -> None:
    # 42 W idle, where the table assumes 85: the shape that such steps show holds for their own load only.
    assert clock(taught(named(H100), STEPS, full_w=full_w)) <= true_clock()


def test_an_idle_power_that_was_seen_makes_caps_less_strict_and_a_missing_one_stricter() -> None:
    assumed = named(H100)
    seen = assumed.with_idle(85.0, 4.0, load_w=None, load_ratio=None)
    certain = assumed.with_idle(85.0, 0.0, load_w=None, load_ratio=None)
    assert clock(assumed) < clock(seen) <= clock(certain) <= clock(seen) + 7.5


def test_a_cap_in_force_is_predicted_again_with_the_curve_that_it_taught() -> None:
    found, before = incident(numbers=SAG), of_boards(named(H100))
    bases, _ = bases_of(found, before, targets=GPUS, topology=topology())
    first = predict(bases, found, before, scale=CLOCKS, hold_v=11.50).setting
    after = of_boards(taught(named(H100), (1.0, first / 1530.0)))
    assert predict(bases, found, after, scale=CLOCKS, hold_v=11.50).setting > first
    assert load_now(bases[0], after).power_high_w == bases[0].load.power_high_w
    gone = MeasuredNode(gpus=())
    assert load_now(bases[0], gone) == bases[0].load


def test_a_snapshot_keeps_the_kind_of_each_curve() -> None:
    for board, kind in ((None, PowerCurve), (named(V100), PowerCurve), (named(H100), HeightCurve)):
        engine = Engine((policy(),), limits=ENFORCED, topology=topology())
        engine.step([incident(numbers=SAG)], of_boards(board), 0)
        state = json.loads(json.dumps(engine.snapshot()))
        again = Engine((policy(),), limits=ENFORCED, topology=topology())
        again.restore(state)
        assert again.claims == engine.claims
        assert all(isinstance(gpu.curve, kind) for claim in again.claims for gpu in claim.bases[0].load.gpus)


def test_a_snapshot_of_a_version_without_curves_has_the_v100s() -> None:
    engine = Engine((policy(),), limits=ENFORCED, topology=topology())
    engine.step([incident(numbers=SAG)], node(), 0)
    state = json.loads(json.dumps(engine.snapshot()))
    for gpu in state["claims"][0]["bases"][0]["load"]["gpus"]:
        del gpu["curve"]
        del gpu["entity_id"]
    engine.restore(state)
    assert [gpu.curve for gpu in engine.claims[0].bases[0].load.gpus] == [DEFAULT_CURVE] * 4
