"""Collectors over the controller's tables: one reads it, the others use the values it read."""

from agent.collectors.bmc.board import Board
from agent.collectors.bmc.layout import AGE, TableLayout
from agent.collectors.bmc.settings import RARE_FROM_S
from telemetry.frames import FloatArray
from telemetry.signals import RateClass


class BoardNode:
    """The node as its controller measures it. Only this collector reads the controller, and fails when it hangs.

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
        """Implausible values of the controller so far, including its supplies and fans."""
        return self._board.refused

    def open(self) -> None:
        """Do nothing: a read connects."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(1, n_signals)``; raises the errors of the controller's link."""
        self._board.sweep()
        self._table.fill(self._board.values(), values)
        values[0, self._age] = self._board.age_s

    def close(self) -> None:
        """Close the connection; closing twice is harmless."""
        self._board.close()


class BoardTable:
    """The supplies or the fans of the controller: values of the last round, NaN once too old. Never waits."""

    rate = RateClass.SLOW

    def __init__(self, board: Board, table: TableLayout) -> None:
        self.name = table.spec.name
        self.spec = table.spec
        self._board = board
        self._table = table

    def open(self) -> None:
        """Do nothing: the node's collector connects."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_entities, n_signals)``."""
        self._table.fill(self._board.values(), values)

    def close(self) -> None:
        """Do nothing: the node's collector closes the connection."""
