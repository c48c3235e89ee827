"""Judgement of the independent plant's recordings: written to a file, read back and replayed as any recording is."""

from dataclasses import dataclass
from pathlib import Path

from config.guard_pipeline import pipeline_settings
from config.models import Config
from evaluation.replay import recommending, replayed
from telemetry.clock import NS_PER_S
from telemetry.recording import RecordingMeta, read_recording, write_recording
from telemetry.records import Finding, FindingStatus, Incident, Severity
from tests.analytics.independent_plant_meters import START_NS, NodeRecording

SETTINGS = recommending(pipeline_settings(Config(), simulated=True))
WINDOW_NS = 5 * NS_PER_S


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Findings above info as they are raised, and the newest record of each incident above info."""

    findings: tuple[Finding, ...]
    incidents: tuple[Incident, ...]

    def from_s(self, seconds: float, *, start_ns: int = START_NS) -> "Judgement":
        """Return what began this long after the start of the recording, or later."""
        first_ns = start_ns + round(seconds * NS_PER_S)
        return Judgement(
            findings=tuple(one for one in self.findings if one.time_ns >= first_ns),
            incidents=tuple(one for one in self.incidents if one.opened_ns >= first_ns),
        )

    @property
    def summaries(self) -> list[str]:
        """Detector and summary of each finding, for a message of a test."""
        return [f"{one.detector}: {one.summary}" for one in self.findings]

    @property
    def causes(self) -> dict[str, frozenset[str]]:
        """Likeliest cause of each incident, and the names of the supplies and GPUs that it is about."""
        return {
            (one.hypotheses[0].cause if one.hypotheses else one.cause).value: frozenset(
                entity_id.partition(":")[2] for entity_id in one.affected
            )
            for one in self.incidents
        }


def judged(read: NodeRecording, folder: Path) -> Judgement:
    """Return what a replay of a recording finds."""
    path = folder / "run.parquet"
    write_recording(path, read.frames, topology=read.topology, meta=RecordingMeta(node="other", simulated=True))
    records = list(replayed(read_recording(path), SETTINGS, window_ns=WINDOW_NS))
    loud = [one for one in records if isinstance(one, Finding | Incident) and one.severity is not Severity.INFO]
    newest = {one.id: one for one in loud if isinstance(one, Incident)}
    return Judgement(
        findings=tuple(one for one in loud if isinstance(one, Finding) and one.status is FindingStatus.RAISED),
        incidents=tuple(one for one in newest.values() if "merged into" not in one.summary),
    )
