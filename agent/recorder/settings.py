"""Settings of the flight recorder."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderSettings:
    """Window, bounds and pace of the recorder.

    `longest_s` ends a recording that triggers keep extending. `memory_bytes` bounds the packed rows in memory,
    `box_bytes` the black box on disk, `max_bytes` all recordings together.
    """

    before_s: float = 60.0
    after_s: float = 30.0
    longest_s: float = 600.0
    flush_s: float = 2.0
    memory_bytes: int = 64 << 20
    box_bytes: int = 64 << 20
    max_bytes: int = 2 << 30
