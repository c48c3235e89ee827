"""Delivery on one route: grouped messages, retries with growing pauses, lost messages counted."""

import logging
import threading
from collections.abc import Sequence
from typing import Protocol

from agent.responding.notification.ledger import Ledger, QueuedNotice
from agent.responding.notification.notice import Notice
from telemetry.clock import NS_PER_S, Clock
from telemetry.errors import ActionRefusedError, EnvironmentLacksError, RailwatchError, TransientError

logger = logging.getLogger(__name__)

# heuristic: incidents with one root come within a second or two; the delay does not matter to a person.
GATHER_S = 2.0
# heuristic: the first retries come soon, as most failures are short; later ones do not flood a service that is down.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 5.0, 300.0
# heuristic: most incidents in one message; the rest comes with the next one.
_MOST_AT_ONCE = 200
_LOOK_EVERY_S = 0.25


class MessageChannel(Protocol):
    """Channel that delivers messages.

    `groups` is True if people read each message, so that several notices share one. `renew_every_s` is the interval at
    which open incidents have to be sent again; None if once is enough.
    """

    groups: bool
    renew_every_s: float | None

    def deliver(self, notices: Sequence[Notice]) -> None:
        """Deliver all notices; they are delivered when this returns.

        TransientError where a retry may succeed, ActionRefusedError where the receiver refuses them.
        """
        ...


class RouteDelivery:
    """Delivers the waiting messages of one route, in a thread of its own once started.

    The first message is sent after `GATHER_S`; after a delivery the next one waits for `group_s` and covers everything
    since: at most one message per `group_s`.

    `keep_s` is the time limit of retries; after it a message is dropped and counted as lost.
    """

    def __init__(
        self, route: str, channel: MessageChannel, ledger: Ledger, *, clock: Clock, group_s: float, keep_s: float
    ) -> None:
        self._route = route
        self._channel = channel
        self._ledger = ledger
        self._clock = clock
        self._group_s = group_s if channel.groups else 0.0
        self._gather_s = GATHER_S if channel.groups else 0.0
        self._keep_ns = round(keep_s * NS_PER_S)
        self._first_seen_s: float | None = None
        self._not_before_s = self._renewed_s = clock.monotonic_s()
        self._pause_s = FIRST_PAUSE_S
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start delivery."""
        self._thread = threading.Thread(target=self._run, name=f"notify-{self._route}", daemon=True)
        self._thread.start()

    def request_stop(self) -> None:
        """Stop the thread after its present delivery; waiting messages stay in the ledger."""
        self._stop.set()

    def join(self, timeout_s: float) -> None:
        """Wait for the end of the thread."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def step(self) -> None:
        """Deliver what is due."""
        now_s = self._clock.monotonic_s()
        if now_s < self._not_before_s:
            return
        waiting = self._ledger.waiting(self._route, most=_MOST_AT_ONCE)
        if not waiting:
            self._first_seen_s = None
            self._renew(now_s)
            return
        if self._first_seen_s is None:
            self._first_seen_s = now_s
        if now_s - self._first_seen_s < self._gather_s:
            return
        self._attempt(waiting)

    def _attempt(self, waiting: Sequence[QueuedNotice]) -> None:
        try:
            self._deliver(waiting)
        except TransientError as err:
            self._put_off(str(err))
            self._drop_expired(waiting)
            return
        self._pause_s = FIRST_PAUSE_S
        self._first_seen_s = None
        self._renewed_s = self._clock.monotonic_s()
        self._not_before_s = self._renewed_s + self._group_s

    def _deliver(self, waiting: Sequence[QueuedNotice]) -> None:
        """Deliver all messages together; if they are refused, each alone, so that one does not cost the others."""
        positions = [item.position for item in waiting]
        try:
            self._channel.deliver([item.notice for item in waiting])
        except ActionRefusedError as err:
            if len(waiting) > 1:
                for item in waiting:
                    self._deliver([item])
                return
            logger.error("route %s: message dropped: %s", self._route, err)  # noqa: TRY400 -- a traceback may contain secrets
            self._ledger.lose(self._route, positions)
            self._ledger.note_trouble(self._route, str(err), now_ns=self._clock.utc_ns())
            return
        self._ledger.delivered(self._route, positions)

    def _renew(self, now_s: float) -> None:
        every_s = self._channel.renew_every_s
        if every_s is None or now_s - self._renewed_s < every_s:
            return
        self._renewed_s = now_s
        standing = self._ledger.open_notified(self._route)
        if not standing:
            return
        try:
            self._channel.deliver(standing)
        except (TransientError, ActionRefusedError) as err:
            self._put_off(str(err))

    def _put_off(self, reason: str) -> None:
        if self._pause_s == FIRST_PAUSE_S:
            logger.warning("route %s: delivery failed, retrying: %s", self._route, reason)
        self._not_before_s = self._clock.monotonic_s() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        self._ledger.note_trouble(self._route, reason, now_ns=self._clock.utc_ns())

    def _drop_expired(self, waiting: Sequence[QueuedNotice]) -> None:
        oldest_ns = self._clock.utc_ns() - self._keep_ns
        old = [item.position for item in waiting if item.notice.time_ns < oldest_ns]
        if old:
            logger.error("route %s: %d messages dropped, not delivered in time", self._route, len(old))
            self._ledger.lose(self._route, old)

    def _run(self) -> None:
        while not self._stop.wait(_LOOK_EVERY_S):
            try:
                self.step()
            except EnvironmentLacksError as err:
                self._put_off_quietly(str(err))
            except RailwatchError as err:  # the disk of the ledger is full: messages keep waiting
                logger.warning("route %s: %s", self._route, err)
                self._not_before_s = self._clock.monotonic_s() + self._pause_s
            except Exception as err:  # noqa: BLE001 -- supervisor of one route; a traceback may contain its address
                self._put_off_quietly(f"unexpected {type(err).__name__}")

    def _put_off_quietly(self, reason: str) -> None:
        try:
            self._put_off(reason)
        except RailwatchError:
            self._not_before_s = self._clock.monotonic_s() + LONGEST_PAUSE_S
