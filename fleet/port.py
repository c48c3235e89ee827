"""What the fleet loop needs of a store."""

from typing import Protocol

from analytics.fleet.window import Window


class FleetReader(Protocol):
    """Gives windows of all nodes; TransientError where the store does not answer now."""

    def window(self, start_ns: int, stop_ns: int, *, ahead_ns: int) -> Window:
        """Return the whole seconds of ``[start_ns, stop_ns)``, and the nodes' own incidents `ahead_ns` beyond."""
        ...

    def values_by_node(self, start_ns: int, stop_ns: int) -> dict[str, int]:
        """Return how many values that the fleet reads each node has there now."""
        ...

    def close(self) -> None:
        """Let connections go."""
        ...
