"""Server of the actuator: the only process that sets knobs, with an allow-list of requests on a unix socket.

It depends on no other process: if a client dies, its leases run out here; on a request to stop, every cap is released
first; after a kill, the next start reads the journal. One thread owns all of it.
"""

import contextlib
import logging
import os
import selectors
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent.actuation.access import OWN_USER, Access, Refusal, Refusals, SocketPeer, listen, peer_of
from agent.actuation.actuator import KnobActuator
from agent.actuation.disk_sync import DiskSync
from agent.actuation.knob_log import KnobLog
from agent.actuation.limits import ActuatorSettings
from agent.actuation.protocol import (
    REQUEST_BYTES_MAX,
    Apply,
    Follow,
    ListInForce,
    ReleaseAll,
    ReleaseIncident,
    ReleaseRequest,
    Renew,
    Request,
    Status,
    Verify,
    answer_line,
    checks_line,
    failure_line,
    read_request,
    recent_line,
    refusal_line,
    status_line,
)
from agent.actuation.report import RecentActions
from agent.driver.port import Knob
from agent.scheduling import use_realtime_priority
from telemetry.clock import Clock
from telemetry.gpu import ReleasedBy
from telemetry.records import Action, ActionState

logger = logging.getLogger(__name__)

# Reason of a release at the end of this process.
ACTUATOR_STOPS = "the actuator stops"
# Name of the count of dropped blocks, in the status and the metrics.
BARS_DROPPED = "bars_dropped"
# heuristic: the guard (two), the service, the control endpoint, a command of an operator; the rest is margin.
CONNECTIONS_MAX = 32
# heuristic: one user cannot use up all connections.
CONNECTIONS_PER_USER_MAX = 16
# Interval of checks for a request to stop.
STOP_CHECK_S = 0.25
# As far as the sampler and the guard go; takes permission, and goes without.
NICENESS = -10
# Keeps a defect that shows at every turn from taking a core.
FAILURE_PAUSE_S = 0.02
# What could not be released at once is tried again for so long before this process ends.
RELEASE_WITHIN_S = 3.0
RELEASE_PAUSE_S = 0.1
# A client that leaves more than this unread loses its connection and the answer.
UNSENT_BYTES_MAX = 1 << 20
# Requests of one connection that are answered before the others have their turn, and the leases theirs. Heuristic.
REQUESTS_PER_TURN = 16


@dataclass(slots=True)
class _Connection:
    socket: socket.socket
    peer: SocketPeer
    asked: bool = False
    received: bytearray = field(default_factory=bytearray)
    unsent: bytearray = field(default_factory=bytearray)
    ends: bool = False


class ActuatorServer:
    """Serves requests on a unix socket, and ends leases that run out.

    `failures` counts unexpected errors, which are logged with their traceback; `refusals` counts refused requests, by
    reason. EnvironmentLacksError where the socket cannot be created there.
    """

    def __init__(
        self,
        actuator: KnobActuator,
        socket_path: Path,
        clock: Clock,
        *,
        history: RecentActions,
        access: Access = OWN_USER,
    ) -> None:
        self._actuator = actuator
        self._history = history
        self._access = access
        self.refusals = Refusals(clock)
        self._socket_path = socket_path
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._connections: dict[int, _Connection] = {}
        self._listener = listen(socket_path, access)
        self.failures = 0
        self._selector.register(self._listener, selectors.EVENT_READ)

    def run(self, stop: threading.Event) -> None:
        """Serve until a stop is requested."""
        while not stop.is_set():
            self.step()

    def step(self) -> None:
        """Wait for requests until the next lease ends, at most 0.25 s; serve them, then do what is due."""
        wake_s = self._actuator.next_wake_s()
        due_s = STOP_CHECK_S if wake_s is None else wake_s - self._clock.monotonic_s()
        waiting = [one for one in self._connections.values() if b"\n" in one.received and not one.ends]
        due_s = 0.0 if waiting else due_s
        for key, events in self._selector.select(max(0.0, min(STOP_CHECK_S, due_s))):
            if key.fileobj is self._listener:
                self._accept()
                continue
            connection = self._connections.get(key.fd)
            if connection is None or connection.socket is not key.fileobj:
                continue  # closed in this same turn to make room for another
            if events & selectors.EVENT_READ:
                self._receive(connection)
            self._send(connection)
        for connection in waiting:  # requests beyond the share of an earlier turn
            if connection.socket.fileno() in self._connections:
                self._answer_some(connection)
                self._send(connection)
        try:
            self._actuator.tick()
        except Exception:  # supervisor of actions: a defect in one must not stop the leases of the others
            logger.exception("cannot end a lease, will retry")
            self._pause()

    def close(self) -> None:
        """Close all connections and remove the socket."""
        for connection in list(self._connections.values()):
            self._hang_up(connection)
        self._selector.close()
        self._listener.close()
        with contextlib.suppress(FileNotFoundError):
            self._socket_path.unlink()

    def _accept(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except OSError:
            return  # closed by the peer before it was accepted
        accepted.setblocking(False)  # noqa: FBT003 -- the library's own flag
        try:
            peer = peer_of(accepted)
        except OSError:
            accepted.close()
            return
        if not self._access.allows(peer):
            self._reject(accepted, Refusal.PEER, f"{peer.label} is not permitted to send requests")
        elif not self._has_room(peer):
            self._reject(accepted, Refusal.CROWD, f"{peer.label}: too many connections at a time")
        else:
            self._connections[accepted.fileno()] = _Connection(accepted, peer)
            self._selector.register(accepted, selectors.EVENT_READ)

    def _reject(self, accepted: socket.socket, refusal: Refusal, text: str) -> None:
        self.refusals.note(refusal, text)
        with contextlib.suppress(OSError):
            accepted.send(failure_line(text))
        accepted.close()

    def _has_room(self, peer: SocketPeer) -> bool:
        """Return True if there is room; close a connection of this user without any request to make room."""
        same = [one for one in self._connections.values() if one.peer.uid == peer.uid]
        full = len(self._connections) >= CONNECTIONS_MAX
        if len(same) < CONNECTIONS_PER_USER_MAX and not full:
            return True
        silent = next((one for one in same if not one.asked), None)
        if silent is not None:
            self.refusals.note(Refusal.CROWD, f"{silent.peer.label}: closed a connection without requests")
            self._hang_up(silent)
        return silent is not None

    def _receive(self, connection: _Connection) -> None:
        if b"\n" in connection.received:
            return  # earlier requests come first
        try:
            part = connection.socket.recv(REQUEST_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        if not part:
            connection.ends = True
            return
        connection.received += part
        self._answer_some(connection)

    def _answer_some(self, connection: _Connection) -> None:
        for _ in range(REQUESTS_PER_TURN):
            end = connection.received.find(b"\n")
            if end < 0 or len(connection.unsent) > UNSENT_BYTES_MAX:
                break
            line = bytes(connection.received[: end + 1])
            del connection.received[: end + 1]
            connection.asked = True
            connection.unsent += self._answer(line, connection.peer)
        if len(connection.received) > REQUEST_BYTES_MAX and b"\n" not in connection.received:
            text = f"request: longer than {REQUEST_BYTES_MAX} bytes"
            self.refusals.note(Refusal.TOO_LONG, f"{connection.peer.label}: {text}")
            connection.unsent += refusal_line(text)
            connection.received.clear()
            connection.ends = True

    def _answer(self, line: bytes, peer: SocketPeer) -> bytes:
        try:
            request = read_request(line)
            reply = self._reply_to_query(request)
            return self._act(request, peer) if reply is None else reply
        except ValueError as err:
            self.refusals.note(Refusal.NOT_UNDERSTOOD, f"{peer.label}: {err}")
            return refusal_line(str(err))
        except Exception:  # supervisor of actions: see above
            logger.exception("request failed")
            self._pause()
            return failure_line("the actuator failed: see its log")

    def _reply_to_query(self, request: Request) -> bytes | None:
        """Return the reply to a query; None for a request that is no query."""
        match request:
            case Follow(after=after):
                return recent_line(self._history.since(after))
            case Verify():
                return checks_line(self._actuator.verify())
            case Status():
                return status_line(self._status())
            case _:
                return None

    def _act(self, request: Request, peer: SocketPeer) -> bytes:
        actions = self._carry_out(request)
        for action in actions:
            if action.state is ActionState.REFUSED:
                self.refusals.note(Refusal.NOT_ALLOWED, f"{peer.label}: {action.entity_id}: {action.reason}")
        return answer_line(actions)

    def _pause(self) -> None:
        self.failures += 1
        self._clock.sleep_until(self._clock.monotonic_s() + FAILURE_PAUSE_S)

    def _status(self) -> dict[str, object]:
        return {
            "in_force": len(self._actuator.in_force()),
            "holds_hardware": self._actuator.holds_hardware,
            "connections": len(self._connections),
            "failures": self.failures,
            "refused": self.refusals.counts,
            "syncs": self._actuator.journal.syncs.to_json(),
            BARS_DROPPED: self._actuator.journal.barred.dropped,
        }

    def _carry_out(self, request: Request) -> tuple[Action, ...]:
        actuator = self._actuator
        match request:
            case Apply():
                return actuator.apply(request.request())
            case Renew(incident_id=incident_id, lease_s=lease_s):
                return actuator.renew(incident_id, lease_s=lease_s)
            case ReleaseRequest(incident_id=incident_id, entity_id=entity_id, reason=reason, kind=kind):
                return actuator.release(incident_id, entity_id=entity_id, reason=reason, kind=kind)
            case ReleaseIncident(incident_id=incident_id, reason=reason, bar=bar):
                return actuator.release_incident(incident_id, reason=reason, bar=bar)
            case ReleaseAll(reason=reason):
                return actuator.release_all(reason=reason)
            case ListInForce():
                return actuator.in_force()
            case _:
                raise ValueError("do: expected an action, not a query")

    def _send(self, connection: _Connection) -> None:
        if connection.unsent:
            try:
                sent = connection.socket.send(connection.unsent)
                del connection.unsent[:sent]
            except BlockingIOError:
                pass
            except OSError:
                connection.unsent.clear()
                connection.ends = True
        if (connection.ends and not connection.unsent) or len(connection.unsent) > UNSENT_BYTES_MAX:
            self._hang_up(connection)
            return
        wanted = selectors.EVENT_READ if not connection.ends else 0
        wanted |= selectors.EVENT_WRITE if connection.unsent else 0
        if self._selector.get_key(connection.socket).events != wanted:
            self._selector.modify(connection.socket, wanted)

    def _hang_up(self, connection: _Connection) -> None:
        self._selector.unregister(connection.socket)
        del self._connections[connection.socket.fileno()]
        connection.socket.close()


def serve_actuator(
    open_knobs: Callable[[], Iterable[Knob]],
    socket_path: Path,
    state_dir: Path,
    sink: Callable[[Action], None],
    clock: Clock,
    *,
    settings: ActuatorSettings,
    run_id: str,
    stop: threading.Event,
    access: Access = OWN_USER,
    ready: Callable[[], None] = lambda: None,
    note: Callable[[Mapping[str, int]], None] = lambda _: None,
) -> None:
    """Run the actuator of a node until `stop` is set; then release every cap.

    Parameters
    ----------
    open_knobs
        Opens the driver; called in this process.
    state_dir
        Folder of the journal; one actuator at a time.
    sink
        Receives every action.
    run_id
        Id of this run of railwatch: claims of the same run are taken over, others are released.
    access
        Who may send requests.
    ready
        Called when the journal is processed and requests are served.
    note
        Receives counts by name, at the start and when they change: syncs of the journal and dropped blocks. Called from
        any thread.

    Raises
    ------
    EnvironmentLacksError
        The state folder or the socket cannot be used, or another actuator has them.
    """
    # Next to busy processes a request waits for a core; a cap should not.
    if not use_realtime_priority():
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    journal = KnobLog(
        state_dir,
        run_id=run_id,
        forcer=DiskSync(clock, on_counts=lambda syncs: note(syncs.to_json())),
        note_bars=lambda dropped: note({BARS_DROPPED: dropped}),
    )
    try:
        note({BARS_DROPPED: 0})
        history = RecentActions(sink, first_number=clock.utc_ns())
        actuator = KnobActuator(open_knobs(), journal, clock, sink=history.append, settings=settings)
        server = ActuatorServer(actuator, socket_path, clock, history=history, access=access)
        try:
            actuator.recover(run_id=run_id)
            ready()
            server.run(stop)
        finally:
            try:  # before the socket is closed: a client that is connected gets the last actions
                _release_all(actuator, clock)
            finally:
                server.close()
    finally:
        journal.close()


def _release_all(actuator: KnobActuator, clock: Clock) -> None:
    """Release every cap; retry what the driver does not accept for a while, then leave it to the journal."""
    end_s = clock.monotonic_s() + RELEASE_WITHIN_S
    actuator.release_all(reason=ACTUATOR_STOPS, by=ReleasedBy.ACTUATOR)
    while actuator.holds_hardware and clock.monotonic_s() < end_s:
        clock.sleep_until(clock.monotonic_s() + RELEASE_PAUSE_S)
        actuator.release_all(reason=ACTUATOR_STOPS, by=ReleasedBy.ACTUATOR)
    if actuator.holds_hardware:
        logger.error("cannot release all caps, they stay in force; the next start retries")
