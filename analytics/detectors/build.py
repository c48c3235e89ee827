"""Detector protocols, the list of all detectors, and their factories.

A detector takes state in and gives state and findings out; it has no clock, and never changes its input.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from analytics.detectors.airflow import Airflow
from analytics.detectors.airflow_lost import AirflowLost
from analytics.detectors.board_rail import BoardRail
from analytics.detectors.bus_rail import BusRail
from analytics.detectors.connector_pins import ConnectorPins
from analytics.detectors.converter_rail import ConverterRail
from analytics.detectors.current_share import CurrentShare
from analytics.detectors.fan_stopped import FanStopped
from analytics.detectors.feed_factor import FeedFactor
from analytics.detectors.feed_imbalance import FeedImbalance
from analytics.detectors.feed_lost import FeedLost
from analytics.detectors.feed_meters import FeedMeters
from analytics.detectors.gpu_errors import GpuErrors
from analytics.detectors.gpu_left import GpuLeft
from analytics.detectors.gpu_lost import GpuLost
from analytics.detectors.gpu_margins import GpuMargins
from analytics.detectors.hang import Hang
from analytics.detectors.hotter_than_siblings import HotterThanSiblings
from analytics.detectors.hw_slowdown import HwSlowdown
from analytics.detectors.input_voltage import InputVoltage
from analytics.detectors.limits import DetectorLimits
from analytics.detectors.link_health import LinkHealth
from analytics.detectors.meter_twins import MeterTwins
from analytics.detectors.node_siblings import NodeSiblings
from analytics.detectors.node_warming import NodeWarming
from analytics.detectors.novelty import Novelty
from analytics.detectors.over_power import OverPower
from analytics.detectors.power_brake import PowerBrake
from analytics.detectors.rail_sag import RailSag
from analytics.detectors.sensor_lost import GPU_SIGNALS, SUPPLY_SIGNALS, SensorLost
from analytics.detectors.source_resistance import SourceResistance
from analytics.detectors.straggler import Straggler
from analytics.detectors.supply_efficiency import SupplyEfficiency
from analytics.detectors.supply_headroom import SupplyHeadroom
from analytics.detectors.supply_margins import SupplyMargins
from analytics.detectors.supply_plausibility import SupplyPlausibility
from analytics.detectors.thermal_margin import ThermalMargin
from analytics.detectors.thermal_resistance import ThermalResistance
from analytics.detectors.warm_inlet import WarmInlet
from analytics.supply.input_voltage import FEED_METER
from physics.wiring import Wiring
from telemetry.entities import EntityKind, Topology
from telemetry.frames import Frame, TableSpec
from telemetry.records import Event, Finding

State = TypeVar("State")


class Detector(Protocol[State]):
    """Detector of frames of one kind of entity.

    `signals` are the required columns; a detector also uses other columns that it knows. NaN is evidence neither for
    nor against. A frame split in two parts yields the same findings as the whole.

    A detector with ``joined_columns: tuple[JoinedColumn, ...]`` also gets those columns of other kinds, NaN where no
    table has them; see `analytics.detectors.joined_columns`. One with ``with_wiring`` uses the described wiring. One
    with ``rests`` is not stepped while that returns True of its state: its table has nothing to show, and never will.
    """

    @property
    def name(self) -> str:
        """Name of the detector in its findings."""
        ...

    @property
    def kind(self) -> EntityKind:
        """Kind of entity that it judges."""
        ...

    @property
    def signals(self) -> tuple[str, ...]:
        """Required signals."""
        ...

    def start(self, spec: TableSpec) -> State:
        """Return the state before the first row of a table with these columns."""
        ...

    def step(self, state: State, frame: Frame, topology: Topology) -> tuple[State, tuple[Finding, ...]]:
        """Judge the rows of a frame, in order."""
        ...


class EventDetector(Protocol[State]):
    """Detector of events; the caller passes the time, so that quiet time counts too."""

    @property
    def name(self) -> str:
        """Name of the detector in its findings."""
        ...

    def start(self) -> State:
        """Return the state before the first event."""
        ...

    def step(
        self, state: State, events: Sequence[Event], now_ns: int, topology: Topology
    ) -> tuple[State, tuple[Finding, ...]]:
        """Judge the events up to `now_ns`; none means quiet time."""
        ...


# Each detector has a state type of its own.
AnyDetector = Detector[Any]
AnyEventDetector = EventDetector[Any]

DETECTORS: tuple[Callable[[DetectorLimits], AnyDetector], ...] = (
    lambda limits: RailSag(limits=limits.rail_sag),
    lambda limits: SourceResistance(limits=limits.source_resistance),
    lambda _: InputVoltage(name="input_voltage", signal="input_voltage_v", sees_loss=True),
    lambda _: InputVoltage(name="mains_voltage", signal="mains_voltage_v", sees_loss=False),
    lambda _: InputVoltage(name="feed_voltage", signal="voltage_v", sees_loss=True, meter=FEED_METER),
    lambda _: FeedMeters(),
    lambda _: FeedMeters(name="node_meters", kind=EntityKind.NODE),
    lambda _: FeedFactor(),
    lambda _: MeterTwins(name="meter_twins", kind=EntityKind.NODE),
    lambda _: MeterTwins(name="meter_twins_of_feeds", kind=EntityKind.SUPPLY),
    lambda _: FeedLost(),
    lambda _: FeedImbalance(),
    lambda _: OverPower(name="over_power", kind=EntityKind.NODE),
    lambda _: OverPower(name="over_power_by_feeds", kind=EntityKind.SUPPLY),
    lambda _: SupplyEfficiency(name="supply_efficiency", kind=EntityKind.SUPPLY),
    lambda _: SupplyEfficiency(name="node_efficiency", kind=EntityKind.NODE),
    lambda limits: CurrentShare(limits=limits.current_share),
    lambda limits: BoardRail(limits=limits.board_rail),
    lambda limits: BusRail(limits=limits.board_rail),
    lambda limits: ConverterRail(limits=limits.converter_rail),
    lambda limits: SupplyHeadroom(limits=limits.supply_headroom),
    lambda limits: SupplyPlausibility(limits=limits.supply_plausibility),
    lambda limits: SupplyMargins(limits=limits.supply_margins, rated_w=limits.supply_headroom.rated_w),
    lambda limits: GpuMargins(limits=limits.supply_margins),
    lambda limits: ConnectorPins(limits=limits.connector_pins),
    lambda limits: PowerBrake(limits=limits.power_brake),
    lambda limits: HwSlowdown(limits=limits.hw_slowdown),
    lambda limits: ThermalMargin(limits=limits.thermal_margin),
    lambda limits: HotterThanSiblings(limits=limits.hotter_than_siblings),
    lambda limits: ThermalResistance(limits=limits.thermal_resistance),
    lambda limits: WarmInlet(limits=limits.warm_inlet),
    lambda limits: Airflow(limits=limits.airflow),
    lambda limits: AirflowLost(limits=limits.airflow_lost),
    lambda limits: NodeWarming(limits=limits.node_warming),
    lambda limits: FanStopped(limits=limits.fan_stopped),
    lambda limits: GpuLost(limits=limits.gpu_lost),
    lambda _: GpuLeft(name="gpu_left", kind=EntityKind.NODE),
    lambda _: GpuLeft(name="gpu_left_by_feeds", kind=EntityKind.SUPPLY),
    lambda _: NodeSiblings(),
    lambda limits: LinkHealth(limits=limits.link_health),
    lambda limits: Hang(limits=limits.hang),
    lambda limits: Straggler(limits=limits.straggler),
    lambda limits: SensorLost(
        limits=limits.sensor_lost, name="gpu_sensor_lost", kind=EntityKind.GPU, watched=GPU_SIGNALS
    ),
    lambda limits: SensorLost(
        limits=limits.sensor_lost, name="supply_sensor_lost", kind=EntityKind.SUPPLY, watched=SUPPLY_SIGNALS
    ),
    # Last: it uses the findings of the others on the same rows.
    lambda limits: Novelty(limits=limits.novelty),
)

EVENT_DETECTORS: tuple[Callable[[DetectorLimits], AnyEventDetector], ...] = (
    lambda limits: GpuErrors(limits=limits.gpu_errors),
)


def build_detectors(limits: DetectorLimits, wiring: Wiring | None = None) -> tuple[AnyDetector, ...]:
    """Return every frame detector; those that use the wiring of the node with the one that is described."""
    built = (build(limits) for build in DETECTORS)
    return tuple(one.with_wiring(wiring) if hasattr(one, "with_wiring") else one for one in built)


def build_event_detectors(limits: DetectorLimits) -> tuple[AnyEventDetector, ...]:
    """Return every event detector."""
    return tuple(build(limits) for build in EVENT_DETECTORS)
