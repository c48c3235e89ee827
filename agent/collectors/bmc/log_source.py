"""Event source over the controller's log."""

from agent.collectors.bmc.board import Board
from agent.collectors.bmc.layout import unit_key
from agent.collectors.bmc.point import LogEntry, Place
from telemetry.clock import Clock
from telemetry.entities import EntityKind
from telemetry.records import Event

# heuristic: a lost supply is reported within seconds; where a read takes long, as of a Redfish log with many pages,
# it uses no more than a fifth of the controller's time.
_POLL_EVERY_S = 2.0
_MAX_SHARE = 0.2


class BoardLog:
    """New entries of the controller's log, each one once.

    While the controller does not respond there are no events: its collector reports the failure.
    """

    name = "bmc_log"

    def __init__(self, board: Board, *, node: str, clock: Clock) -> None:
        self._board = board
        self._node = node
        self._clock = clock
        self._due_s = 0.0

    def open(self) -> None:
        """Do nothing: the board opens the connection."""

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        """Return new entries if a poll is due, else wait up to the time-out."""
        now_s = self._clock.monotonic_s()
        if now_s < self._due_s:
            self._clock.sleep_until(min(self._due_s, now_s + timeout_s))
            return ()
        entries = self._board.new_entries()
        self._due_s = now_s + max(_POLL_EVERY_S, (self._clock.monotonic_s() - now_s) / _MAX_SHARE)
        return tuple(self._event(entry) for entry in entries)

    def close(self) -> None:
        """Do nothing: the board closes the connection."""

    def _event(self, entry: LogEntry) -> Event:
        return Event(
            id=f"bmc:{self._node}:{entry.id}",
            time_ns=entry.time_ns,
            kind=entry.kind,
            entity_id=self._entity_id(entry),
            code=entry.code,
            severity=entry.severity,
            message=entry.message,
            sources=(self.name,),
        )

    def _entity_id(self, entry: LogEntry) -> str:
        """Return the supply or fan of the entry if a table has it, else the node."""
        layout = self._board.layout
        tables = {} if layout is None else {Place.SUPPLY: layout.supplies, Place.FAN: layout.fans}
        table = tables.get(entry.place)
        if table is not None and entry.unit:
            found = next((e.id for e in table.spec.entities if e.key == unit_key(entry.unit)), None)
            if found is not None:
                return found
        return f"{EntityKind.NODE}:{self._node}"
