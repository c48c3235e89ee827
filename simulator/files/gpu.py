"""A GPU part as data: its data sheet, its driver, its physics, and the precisions that it calculates in."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, model_validator

from simulator.driver.layout import MAX_CLOCKS
from simulator.files.part import FilePart, NotNegative, Positive, Share, written_as
from telemetry.errors import ConfigError, Problem

Architecture = Literal["volta", "ampere", "hopper", "blackwell"]


class JobPrecision(StrEnum):
    """Precision of a job; `fp64_tensor` is dense algebra, `fp64` work outside the tensor units."""

    FP64 = "fp64"
    FP64_TENSOR = "fp64_tensor"
    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"


# NVIDIA Volta, Ampere and Hopper architecture white papers: the tensor units of a V100 take half precision alone, those
# of an A100 bfloat16, TF32, double precision and integers too, and those of an H100 also eight-bit floating point.
_LACKING: dict[Architecture, frozenset[JobPrecision]] = {
    "volta": frozenset(
        {JobPrecision.FP64_TENSOR, JobPrecision.TF32, JobPrecision.BF16, JobPrecision.FP8, JobPrecision.INT8}
    ),
    "ampere": frozenset({JobPrecision.FP8}),
    "hopper": frozenset(),
    "blackwell": frozenset(),
}


def precision_on(wanted: JobPrecision | None, architecture: Architecture) -> JobPrecision:
    """Return the precision of a job: its own, else bfloat16, or half precision on a part without bfloat16."""
    if wanted is not None:
        return wanted
    return JobPrecision.FP16 if JobPrecision.BF16 in _LACKING[architecture] else JobPrecision.BF16


def check_precision(wanted: JobPrecision | None, architecture: Architecture, *, job: str) -> None:
    """Refuse a precision that the part does not calculate in.

    Raises
    ------
    ConfigError
        It does not; the message lists the precisions that it has.
    """
    lacking = _LACKING[architecture]
    if wanted in lacking:
        has = ", ".join(precision for precision in JobPrecision if precision not in lacking)
        expected = f"what {architecture.capitalize()} parts calculate in: {has}"
        where = f"workload {job}"
        raise ConfigError(
            [Problem(where=where, line=None, key="precision", found=f"got '{wanted}'", expected=expected)]
        )


class PowerLimits(FilePart):
    """Range of the power limit."""

    min: Positive
    default: Positive
    max: Positive

    @model_validator(mode="after")
    def _check(self) -> "PowerLimits":
        if not self.min <= self.default <= self.max:
            raise ValueError("min no higher than default, default no higher than max")
        return self


class Temperatures(FilePart):
    """Slowdown and shutdown temperatures."""

    shutdown: int
    slowdown: int
    memory_max: int
    gpu_max: int


class Clocks(FilePart):
    """The clocks that can be set; `default_mhz` is the applications clock of a driver that was just loaded."""

    min_mhz: Positive
    max_mhz: Positive
    step_mhz: Positive
    default_mhz: int
    memory_mhz: int
    video_max_mhz: int

    @property
    def supported_mhz(self) -> tuple[int, ...]:
        """Return the graphics clocks, ascending, cut to whole megahertz as the driver lists them."""
        count = round((self.max_mhz - self.min_mhz) / self.step_mhz) + 1
        return tuple(int(self.max_mhz - self.step_mhz * index) for index in reversed(range(count)))

    @property
    def settable_mhz(self) -> tuple[float, ...]:
        """Return the clocks that a cap can set, ascending; the default is left out, since it reads as unset."""
        return tuple(float(clock) for clock in self.supported_mhz if clock != self.default_mhz)

    @model_validator(mode="after")
    def _check(self) -> "Clocks":
        if not 2 <= len(self.supported_mhz) <= MAX_CLOCKS:
            raise ValueError(f"2 to {MAX_CLOCKS} clocks between min_mhz and max_mhz")
        if self.default_mhz not in self.supported_mhz:
            raise ValueError("default_mhz among the clocks from max_mhz down in steps of step_mhz")
        return self


class PartPowerCurve(FilePart):
    """Power curve over clock, load and temperature; see `simulator.plant.power`."""

    idle_w: Positive
    base_w: Positive
    dynamic_w: Positive
    leakage_per_k: NotNegative
    voltage_floor: Share
    voltage_knee: Annotated[float, Field(gt=0, lt=1)]
    rise_ms: Positive
    noise: NotNegative


class HeatPath(FilePart):
    """Two heat capacities in a row; see `simulator.plant.heat`.

    `heatsink_k_per_w` holds at half fan speed and follows ``(0.5 / fan_ratio) ** heatsink_exponent``.
    """

    junction_k_per_w: Positive
    interface_k_per_w: Positive
    heatsink_k_per_w: Positive
    heatsink_exponent: NotNegative
    die_j_per_k: Positive
    heatsink_j_per_k: Positive


class BoardPowerSensor(FilePart):
    """Power sensor of the board: a mean over `window_ms`, renewed every `period_ms`."""

    period_ms: Annotated[int, Field(ge=10, multiple_of=10)]
    window_ms: Annotated[int, Field(ge=1)]
    gain_error: NotNegative
    quantum_w: Positive
    average_window_ms: Annotated[int, Field(ge=1)] | None = None  # where GetPowerUsage shows a longer mean

    @model_validator(mode="after")
    def _check(self) -> "BoardPowerSensor":
        if self.window_ms > self.period_ms:
            raise ValueError("window_ms no longer than period_ms")
        return self


class BusHazard(FilePart):
    """Hazard of a bus drop: ``rate_per_s * exp((threshold_v + offset - V) / scale_v)`` at the module's pins.

    `V` is the rail less the current through `internal_mohm`; `offset_sd_v` is what parts differ by.
    """

    rate_per_s: NotNegative
    threshold_v: Positive
    scale_v: Positive
    internal_mohm: NotNegative
    offset_sd_v: NotNegative
    brake_below_v: NotNegative  # 0: the platform has no power brake
    brake_after_ms: Positive


class GpuPart(FilePart):
    """GPU part."""

    # 96 bytes with the end: NVML_DEVICE_NAME_V2_BUFFER_SIZE, nvml.h
    name: Annotated[str, written_as("[ -~]{1,95}", "1 to 95 characters of ASCII")]
    brand: int
    architecture: Architecture
    compute_capability: tuple[int, int]
    core_count: int
    memory_bus_bits: int
    memory_total_bytes: int
    memory_reserved_bytes: int
    bar1_total_bytes: int
    nvlink_count: Annotated[int, Field(ge=0, le=18)]
    nvlink_version: int
    nvlink_mib_s: NotNegative  # per link and direction
    pci_device_id: int
    pci_subsystem_id: int
    pcie_generation: int
    pcie_width: int
    power_limit_w: PowerLimits
    temperature_c: Temperatures
    tlimit_c: Temperatures | None = None  # the same as margins, signed, on parts whose driver gives T.Limit
    clocks: Clocks
    power: PartPowerCurve
    heat: HeatPath
    sensor: BoardPowerSensor
    hazard: BusHazard
