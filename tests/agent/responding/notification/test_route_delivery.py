"""Delivery: storms are bounded, tries have a growing pause, and what is lost is counted."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from agent.responding.notification.ledger import Ledger, RouteState
from agent.responding.notification.notice import Notice, NoticeKind
from agent.responding.notification.route_delivery import FIRST_PAUSE_S, GATHER_S, LONGEST_PAUSE_S, RouteDelivery
from telemetry.errors import ActionRefusedError, TransientError
from telemetry.records import Severity
from tests.agent.fakes import FakeClock
from tests.agent.responding.notification.incidents import notice
from tests.waiting import wait_for

GROUP_S, KEEP_S = 60.0, 3600.0


class Wire:
    """A channel that records, and refuses what a test sets."""

    def __init__(self, *, groups: bool = True, renew_every_s: float | None = None) -> None:
        self.groups = groups
        self.renew_every_s = renew_every_s
        self.messages: list[list[str]] = []
        self.failures = 0
        self.poison: set[str] = set()

    def deliver(self, notices: Sequence[Notice]) -> None:
        if self.failures:
            self.failures -= 1
            raise TransientError("no reply")
        if self.poison & {item.incident_id for item in notices}:
            raise ActionRefusedError("HTTP 400")
        self.messages.append([item.incident_id for item in notices])


class Post:
    """A courier, its wire and its ledger on a clock that only a test moves."""

    def __init__(self, folder: Path, wire: Wire) -> None:
        self.clock, self.wire = FakeClock(), wire
        self.ledger = Ledger(folder)
        self.courier = RouteDelivery("all", wire, self.ledger, clock=self.clock, group_s=GROUP_S, keep_s=KEEP_S)

    def queue(self, *notices: Notice) -> None:
        for one in notices:
            self.ledger.enqueue(one, ["all"], notified_routes=["all"])

    def pass_time(self, seconds: float, *, every_s: float = 0.5) -> None:
        for _ in range(round(seconds / every_s)):
            self.clock.advance(every_s)
            self.courier.step()

    @property
    def state(self) -> RouteState:
        return next(iter(self.ledger.states()))


@pytest.fixture
def post(tmp_path: Path) -> Iterator[Post]:
    made = Post(tmp_path, Wire())
    yield made
    made.ledger.close()


def test_the_first_message_goes_within_seconds_with_all_that_came_at_once(post: Post) -> None:
    post.courier.step()
    post.queue(*(notice(number) for number in range(3)))
    post.pass_time(GATHER_S + 1.0)
    assert post.wire.messages == [["i-0000", "i-0001", "i-0002"]]
    assert (post.state.sent, post.state.waiting, post.state.lost) == (3, 0, 0)


def test_a_storm_is_a_message_a_minute_with_all_that_came_meanwhile(post: Post) -> None:
    for number in range(300):
        post.queue(notice(number))
        post.pass_time(0.5)
    post.pass_time(400.0)
    assert len(post.wire.messages) <= 1 + 550 / GROUP_S
    assert sorted(name for one in post.wire.messages for name in one) == sorted(f"i-{n:04d}" for n in range(300))


def test_a_route_of_a_program_is_reported_at_once_and_each_time(tmp_path: Path) -> None:
    post = Post(tmp_path, Wire(groups=False))
    for number in range(3):
        post.queue(notice(number))
        post.courier.step()
    assert len(post.wire.messages) == 3
    post.ledger.close()


def test_a_service_that_is_down_is_tried_with_growing_pauses_and_gets_everything(post: Post) -> None:
    post.wire.failures = 3
    post.queue(notice())
    post.pass_time(GATHER_S + 1.0)
    assert post.state.trouble == "no reply"
    post.pass_time(FIRST_PAUSE_S * (1 + 2))
    assert post.wire.messages == []
    post.pass_time(FIRST_PAUSE_S * 4 + 1)
    assert post.wire.messages == [["i-0001"]]
    assert (post.state.sent, post.state.trouble) == (1, "")


def test_what_cannot_be_delivered_in_time_is_abandoned_and_counted(post: Post) -> None:
    post.wire.failures = 10_000
    post.queue(notice())
    post.pass_time(KEEP_S + LONGEST_PAUSE_S, every_s=5.0)
    assert (post.state.lost, post.state.waiting, post.state.sent) == (1, 0, 0)


def test_one_message_that_is_refused_does_not_cost_the_others(post: Post) -> None:
    post.wire.poison = {"i-0001"}
    post.queue(*(notice(number) for number in range(3)))
    post.pass_time(GATHER_S + 1.0)
    assert post.wire.messages == [["i-0000"], ["i-0002"]]
    assert (post.state.sent, post.state.lost) == (2, 1)


def test_what_is_open_is_stated_again_where_it_would_lapse(tmp_path: Path) -> None:
    post = Post(tmp_path, Wire(groups=False, renew_every_s=60.0))
    post.queue(notice(1), notice(2))
    post.courier.step()
    post.queue(notice(2, NoticeKind.RECOVERED))
    post.courier.step()
    post.wire.messages.clear()
    post.pass_time(125.0)
    assert post.wire.messages == [["i-0001"], ["i-0001"]]
    assert post.state.sent == 3
    post.ledger.close()


def test_a_thread_delivers_by_itself(tmp_path: Path) -> None:
    post = Post(tmp_path, Wire(groups=False))
    post.queue(notice(severity=Severity.CRITICAL))
    post.courier.start()
    wait_for(lambda: post.wire.messages)
    post.courier.request_stop()
    post.courier.join(60.0)
    assert post.wire.messages == [["i-0001"]]
    post.ledger.close()
