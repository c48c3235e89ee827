"""Rows of a supply before and after a restart, and what judges find in them."""

from collections.abc import Sequence
from dataclasses import replace

from agent.guard.judges import Judges
from telemetry.clock import NS_PER_S
from telemetry.entities import Topology
from telemetry.frames import Frame
from telemetry.records import Finding
from tests.analytics.scenes import node_of

BOX = node_of(0, 2)


def judged(judges: Judges, frames: Sequence[Frame], topology: Topology = BOX) -> list[Finding]:
    return [one for frame in frames for one in judges.step([frame], (), int(frame.time_ns[-1]), topology)]


def halves(frame: Frame, row: int) -> tuple[list[Frame], list[Frame]]:
    rows = [frame.rows(first, min(first + 10, len(frame))) for first in range(0, len(frame), 10)]
    return rows[: row // 10], rows[row // 10 :]


def shifted(rows: Sequence[Frame], seconds: float) -> list[Frame]:
    return [replace(frame, time_ns=frame.time_ns + round(seconds * NS_PER_S)) for frame in rows]
