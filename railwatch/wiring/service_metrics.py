"""The service's own metrics: what it could not store, pages, and counts of the other processes."""

import numpy as np

from analytics.calibration.achieved import PageRate
from railwatch.run_context import RunContext, read_status
from railwatch.wiring.sample_store import StoreWriter
from telemetry.clock import Clock
from telemetry.entities import Entity, EntityKind
from telemetry.frames import Frame, TableSpec

# Signals by the counts of the responder.
RESPONSE_COUNTS = {
    "responses_done": ("done", "engaged", "released"),
    "responses_refused": ("refused",),
    "responses_failed": ("failed",),
    "responses_unknown": ("unknown",),
}
# Signals by the counts of the actuator's journal.
ACTUATOR_COUNTS = {
    "actuator_syncs_slow": "slow",
    "actuator_syncs_failed": "failed",
    "actuator_bars_dropped": "bars_dropped",
}
# Signals by the counts of the control process.
CONTROL_COUNTS = {
    "control_done": "done",
    "control_refused": "limits",
    "control_forged": "forged",
    "control_replayed": "replayed",
    "control_stale": "stale",
    "control_fenced": "fenced",
    "control_out_of_scope": "scope",
}


class ServiceMetrics:
    """One row of the agent's signals that the service knows."""

    def __init__(self, context: RunContext, writer: StoreWriter, clock: Clock) -> None:
        self._context = context
        self._writer = writer
        self._clock = clock
        self._spec = TableSpec(
            name="service",
            kind=EntityKind.AGENT,
            entities=(Entity(kind=EntityKind.AGENT, key=context.node.key, name=context.node.name),),
            signals=(
                "ring_rows_lost",
                "spool_bytes",
                "spool_dropped_points",
                "uplink_errors",
                "recorder_rows_lost",
                "recordings_lost",
                "pages",
                "pages_per_node_month",
                "pages_per_node_month_high",
                "responses_waiting",
                *RESPONSE_COUNTS,
                *ACTUATOR_COUNTS,
                *CONTROL_COUNTS,
                "control_days_left",
            ),
        )

    def frame(self, *, rows_lost: int, pages: PageRate) -> Frame:
        """Return the row of this moment; NaN where a process does not run or has no value."""
        status = self._writer.status()
        recorder = read_status(self._context.recorder_status_path)
        actuator = read_status(self._context.actuator_status_path)
        row = (
            rows_lost,
            status.spool_bytes,
            status.dropped_points,
            self._writer.errors(),
            recorder.get("ring_rows_lost", np.nan),
            recorder.get("recordings_lost", np.nan),
            pages.pages,
            np.nan if pages.per_node_month is None else pages.per_node_month,
            np.nan if pages.high is None else pages.high,
            *self._response_counts(),
            *(actuator.get(name, np.nan) for name in ACTUATOR_COUNTS.values()),
            *self._control_counts(),
        )
        values = np.array(row, dtype=np.float64).reshape(1, 1, -1)
        return Frame(
            spec=self._spec,
            time_ns=np.array([self._clock.utc_ns()], dtype=np.int64),
            values=values,
            fresh=np.ones(values.shape, dtype=np.bool_),
        )

    def _response_counts(self) -> list[float]:
        """Return the decisions that wait for the responder, and what became of the others."""
        status = read_status(self._context.responder_status_path)
        tallies = status.get("actuators", {}).values()
        counts = [sum(tally[name] for tally in tallies for name in names) for names in RESPONSE_COUNTS.values()]
        return [float(count) if status else np.nan for count in (status.get("waiting", 0), *counts)]

    def _control_counts(self) -> list[float]:
        """Return the requests of fleet services by result, and the days left of their certificate."""
        status = read_status(self._context.control_status_path)
        counts = status.get("counts", {})
        requests = [float(counts.get(name, 0)) if status else np.nan for name in CONTROL_COUNTS.values()]
        return [*requests, status.get("days_left", np.nan)]
