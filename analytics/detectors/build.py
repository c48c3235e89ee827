"""The detectors there are, and how they are built."""

from collections.abc import Callable
from typing import Any

from analytics.detectors.gpu_errors import GpuErrors
from analytics.detectors.gpu_lost import GpuLost
from analytics.detectors.hotter_than_siblings import HotterThanSiblings
from analytics.detectors.hw_slowdown import HwSlowdown
from analytics.detectors.limits import DetectorLimits
from analytics.detectors.port import Detector, EventDetector
from analytics.detectors.power_brake import PowerBrake
from analytics.detectors.rail_sag import RailSag
from analytics.detectors.sensor_lost import GPU_SIGNALS, SUPPLY_SIGNALS, SensorLost
from analytics.detectors.thermal_margin import ThermalMargin
from telemetry.entities import EntityKind

# Each detector has a state type of its own that only it looks into.
AnyDetector = Detector[Any]
AnyEventDetector = EventDetector[Any]

DETECTORS: tuple[Callable[[DetectorLimits], AnyDetector], ...] = (
    lambda limits: RailSag(limits=limits.rail_sag),
    lambda limits: PowerBrake(limits=limits.power_brake),
    lambda limits: HwSlowdown(limits=limits.hw_slowdown),
    lambda limits: ThermalMargin(limits=limits.thermal_margin),
    lambda limits: HotterThanSiblings(limits=limits.hotter_than_siblings),
    lambda limits: GpuLost(limits=limits.gpu_lost),
    lambda limits: SensorLost(
        limits=limits.sensor_lost, name="gpu_sensor_lost", kind=EntityKind.GPU, watched=GPU_SIGNALS
    ),
    lambda limits: SensorLost(
        limits=limits.sensor_lost, name="supply_sensor_lost", kind=EntityKind.SUPPLY, watched=SUPPLY_SIGNALS
    ),
)

EVENT_DETECTORS: tuple[Callable[[DetectorLimits], AnyEventDetector], ...] = (
    lambda limits: GpuErrors(limits=limits.gpu_errors),
)


def build_detectors(limits: DetectorLimits) -> tuple[AnyDetector, ...]:
    """Build every detector of frames."""
    return tuple(build(limits) for build in DETECTORS)


def build_event_detectors(limits: DetectorLimits) -> tuple[AnyEventDetector, ...]:
    """Build every detector of events."""
    return tuple(build(limits) for build in EVENT_DETECTORS)
