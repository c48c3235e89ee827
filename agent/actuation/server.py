"""The process that alone may write clocks: a small allow-list behind a unix socket, and leases of its own.

It needs nobody: when whoever asked for a cap dies, the lease runs out here; when it is told to stop, every cap is
released first; when it is killed, the next start reads the journal. One thread owns all of it.
"""

import contextlib
import logging
import os
import selectors
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from agent.actuation.clock_cap import ClockCapActuator
from agent.actuation.journal import HoldJournal
from agent.actuation.limits import ClockCapSettings
from agent.actuation.protocol import (
    REQUEST_BYTES_MAX,
    Apply,
    ListInForce,
    Release,
    ReleaseAll,
    ReleaseIncident,
    Renew,
    Request,
    answer_line,
    failure_line,
    read_request,
    refusal_line,
)
from agent.driver.port import ClockKnob
from telemetry.clock import Clock
from telemetry.errors import EnvironmentLacksError
from telemetry.records import Action

logger = logging.getLogger(__name__)

# The reason of a release that nobody asked for but the end of this process.
ACTUATOR_STOPS = "the actuator stops"
# The guard, the service, a person's command; the rest is margin.
CONNECTIONS_MAX = 32
# How many may knock while a driver call is under way.
BACKLOG = 128
# How soon a request to stop is seen.
STOP_CHECK_S = 0.1
# As far as the sampler and the guard go; takes permission, and goes without.
NICENESS = -10
# Keeps a defect that shows at every turn from taking a core.
FAILURE_PAUSE_S = 0.02
# What could not be released at once is tried again for so long before this process ends.
RELEASE_WITHIN_S = 3.0
RELEASE_PAUSE_S = 0.1
# An answer to somebody who does not read it is dropped with the connection beyond this.
UNSENT_BYTES_MAX = 1 << 20


@dataclass(slots=True)
class _Connection:
    socket: socket.socket
    received: bytearray = field(default_factory=bytearray)
    unsent: bytearray = field(default_factory=bytearray)
    ends: bool = False


class ActuatorServer:
    """Answers requests on a unix socket that only this user may open, and lets leases run out in between.

    `failures` counts what went wrong for a reason that nobody foresaw; the log has the tracebacks.

    Raises
    ------
    EnvironmentLacksError
        The socket cannot be made there.
    """

    def __init__(self, actuator: ClockCapActuator, socket_path: Path, clock: Clock) -> None:
        self._actuator = actuator
        self._socket_path = socket_path
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._connections: dict[int, _Connection] = {}
        self._listener = _listen(socket_path)
        self.failures = 0
        self._selector.register(self._listener, selectors.EVENT_READ)

    def run(self, stop: threading.Event) -> None:
        """Serve until told to stop."""
        while not stop.is_set():
            self.step()

    def step(self) -> None:
        """Wait for requests up to the next lease, at most 0.1 s; answer them, then do what is due."""
        wake_s = self._actuator.next_wake_s()
        due_s = STOP_CHECK_S if wake_s is None else wake_s - self._clock.monotonic_s()
        for key, events in self._selector.select(max(0.0, min(STOP_CHECK_S, due_s))):
            if key.fileobj is self._listener:
                self._accept()
                continue
            connection = self._connections[key.fd]
            if events & selectors.EVENT_READ:
                self._receive(connection)
            self._send(connection)
        try:
            self._actuator.tick()
        except Exception:  # supervisor of actions: a defect in one may not end the leases of the others
            logger.exception("a lease could not be ended")
            self._pause()

    def close(self) -> None:
        """Hang up and remove the socket."""
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
            return  # it hung up before it was let in
        if len(self._connections) >= CONNECTIONS_MAX:
            accepted.close()
            logger.warning("actuator turned a connection away", extra={"connections": len(self._connections)})
            return
        accepted.setblocking(False)  # noqa: FBT003 -- the library's own flag
        self._connections[accepted.fileno()] = _Connection(accepted)
        self._selector.register(accepted, selectors.EVENT_READ)

    def _receive(self, connection: _Connection) -> None:
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
        while len(connection.unsent) <= UNSENT_BYTES_MAX and (end := connection.received.find(b"\n")) >= 0:
            line = bytes(connection.received[: end + 1])
            del connection.received[: end + 1]
            connection.unsent += self._answer(line)
        if len(connection.received) > REQUEST_BYTES_MAX:
            connection.unsent += refusal_line(f"request: longer than {REQUEST_BYTES_MAX} bytes")
            connection.received.clear()
            connection.ends = True

    def _answer(self, line: bytes) -> bytes:
        try:
            return answer_line(self._carry_out(read_request(line)))
        except ValueError as err:
            logger.warning("actuator refused a request: %s", err)
            return refusal_line(str(err))
        except Exception:  # supervisor of actions: see above
            logger.exception("a request failed")
            self._pause()
            return failure_line("the actuator failed; its log says where")

    def _pause(self) -> None:
        self.failures += 1
        self._clock.sleep_until(self._clock.monotonic_s() + FAILURE_PAUSE_S)

    def _carry_out(self, request: Request) -> tuple[Action, ...]:
        actuator = self._actuator
        match request:
            case Apply():
                return actuator.apply(request.request())
            case Renew(incident_id=incident_id, lease_s=lease_s):
                return actuator.renew(incident_id, lease_s=lease_s)
            case Release(incident_id=incident_id, entity_id=entity_id, reason=reason):
                return actuator.release(incident_id, entity_id=entity_id, reason=reason)
            case ReleaseIncident(incident_id=incident_id, reason=reason, bar=bar):
                return actuator.release_incident(incident_id, reason=reason, bar=bar)
            case ReleaseAll(reason=reason):
                return actuator.release_all(reason=reason)
            case ListInForce():
                return actuator.in_force()

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
    knob_factory: Callable[[], ClockKnob],
    socket_path: Path,
    state_dir: Path,
    sink: Callable[[Action], None],
    clock: Clock,
    *,
    settings: ClockCapSettings,
    run_id: str,
    stop: threading.Event,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Run the actuator of a node until `stop` is set; then every cap is released.

    Parameters
    ----------
    knob_factory
        Opens the driver; called in this process.
    state_dir
        Where the journal lies; one actuator at a time.
    sink
        Gets every action.
    run_id
        Tells this run of railwatch from an earlier one: claims of the same run are taken over, others are released.
    ready
        Called when the journal is dealt with and requests are answered.

    Raises
    ------
    EnvironmentLacksError
        The state folder or the socket cannot be used, or another actuator has them.
    """
    # Beside busy processes a request waits for its turn on a core; a cap should not.
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    journal = HoldJournal(state_dir, run_id=run_id)
    try:
        actuator = ClockCapActuator(knob_factory(), journal, clock, sink=sink, settings=settings)
        server = ActuatorServer(actuator, socket_path, clock)
        try:
            actuator.recover(run_id=run_id)
            ready()
            server.run(stop)
        finally:
            try:  # before the socket goes: whoever still finds it open is told when all is done
                _release_all(actuator, clock)
            finally:
                server.close()
    finally:
        journal.close()


def _release_all(actuator: ClockCapActuator, clock: Clock) -> None:
    """Release every cap; what the driver does not take is tried again for a while and then left to the journal."""
    end_s = clock.monotonic_s() + RELEASE_WITHIN_S
    actuator.release_all(reason=ACTUATOR_STOPS)
    while actuator.holds_hardware and clock.monotonic_s() < end_s:
        clock.sleep_until(clock.monotonic_s() + RELEASE_PAUSE_S)
        actuator.release_all(reason=ACTUATOR_STOPS)
    if actuator.holds_hardware:
        logger.error("caps could not be released and stay in force; the next start tries again")


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.suppress(FileNotFoundError):
            path.unlink()  # what a killed run left; the journal's lock says that nobody listens there
        earlier = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(earlier)
        listener.listen(BACKLOG)
    except OSError as err:
        listener.close()
        raise EnvironmentLacksError(
            f"{path}: {err.strerror or err}; expected a path for the actuator's socket"
        ) from err
    listener.setblocking(False)  # noqa: FBT003 -- the library's own flag
    return listener
