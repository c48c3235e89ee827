"""Every learning detector: an accepted entity is learnt again, the others keep their baselines."""

from dataclasses import fields, replace

import numpy as np
import pytest

from analytics.calibration.baselines import LEARNT, baselines_of
from analytics.detectors.baseline_acceptance import findings_ended_by, reset_baselines
from analytics.detectors.build import AnyDetector
from analytics.detectors.condition import Conditions
from analytics.detectors.limits import DetectorLimits
from telemetry.records import Event, EventKind, FindingStatus, Severity
from tests.analytics.detectors.test_conformance import ALL, TOPOLOGY, run, scene
from tests.analytics.scenes import event_of

LIMITS = DetectorLimits()
# Shares of one node add up to the whole: all of them begin again.
SHARED = {"feed_imbalance"}
LEARNING = tuple(detector for detector in ALL if hasattr(detector, "accept"))


def accepted(entity_id: str) -> Event:
    return event_of(
        kind=EventKind.BASELINE, code=None, entity_id=entity_id, severity=Severity.INFO, message="accepted by ada: done"
    )


def test_every_detector_that_learns_states_what_and_how_far() -> None:
    assert {one.detector for one in LEARNT} == {detector.name for detector in LEARNING}


@pytest.mark.parametrize("detector", LEARNING, ids=lambda detector: detector.name)
def test_the_accepted_begins_again_and_the_others_stay(detector: AnyDetector) -> None:
    frame = scene(detector)
    state, _ = run(detector, frame)
    entities = frame.spec.entities
    after = reset_baselines(detector, state, entities, [accepted(entities[0].id)])
    before = baselines_of(detector.name, state, LIMITS, entities)
    now = baselines_of(detector.name, after, LIMITS, entities)
    assert any(one.learnt_ratio > 0 for one in before), "the scene teaches it something"
    begun = {one.id for one in entities} if detector.name in SHARED else {entities[0].id}
    assert all(one.learnt_ratio == 0.0 for one in now if one.entity_id in begun)
    assert [one for one in now if one.entity_id not in begun] == [one for one in before if one.entity_id not in begun]
    held = [getattr(after, one.name) for one in fields(after)]
    assert not any(one.active[0] for one in held if isinstance(one, Conditions))
    detector.step(after, frame.rows(380, 400), TOPOLOGY)


def test_other_events_and_strangers_change_nothing() -> None:
    detector = LEARNING[0]
    frame = scene(detector)
    state, _ = run(detector, frame)
    assert reset_baselines(detector, state, frame.spec.entities, [accepted("gpu:unknown")]) is state
    assert reset_baselines(detector, state, frame.spec.entities, [event_of()]) is state
    assert reset_baselines(detector, None, frame.spec.entities, [accepted("gpu:GPU-0")]) is None


def test_what_ends_is_cleared_once_and_only_for_the_detectors_named() -> None:
    detector = next(one for one in LEARNING if one.name == "novelty")
    found = next(one for seed in range(9) for one in run(detector, scene(detector, seed=seed))[1])
    now_ns = found.time_ns + 1
    ended = findings_ended_by([accepted(found.entity_id)], [found], ["novelty"], now_ns)
    assert [(one.id, one.status, one.time_ns) for one in ended] == [(found.id, FindingStatus.CLEARED, now_ns)]
    assert "accepted by ada" in ended[0].summary
    assert findings_ended_by([accepted(found.entity_id)], ended, ["novelty"], now_ns) == ()
    assert findings_ended_by([accepted(found.entity_id)], [found], ["airflow"], now_ns) == ()
    branch = replace(found, detector="novelty.more")
    assert len(findings_ended_by([accepted(found.entity_id)], [branch], ["novelty"], now_ns)) == 1
    assert np.all([one.cause is found.cause for one in ended])
