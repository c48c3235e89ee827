"""Judges that begin again with the baselines of before: what is reported against them, and what is not held."""

from collections.abc import Sequence

from agent.guard.judges import Judges
from agent.guard.pipeline import Pipeline, PipelineSettings
from analytics.detectors.limits import DetectorLimits, NoveltyLimits
from analytics.detectors.novelty import NoveltyState
from rules.limits.node import NodeLimits
from telemetry.clock import NS_PER_S
from telemetry.frames import Frame
from telemetry.records import Finding, FindingStatus
from tests.agent.guard.judged_rows import halves, judged, shifted
from tests.analytics.detectors.novelty_scenes import node
from tests.analytics.detectors.supply_scenes import ageing
from tests.analytics.detectors.test_novelty import finding_about
from tests.analytics.scenes import node_of


def risen(findings: Sequence[Finding]) -> list[str]:
    return [
        one.entity_id for one in findings if one.detector == "source_resistance" and one.status is FindingStatus.RAISED
    ]


def restarted(first: Judges, frame: Frame, holding: Sequence[Finding] = ()) -> tuple[Judges, tuple[Finding, ...]]:
    """Return judges that begin anew with what the first ones learnt, and what they hold still."""
    again, now_ns = Judges(DetectorLimits(), [frame.spec]), int(frame.time_ns[0])
    return again, again.take_learnt(first.learnt(now_ns, {})(), now_ns, holding).going_on


def test_a_joint_that_went_bad_while_the_guard_was_down_is_reported_against_the_baseline_of_before() -> None:
    frame = ageing(1)
    before, after = halves(frame, 160)
    first = Judges(DetectorLimits(), [frame.spec])
    assert risen(judged(first, before)) == []
    again, _ = restarted(first, before[-1])
    forgetful = Judges(DetectorLimits(), [frame.spec])
    assert risen(judged(again, after)) == ["supply:psu0"]
    assert risen(judged(forgetful, after)) == [], "without it the bad joint is what it first saw"


def test_what_was_raised_before_and_is_not_held_is_reported_again_by_what_is_measured_now() -> None:
    frame = ageing(1)
    before, after = halves(frame, 300)
    first = Judges(DetectorLimits(), [frame.spec])
    assert risen(judged(first, before)) == ["supply:psu0"]
    again, still = restarted(first, before[-1])
    assert not still
    more = shifted([ageing(2, from_row=0)], 60.0)
    assert risen(judged(again, [*after, *more])) == ["supply:psu0"]


def aged_over(levels: Sequence[tuple[float, int]], *, forgets: bool) -> list[str]:
    """Return the paths that are reported, where each restart finds a joint that aged: looked at every 18 hours."""
    frame = ageing(1, times=1.0)
    judges, found, looks = Judges(DetectorLimits(), [frame.spec]), [], 0
    for times, count in levels:
        for _ in range(count):
            looks += 1
            seen = ageing(looks, times=times, from_row=0).rows(0, 120)
            found += risen(judged(judges, shifted([seen], 18.0 * 3600.0 * looks)))
        judges = Judges(DetectorLimits(), [frame.spec]) if forgets else restarted(judges, frame)[0]
    return found


def test_a_joint_that_ages_over_weeks_is_found_across_restarts_and_by_a_guard_that_forgets_it_is_not() -> None:
    first_week, month = (1.0, 11), [(1.07, 5), (1.16, 5)]
    assert aged_over([first_week, *month], forgets=False)[:1] == ["supply:psu0"]
    assert aged_over([first_week, *month], forgets=True) == []


def test_an_entity_that_is_gone_or_new_does_not_keep_the_others_from_going_on() -> None:
    limits = DetectorLimits(novelty=NoveltyLimits(learn_windows=30, blocks=3, block_windows=5))
    frame = node(1, rows=100)
    settings = PipelineSettings(policies=(), action_limits=NodeLimits(modes={}), limits=limits)
    before = Pipeline([frame.spec], node_of(4, 0), settings, supported_mhz={})
    for row in range(len(frame)):
        before.step([frame.rows(row, row + 1)], (), int(frame.time_ns[row]))
    fewer = type(frame.spec)(
        name=frame.spec.name, kind=frame.spec.kind, entities=frame.spec.entities[1:], signals=frame.spec.signals
    )
    again = Pipeline([fewer], node_of(4, 0), settings, supported_mhz={})
    now_ns = int(frame.time_ns[-1])
    before.note_baselines(now_ns)
    output = again.take_learnt(before.learnt(now_ns)(), now_ns)
    assert "1 absent" in output.summary
    baselines = [one for one in again.note_baselines(now_ns + NS_PER_S) if one.detector == "novelty"]
    learnt = {one.entity_id: one.learnt_ratio for one in baselines}
    assert set(learnt) == {entity.id for entity in fewer.entities}
    assert set(learnt.values()) == {1.0}
    assert {one.frozen_ns for one in baselines} == {now_ns}, "since when it is frozen is known over the restart"


def test_what_explained_a_gpu_before_a_restart_explains_nothing_for_good_behind_it() -> None:
    frame = node(1, rows=20)
    first = Judges(DetectorLimits(), [frame.spec])
    judged(first, [frame.rows(0, 4)], node_of(4, 0))
    first._received.append(finding_about("gpu:GPU-1", row=4))
    judged(first, [frame.rows(4, 20)], node_of(4, 0))
    again, _ = restarted(first, frame)
    assert [list(one.explained.held) for one in (novelty_of(first), novelty_of(again))] == [
        [False, True, False, False],
        [False, False, False, False],
    ]


def novelty_of(judges: Judges) -> NoveltyState:
    found: NoveltyState = next(own for detector, own in judges.states() if detector.name == "novelty")
    return found
