"""Work of the actuators outside the GPU from decisions."""

from collections.abc import Sequence

import pytest

from agent.responding.intake import class_of, take
from agent.responding.work import Task, Work, work_of
from rules.policy.model import ActionClass, Verb
from telemetry.records import Decision, Incident, IncidentState, Record, Verdict
from tests.agent.responding.rig import decision, incident

ROUTES = {
    ActionClass.DRAIN: ("slurm_drain", "kubernetes_drain"),
    ActionClass.HOOK: ("hook",),
    ActionClass.NOTIFY: ("notify",),
}


def nothing_sent(*_: str) -> Sequence[Work]:
    return ()


def taken(*records: Record, routes: dict[ActionClass, tuple[str, ...]] = ROUTES) -> list[tuple[str, Task]]:
    found = take(records, routes, incident_of=lambda _: None, sent_for=nothing_sent)
    return [(work.actuator, work.task) for work in found.works]


def test_a_drain_goes_to_every_scheduler_and_so_does_its_end() -> None:
    assert taken(decision(action="drain")) == [
        ("slurm_drain", Task.ENGAGE),
        ("kubernetes_drain", Task.ENGAGE),
    ]
    assert taken(decision(action="drain_release"))[0] == ("slurm_drain", Task.RELEASE)


@pytest.mark.parametrize("verb", [Verb.CLOCK_CAP, Verb.CLOCK_RELAX, Verb.POWER_CAP, Verb.FAN, Verb.CLOCK_RELEASE])
def test_what_moves_a_knob_of_a_gpu_is_left_to_the_actuator(verb: Verb) -> None:
    assert class_of(decision(action=verb.value)) is None
    assert taken(decision(action=verb.value)) == []


@pytest.mark.parametrize("verdict", [Verdict.OBSERVE, Verdict.REFUSE, Verdict.PENDING])
def test_only_what_is_to_be_done_or_recommended_is_followed(verdict: Verdict) -> None:
    assert taken(decision(action="hook", verdict=verdict)) == []
    assert len(taken(decision(action="hook", verdict=Verdict.RECOMMEND))) == 1


def test_the_incident_is_handed_on_as_it_was_reported_last() -> None:
    older, newer = incident(), incident(time_ns=incident().time_ns + 1)
    found = take((older, newer, decision(action="hook")), ROUTES, incident_of=lambda _: older, sent_for=nothing_sent)
    assert found.works[0].incident == newer
    known = take((decision(action="hook"),), ROUTES, incident_of=lambda _: older, sent_for=nothing_sent)
    assert known.works[0].incident == older


def test_where_nothing_is_set_up_for_a_class_that_is_reported_and_a_notice_is_not() -> None:
    found = take(
        (decision(action="requeue"), decision(action="notify")), {}, incident_of=lambda _: None, sent_for=nothing_sent
    )
    assert [one.action for one in found.unroutable] == ["requeue"]
    assert found.works == ()


def test_the_recipient_of_an_incident_is_notified_that_it_is_over() -> None:
    closed = incident(state=IncidentState.CLOSED)
    assert taken(closed) == []
    assert taken(decision(action="notify"), closed) == [("notify", Task.SEND), ("notify", Task.RECOVER)]

    def reported(incident_id: str, actuator: str) -> Sequence[Work]:
        earlier: Decision = decision(action="notify")
        about: Incident = incident(incident_id)
        return (work_of(actuator, Task.SEND, earlier, about),)

    found = take((closed,), ROUTES, incident_of=lambda _: None, sent_for=reported)
    assert [(work.task, work.incident) for work in found.works] == [(Task.RECOVER, closed)]
