"""The GPU driver of a run, opened: NVIDIA's library, the plant behind the same ports, or none."""

import logging
from dataclasses import dataclass
from pathlib import Path

from agent.driver.nvml import NvmlDriver
from agent.driver.nvml_knobs import choose_knob
from agent.driver.port import ClockKnob, GpuEvents, GpuIdentity, GpuReader, LinkReader, PipeReader
from railwatch.session import DriverKind, Session
from simulator.inprocess import PlantDriver
from telemetry.clock import Clock
from telemetry.errors import EnvironmentLacksError, RailwatchError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDriver:
    """The ports of one driver; None where there is none, and then `why` says why."""

    reader: GpuReader | None
    events: GpuEvents | None
    knob: ClockKnob | None
    nvml: NvmlDriver | None = None
    why: str = ""

    @property
    def gpus(self) -> tuple[GpuIdentity, ...]:
        """The GPUs in driver order."""
        return () if self.reader is None else self.reader.gpus()

    @property
    def links(self) -> LinkReader | None:
        """The NVLinks; None where only the library could read them."""
        return None if self.nvml is None else self.nvml.links

    @property
    def pipes(self) -> PipeReader | None:
        """The performance metrics; None where only the library could read them."""
        return None if self.nvml is None else self.nvml.pipes

    def supported_mhz(self) -> dict[str, tuple[float, ...]]:
        """Give the clocks that can be set, by UUID; a GPU whose clocks cannot be set is left out."""
        found: dict[str, tuple[float, ...]] = {}
        for gpu in self.gpus:
            if self.knob is None:
                break
            try:
                found[gpu.uuid] = self.knob.supported_mhz(gpu.uuid)
            except RailwatchError:
                continue
        return found


def open_driver(session: Session, clock: Clock) -> OpenDriver:
    """Open the driver that the session names; a machine without one is no error."""
    if session.driver is DriverKind.NONE:
        return OpenDriver(reader=None, events=None, knob=None, why="reading GPUs is switched off")
    if session.driver is DriverKind.PLANT:
        if session.state_file is None:
            raise EnvironmentLacksError("the session names no plant")
        plant = PlantDriver(Path(session.state_file), clock)
        return OpenDriver(reader=plant, events=plant, knob=plant)
    try:
        driver = NvmlDriver(clock)
    except EnvironmentLacksError as err:
        return OpenDriver(reader=None, events=None, knob=None, why=str(err))
    return OpenDriver(reader=driver, events=driver, knob=_knob(driver), nvml=driver)


def _knob(driver: NvmlDriver) -> ClockKnob | None:
    """Give the knob of the first GPU that has one; the GPUs of a node are of one model."""
    for gpu in driver.gpus():
        try:
            return choose_knob(driver.library, gpu.uuid)
        except RailwatchError as err:  # this one may be dying; the next may not
            logger.info("no clock setting to move on a GPU: %s", err, extra={"gpu": gpu.uuid})
    return None
