"""Sender: one thread that sends the spool to the store, in order, and reports its state."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from telemetry.clock import NS_PER_S, Clock
from telemetry.rollup import Resolution
from telemetry.spool.spool import Spool, SpoolEntry
from telemetry.uplink.port import Destination, WriteReply, WriteStatus

_log = logging.getLogger(__name__)

# A batch whose bad lines are this hard to find is refused: 64 bad lines of 5000 take about 700 requests to single out.
_MAX_PARTS = 1024
# Behind by more than this is called catching up; batches leave about once a second.
_BEHIND_S = 5.0
# Time for a request in flight when the sender stops; if it needs longer, its lines stay in the spool.
_STOP_REQUEST_S = 3.0


class UplinkState(StrEnum):
    """State of the uplink."""

    STARTING = "starting"
    FLOWING = "flowing"
    CATCHING_UP = "catching_up"
    AWAY = "away"
    REFUSED = "refused"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderSettings:
    """Batch size and back-off of the sender.

    5000 lines a request is what InfluxData advises and what was measured here. Back-off doubles from `first_wait_s` to
    `longest_wait_s`; after a refusal, which an operator has to fix, it is `refused_wait_s` at once.
    """

    max_points: int = 5000
    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0
    refused_wait_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UplinkStatus:
    """Status of the uplink for the page and the agent's own metrics.

    `since_ns` is when the state began. `behind_s` is the age of the oldest point that waits, 0 where none does.
    The store refused `refused_points`; the spool had no room for `dropped_points`. `last_error` stays after a recovery.
    """

    destination: str
    state: UplinkState
    since_ns: int
    last_error: str
    errors: int
    sent_points: int
    refused_points: int
    dropped_points: int
    spool_bytes: int
    waiting_points: int
    behind_s: float


@dataclass(slots=True)
class _Tally:
    """Result of one round of requests."""

    sent_points: int = 0
    refused_points: int = 0
    reason: str = ""


class Sender:
    """Sender of a spool to a destination, until it is stopped."""

    def __init__(
        self, spool: Spool, destination: Destination, clock: Clock, settings: SenderSettings | None = None
    ) -> None:
        self._spool = spool
        self._destination = destination
        self._clock = clock
        self._settings = settings or SenderSettings()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._abandoned = threading.Event()
        self._thread = threading.Thread(target=self._run, name="uplink", daemon=True)
        self._prepared = False
        self._wait_s = self._settings.first_wait_s
        self._max_points = self._settings.max_points
        self._state = UplinkState.STARTING
        self._since_ns = clock.utc_ns()
        self._last_error = ""
        self._errors = 0
        self._tally = _Tally()

    def start(self) -> None:
        """Start to send."""
        self._thread.start()

    def stop(self, *, drain_s: float) -> None:
        """Drain the spool for at most `drain_s` while the store accepts it, then end; the rest stays in the spool.

        A request without a response is abandoned 3 s later at the latest: its lines are sent again.
        """
        deadline_s = self._clock.monotonic_s() + drain_s
        while self._clock.monotonic_s() < deadline_s and self._state is not UplinkState.REFUSED:
            if not self._spool.status().waiting_points or self._state is UplinkState.AWAY:
                break
            self._stopping.wait(0.02)
        self._stopping.set()
        self._spool.wake()
        self._thread.join(_STOP_REQUEST_S)
        if self._thread.is_alive():
            self._abandoned.set()
            _log.warning("uplink to %s: abandoning a request without a response", self._destination.name)
        self._destination.close()
        self._enter(UplinkState.STOPPED)

    def status(self) -> UplinkStatus:
        """Return the status."""
        spool = self._spool.status()
        now_ns = self._clock.utc_ns()
        behind_s = 0.0 if spool.oldest_ns is None else max(0.0, (now_ns - spool.oldest_ns) / NS_PER_S)
        with self._lock:
            state = self._state
            if state is UplinkState.FLOWING and behind_s > _BEHIND_S:
                state = UplinkState.CATCHING_UP
            return UplinkStatus(
                destination=self._destination.name,
                state=state,
                since_ns=self._since_ns,
                last_error=self._last_error,
                errors=self._errors,
                sent_points=self._tally.sent_points,
                refused_points=self._tally.refused_points,
                dropped_points=spool.dropped_points,
                spool_bytes=spool.waiting_bytes,
                waiting_points=spool.waiting_points,
                behind_s=behind_s,
            )

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._round()
            except OSError as err:
                # The disk of the spool; a later read may succeed.
                self._back_off(WriteReply(status=WriteStatus.AWAY, reason=f"spool cannot be read: {err}"))
            except Exception as err:  # noqa: BLE001 -- supervisor of the uplink: one failed round may not end it
                _log.exception("uplink failed, will retry")
                self._back_off(
                    WriteReply(status=WriteStatus.AWAY, reason=f"internal error: {type(err).__name__}: {err}")
                )

    def _round(self) -> None:
        if not self._prepared:
            reply = self._destination.prepare()
            self._prepared = reply.status is WriteStatus.STORED
            if not self._prepared:
                self._back_off(reply)
                return
        entries = self._spool.peek(max_points=self._max_points)
        if entries:
            self._send(entries)
        else:
            self._spool.wait(0.5)

    def _send(self, entries: Sequence[SpoolEntry]) -> None:
        tally = _Tally()
        for resolution in Resolution:
            body = b"".join(entry.body for entry in entries if entry.resolution is resolution)
            trouble = self._deliver(resolution, body, tally) if body else None
            if trouble is not None:
                # All entries stay; lines that did arrive are sent again and change nothing.
                self._back_off(trouble)
                return
        if self._abandoned.is_set():
            return  # the spool may belong to the next process by now
        self._spool.ack(entries)
        self._wait_s = self._settings.first_wait_s
        with self._lock:
            self._tally.sent_points += tally.sent_points
            self._tally.refused_points += tally.refused_points
            if tally.reason:
                self._errors += 1
                self._last_error = tally.reason
        if tally.refused_points:
            _log.warning("store refused %d points: %s", tally.refused_points, tally.reason)
        self._enter(UplinkState.FLOWING)

    def _deliver(self, resolution: Resolution, body: bytes, tally: _Tally) -> WriteReply | None:
        """Send lines, in parts where some are bad; return None once all are stored or counted, else why to retry."""
        parts = [body]
        sent_parts = 0
        while parts:
            part = parts.pop()
            points = part.count(b"\n")
            if self._abandoned.is_set():
                return WriteReply(status=WriteStatus.AWAY, reason="stopped")
            reply = self._destination.write(resolution, part)
            sent_parts += 1
            if reply.status in (WriteStatus.AWAY, WriteStatus.REFUSED):
                return reply
            if reply.status is WriteStatus.STORED:
                tally.sent_points += points
                continue
            tally.reason = reply.reason
            if reply.status is WriteStatus.PARTLY:
                refused = min(points, max(1, reply.refused_points))
                tally.sent_points += points - refused
                tally.refused_points += refused
            elif points == 1 or sent_parts >= _MAX_PARTS or _all_bad(reply, points):
                tally.refused_points += points
            else:
                if reply.status is WriteStatus.TOO_LARGE:
                    self._max_points = max(1, min(self._max_points, points) // 2)
                parts += _halves(part)
        return None

    def _back_off(self, reply: WriteReply) -> None:
        refused = reply.status is not WriteStatus.AWAY
        wait_s = self._settings.refused_wait_s if refused else self._wait_s
        if not refused:
            self._wait_s = min(2 * self._wait_s, self._settings.longest_wait_s)
            wait_s = min(max(wait_s, reply.retry_after_s or 0.0), self._settings.longest_wait_s)
        else:
            # A database that is gone may have to be created again.
            self._prepared = False
        with self._lock:
            self._errors += 1
            self._last_error = reply.reason
        self._enter(UplinkState.REFUSED if refused else UplinkState.AWAY)
        self._stopping.wait(wait_s)

    def _enter(self, state: UplinkState) -> None:
        with self._lock:
            if state is self._state or self._state is UplinkState.STOPPED:
                return
            self._state, self._since_ns = state, self._clock.utc_ns()
            reason = self._last_error
        if state in (UplinkState.AWAY, UplinkState.REFUSED):
            _log.warning("uplink to %s is %s: %s", self._destination.name, state, reason)
        else:
            _log.info("uplink to %s is %s", self._destination.name, state)


def _all_bad(reply: WriteReply, points: int) -> bool:
    return reply.status is WriteStatus.BAD_LINES and reply.refused_points >= points


def _halves(body: bytes) -> list[bytes]:
    """Return both halves of at least two lines, the first half last, so that it is sent first."""
    lines = body.splitlines(keepends=True)
    middle = len(lines) // 2
    return [b"".join(lines[middle:]), b"".join(lines[:middle])]
