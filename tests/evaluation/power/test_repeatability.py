from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evaluation.injection.traces import FeedTrace
from evaluation.power.plan import load_plan
from evaluation.power.recordings import Run, read_runs
from evaluation.power.repeatability import (
    ESTIMATES,
    Pair,
    Repeated,
    direct_current_pairs,
    level_ohm,
    pairs_of,
    relative_spread,
    repeated,
    steadier_half,
    step_ohm,
)
from tests.evaluation.power.made_up import OHM, feed_chain, write_sets


def pair(seed: int = 1, *, drift_v: float = 0.0) -> Pair:
    trace = feed_chain(900, seed=seed).trace
    assert isinstance(trace, FeedTrace)
    drift = drift_v * np.linspace(0.0, 1.0, 900) ** 2
    return Pair(time_ns=trace.time_ns, voltage_v=trace.voltage_v[:, 0] + drift, current_a=trace.current_a[:, 0])


def test_steps_give_the_resistance_whatever_the_mains_do() -> None:
    for drift_v in (0.0, 5.0):
        assert step_ohm(pair(drift_v=drift_v)) == pytest.approx(OHM, rel=0.05)


def test_levels_take_a_drift_of_mains_and_load_together_for_resistance() -> None:
    rising = pair()
    rising = replace(rising, voltage_v=rising.voltage_v - 0.3 * np.linspace(0, 1, 900), current_a=rising.current_a)
    climbing = rising.current_a + 2.0 * np.linspace(0, 1, 900)
    found = level_ohm(replace(rising, current_a=climbing))
    assert found is not None
    assert abs(found - OHM) > 0.1 * OHM
    assert level_ohm(replace(rising, current_a=np.full(900, 4.0))) is None


def test_a_load_that_stands_still_has_no_resistance_of_steps() -> None:
    assert step_ohm(replace(pair(), current_a=np.full(900, 4.0))) is None


def test_the_spread_is_over_the_mean_and_needs_three_runs() -> None:
    found = relative_spread([0.09, 0.10, 0.11])
    assert found.value == pytest.approx(0.1)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 0.1 <= found.high * 1.5
    assert relative_spread([0.1, 0.1]).value is None
    assert relative_spread([-0.1, 0.1, -0.1]).value is None


def test_the_steadier_half_is_judged_by_its_largest() -> None:
    feeds = [
        Repeated(group="a", name=str(spread), runs=3, ohm={"x": (1.0 - spread, 1.0, 1.0 + spread)})
        for spread in (0.5, 0.01, 0.02, 0.4)
    ]
    assert steadier_half(feeds, "x").value == pytest.approx(0.02)
    assert steadier_half([], "x").value is None


def test_each_feed_and_pin_of_the_sets_is_followed_over_its_runs(tmp_path: Path) -> None:
    plan = load_plan()
    root = write_sets(tmp_path, rows=200)
    found = [one for of in plan.sets for one in pairs_of(read_runs(root / of.folder, of), of, plan)]
    names = [(one.group, one.name, len(one.pairs)) for one in found]
    assert names[0] == ("mlperf_feeds", "v1__A, 3 feeds feed0", 4)
    assert ("mlperf_power", "v1__Vendor__B, 2 feeds feed1", 4) in names
    assert ("astral_pins", "pin6", 4) in names
    assert not any(group == "mlperf_training_power" for group, _, _ in names)
    result = repeated(found[0])
    assert result.runs == 4
    assert set(result.ohm) == set(ESTIMATES)
    assert result.spread("regression of differences").value == pytest.approx(0.0, abs=0.1)


def test_a_run_of_fewer_than_three_has_no_spread() -> None:
    plan = load_plan()
    trace = feed_chain(300).trace
    runs = [Run(machine="m", run=str(number), trace=trace) for number in range(2)]
    assert list(pairs_of(runs, plan.sets[0], plan)) == []


def test_the_feed_of_direct_current_is_cut_into_seconds(tmp_path: Path) -> None:
    plan = load_plan()
    assert list(direct_current_pairs(tmp_path, plan)) == []
    time_s = np.arange(3500) / 1000.0
    amps = np.zeros((3500, 4)) + 10.0 * ((np.arange(3500) // 50) % 2)[:, np.newaxis]
    volts = 12.1 - 0.007 * amps + np.random.default_rng(1).normal(0.0, 0.001, (3500, 4))
    folder = tmp_path / plan.direct_current.folder
    folder.mkdir()
    np.savez(folder / plan.direct_current.file, t_s=time_s, voltage_v=volts, current_a=amps)
    (found,) = direct_current_pairs(tmp_path, plan)
    assert [len(one.time_ns) for one in found.pairs] == [1000, 1000, 1000]
    assert repeated(found).ohm["regression of levels"] == pytest.approx([0.007] * 3, rel=0.01)
