"""Port of the fleet loop to a store."""

from typing import Protocol

from analytics.fleet.window import Window


class FleetReader(Protocol):
    """Reads windows of all nodes; TransientError where the store does not reply."""

    def window(self, start_ns: int, stop_ns: int, *, ahead_ns: int) -> Window:
        """Return the seconds of ``[start_ns, stop_ns)``, and the incidents of nodes up to `ahead_ns` after it."""
        ...

    def values_by_node(self, start_ns: int, stop_ns: int) -> dict[str, int]:
        """Return the number of values of each node in an interval, as the store has them now."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...
