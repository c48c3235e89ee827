"""Injected results of driver calls, written into the state file when due."""

from collections.abc import Sequence

from simulator.driver.layout import ALL_GPUS
from simulator.driver.state import StateFile
from simulator.files.scenario import DriverFault

_UNKNOWN = 999  # NVML_ERROR_UNKNOWN, nvml.h
# What reads the driver is dead: nobody gets an answer about any GPU.
_NO_EXPORTER = ("*", ALL_GPUS, _UNKNOWN, 0)
_US_PER_S = 1_000_000


class FaultTable:
    """Updates the fault table of the state file over time."""

    def __init__(self, file: StateFile, faults: Sequence[DriverFault]) -> None:
        self._file = file
        self._faults = tuple(faults)
        self._shown: list[tuple[str, int, int, int]] = []

    def show(self, now_s: float, *, exporter_alive: bool) -> None:
        """Bring the table to what holds now; it is only written when that differs."""
        if exporter_alive and not self._faults:
            wanted = []
        else:
            wanted = [_row(fault) for fault in self._faults if _holds(fault, now_s)]
            wanted += [] if exporter_alive else [_NO_EXPORTER]
        if wanted != self._shown:
            self._shown = wanted
            self._file.set_faults(wanted)


def _holds(fault: DriverFault, now_s: float) -> bool:
    return fault.at <= now_s and (fault.last is None or now_s < fault.at + fault.last)


def _row(fault: DriverFault) -> tuple[str, int, int, int]:
    gpu = ALL_GPUS if fault.gpu is None else fault.gpu
    return fault.call, gpu, fault.code or 0, round(fault.delay * _US_PER_S)
