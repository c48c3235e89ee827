"""Delivery on one route: many messages as one, tries with a growing pause, and nothing lost without being counted."""

import logging
import threading
from collections.abc import Sequence

from agent.responding.notification.ledger import Ledger, QueuedNotice
from agent.responding.notification.message_channel import MessageChannel
from telemetry.clock import NS_PER_S, Clock
from telemetry.errors import ActionRefusedError, EnvironmentLacksError, RailwatchError, TransientError

logger = logging.getLogger(__name__)

# Heuristic: incidents with one root come within a second or two of each other; a person loses nothing by that.
GATHER_S = 2.0
# Heuristic: the first tries come soon, for most failures are short; later ones do not hammer a service that is down.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 5.0, 300.0
# Heuristic: what one message may stand for; the rest comes with the next one.
_MOST_AT_ONCE = 200
_LOOK_EVERY_S = 0.25


class RouteDelivery:
    """Carries what waits on one route, in a thread of its own once started.

    The first message goes after `GATHER_S`; after a delivery the next one waits for `group_s`, and says all that came
    meanwhile: one message a `group_s` at most, whatever happens.

    Parameters
    ----------
    keep_s
        A message that could not be delivered for so long is given up, and counted as lost.
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
        """Begin to deliver."""
        self._thread = threading.Thread(target=self._run, name=f"notify-{self._route}", daemon=True)
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Have the thread end behind what it delivers; what still waits stays in the ledger."""
        self._stop.set()

    def join(self, timeout_s: float) -> None:
        """Wait for that."""
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
            self._give_up_old(waiting)
            return
        self._pause_s = FIRST_PAUSE_S
        self._first_seen_s = None
        self._renewed_s = self._clock.monotonic_s()
        self._not_before_s = self._renewed_s + self._group_s

    def _deliver(self, waiting: Sequence[QueuedNotice]) -> None:
        """Deliver all, or where what is there refuses them each alone, so that one does not cost the others."""
        positions = [item.position for item in waiting]
        try:
            self._channel.deliver([item.notice for item in waiting])
        except ActionRefusedError as err:
            if len(waiting) > 1:
                for item in waiting:
                    self._deliver([item])
                return
            logger.error("a message is lost: %s", err)  # noqa: TRY400 -- the words are made here, the traceback may tell secrets
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

    def _put_off(self, words: str) -> None:
        if self._pause_s == FIRST_PAUSE_S:
            logger.warning("messages wait: %s", words)
        self._not_before_s = self._clock.monotonic_s() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        self._ledger.note_trouble(self._route, words, now_ns=self._clock.utc_ns())

    def _give_up_old(self, waiting: Sequence[QueuedNotice]) -> None:
        oldest_ns = self._clock.utc_ns() - self._keep_ns
        old = [item.position for item in waiting if item.notice.time_ns < oldest_ns]
        if old:
            logger.error("%d messages of route %s could not be delivered in time and are lost", len(old), self._route)
            self._ledger.lose(self._route, old)

    def _run(self) -> None:
        while not self._stop.wait(_LOOK_EVERY_S):
            try:
                self.step()
            except EnvironmentLacksError as err:
                self._put_off_quietly(str(err))
            except RailwatchError as err:  # the ledger's disk is full: what waits is on it, and goes on waiting
                logger.warning("route %s: %s", self._route, err)
                self._not_before_s = self._clock.monotonic_s() + self._pause_s
            except Exception as err:  # noqa: BLE001 -- the supervisor of one route; a traceback may tell its address
                self._put_off_quietly(f"route {self._route}: {type(err).__name__} in its channel")

    def _put_off_quietly(self, words: str) -> None:
        try:
            self._put_off(words)
        except RailwatchError:
            self._not_before_s = self._clock.monotonic_s() + LONGEST_PAUSE_S
