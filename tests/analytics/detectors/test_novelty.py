"""Novelty: reported as a note, and only while nothing else explains it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from analytics.detectors.condition import clear_where
from analytics.detectors.limits import NoveltyLimits
from analytics.detectors.novelty import Novelty, NoveltyState
from telemetry.clock import NS_PER_S
from telemetry.frames import Frame
from telemetry.records import Cause, EventKind, Finding, FindingStatus, Severity
from tests.analytics.detectors.novelty_scenes import EVERY_S, node
from tests.analytics.scenes import START_NS, event_of, node_of

TOPOLOGY = node_of(4, 1)
DETECTOR = Novelty(limits=NoveltyLimits())
BEGINS = 280


def judged(
    frame: Frame, *, state: NoveltyState | None = None, **reported: Any
) -> tuple[NoveltyState, tuple[Finding, ...]]:
    state = state or DETECTOR.start(frame.spec)
    if "events" in reported:
        state = DETECTOR.take_events(state, reported["events"])
    if "findings" in reported:
        state = DETECTOR.take_findings(state, reported["findings"])
    return DETECTOR.step(state, frame, TOPOLOGY)


def finding_about(entity_id: str, *, row: int, status: FindingStatus = FindingStatus.RAISED) -> Finding:
    time_ns = START_NS + round(row * EVERY_S * NS_PER_S)
    return Finding(
        id=f"other:{entity_id}:1",
        time_ns=time_ns,
        since_ns=time_ns,
        detector="other",
        cause=Cause.THERMAL_MARGIN,
        entity_id=entity_id,
        status=status,
        severity=Severity.WARNING,
        score=1.0,
        summary="",
        evidence=(),
    )


def raised(findings: tuple[Finding, ...]) -> list[Finding]:
    return [one for one in findings if one.status is FindingStatus.RAISED]


@pytest.mark.parametrize("seed", range(5))
def test_memory_that_gets_hotter_than_it_ever_was_for_its_load_is_reported_within_minutes(seed: int) -> None:
    (found,) = raised(judged(node(seed, hotter_c=10.0))[1])
    assert (found.entity_id, found.cause, found.severity) == ("gpu:GPU-1", Cause.NOVELTY, Severity.INFO)
    assert 0 <= found.time_ns - START_NS - BEGINS * EVERY_S * NS_PER_S <= 240 * NS_PER_S
    assert "memory temperature" in found.summary
    assert found.number("hbm_temp_c") > found.number("usual_hbm_temp_c") + 8.0  # type: ignore[operator]


@pytest.mark.parametrize("seed", range(2))
def test_half_a_day_of_healthy_load_has_no_note(seed: int) -> None:
    assert judged(node(seed, rows=1440))[1] == ()


def flickering(seed: int, *, who: slice) -> Frame:
    """Return a node whose steps are too quick for its rows: from `BEGINS` on each shows a GPU high or low by chance."""
    frame = node(seed, rows=700)
    power_w = frame.values[BEGINS:, who, frame.spec.signals.index("power_w")]
    power_w *= np.where(np.random.default_rng(seed).random(power_w.shape) < 0.5, 1.2, 0.84)
    return frame


@pytest.mark.parametrize("seed", range(5))
def test_a_job_whose_steps_are_too_quick_for_the_rows_makes_no_gpu_unusual(seed: int) -> None:
    begins = event_of(at_s=BEGINS * EVERY_S, kind=EventKind.GPU_PROCESS, entity_id=None, code=None)
    assert judged(flickering(seed, who=slice(None)), events=(begins,))[1] == ()


@pytest.mark.parametrize("seed", range(5))
def test_one_gpu_that_jumps_while_its_siblings_are_steady_is_unusual(seed: int) -> None:
    assert {one.entity_id for one in raised(judged(flickering(seed, who=slice(1, 2)))[1])} == {"gpu:GPU-1"}


def test_a_night_between_two_windows_is_no_jump_of_the_siblings() -> None:
    frame = node(3)
    for name in ("gpu_temp_c", "hbm_temp_c"):
        frame.signal(name)[300:] -= 12.0
    rest = frame.rows(300, 400)
    rest = replace(rest, time_ns=rest.time_ns + 12 * 3600 * NS_PER_S)
    evening, _ = judged(frame.rows(0, 300))
    first, _ = judged(rest.rows(0, 1), state=evening)
    state = first
    for row in range(1, 100):
        state, _ = judged(rest.rows(row, row + 1), state=state)
        if state.window != first.window:
            break
    np.testing.assert_array_equal(state.unrest, first.unrest)
    assert np.isfinite(state.unrest).all()


def test_a_load_that_all_siblings_share_is_not_new_however_hot_they_get() -> None:
    frame = node(1)
    there = np.arange(len(frame)) >= BEGINS
    for name, factor in (("power_w", 1.15), ("gpu_temp_c", 1.15), ("hbm_temp_c", 1.15), ("sm_clock_mhz", 0.97)):
        frame.signal(name)[there] *= factor
    assert judged(frame)[1] == ()


def test_a_gpu_that_idles_while_its_siblings_work_is_not_compared_with_them() -> None:
    frame = node(2)
    there = np.arange(len(frame)) >= BEGINS
    for name, value in (("power_w", 60.0), ("gpu_temp_c", 35.0), ("hbm_temp_c", 38.0), ("gpu_util_ratio", 0.0)):
        frame.signal(name)[there, 2] = value
    assert judged(frame)[1] == ()


@pytest.mark.parametrize("about", ["gpu:GPU-1", "supply:psu0", "node:box"])
def test_what_another_finding_about_it_or_above_it_explains_is_not_reported(about: str) -> None:
    frame = node(3, hotter_c=12.0)
    assert judged(frame, findings=[finding_about(about, row=BEGINS)])[1] == ()


def test_a_finding_about_a_sibling_explains_nothing() -> None:
    frame = node(3, hotter_c=12.0)
    assert raised(judged(frame, findings=[finding_about("gpu:GPU-2", row=BEGINS)])[1])


def test_it_clears_at_once_when_another_finding_comes_to_explain_it() -> None:
    frame = node(3, hotter_c=12.0)
    later = finding_about("gpu:GPU-1", row=BEGINS + 20)
    reported = judged(frame, findings=[later])[1]
    assert [one.status for one in reported][-1] is FindingStatus.CLEARED
    assert reported[-1].time_ns - later.time_ns <= 2 * EVERY_S * NS_PER_S
    assert "something else accounts for it" in reported[-1].summary


def test_a_job_that_begins_is_given_time_to_settle() -> None:
    frame = node(4, hotter_c=12.0, lasts=8)
    began = event_of(at_s=BEGINS * EVERY_S, kind=EventKind.GPU_PROCESS, entity_id="gpu:GPU-1", code=None)
    assert raised(judged(frame)[1])
    assert judged(frame, events=[began])[1] == ()


def test_clocks_cut_for_heat_are_reported_by_others() -> None:
    frame = node(5, hotter_c=12.0)
    frame.signal("throttle_reasons")[BEGINS:, 1] = 0x20
    assert judged(frame)[1] == ()


def test_what_was_learnt_stays_until_a_person_accepts_the_gpu_as_it_is() -> None:
    begins = {"rows": 1200, "begins": BEGINS, "lasts": 2000}
    frame = node(6, hotter_c=12.0, **begins)
    state, reported = judged(frame.rows(0, 700))
    assert raised(reported)
    assert not any(one.status is FindingStatus.CLEARED for one in reported)
    accepted = DETECTOR.accept(state, np.array([False, True, False, False]))
    assert DETECTOR.threshold(accepted)[1] != DETECTOR.threshold(accepted)[1]
    accepted = replace(accepted, conditions=clear_where(accepted.conditions, accepted.conditions.active))
    after, then = judged(frame.rows(700, 1200), state=accepted)
    assert then == ()
    assert np.isfinite(DETECTOR.threshold(after)).all()
    assert after.far[1] < NoveltyLimits().distance


def test_nothing_is_learnt_of_windows_that_something_explains() -> None:
    frame = node(7, rows=100)
    state, _ = judged(frame, findings=[finding_about("gpu:GPU-1", row=0)])
    assert state.models.windows.tolist() == [99.0, 0.0, 99.0, 99.0]


def test_a_gpu_without_siblings_is_compared_with_its_own_past_and_states_that_a_job_looks_the_same() -> None:
    frame = node(8, gpus=1, odd=0, hotter_c=12.0)
    alone = Novelty(limits=NoveltyLimits())
    _, reported = alone.step(alone.start(frame.spec), frame, node_of(1, 0))
    (found,) = raised(reported)
    assert "or a new kind of job" in found.summary


def test_limits_that_cannot_be_are_refused() -> None:
    for wrong in ({"distance": 0.0}, {"learn_windows": 3}, {"smoothing": 2.0}, {"window_s": 0.1}):
        with pytest.raises(ValueError, match=r"above 0|at least"):
            replace(NoveltyLimits(), **wrong)


def test_a_gpu_unusual_for_a_day_is_learnt_again_and_its_next_fault_is_found() -> None:
    detector = Novelty(limits=NoveltyLimits(relearn_after_s=7200.0))
    frame = node(9, rows=1400, hotter_c=12.0, begins=BEGINS, lasts=2000)
    frame.signal("hbm_temp_c")[1200:, 1] += 12.0
    state, reported = detector.step(detector.start(frame.spec), frame, TOPOLOGY)
    first, cleared, second = reported[0], reported[-2], reported[-1]
    assert first.status is FindingStatus.RAISED
    assert (cleared.status, cleared.entity_id) == (FindingStatus.CLEARED, "gpu:GPU-1")
    assert cleared.time_ns - first.since_ns == pytest.approx(7200 * NS_PER_S, abs=60 * NS_PER_S)
    assert "learnt as usual after 2 h" in cleared.summary
    assert (second.status, second.entity_id) == (FindingStatus.RAISED, "gpu:GPU-1")
    assert second.since_ns >= START_NS + 1200 * EVERY_S * NS_PER_S
    assert state.models.windows[[0, 2, 3]].min() == state.models.windows[0], "only that GPU was learnt anew"


def swinging(seed: int, *, times: float) -> Frame:
    """Return a node whose second GPU's memory is a while later and later hotter, for longer than it was learnt from."""
    frame = node(seed, rows=2000)
    later = np.arange(2000) >= 300
    swing = times * np.sin(np.arange(2000) / 40.0) * np.minimum((np.arange(2000) - 300) / 800.0, 1.0)
    frame.signal("hbm_temp_c")[later, 1] += swing[later]
    return frame


def test_a_gpu_that_varies_more_than_while_it_was_learnt_raises_its_own_threshold_and_no_others() -> None:
    frame = swinging(1, times=5.0)
    state, _ = judged(frame.rows(0, 300))
    first = DETECTOR.threshold(state)
    state, _ = judged(frame.rows(300, 2000), state=state)
    after = DETECTOR.threshold(state)
    assert after[1] > 1.3 * first[1]
    assert (after <= 3.0 * first + 1e-9).all()
    np.testing.assert_allclose(after[[0, 2, 3]], first[[0, 2, 3]], rtol=0.2)


def test_a_slow_fault_does_not_carry_the_threshold_along() -> None:
    frame = node(10, rows=3000)
    frame.signal("hbm_temp_c")[300:, 1] += np.arange(2700) / 2700.0 * 60.0
    assert {one.entity_id for one in raised(judged(frame)[1])} == {"gpu:GPU-1"}


def test_each_note_raises_the_threshold_of_its_gpu_until_it_is_accepted() -> None:
    state, reported = judged(node(11, hotter_c=12.0, lasts=30))
    assert len(raised(reported)) == 1
    np.testing.assert_allclose(state.raised, [0.0, 0.5, 0.0, 0.0], atol=1e-3)
    accepted = DETECTOR.accept(state, np.array([False, True, False, False]))
    assert accepted.raised[1] == 0.0
