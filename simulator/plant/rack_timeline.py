"""State that the nodes of a rack share over time, as the scenario defines it."""

from collections.abc import Sequence

from simulator.files.rack import RackFile
from simulator.files.rack_scenario import RackChange, RackQuantity


class RackTimeline:
    """The quantities over time: steps and ramps, one after the other.

    Attributes
    ----------
    breaker_closed
        What somebody has just done to the breaker since the time before; None: nothing.
    """

    def __init__(self, rack: RackFile, changes: Sequence[RackChange]) -> None:
        self._values = {
            RackQuantity.INPUT_RATIO: 1.0,
            RackQuantity.BREAKER: 1.0,
            RackQuantity.CRAC_C: rack.air.crac_c,
        }
        self._last_s = -1.0
        self._ramps: list[tuple[RackChange, float]] = []
        pending = dict(self._values)
        for change in sorted(changes, key=lambda item: item.at):
            self._ramps.append((change, pending[change.what]))
            pending[change.what] = change.to
        self.breaker_closed: bool | None = None

    def at(self, time_s: float) -> dict[RackQuantity, float]:
        """Return the values at a time; times must not go back."""
        self.breaker_closed = None
        for change, start in self._ramps:
            end_s = change.at + change.over
            if change.at <= time_s and end_s >= self._last_s:
                part = 1.0 if time_s >= end_s else (time_s - change.at) / change.over
                self._values[change.what] = start + (change.to - start) * part
            if change.what is RackQuantity.BREAKER and self._last_s < change.at <= time_s:
                self.breaker_closed = change.to > 0.0
        self._last_s = time_s
        return self._values
