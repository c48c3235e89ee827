"""The controller's tables as collectors: one that asks it, and those that take what it said."""

from agent.collectors.bmc.board import Board
from agent.collectors.bmc.layout import AGE, TableLayout
from agent.collectors.bmc.settings import RARE_FROM_S
from telemetry.frames import FloatArray
from telemetry.signals import RateClass


class BoardNode:
    """The node as its controller sees it. It is this collector that asks the controller, and that fails when it hangs.

    A round takes from milliseconds over LAN to seconds through the kernel's device.
    """

    def __init__(self, board: Board, table: TableLayout) -> None:
        self.name = table.spec.name
        self.spec = table.spec
        self.rate = RateClass.RARE if board.interval_s >= RARE_FROM_S else RateClass.SLOW
        self._board = board
        self._table = table
        self._age = table.spec.signals.index(AGE)

    @property
    def refused(self) -> int:
        """Values of the controller so far that were not believed, those of its supplies and fans too."""
        return self._board.refused

    def open(self) -> None:
        """Nothing to open: a read connects where there is no connection."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(1, n_signals)``; raises what the controller's link raises."""
        self._board.sweep()
        self._table.fill(self._board.values(), values)
        values[0, self._age] = self._board.age_s

    def close(self) -> None:
        """Let the connection go; closing twice is harmless."""
        self._board.close()


class BoardTable:
    """The supplies or the fans of the controller: what it said last, NaN once that is too old. Never waits for it."""

    rate = RateClass.SLOW

    def __init__(self, board: Board, table: TableLayout) -> None:
        self.name = table.spec.name
        self.spec = table.spec
        self._board = board
        self._table = table

    def open(self) -> None:
        """Nothing to open."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_entities, n_signals)``."""
        self._table.fill(self._board.values(), values)

    def close(self) -> None:
        """Nothing to close."""
