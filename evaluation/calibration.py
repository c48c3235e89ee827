"""Healthy recordings through the detectors: what each statistic rose to, and what was found although all was well."""

from collections.abc import Iterator
from dataclasses import dataclass

from analytics.calibration.healthy import HealthyMaxima
from analytics.detectors.limits import DetectorLimits
from analytics.detectors.panel import Panel
from evaluation.replay import recorded_topology
from telemetry.command_events import event_of_command
from telemetry.commands import Command
from telemetry.frames import Frame
from telemetry.recording import Recording
from telemetry.records import Event, Finding, FindingStatus

# The statistics move once in some seconds; rows of so long are judged at once. Heuristic.
STEP_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationStep:
    """Result of a recording up to a moment: the values of its blocks, and the findings raised."""

    time_ns: int
    healthy: HealthyMaxima
    raised: tuple[Finding, ...]


def calibration_steps(read: Recording, limits: DetectorLimits, healthy: HealthyMaxima) -> Iterator[CalibrationStep]:
    """Yield what a recording adds to what was seen in others, step by step; detectors begin anew with it."""
    panel, topology = Panel.build(limits), recorded_topology(read)
    state = panel.start([spec for spec in read.tables if not spec.is_late])
    events = [
        event_of_command(record) if isinstance(record, Command) else record
        for record in read.records
        if isinstance(record, Event | Command)
    ]
    waiting: list[Frame] = []
    for frame in (*read.frames(window_ns=STEP_NS), None):
        if waiting and (frame is None or int(frame.time_ns[0]) // STEP_NS != int(waiting[0].time_ns[0]) // STEP_NS):
            now_ns = max(int(one.time_ns[-1]) for one in waiting)
            reported = [event for event in events if event.time_ns <= now_ns]
            events = events[len(reported) :]
            state = panel.take_events(state, reported)
            state, findings = panel.step(state, waiting, topology)
            state, of_events = panel.step_events(state, reported, now_ns, topology)
            healthy = healthy.after(panel, state, limits, now_ns)
            raised = tuple(one for one in (*findings, *of_events) if one.status is FindingStatus.RAISED)
            yield CalibrationStep(time_ns=now_ns, healthy=healthy, raised=raised)
            waiting = []
        if frame is not None and not frame.spec.is_late:
            waiting.append(frame)
    yield CalibrationStep(time_ns=0, healthy=healthy.ended(), raised=())
