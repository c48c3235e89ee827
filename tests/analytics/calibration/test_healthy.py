"""Healthy time makes thresholds: never lower ones, never such as find nothing any more."""

import numpy as np
import pytest

from analytics.calibration.healthy import BLOCK_S, MIN_BLOCKS, CalibratedLimit, HealthyMaxima, calibrated
from analytics.calibration.statistics import BY_NAME, STATISTICS, raised
from analytics.detectors.limits import DetectorLimits
from analytics.detectors.novelty import Novelty
from analytics.detectors.panel import Panel
from telemetry.clock import NS_PER_S
from telemetry.frames import Frame
from tests.analytics.detectors.novelty_scenes import node
from tests.analytics.scenes import node_of

LIMITS = DetectorLimits()


def of(name: str, maxima: np.ndarray[tuple[int], np.dtype[np.float64]], budget: float = 0.1) -> CalibratedLimit:
    rows = calibrated(HealthyMaxima(maxima={name: tuple(maxima.tolist())}), LIMITS, pages_per_node_month=budget)
    return next(one for one in rows if one.statistic.name == name)


def maxima(mean: float, spread: float, n_blocks: int = 100) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.random.default_rng(4).normal(mean, spread, n_blocks)


def test_every_statistic_names_a_limit_that_there_is_and_can_be_raised_to_its_highest() -> None:
    for one in STATISTICS:
        assert one.limit(LIMITS) > one.base
        changed = one.raised(LIMITS, 1e9)
        assert one.limit(changed) == pytest.approx(one.base + 3.0 * (one.limit(LIMITS) - one.base))


def test_quiet_healthy_time_leaves_a_limit_as_it_is() -> None:
    found = of("airflow.ratio", maxima(0.02, 0.005))
    assert found.threshold == found.limit == LIMITS.airflow.ratio
    assert "high enough" in found.why


def test_restless_healthy_time_raises_it_to_what_the_budget_requires() -> None:
    values = maxima(0.14, 0.01)
    found = of("airflow.ratio", values)
    assert found.wanted == found.threshold
    assert found.threshold > max(values.max(), found.limit)
    looser = of("airflow.ratio", values, budget=100.0)
    assert looser.threshold < found.threshold


def test_a_limit_is_not_raised_until_it_finds_nothing_and_the_answer_states_so() -> None:
    found = of("airflow.ratio", maxima(0.4, 0.2))
    assert found.threshold == pytest.approx(3.0 * LIMITS.airflow.ratio)
    assert found.wanted is not None
    assert found.wanted > found.threshold
    assert "not kept" in found.why


def test_too_little_healthy_time_leaves_the_default_and_states_so() -> None:
    found = of("novelty.distance", maxima(9.0, 1.0, MIN_BLOCKS - 1))
    assert found.wanted is None
    assert found.threshold == LIMITS.novelty.distance
    assert f"{MIN_BLOCKS} are required" in found.why
    assert found.crossings == MIN_BLOCKS - 1


def test_thresholds_raise_limits_and_lower_none() -> None:
    changed = raised(LIMITS, {"airflow.ratio": 0.3, "novelty.distance": 1.0})
    assert changed.airflow.ratio == 0.3
    assert changed.novelty == LIMITS.novelty
    together = raised(LIMITS, {"thermal_resistance.ratio": 2.0 * LIMITS.thermal_resistance.warn_ratio})
    assert together.thermal_resistance.warn_ratio == together.thermal_resistance.ratio
    with pytest.raises(ValueError, match=r"rail_sag\.minimum_v"):
        raised(LIMITS, {"rail_sag.minimum_v": 12.0})


@pytest.mark.parametrize(("minutes", "blocks"), [(2, 0), (7, 1)])
def test_a_block_of_which_little_was_seen_is_no_block(minutes: int, blocks: int) -> None:
    first_ns = 1000 * BLOCK_S * NS_PER_S
    last_ns = first_ns + minutes * 60 * NS_PER_S
    seen = HealthyMaxima(block=1000, running={"novelty.distance": 2.0}, first_ns=first_ns, last_ns=last_ns)
    assert len(seen.ended().maxima.get("novelty.distance", ())) == blocks
    panel = Panel(detectors=(), event_detectors=())
    following = seen.after(panel, panel.start([]), LIMITS, last_ns + BLOCK_S * NS_PER_S)
    assert following.maxima == seen.ended().maxima
    assert following.ended().maxima == following.maxima, "of the next one a moment was seen"


def test_the_panel_returns_one_largest_value_a_block_however_its_rows_are_cut() -> None:
    frame, topology = node(1, rows=600), node_of(4, 0)

    def blocks_of(*parts: Frame) -> HealthyMaxima:
        panel = Panel(detectors=(Novelty(limits=LIMITS.novelty),), event_detectors=())
        state, healthy = panel.start([frame.spec]), HealthyMaxima()
        for part in parts:
            for row in range(len(part)):
                state, _ = panel.step(state, [part.rows(row, row + 1)], topology)
                healthy = healthy.after(panel, state, LIMITS, int(part.time_ns[row]))
        return healthy.ended()

    whole = blocks_of(frame)
    assert whole == blocks_of(frame.rows(0, 333), frame.rows(333, 600))
    found = whole.maxima["novelty.distance"]
    # Learning takes an hour; from then on there is a distance in every block.
    seconds = (int(frame.time_ns[-1]) - int(frame.time_ns[0])) / NS_PER_S - 120 * 30
    assert abs(len(found) - seconds / BLOCK_S) <= 1.5
    assert 0.0 < max(found) < BY_NAME["novelty.distance"].limit(LIMITS)
