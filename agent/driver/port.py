"""Ports of a GPU driver as the agent uses it.

`agent.driver.nvml` fills these ports with NVIDIA's library; the simulator fills them from its plant where no
library can be built. All methods raise the errors of `telemetry.errors` and nothing of the vendor's.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from telemetry.frames import FloatArray
from telemetry.gpu import DriverEvent, GpuIdentity, KnobKind


class GpuReader(Protocol):
    """Reads every GPU at once into arrays that the caller owns, so a tick allocates nothing.

    Columns are the NVML signals of the catalogue for the rate class, in catalogue order:
    ``signals_of(EntityKind.GPU, source=Source.NVML, rate=...)``. NaN stands for absent. A GPU that is lost is a
    row of NaN and does not disturb its siblings. TransientError where nothing could be read at all.
    """

    def gpus(self) -> tuple[GpuIdentity, ...]:
        """Return the GPUs in driver order; the rows of the arrays follow it."""
        ...

    def read_fast(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_fast_signals)``."""
        ...

    def read_slow(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_slow_signals)``."""
        ...

    def read_rare(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_rare_signals)``; may take a fraction of a second, so not from a process that samples."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkIdentity:
    """NVLink of a GPU; `peer` is the PCI address at its other end, None where it leads nowhere."""

    gpu_uuid: str
    gpu_index: int
    link: int
    peer: str | None


class LinkReader(Protocol):
    """Reads every NVLink at once; columns are the NVLink signals of the catalogue, in its order."""

    @property
    def links(self) -> tuple[LinkIdentity, ...]:
        """The links: the rows of the array, GPU by GPU."""
        ...

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_links, n_signals)``; the links of a lost GPU are rows of NaN."""
        ...


class PipeReader(Protocol):
    """Reads the activity of the arithmetic pipes since the last read; columns are the GPM signals of the catalogue."""

    @property
    def gpus(self) -> tuple[GpuIdentity, ...]:
        """The GPUs with such metrics: the rows of the array."""
        ...

    @property
    def is_refused(self) -> bool:
        """True if a GPU has such metrics but refuses them to this user."""
        ...

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_signals)``, NaN at the first read; calls less than 100 ms apart return the same values."""
        ...

    def close(self) -> None:
        """Free the driver's memory; closing twice is harmless."""
        ...


class ProcessUse(StrEnum):
    """Use of a GPU by a process."""

    COMPUTE = "compute"
    GRAPHICS = "graphics"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process on a GPU; `used_bytes` is None where the driver does not report it, as inside containers."""

    gpu_uuid: str
    pid: int
    use: ProcessUse
    used_bytes: float | None


class ProcessReader(Protocol):
    """Lists the processes on the GPUs; takes milliseconds per GPU."""

    def processes(self, uuid: str) -> tuple[GpuProcess, ...]:
        """Return the processes of one GPU.

        NotSupportedError or NotPermittedError where the driver does not list them: do not call again. DeviceLostError
        or TransientError where it cannot now.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRun:
    """New samples of one signal of the GPU in a row: ``(time_ns, integer)`` ascending, times the factor the signal."""

    row: int
    signal: str
    factor: float
    samples: tuple[tuple[int, int], ...]


class SampleRings(Protocol):
    """The driver's own buffers of recent samples, stamped by the driver."""

    @property
    def signals(self) -> tuple[str, ...]:
        """The signals that are kept; without any there is nothing to read."""
        ...

    @property
    def depths(self) -> dict[str, int]:
        """Number of samples that are kept of each."""
        ...

    @property
    def periods_s(self) -> dict[str, float]:
        """Seconds between them at the start; a signal without any is left out."""
        ...

    @property
    def overruns(self) -> int:
        """Times that a buffer was full of new samples, so that older ones may be lost."""
        ...

    def gpus(self) -> tuple[GpuIdentity, ...]:
        """Return the GPUs in driver order."""
        ...

    def read(self) -> tuple[SampleRun, ...]:
        """Return the samples since the last call; empty where there are none."""
        ...


class GpuEvents(Protocol):
    """Waits for events that the driver reports by itself."""

    def wait(self, timeout_s: float) -> tuple[DriverEvent, ...]:
        """Return the events within the time-out; empty where there are none.

        DeviceLostError where a GPU is lost and the driver answers every wait at once: back off.
        """
        ...


class Knob(Protocol):
    """Setting of a GPU that an actuator changes: its clock, its power limit, its fans.

    `kind` has the unit and which of two settings is stricter. `name` is the driver's name of the setting, for the
    journal; `readable` whether a getter shows what was set, so that a write can be confirmed.
    """

    kind: KnobKind
    name: str
    readable: bool

    def supported(self, uuid: str) -> tuple[float, ...]:
        """Return the settings that can be set, ascending; none is beyond the vendor's default."""
        ...

    def read(self, uuid: str) -> float | None:
        """Return the setting in force, None where it is unset or the driver has no getter.

        ActionRefusedError where what is in force is no one number, such as fans set to different speeds by hand.
        """
        ...

    def write(self, uuid: str, setting: float | None) -> None:
        """Set it, None to unset; also to what was once read, whether it is supported or not. The caller reads it back.

        Raises
        ------
        NotPermittedError
            This process may not change it.
        NotSupportedError
            The part has no such setting.
        DeviceLostError
            The GPU no longer answers.
        """
        ...
