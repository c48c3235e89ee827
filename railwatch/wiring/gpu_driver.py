"""The GPU driver of a run, opened: NVIDIA's library, the plant behind the same ports, or none."""

import contextlib
import ctypes
import logging
from dataclasses import dataclass
from pathlib import Path

from agent.driver.nvml import NvmlDriver
from agent.driver.nvml_knobs import choose_knobs
from agent.driver.port import GpuEvents, GpuReader, Knob, LinkReader, PipeReader
from railwatch.run_context import DriverKind, RunContext
from simulator.inprocess import PlantDriver
from telemetry.clock import Clock
from telemetry.errors import EnvironmentLacksError, RailwatchError
from telemetry.gpu import GpuIdentity, KnobKind

logger = logging.getLogger(__name__)

NVML_LIBRARY = "libnvidia-ml.so.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDriver:
    """The ports of one driver; None where there is none, and then `why` is the reason."""

    reader: GpuReader | None
    events: GpuEvents | None
    knobs: tuple[Knob, ...] = ()
    nvml: NvmlDriver | None = None
    plant_pipes: PipeReader | None = None
    why: str = ""

    def knob(self, kind: KnobKind) -> Knob | None:
        """Return the knob of one kind, None where there is none."""
        return next((knob for knob in self.knobs if knob.kind is kind), None)

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
        """The performance metrics; None where there is no driver."""
        return self.plant_pipes if self.nvml is None else self.nvml.pipes

    def supported_mhz(self) -> dict[str, tuple[float, ...]]:
        """Return the clocks that can be set, by UUID; a GPU whose clocks cannot be set is left out."""
        found: dict[str, tuple[float, ...]] = {}
        clock = self.knob(KnobKind.CLOCK)
        if clock is None:
            return found
        for gpu in self.gpus:
            try:
                found[gpu.uuid] = clock.supported(gpu.uuid)
            except RailwatchError:
                continue
        return found

    def ranges(self) -> dict[str, dict[str, tuple[float, float]]]:
        """Return the least and the most that the other knobs can be set to, by kind and UUID."""
        found: dict[str, dict[str, tuple[float, float]]] = {}
        for knob in (knob for knob in self.knobs if knob.kind is not KnobKind.CLOCK):
            for gpu in self.gpus:
                with contextlib.suppress(RailwatchError):
                    settings = knob.supported(gpu.uuid)
                    found.setdefault(knob.kind.value, {})[gpu.uuid] = min(settings), max(settings)
        return found


def open_driver(context: RunContext, clock: Clock) -> OpenDriver:
    """Open the GPU driver of a run; a machine without one is no error."""
    if context.driver is DriverKind.NONE:
        return OpenDriver(reader=None, events=None, why="reading GPUs is switched off")
    if context.driver is DriverKind.PLANT:
        if context.state_file is None:
            raise EnvironmentLacksError("the run names no simulated node")
        plant = PlantDriver(Path(context.state_file), clock)
        knobs = (plant.clock_knob, plant.power_knob)
        return OpenDriver(reader=plant, events=plant, knobs=knobs, plant_pipes=plant.pipes)
    if context.library_dir is not None:
        # The loader reads LD_LIBRARY_PATH when a program starts, not when it is forked: NVML is found by name then.
        ctypes.CDLL(str(Path(context.library_dir) / NVML_LIBRARY))
    try:
        driver = NvmlDriver(clock)
    except EnvironmentLacksError as err:
        return OpenDriver(reader=None, events=None, why=str(err))
    return OpenDriver(reader=driver, events=driver, knobs=knobs_of(driver), nvml=driver)


def knobs_of(driver: NvmlDriver) -> tuple[Knob, ...]:
    """Return the knobs of the first GPU that has any; the GPUs of a node are of one model."""
    for gpu in driver.gpus():
        try:
            if knobs := choose_knobs(driver.library, gpu.uuid):
                return knobs
        except RailwatchError as err:  # this one may be dying; the next may not
            logger.info("no setting to move on a GPU: %s", err, extra={"gpu": gpu.uuid})
    return ()
