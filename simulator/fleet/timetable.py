"""The timelines of many nodes as arrays: whoever has the same node and scenario shares one."""

from collections.abc import Sequence

import numpy as np

from simulator.files.node import NodeFile
from simulator.files.scenario import Quantity, ScenarioFile
from simulator.plant.timeline import Timeline, starting_values
from telemetry.frames import FloatArray


class Timetable:
    """State of the nodes over time, as their scenarios define it.

    All nodes have as many GPUs and supplies. A step sees the values at its beginning, so a change that comes and goes
    within one step is not seen.
    """

    def __init__(self, nodes: Sequence[NodeFile], scenarios: Sequence[ScenarioFile]) -> None:
        shared: dict[tuple[int, int], list[int]] = {}
        for row, pair in enumerate(zip(nodes, scenarios, strict=True)):
            shared.setdefault((id(pair[0]), id(pair[1])), []).append(row)
        self._rows = [np.array(rows) for rows in shared.values()]
        firsts = [rows[0] for rows in self._rows]
        self._timelines = [Timeline(nodes[first], scenarios[first]) for first in firsts]
        start = [starting_values(node) for node in nodes]
        self._values = {quantity: np.stack([values[quantity] for values in start]) for quantity in start[0]}
        spans = [
            (change.at, change.at + change.over, place)
            for place, first in enumerate(firsts)
            for change in scenarios[first].changes
        ]
        self._begin_s, self._end_s, place = np.array(spans, dtype=np.float64).reshape(-1, 3).T
        self._place = place.astype(np.intp)
        self._last_s = -np.inf

    def at(self, time_s: float) -> dict[Quantity, FloatArray]:
        """Return the values at a time, each ``(n_nodes, n_things)``; times must not go back, arrays stay the same."""
        active = (self._begin_s <= time_s) & (self._end_s >= self._last_s)
        for place in np.unique(self._place[active]):
            for quantity, values in self._timelines[place].at(time_s).items():
                self._values[quantity][self._rows[place]] = values
        self._last_s = time_s
        return self._values
