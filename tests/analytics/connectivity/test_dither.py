import numpy as np
import numpy.typing as npt
import pytest

from analytics.connectivity.dither import DitherPlan, DitherVerdict, judge_dither, pick_gpu, plan_dither
from telemetry.clock import NS_PER_S
from tests.analytics.scenes import START_NS

SUPPORTED = tuple(1530.0 - 15.0 * step for step in range(40))
RATE_HZ = 20.0


def plan(*, seed: int = 1) -> DitherPlan:
    made = plan_dither("gpu:GPU-0", clock_mhz=1530.0, supported_mhz=SUPPORTED, seed=seed)
    assert made is not None
    return made


def judged(
    *, source_ohm: float, seed: int = 1, noise_v: float = 0.009, follows: bool = True, rows: int | None = None
) -> DitherVerdict:
    """A GPU that draws 0.3 W a MHz, on a feed with this resistance and a slow drift."""
    made = plan(seed=seed)
    rng = np.random.default_rng(seed)
    at_s = np.arange(round(made.duration_s * RATE_HZ) if rows is None else rows) / RATE_HZ
    clock = np.full(len(at_s), 1530.0)
    for level in made.levels:
        clock[(at_s >= level.start_s) & (at_s < level.stop_s)] = level.clock_mhz
    power_w = 300.0 + 0.3 * (clock - 1530.0) * follows + rng.normal(0, 3.0, len(at_s))
    voltage_v = 12.0 - 0.001 * at_s - source_ohm * power_w / 12.0 + rng.normal(0, noise_v, len(at_s))
    time_ns = START_NS + np.round(at_s * NS_PER_S).astype(np.int64)
    return judge_dither(made, start_ns=START_NS, time_ns=time_ns, voltage_v=voltage_v, power_w=power_w)


def test_a_gpu_whose_current_moves_the_voltage_is_proven_and_returns_the_resistance() -> None:
    verdicts = [judged(source_ohm=0.006, seed=seed) for seed in range(20)]
    assert sum(verdict.moves is True for verdict in verdicts) >= 19
    resistances = [verdict.source_resistance_ohm or 0.0 for verdict in verdicts]
    assert np.median(resistances) == pytest.approx(0.006, rel=0.1)


def test_a_voltage_of_another_feed_is_never_stated_to_follow() -> None:
    verdicts = [judged(source_ohm=0.0, seed=seed) for seed in range(50)]
    assert not any(verdict.moves for verdict in verdicts)
    quiet = judged(source_ohm=0.0, noise_v=0.001)
    assert quiet.moves is False
    assert "did not" in quiet.why


def test_noise_that_hides_the_change_returns_no_answer() -> None:
    verdict = judged(source_ohm=0.004, noise_v=0.2)
    assert verdict.moves is None
    assert "noise" in verdict.why


def test_power_that_does_not_follow_its_clock_returns_no_answer() -> None:
    verdict = judged(source_ohm=0.006, follows=False)
    assert verdict.moves is None
    assert "did not follow its clock" in verdict.why


def test_an_experiment_that_was_cut_short_returns_no_answer() -> None:
    verdict = judged(source_ohm=0.006, rows=200)
    assert (verdict.moves, verdict.source_resistance_ohm) == (None, None)
    assert "too few samples" in verdict.why


def test_a_plan_never_asks_for_more_clock_than_runs_and_returns_back_what_was_found() -> None:
    for seed in range(20):
        made = plan(seed=seed)
        clocks = {level.clock_mhz for level in made.levels}
        assert max(clocks) == made.restore_mhz == 1530.0
        assert 60.0 <= max(clocks) - min(clocks) <= 120.0
        assert [level.start_s for level in made.levels[1:]] == [level.stop_s for level in made.levels[:-1]]
        assert sum(level.is_high for level in made.levels) == len(made.levels) / 2
    assert len({plan(seed=seed).levels for seed in range(20)}) > 10


def test_without_a_clock_to_go_down_to_there_is_no_plan() -> None:
    assert plan_dither("gpu:GPU-0", clock_mhz=1530.0, supported_mhz=(1530.0, 1000.0), seed=1) is None
    with pytest.raises(ValueError, match="level_s 60"):
        plan_dither("gpu:GPU-0", clock_mhz=1530.0, supported_mhz=SUPPORTED, level_s=60.0, seed=1)


def test_the_busy_gpu_that_draws_most_is_picked() -> None:
    power_w: npt.NDArray[np.float64] = np.array([100.0, 320.0, 300.0, np.nan])
    assert pick_gpu(power_w, np.array([True, False, True, True])) == 2
    assert pick_gpu(power_w, np.zeros(4, dtype=np.bool_)) is None
