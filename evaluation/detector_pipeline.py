"""Panel and incident book over tables that come without a recording: a fleet in closed form, a logged feed."""

from collections.abc import Sequence

from analytics.detectors.limits import DetectorLimits
from analytics.detectors.panel import Panel
from analytics.incidents.book import IncidentBook
from telemetry.entities import Topology
from telemetry.frames import Frame, TableSpec
from telemetry.records import Finding, Incident


class DetectorPipeline:
    """Source of the incidents of rows as they come; rules, which need a node to act on, have no part in it."""

    def __init__(self, specs: Sequence[TableSpec], topology: Topology) -> None:
        self._topology = topology
        self._panel = Panel.build(DetectorLimits())
        self._state = self._panel.start(specs)
        self._book = IncidentBook()
        self._findings: tuple[Finding, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of the newest rows: an incident has each finding as it is after them, raised and cleared alike."""
        return self._findings

    def step(self, frames: Sequence[Frame]) -> tuple[Incident, ...]:
        """Process new rows; return every incident that changed."""
        now_ns = max(int(frame.time_ns[-1]) for frame in frames)
        self._state, self._findings = self._panel.step(self._state, frames, self._topology)
        return self._book.step(
            self._findings, now_ns, self._topology, read_judged=lambda: self._panel.judged(self._state)
        )
