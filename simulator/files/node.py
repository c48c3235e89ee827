"""A node as data: which GPUs sit in it, what feeds them, what cools them and what measures them."""

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from physics.rail_classes import shown_nominals
from simulator.driver.layout import MAX_GPUS
from simulator.files.gpu import GpuPart
from simulator.files.loading import References, find, load_with_parts
from simulator.files.part import FilePart, Finite, Name, NotNegative, Positive, Share, written_as
from simulator.files.sensor import load_sensor
from simulator.files.wiring import Wiring, wiring_of, wiring_problems
from simulator.files.workload import load_workload
from telemetry.catalogue.pins import PIN_COUNT
from telemetry.durations import DurationS

NODES = Path(__file__).parents[1] / "nodes"
GPUS = Path(__file__).parents[1] / "gpus"
_REFERENCES: References = {
    ("workload",): load_workload,
    **{("sensors", place): load_sensor for place in ("rail", "bmc", "inlet", "pins")},
}
_UUID_SPACE = uuid.UUID("8d1f5ad4-6a3b-4c57-9f0e-5b6d1c0f7a21")  # any fixed value: same node, same UUIDs

PciAddress = Annotated[str, written_as(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0", "a PCI address such as 0000:1a:00.0")]
SupplyName = Annotated[str, written_as("[a-z]+[0-9]+", "small letters and a number, such as psu0")]
BusName = Annotated[str, written_as("[a-z]+[0-9]+", "small letters and a number, such as bus0")]


class DriverVersions(FilePart):
    """Driver version; the branch decides where its counters are."""

    version: Annotated[str, written_as(r"\d+\.\d+(\.\d+)?", "a driver version such as 580.95.05")]
    # 80 bytes with the end: NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE, nvml.h
    nvml_version: Annotated[str, written_as(r"[\d.]{1,79}", "a version such as 13.580.95.05")]
    cuda_version: int


class Slot(FilePart):
    """Place on the board: its address, the air that arrives there, its heat sink, and the bus that feeds it.

    The air is `preheat_k` warmer than the inlet's, and warmer by what the GPU in the slot number `front` gives off.
    `sink_ratio` is the resistance of the heat sink over that of the part.
    """

    pci: PciAddress
    preheat_k: Finite
    front: Annotated[int, Field(ge=0)] | None = None  # None: no GPU stands in its air
    sink_ratio: Positive = 1.0
    numa: Annotated[int, Field(ge=0)] = 0
    bus: BusName | None = None  # None: the only one


def _own_addresses(slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
    twice = _twice([slot.pci for slot in slots])
    if twice:
        raise ValueError(f"a PCI address of its own for each slot; {twice} stands twice")
    return slots


def _other_fronts(slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
    for place, slot in enumerate(slots):
        if slot.front is not None and (slot.front >= len(slots) or slot.front == place):
            raise ValueError(f"front of slot {place} as the number of another slot, 0 to {len(slots) - 1}")
    return slots


class SupplyUnit(FilePart):
    """Supply and its way to its bus: four resistances in a row."""

    name: SupplyName
    bus: BusName | None = None  # None: the only one
    rated_w: Positive
    open_circuit_v: Positive
    psu_mohm: NotNegative
    cable_mohm: NotNegative
    connector_mohm: NotNegative
    joint_mohm: Positive

    @property
    def branch_mohm(self) -> float:
        """Return the whole resistance of the branch."""
        return self.psu_mohm + self.cable_mohm + self.connector_mohm + self.joint_mohm


def _own_names(units: tuple[SupplyUnit, ...]) -> tuple[SupplyUnit, ...]:
    twice = _twice([unit.name for unit in units])
    if twice:
        raise ValueError(f"a name of its own for each supply; {twice} stands twice")
    return units


def _twice(values: Sequence[str]) -> str | None:
    return next((value for value in values if values.count(value) > 1), None)


class OverCurrent(FilePart):
    """A supply switches off once it carried `ratio` times its rated current for `after_ms`."""

    ratio: Annotated[float, Field(gt=1)]
    after_ms: Positive


class JointAgeing(FilePart):
    """A joint that warms itself: ``dr/dt = rate_per_day r exp(T / scale_k)`` with ``T = k_per_w I**2 r``."""

    rate_per_day: NotNegative
    k_per_w: NotNegative
    scale_k: Positive
    max_mohm: Positive


class AcInput(FilePart):
    """The mains side: the output sags by `sag_v_per_ratio` per unit of missing input and ends below `dropout_ratio`."""

    nominal_v: Positive
    sag_v_per_ratio: NotNegative
    dropout_ratio: Share
    hold_up_ms: Positive


class Supply(FilePart):
    """Supplies, side by side on their buses; `bus_mohm` is the copper of each bus. See `simulator.plant.supply`."""

    units: Annotated[tuple[SupplyUnit, ...], Field(min_length=1), AfterValidator(_own_names)]
    bus_mohm: NotNegative
    transient_mohm: NotNegative  # per unit
    transient_ms: Positive
    over_current: OverCurrent
    ageing: JointAgeing
    input: AcInput

    @property
    def nominal_rail_v(self) -> float:
        """Return the nominal voltage of the rails: that of their class, or what the supplies give without a load."""
        highest_v = max(unit.open_circuit_v for unit in self.units)
        shown_v = float(shown_nominals(np.array([highest_v]))[0])
        return highest_v if np.isnan(shown_v) else shown_v


class Cooling(FilePart):
    """The fans and what drives them: PI control of the hottest GPU towards `target_c`; power is ``max_w ratio**3``."""

    fans: Annotated[int, Field(ge=1, le=64)]
    max_rpm: Positive
    max_w: Positive  # all fans together
    min_ratio: Annotated[float, Field(gt=0, le=1)]
    start_ratio: Annotated[float, Field(gt=0, le=1)]
    target_c: Finite
    gain_per_k: NotNegative
    integral_per_k_s: NotNegative
    period: DurationS
    front_k_per_w: NotNegative = 0.0  # what a watt warms the air of the slot behind, at half flow
    recirculation_ratio: Annotated[float, Field(ge=0, lt=1)] = 0.0  # of the air's rise that comes round from the outlet


class PowerConnector(FilePart):
    """The 12V-2x6 connector of each GPU: six paths side by side from the bus to the card.

    `pins_mohm` is the path of each pin, contacts included, up to where its voltage is measured; `shunt_mohm` lies
    between there and where the pins meet. `slot_ratio` is the share of a card's power that its slot carries.
    """

    pins_mohm: Annotated[tuple[Positive, ...], Field(min_length=PIN_COUNT, max_length=PIN_COUNT)]
    shunt_mohm: Positive
    slot_ratio: Share


class Sensors(FilePart):
    """Sensors of the node, by the name of a kind in `simulator/sensors`; None where there is none."""

    rail: str | None
    bmc: str | None
    inlet: str | None
    pins: str | None = None


class NodeFile(FilePart):
    """Node."""

    name: Name
    description: str
    driver: DriverVersions
    gpu: GpuPart
    slots: Annotated[
        tuple[Slot, ...],
        Field(min_length=1, max_length=MAX_GPUS),
        AfterValidator(_own_addresses),
        AfterValidator(_other_fronts),
    ]
    fabric: Literal["none", "mesh", "switch"]  # how NVLinks join the GPUs
    supply: Supply
    cooling: Cooling
    sensors: Sensors
    connector: PowerConnector | None = None
    other_power_w: NotNegative
    other_power_bus: BusName | None = None  # feeds everything but the GPUs, fans too; None: the only one
    inlet_c: Finite
    workload: str  # what runs where nothing else is asked for

    @model_validator(mode="after")
    def _pins_have_a_connector(self) -> "NodeFile":
        if self.sensors.pins is not None and self.connector is None:
            raise ValueError("a connector where sensors.pins measures one")
        return self

    @property
    def gpu_count(self) -> int:
        """Return the number of GPUs."""
        return len(self.slots)

    @property
    def wiring(self) -> Wiring:
        """Return which bus each supply feeds, and which one feeds each GPU and the rest of the node."""
        return wiring_of(
            supplies=[unit.bus for unit in self.supply.units],
            gpus=[slot.bus for slot in self.slots],
            rest=self.other_power_bus,
        )

    def gpu_uuid(self, index: int) -> str:
        """Return the UUID of a GPU, the same in every run."""
        return f"GPU-{uuid.uuid5(_UUID_SPACE, f'{self.name}/{index}')}"

    def gpu_serial(self, index: int) -> str:
        """Return the serial number of a GPU, the same in every run."""
        return f"{uuid.uuid5(_UUID_SPACE, f'{self.name}/serial/{index}').int % 10**13:013d}"


def load_gpu_part(name_or_path: str, *, option: str = "gpu") -> GpuPart:
    """Read a GPU part by name or by the path of a YAML file, which may extend another; ConfigError as `load_node`."""
    path = find(name_or_path, folder=GPUS, what="GPU part", option=option)
    return load_with_parts(GpuPart, path, folder=GPUS, parts={}, references={}, kind="GPU part")


def load_node(name_or_path: str, *, option: str = "--simulate") -> NodeFile:
    """Read a node by the name of one that comes with railwatch, or by the path of a YAML file.

    A file with ``extends: NODE`` holds only what differs; ``gpu`` names a part or a file, or is one. The
    workload and the sensors that it names are checked too; paths among them are relative to the file.

    Raises
    ------
    ConfigError
        There is none of that name, or the file does not describe a node; every problem with file, line and key.
    """
    path = find(name_or_path, folder=NODES, what="node", option=option)
    parts = {"gpu": (GpuPart, GPUS)}
    return load_with_parts(
        NodeFile, path, folder=NODES, parts=parts, references=_REFERENCES, kind="node", check=wiring_problems
    )
