"""The flight recorder: what is kept before and after something happens, and within which bounds."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from agent.recorder.settings import RecorderSettings
from config.section import Section, at_least
from config.sources import SourceUse
from telemetry.durations import DurationS, SizeBytes


class Recorder(Section):
    """The flight recorder: what is kept before and after something happens, and within which bounds."""

    use: SourceUse = Field(default=SourceUse.AUTO, description="Whether the flight recorder runs.")
    before: Annotated[DurationS, at_least(1, "1s")] = Field(
        default=60.0, description="How much full-rate history a recording has from before what asked for it."
    )
    after: Annotated[DurationS, at_least(1, "1s")] = Field(
        default=30.0, description="How long a recording goes on; whatever happens meanwhile extends it."
    )
    longest: Annotated[DurationS, at_least(10, "10s")] = Field(
        default=600.0, description="A recording that is extended again and again ends after this; the next one begins."
    )
    flush: Annotated[DurationS, at_least(0.1, "100ms")] = Field(
        default=2.0, description="How often the black box is written to disk: what a power cut can cost at most."
    )
    memory_max: Annotated[SizeBytes, at_least(1 << 20, "1MiB")] = Field(
        default=64 << 20, description="Size bound of the packed history that the recorder holds in memory."
    )
    box_max: Annotated[SizeBytes, at_least(1 << 20, "1MiB")] = Field(
        default=64 << 20, description="Size bound of the black box on disk."
    )
    max_size: Annotated[SizeBytes, at_least(1 << 20, "1MiB")] = Field(
        default=2 << 30, description="Size bound of all recordings together; the oldest go first."
    )

    @model_validator(mode="after")
    def _longest_holds_the_window(self) -> Self:
        if self.longest < self.before + self.after:
            raise ValueError("recorder.longest of at least recorder.before + recorder.after")
        return self

    def settings(self) -> RecorderSettings:
        """Return it in the recorder's own words."""
        return RecorderSettings(
            before_s=self.before,
            after_s=self.after,
            longest_s=self.longest,
            flush_s=self.flush,
            memory_bytes=self.memory_max,
            box_bytes=self.box_max,
            max_bytes=self.max_size,
        )
