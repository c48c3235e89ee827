"""Flight recorder: full-rate history around findings and incidents, and its size limits."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from agent.recorder.settings import RecorderSettings
from config.section import Section, at_least
from config.sources import SourceUse
from telemetry.documents import KeyProblemError
from telemetry.durations import DurationS, SizeBytes


class Recorder(Section):
    """Flight recorder: full-rate history around findings and incidents, and its size limits."""

    use: SourceUse = Field(default=SourceUse.AUTO, description="`auto`: the flight recorder runs; `off`: it does not.")
    before: Annotated[DurationS, at_least(1, "1s")] = Field(
        default=60.0, description="Full-rate history in a recording before its trigger."
    )
    after: Annotated[DurationS, at_least(1, "1s")] = Field(
        default=30.0, description="Length of a recording after its trigger; each further trigger extends it."
    )
    longest: Annotated[DurationS, at_least(10, "10s")] = Field(
        default=600.0, description="Longest recording; further triggers begin the next one."
    )
    flush: Annotated[DurationS, at_least(0.1, "100ms")] = Field(
        default=2.0,
        description="Interval at which the black box is written to disk: the most that a power cut can lose.",
    )
    memory_max: Annotated[SizeBytes, at_least(1 << 20, "1MiB")] = Field(
        default=64 << 20, description="Memory limit of the packed history."
    )
    box_max: Annotated[SizeBytes, at_least(1 << 20, "1MiB")] = Field(
        default=64 << 20, description="Size limit of the black box on disk."
    )
    max_size: Annotated[SizeBytes, at_least(1 << 20, "1MiB")] = Field(
        default=2 << 30, description="Size limit of all recordings together; the oldest are deleted first."
    )

    @model_validator(mode="after")
    def _longest_holds_the_window(self) -> Self:
        if self.longest < self.before + self.after:
            least_s = self.before + self.after
            raise KeyProblemError("longest", f"got {self.longest:g} s", f"before + after or more: {least_s:g} s")
        return self

    def settings(self) -> RecorderSettings:
        """Return the settings of the recorder."""
        return RecorderSettings(
            before_s=self.before,
            after_s=self.after,
            longest_s=self.longest,
            flush_s=self.flush,
            memory_bytes=self.memory_max,
            box_bytes=self.box_max,
            max_bytes=self.max_size,
        )
