"""One message an incident and rise of severity, one when it is over, and quiet where quiet is asked for."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.responding.notification.build import build_notifier
from agent.responding.notification.ledger import Ledger, QueuedNotice
from agent.responding.notification.notice import NoticeKind
from agent.responding.notification.notifier import Notifier, Sender
from agent.responding.notification.route import Route, RouteKind
from agent.responding.notification.settings import NotificationSettings
from agent.responding.port import Checked, Message
from telemetry.errors import ActionRefusedError
from telemetry.records import Cause, Severity
from tests.agent.fakes import FakeClock
from tests.agent.responding.notification.incidents import closed, incident, order

ALL = Route(name="all", kind=RouteKind.WEBHOOK, url="http://127.0.0.1:9/")
PAGER = Route(name="pager", kind=RouteKind.WEBHOOK, url="http://127.0.0.1:9/", least=Severity.CRITICAL)
HEAT = Route(name="heat", kind=RouteKind.WEBHOOK, url="http://127.0.0.1:9/", causes=frozenset({Cause.AIRFLOW}))
MUTE = Route(name="mute", kind=RouteKind.WEBHOOK, url="http://127.0.0.1:9/", recoveries=False)
ROUTES = (ALL, PAGER, HEAT, MUTE)


class Admission:
    """A notifier whose couriers do not run, and what waits for them."""

    def __init__(self, folder: Path, routes: tuple[Route, ...] = ROUTES, *, queue_max: int = 1000) -> None:
        self.clock = FakeClock()
        self._folder = folder
        settings = NotificationSettings(routes=routes, queue_max=queue_max, page_url="http://node7:8470")
        self.notifier = self._made(settings)
        self.settings = settings

    def _made(self, settings: NotificationSettings) -> Notifier:
        return build_notifier(settings, folder=self._folder, sender=Sender(node="node7"), clock=self.clock)

    def again(self) -> None:
        """Begin anew, as after a restart."""
        self.notifier.close()
        self.notifier = self._made(self.settings)

    def waiting(self, route: str) -> tuple[QueuedNotice, ...]:
        ledger = Ledger(self._folder, read_only=True)
        try:
            return ledger.waiting(route, most=100_000)
        finally:
            ledger.close()

    def said(self, route: str) -> list[tuple[NoticeKind, Severity]]:
        return [(item.notice.kind, item.notice.severity) for item in self.waiting(route)]

    def lost(self) -> int:
        ledger = Ledger(self._folder, read_only=True)
        try:
            return sum(state.lost for state in ledger.states())
        finally:
            ledger.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Admission]:
    made = Admission(tmp_path)
    yield made
    made.notifier.close()


OPENED, WORSE, RECOVERED = NoticeKind.OPENED, NoticeKind.WORSE, NoticeKind.RECOVERED
WARNING, CRITICAL = Severity.WARNING, Severity.CRITICAL


def test_it_is_a_message_that_can_be_looked_at_first(desk: Admission) -> None:
    message: Message = desk.notifier
    assert isinstance(message, Checked)


def test_an_incident_is_reported_once_however_many_decisions_ask(desk: Admission) -> None:
    assert desk.notifier.send(order(incident())).words == "queued for all, mute"
    assert desk.notifier.send(order(incident(summary="still"))).words.startswith("told already at 2026-01-31T12:00:00Z")
    assert desk.said("all") == [(OPENED, WARNING)]
    assert desk.said("pager") == desk.said("heat") == []


def test_a_rise_of_severity_is_reported_and_brings_in_who_receives_of_severe_ones_only(desk: Admission) -> None:
    desk.notifier.send(order(incident()))
    desk.notifier.follow(incident(severity=CRITICAL))
    desk.notifier.follow(incident(severity=CRITICAL, summary="no news"))
    desk.notifier.follow(incident(severity=WARNING))
    assert desk.said("all") == [(OPENED, WARNING), (WORSE, CRITICAL)]
    assert desk.said("pager") == [(WORSE, CRITICAL)]
    assert desk.waiting("all")[1].notice.previous is WARNING


def test_what_nobody_was_reported_of_is_not_reported_by_its_news(desk: Admission) -> None:
    desk.notifier.follow(incident(severity=CRITICAL))
    desk.notifier.follow(closed(incident()))
    assert desk.notifier.send(order(closed(incident()), recovery=True)).words == "nobody was told of it"
    assert desk.said("all") == []


@pytest.mark.parametrize("by", ["order", "news"])
def test_a_recovery_is_reported_once_to_those_who_were_reported_and_want_it(desk: Admission, by: str) -> None:
    desk.notifier.send(order(incident()))
    for _ in range(2):
        if by == "order":
            desk.notifier.send(order(closed(incident()), recovery=True))
        else:
            desk.notifier.follow(closed(incident()))
    assert desk.said("all") == [(OPENED, WARNING), (RECOVERED, WARNING)]
    assert desk.said("mute") == [(OPENED, WARNING)]
    assert desk.said("heat") == []
    assert "closed after 12m" in desk.waiting("all")[1].notice.text


def test_a_recovery_is_known_by_what_was_reported_first(desk: Admission) -> None:
    desk.notifier.send(order(incident()))
    moved = closed(incident(cause=Cause.JOINT_AGEING, entity_id="node:node7"))
    desk.notifier.follow(moved)
    over = desk.waiting("all")[1].notice
    assert (over.cause, over.entity_id) == ("supply_sag", "supply:psu0")


def test_a_silenced_incident_is_reported_when_the_silence_ends_and_not_when_the_incident_does(desk: Admission) -> None:
    quiet = incident(silence="ops until 14:00Z: recabling")
    assert desk.notifier.send(order(quiet)).words == "kept quiet: ops until 14:00Z: recabling"
    desk.notifier.follow(replace(quiet, severity=CRITICAL))
    assert desk.said("all") == desk.said("pager") == []
    desk.notifier.follow(incident())
    assert desk.said("all") == [(OPENED, WARNING)]

    other = incident(2, silence="ops")
    desk.notifier.send(order(other))
    desk.notifier.follow(closed(other))
    desk.notifier.follow(incident(2))
    assert len(desk.said("all")) == 1


def test_a_policy_can_name_its_route(desk: Admission) -> None:
    assert desk.notifier.send(order(incident(), route="mute")).words == "queued for mute"
    with pytest.raises(ActionRefusedError, match="no route nobody; expected one of all, pager, heat, mute"):
        desk.notifier.send(order(incident(2), route="nobody"))
    assert desk.notifier.send(order(incident(3), route="pager")).words == (
        "no route takes warning of supply_sag: nobody is told"
    )


def test_looking_first_states_who_would_be_reported_and_reports_nobody(desk: Admission) -> None:
    assert desk.notifier.check(order(incident())) == (
        "would tell all, mute: railwatch: warning: supply_sag on node7, supply:psu0"
    )
    assert desk.notifier.check(order(closed(incident()), recovery=True)) == "nobody was told of it"
    assert desk.said("all") == []


def test_without_an_incident_or_a_route_it_is_refused(tmp_path: Path, desk: Admission) -> None:
    with pytest.raises(ActionRefusedError, match="no incident"):
        desk.notifier.send(order(None))
    bare = Admission(tmp_path / "bare", ())
    with pytest.raises(ActionRefusedError, match=r"actuators\.notification\.routes"):
        bare.notifier.check(order(incident()))
    bare.notifier.close()


def test_what_was_reported_and_what_waits_outlives_a_restart(desk: Admission) -> None:
    desk.notifier.send(order(incident()))
    desk.again()
    assert desk.notifier.send(order(incident())).words.startswith("told already")
    assert desk.said("all") == [(OPENED, WARNING)]


def test_a_full_queue_loses_the_mildest_first_and_counts_them(tmp_path: Path) -> None:
    desk = Admission(tmp_path, (ALL,), queue_max=3)
    for number, severity in enumerate((CRITICAL, WARNING, Severity.INFO, WARNING, CRITICAL)):
        words = desk.notifier.send(order(incident(number, severity=severity))).words
    assert words.endswith("; 1 older messages were lost to make room")
    assert [item.notice.incident_id for item in desk.waiting("all")] == ["i-0000", "i-0003", "i-0004"]
    assert desk.lost() == 2
    desk.notifier.close()
