import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.scoring.events import stretches
from analytics.scoring.vus import vus_pr
from telemetry.frames import FloatArray, MaskArray


def plainly(scores: FloatArray, truth: MaskArray, max_window: int) -> float:
    """The definition of the paper, one threshold and one row at a time."""
    areas = []
    events = stretches(truth)
    for window in range(max_window + 1):
        soft = truth.astype(float)
        for first, last in events:
            for away in range(1, window // 2 + 1):
                for row in (first - away, last + away):
                    if 0 <= row < len(truth):
                        soft[row] += np.sqrt(1 - away / window)
        soft = np.minimum(soft, 1.0)
        near = np.zeros(len(truth), dtype=np.bool_)
        for first, last in events:
            near[max(first - window // 2, 0) : last + window // 2 + 1] = True
        area, recall_before = 0.0, 0.0
        for threshold in sorted(set(scores.tolist()), reverse=True):
            flags = scores >= threshold
            caught = float((soft * flags).sum())
            positives = (truth.sum() + np.where(truth, 1.0, soft * flags).sum()) / 2
            touched = np.mean([flags[first : last + 1].any() for first, last in stretches(near)])
            recall = min(caught / positives, 1.0) * float(touched)
            area += (recall - recall_before) * caught / float(flags.sum())
            recall_before = recall
        areas.append(area)
    return float(np.mean(areas))


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(0, 9), st.integers(2, 6))
def test_it_agrees_with_the_definition(seed: int, max_window: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    truth = np.repeat(rng.random(12) < 0.3, 4)
    scores = np.round(rng.random(48) * levels + truth)
    if truth.any() and not truth.all():
        assert vus_pr(scores, truth, max_window=max_window) == pytest.approx(plainly(scores, truth, max_window))


def test_without_a_window_it_is_the_average_precision_with_existence() -> None:
    truth = np.array([False, True, False, True, False])
    scores = np.array([0.1, 0.9, 0.8, 0.7, 0.0])
    # Thresholds 0.9, 0.8, 0.7: recall 1/2 of rows times 1/2 of events, the same, then 1; precision 1, 1/2, 2/3.
    assert vus_pr(scores, truth, max_window=0) == pytest.approx(0.25 * 1 + 0.75 * 2 / 3)


def test_a_perfect_score_has_one_without_tolerance_and_chance_has_the_share_of_events() -> None:
    rng = np.random.default_rng(1)
    truth = np.zeros(20_000, dtype=np.bool_)
    truth[np.add.outer(rng.integers(100, 19_000, 20), np.arange(50)).ravel()] = True
    assert vus_pr(truth.astype(float), truth, max_window=0) == pytest.approx(1.0)
    assert vus_pr(rng.random(20_000), truth, max_window=0) == pytest.approx(truth.mean(), rel=0.2)


def test_a_score_that_peaks_next_to_the_event_counts_by_the_window_alone() -> None:
    truth = np.zeros(400, dtype=np.bool_)
    truth[200:220] = True
    beside = np.zeros(400)
    beside[190:210] = 1.0
    assert vus_pr(beside, truth, max_window=40) > vus_pr(beside, truth, max_window=0) + 0.1


def test_only_the_order_of_scores_counts_and_absent_ones_are_last() -> None:
    rng = np.random.default_rng(2)
    truth = np.repeat(rng.random(60) < 0.2, 10)
    scores = rng.random(600) + truth
    assert vus_pr(np.exp(3 * scores), truth, max_window=20) == pytest.approx(vus_pr(scores, truth, max_window=20))
    gaps = np.where(scores < 0.3, np.nan, scores)
    assert vus_pr(gaps, truth, max_window=20) == pytest.approx(
        vus_pr(np.where(scores < 0.3, -1.0, scores), truth, max_window=20)
    )


def test_without_an_event_there_is_nothing_to_rank() -> None:
    assert np.isnan(vus_pr(np.ones(5), np.zeros(5, dtype=np.bool_), max_window=3))
    assert np.isnan(vus_pr(np.ones(5), np.ones(5, dtype=np.bool_), max_window=3))
