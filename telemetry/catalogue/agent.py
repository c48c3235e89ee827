"""What the agent tells of itself."""

from telemetry.catalogue.signal import RateClass, SignalKind, Source, declare
from telemetry.entities import EntityKind

_G, _C = SignalKind.GAUGE, SignalKind.COUNTER

_AGENT = declare(
    EntityKind.AGENT,
    Source.AGENT,
    RateClass.SLOW,
    (
        ("cpu_ratio", "ratio", _G, 4, "CPU time of the sampling process over wall time, in cores."),
        ("resident_bytes", "B", _G, 0, "Resident memory of the sampling process."),
        ("tick_late_p99_s", "s", _G, 6, "99th percentile of how late the fast ticks of the last second came."),
        ("driver_s", "s", _C, 6, "Time spent inside driver calls."),
        ("ticks", "", _C, 0, "Fast ticks done."),
        ("overruns", "", _C, 0, "Ticks skipped because the one before had not ended."),
        ("updates_kept", "", _C, 0, "Distinct sensor updates kept."),
        ("updates_filled", "", _C, 0, "Those of them that no poll saw and the driver's own sample rings had."),
        ("updates_missed", "", _C, 0, "Updates of the GPUs' power sensors that no poll saw, by their measured period."),
        (
            "sample_overruns",
            "",
            _C,
            0,
            "Times that a buffer of the driver's samples ran over: updates may be lost.",
        ),
        ("reads_refused", "", _C, 0, "Reads that gave no number, or one that nothing alive shows."),
        ("poll_period_s", "s", _G, 6, "Time between two reads of the GPUs' fast group that is aimed at now."),
        ("sensor_period_s", "s", _G, 6, "Shortest measured update period of the GPUs' power sensors."),
        ("sensor_jitter_s", "s", _G, 6, "95th percentile of how far updates were seen from their predicted time."),
        ("locked_ratio", "ratio", _G, 3, "Share of the GPUs' power sensors that are read in step with their updates."),
        ("poll_stretch_ratio", "ratio", _G, 3, "Poll period over what the sensors ask for; above 1 while over budget."),
        ("driver_ratio", "ratio", _G, 4, "Share of time that the fast group spends inside reads."),
        ("collector_errors", "", _C, 0, "Reads that raised, over all collectors."),
        ("collector_hangs", "", _C, 0, "Reads that missed their deadline, over all collectors."),
        ("oldest_signal_age_s", "s", _G, 3, "Age of the oldest collector's last good read."),
        ("ring_rows_lost", "", _C, 0, "Ring rows overwritten before the service read them."),
        ("kernel_lines_unparsed", "", _C, 0, "Driver lines of the kernel log kept as text because no pattern fits."),
        ("readings_kept", "", _C, 0, "Lines of other programs that became values."),
        ("readings_refused", "", _C, 0, "Lines of other programs that were refused."),
        ("recorder_rows_lost", "", _C, 0, "Ring rows overwritten before the flight recorder read them."),
        ("recordings_lost", "", _C, 0, "Recordings that could not be written and were given up."),
        ("spool_bytes", "B", _G, 0, "Bytes that wait on disk for the store."),
        ("spool_dropped_points", "", _C, 0, "Points given up because the spool was full."),
        ("uplink_errors", "", _C, 0, "Writes that the store refused or that did not reach it."),
        ("pages", "", _C, 0, "Incidents so far that were at least a warning and not silenced."),
        ("pages_per_node_month", "", _G, 3, "Rate of them over the time that was watched."),
        ("pages_per_node_month_high", "", _G, 3, "Upper end of its 95 % bounds."),
    ),
)

# What the fleet loop tells of itself.
_FLEET = declare(
    EntityKind.AGENT,
    Source.FLEET,
    RateClass.SLOW,
    (
        ("fleet_nodes", "", _G, 0, "Nodes that the fleet loop knows."),
        ("fleet_silent_nodes", "", _G, 0, "Those of them that had no value in the last window."),
        ("fleet_windows", "", _C, 0, "Windows judged."),
        ("fleet_window_age_s", "s", _G, 3, "Age of the newest window when it had been judged."),
        ("fleet_window_s", "s", _G, 3, "Time to read, judge and tell the last window."),
        ("fleet_overruns", "", _C, 0, "Looks that went past their deadline or into the next one."),
        ("fleet_misfires", "", _C, 0, "Looks that began too late to be worth it."),
        ("fleet_failures", "", _C, 0, "Looks that failed: the store did not answer, or a defect."),
        ("fleet_gaps", "", _C, 0, "Absences longer than the loop catches up with."),
        ("fleet_folded", "", _C, 0, "Findings that a node had told of itself."),
        ("fleet_late_values", "", _C, 0, "Values that came after their window was judged; also of each node."),
    ),
)

AGENT_SIGNALS = (*_AGENT, *_FLEET)
