"""What the agent needs of a GPU driver, in the agent's words.

`agent.driver.nvml` fills these ports with NVIDIA's library; the simulator fills them from its plant where no
library can be built. All methods raise the errors of `telemetry.errors` and nothing of the vendor's.
"""

from typing import Protocol

from telemetry.frames import FloatArray
from telemetry.gpu import DriverEvent, GpuIdentity

__all__ = ["ClockKnob", "DriverEvent", "GpuEvents", "GpuIdentity", "GpuReader"]


class GpuReader(Protocol):
    """Reads every GPU at once into arrays that the caller owns, so a tick allocates nothing.

    Columns are the NVML signals of the catalogue for the rate class, in catalogue order:
    ``signals_of(EntityKind.GPU, source=Source.NVML, rate=...)``. NaN stands for absent. A GPU that is lost gives a
    row of NaN and does not disturb its siblings. TransientError where nothing could be read at all.
    """

    def gpus(self) -> tuple[GpuIdentity, ...]:
        """Give the GPUs in driver order; the rows of the arrays follow it."""
        ...

    def read_fast(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_fast_signals)``."""
        ...

    def read_slow(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_slow_signals)``."""
        ...


class GpuEvents(Protocol):
    """Waits for what the driver reports by itself."""

    def wait(self, timeout_s: float) -> tuple[DriverEvent, ...]:
        """Give what came within the time-out, at least nothing.

        Raises
        ------
        DeviceLostError
            A GPU is lost and the driver answers every wait at once: back off.
        """
        ...


class ClockKnob(Protocol):
    """The one setting that the clock cap moves: the highest SM clock of a GPU.

    `name` says which setting of the driver it is, for the journal; `readable` whether a getter shows what was set, so
    that a write can be confirmed.
    """

    name: str
    readable: bool

    def supported_mhz(self, uuid: str) -> tuple[float, ...]:
        """Give the clocks that can be set, ascending."""
        ...

    def read_mhz(self, uuid: str) -> float | None:
        """Give the setting in force, None where it is unset or the driver cannot tell."""
        ...

    def write_mhz(self, uuid: str, clock_mhz: float | None) -> None:
        """Set it, None to unset; the caller reads it back.

        Raises
        ------
        NotPermittedError
            This process may not change clocks.
        NotSupportedError
            The part has no such setting.
        DeviceLostError
            The GPU no longer answers.
        """
        ...
