"""A node as data: what hangs on which supply, and every number of its physics."""

import uuid
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from simulator.driver.layout import MAX_CLOCKS, MAX_GPUS
from telemetry.documents import load_document
from telemetry.errors import ConfigError, Problem

NODES = Path(__file__).parent / "nodes"
_UUID_SPACE = uuid.UUID("8d1f5ad4-6a3b-4c57-9f0e-5b6d1c0f7a21")  # any fixed value: same node, same UUIDs

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
PciAddress = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0$")]
SupplyName = Annotated[str, StringConstraints(pattern=r"^[a-z]+[0-9]+$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DriverVersions(_Part):
    """What the driver says of itself."""

    version: Annotated[str, StringConstraints(pattern=r"^\d+\.\d+(\.\d+)?$")]
    nvml_version: str
    cuda_version: int


class PowerLimits(_Part):
    """What the power limit may be set to."""

    min: Positive
    default: Positive
    max: Positive


class Temperatures(_Part):
    """Where the part slows down and where it switches off."""

    shutdown: int
    slowdown: int
    memory_max: int
    gpu_max: int


class TemperatureMargins(_Part):
    """The same as distances (T.Limit), on parts newer than Volta."""

    shutdown: int
    slowdown: int
    memory_max: int
    gpu_max: int


class Clocks(_Part):
    """The clocks that can be set."""

    min_mhz: Positive
    max_mhz: Positive
    step_mhz: Positive
    default_mhz: int
    memory_mhz: int
    video_max_mhz: int

    @property
    def supported_mhz(self) -> tuple[int, ...]:
        """Give the graphics clocks, ascending, cut to whole megahertz as the driver lists them."""
        count = round((self.max_mhz - self.min_mhz) / self.step_mhz) + 1
        return tuple(int(self.max_mhz - self.step_mhz * index) for index in reversed(range(count)))

    @model_validator(mode="after")
    def _check(self) -> "Clocks":
        if not 2 <= len(self.supported_mhz) <= MAX_CLOCKS:
            raise ValueError(f"2 to {MAX_CLOCKS} clocks between min_mhz and max_mhz")
        if self.default_mhz not in self.supported_mhz:
            raise ValueError("default_mhz among the clocks from max_mhz down in steps of step_mhz")
        return self


class PowerCurve(_Part):
    """How power follows clock, load and temperature; see `simulator.plant.power`."""

    idle_w: Positive
    base_w: Positive
    dynamic_w: Positive
    leakage_per_k: NotNegative
    voltage_floor: Share
    voltage_knee: Annotated[float, Field(gt=0, lt=1)]
    rise_ms: Positive
    noise: NotNegative


class HeatPath(_Part):
    """Two heat capacities in a row; see `simulator.plant.heat`."""

    junction_k_per_w: Positive
    interface_k_per_w: Positive
    heatsink_k_per_w: Positive
    die_j_per_k: Positive
    heatsink_j_per_k: Positive


class PowerSensor(_Part):
    """How the board measures its power."""

    period_ms: Annotated[int, Field(ge=10, multiple_of=10)]
    window_ms: Annotated[int, Field(ge=1)]
    gain_error: NotNegative
    quantum_w: Positive

    @model_validator(mode="after")
    def _check(self) -> "PowerSensor":
        if self.window_ms > self.period_ms:
            raise ValueError("window_ms no longer than period_ms")
        return self


class Slot(_Part):
    """One place on the board."""

    pci: PciAddress
    preheat_k: float


class GpuModel(_Part):
    """The part and the slots it sits in."""

    name: str
    brand: int
    architecture: int
    compute_capability: tuple[int, int]
    core_count: int
    memory_bus_bits: int
    memory_total_bytes: int
    memory_reserved_bytes: int
    memory_in_training_bytes: int
    bar1_total_bytes: int
    nvlink_count: int
    pci_device_id: int
    pci_subsystem_id: int
    pcie_generation: int
    pcie_width: int
    power_limit_w: PowerLimits
    temperature_c: Temperatures
    margin_c: TemperatureMargins | None = None
    clocks: Clocks
    power: PowerCurve
    heat: HeatPath
    sensor: PowerSensor
    slots: Annotated[tuple[Slot, ...], Field(min_length=1, max_length=MAX_GPUS)]

    @model_validator(mode="after")
    def _check(self) -> "GpuModel":
        if len({slot.pci for slot in self.slots}) != len(self.slots):
            raise ValueError("a PCI address of its own for each slot")
        return self


class SupplyUnit(_Part):
    """One supply and its way to the bus."""

    name: SupplyName
    rated_w: Positive
    open_circuit_v: Positive
    joint_mohm: Positive


class Supply(_Part):
    """Supplies that feed one bus side by side; see `simulator.plant.supply`."""

    units: Annotated[tuple[SupplyUnit, ...], Field(min_length=1)]
    bus_mohm: NotNegative
    transient_mohm: NotNegative
    transient_ms: Positive
    sensor_noise_v: NotNegative
    sensor_noise_a: NotNegative
    sensor_window_ms: Annotated[int, Field(ge=1, le=10)]

    @model_validator(mode="after")
    def _check(self) -> "Supply":
        if len({unit.name for unit in self.units}) != len(self.units):
            raise ValueError("a name of its own for each supply")
        return self


class Training(_Part):
    """A synchronous training job; see `simulator.plant.load`."""

    step_ms: Positive
    exchange_share: Share
    jitter: NotNegative
    skew_ms: NotNegative
    exchange_level: Share
    stall_level: Share
    clock_bound_share: Share


class NodeFile(_Part):
    """One node."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+$")]
    description: str
    driver: DriverVersions
    gpu: GpuModel
    supply: Supply
    other_power_w: NotNegative
    inlet_c: float
    load: Training

    @property
    def gpu_count(self) -> int:
        """Give the number of GPUs."""
        return len(self.gpu.slots)

    def gpu_uuid(self, index: int) -> str:
        """Give the UUID of a GPU, the same in every run."""
        return f"GPU-{uuid.uuid5(_UUID_SPACE, f'{self.name}/{index}')}"

    def gpu_serial(self, index: int) -> str:
        """Give the serial number of a GPU, the same in every run."""
        return f"{uuid.uuid5(_UUID_SPACE, f'{self.name}/serial/{index}').int % 10**13:013d}"


def node_names() -> tuple[str, ...]:
    """Give the names of the nodes that come with railwatch."""
    return tuple(sorted(path.stem for path in NODES.glob("*.yaml")))


def load_node(name_or_path: str) -> NodeFile:
    """Read a node by the name of one that comes with railwatch, or by the path of a YAML file.

    Raises
    ------
    ConfigError
        There is none of that name, or the file does not describe a node.
    """
    path = Path(name_or_path) if name_or_path.endswith((".yaml", ".yml")) else NODES / f"{name_or_path}.yaml"
    if not path.exists():
        expected = f"{', '.join(node_names())}, or the path of a YAML file"
        raise ConfigError(
            [Problem(where="--simulate", line=None, key="node", found=f"got {name_or_path!r}", expected=expected)]
        )
    return load_document(NodeFile, path)
