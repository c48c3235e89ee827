"""Messages: one per incident and rise of severity, one when it is over, none while it is silenced."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.responding.notification.build import build_notifier
from agent.responding.notification.ledger import Ledger, QueuedNotice
from agent.responding.notification.notice import NoticeKind
from agent.responding.notification.notifier import Notifier, Sender
from agent.responding.notification.route import NotificationSettings, Route, RouteKind
from agent.responding.port import CheckableMessage, Message
from telemetry.errors import ActionRefusedError
from telemetry.records import Cause, Severity
from tests.agent.fakes import FakeClock
from tests.agent.responding.notification.incidents import closed, incident, order

ALL = Route(name="all", kind=RouteKind.WEBHOOK, url="http://127.0.0.1:9/")
PAGER = Route(name="pager", kind=RouteKind.WEBHOOK, url="http://127.0.0.1:9/", least=Severity.CRITICAL)
HEAT = Route(name="heat", kind=RouteKind.WEBHOOK, url="http://127.0.0.1:9/", causes=frozenset({Cause.AIRFLOW}))
MUTE = Route(name="mute", kind=RouteKind.WEBHOOK, url="http://127.0.0.1:9/", recoveries=False)
ROUTES = (ALL, PAGER, HEAT, MUTE)


class Setup:
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

    def messages(self, route: str) -> list[tuple[NoticeKind, Severity]]:
        return [(item.notice.kind, item.notice.severity) for item in self.waiting(route)]

    def lost(self) -> int:
        ledger = Ledger(self._folder, read_only=True)
        try:
            return sum(state.lost for state in ledger.states())
        finally:
            ledger.close()


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    made = Setup(tmp_path)
    yield made
    made.notifier.close()


OPENED, WORSE, RECOVERED = NoticeKind.OPENED, NoticeKind.WORSE, NoticeKind.RECOVERED
WARNING, CRITICAL = Severity.WARNING, Severity.CRITICAL


def test_it_is_a_message_that_can_be_looked_at_first(setup: Setup) -> None:
    message: Message = setup.notifier
    assert isinstance(message, CheckableMessage)


def test_an_incident_is_reported_once_however_many_decisions_ask(setup: Setup) -> None:
    assert setup.notifier.send(order(incident())).summary == "queued for all, mute"
    assert setup.notifier.send(order(incident(summary="still"))).summary.startswith(
        "sent already at 2026-01-31T12:00:00Z"
    )
    assert setup.messages("all") == [(OPENED, WARNING)]
    assert setup.messages("pager") == setup.messages("heat") == []


def test_a_rise_of_severity_is_reported_and_brings_in_who_receives_of_severe_ones_only(setup: Setup) -> None:
    setup.notifier.send(order(incident()))
    setup.notifier.follow(incident(severity=CRITICAL))
    setup.notifier.follow(incident(severity=CRITICAL, summary="no news"))
    setup.notifier.follow(incident(severity=WARNING))
    assert setup.messages("all") == [(OPENED, WARNING), (WORSE, CRITICAL)]
    assert setup.messages("pager") == [(WORSE, CRITICAL)]
    assert setup.waiting("all")[1].notice.previous is WARNING


def test_an_incident_that_was_never_notified_is_not_notified_when_it_changes(setup: Setup) -> None:
    setup.notifier.follow(incident(severity=CRITICAL))
    setup.notifier.follow(closed(incident()))
    assert setup.notifier.send(order(closed(incident()), recovery=True)).summary == "no message about it was sent"
    assert setup.messages("all") == []


@pytest.mark.parametrize("by", ["order", "news"])
def test_a_recovery_is_reported_once_to_those_who_were_reported_and_want_it(setup: Setup, by: str) -> None:
    setup.notifier.send(order(incident()))
    for _ in range(2):
        if by == "order":
            setup.notifier.send(order(closed(incident()), recovery=True))
        else:
            setup.notifier.follow(closed(incident()))
    assert setup.messages("all") == [(OPENED, WARNING), (RECOVERED, WARNING)]
    assert setup.messages("mute") == [(OPENED, WARNING)]
    assert setup.messages("heat") == []
    assert "closed after 12m" in setup.waiting("all")[1].notice.text


def test_a_recovery_is_known_by_what_was_reported_first(setup: Setup) -> None:
    setup.notifier.send(order(incident()))
    moved = closed(incident(cause=Cause.JOINT_AGEING, entity_id="node:node7"))
    setup.notifier.follow(moved)
    over = setup.waiting("all")[1].notice
    assert (over.cause, over.entity_id) == ("supply_sag", "supply:psu0")


def test_a_silenced_incident_is_reported_when_the_silence_ends_and_not_when_the_incident_does(setup: Setup) -> None:
    quiet = incident(silence="ops until 14:00Z: recabling")
    assert setup.notifier.send(order(quiet)).summary == "silenced: ops until 14:00Z: recabling"
    setup.notifier.follow(replace(quiet, severity=CRITICAL))
    assert setup.messages("all") == setup.messages("pager") == []
    setup.notifier.follow(incident())
    assert setup.messages("all") == [(OPENED, WARNING)]

    other = incident(2, silence="ops")
    setup.notifier.send(order(other))
    setup.notifier.follow(closed(other))
    setup.notifier.follow(incident(2))
    assert len(setup.messages("all")) == 1


def test_a_policy_can_name_its_route(setup: Setup) -> None:
    assert setup.notifier.send(order(incident(), route="mute")).summary == "queued for mute"
    with pytest.raises(ActionRefusedError, match="no route nobody; expected one of all, pager, heat, mute"):
        setup.notifier.send(order(incident(2), route="nobody"))
    assert setup.notifier.send(order(incident(3), route="pager")).summary == (
        "no route accepts warning of supply_sag: not sent"
    )


def test_a_preview_names_who_would_be_notified_and_notifies_no_one(setup: Setup) -> None:
    assert setup.notifier.check(order(incident())) == (
        "would notify all, mute: railwatch: warning: supply_sag on node7, PSU 0"
    )
    assert setup.notifier.check(order(closed(incident()), recovery=True)) == "no message about it was sent"
    assert setup.messages("all") == []


def test_without_an_incident_or_a_route_it_is_refused(tmp_path: Path, setup: Setup) -> None:
    with pytest.raises(ActionRefusedError, match="no incident"):
        setup.notifier.send(order(None))
    bare = Setup(tmp_path / "bare", ())
    with pytest.raises(ActionRefusedError, match=r"actuators\.notification\.routes"):
        bare.notifier.check(order(incident()))
    bare.notifier.close()


def test_what_was_reported_and_what_waits_outlives_a_restart(setup: Setup) -> None:
    setup.notifier.send(order(incident()))
    setup.again()
    assert setup.notifier.send(order(incident())).summary.startswith("sent already")
    assert setup.messages("all") == [(OPENED, WARNING)]


def test_a_full_queue_loses_the_mildest_first_and_counts_them(tmp_path: Path) -> None:
    setup = Setup(tmp_path, (ALL,), queue_max=3)
    for number, severity in enumerate((CRITICAL, WARNING, Severity.INFO, WARNING, CRITICAL)):
        summary = setup.notifier.send(order(incident(number, severity=severity))).summary
    assert summary.endswith("; queue full: 1 older messages dropped")
    assert [item.notice.incident_id for item in setup.waiting("all")] == ["i-0000", "i-0003", "i-0004"]
    assert setup.lost() == 2
    setup.notifier.close()
