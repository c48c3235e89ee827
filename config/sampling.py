"""Section `sampling`: rates of reads, full-rate history in memory, and the budget of the sampler."""

from typing import Annotated

from pydantic import Field

from config.section import Section, at_least
from config.sources import AutoHz
from telemetry.durations import DurationS, SizeBytes


class Sampling(Section):
    """Sampling rates, memory for history, and the budget of the sampler."""

    fast_hz: AutoHz = Field(
        default=None,
        ge=1,
        le=1000,
        description=(
            "Reads per second of the fast group; `auto` measures how often the GPUs' sensors update and reads in step "
            "with them, at most 100 times a second, less often while all GPUs are idle."
        ),
    )
    cpu_budget: float = Field(
        default=0.1,
        gt=0,
        le=1,
        description=(
            "Share of a core for the thread that reads the GPUs; above it `auto` reads less often. The signal "
            "`cpu_ratio` of the agent reports the whole process."
        ),
    )
    driver_budget: float = Field(
        default=0.1,
        gt=0,
        le=1,
        description="Share of time in calls of the GPU driver; above it `auto` reads less often.",
    )
    slow_hz: float = Field(default=1.0, ge=0.01, le=10, description="Reads per second of the slow group.")
    rare: Annotated[DurationS, at_least(1, "1s")] = Field(
        default=10.0, description="Interval of slow sources: board controllers, meters."
    )
    ring: Annotated[DurationS, at_least(10, "10s")] = Field(
        default=600.0, description="Full-rate history kept in memory."
    )
    ring_max: Annotated[SizeBytes, at_least(1 << 20, "1MiB")] = Field(
        default=256 << 20,
        description="Memory limit of that history for each sampling process; if it is reached, less time is kept.",
    )
    deadline: Annotated[DurationS, at_least(0.1, "100ms")] = Field(
        default=2.0,
        description="Time limit of a read; a source that takes longer is suspended and retried later.",
    )
