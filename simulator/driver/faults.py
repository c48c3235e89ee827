"""Injected results of driver calls: their table in the state file, and what calls of the in-process driver get.

The driver library reads the same table in faults.c.
"""

import re
from collections.abc import Sequence

from simulator.driver.layout import ALL_GPUS
from simulator.driver.state import StateFile
from simulator.files.scenario import DriverFault
from telemetry.clock import Clock
from telemetry.errors import RailwatchError
from telemetry.gpu import NVML_TIMEOUT, nvml_error_class

_UNKNOWN = 999  # NVML_ERROR_UNKNOWN, nvml.h
# The exporter, which reads the driver, is dead: every call about every GPU fails.
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


class InjectedFaults:
    """The fault table as the calls of one process meet it; delays are waited for on the clock."""

    def __init__(self, state: StateFile, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    def answer(self, call: str, gpu: int = ALL_GPUS) -> int:
        """Return the code of an NVML call, 0 where it goes well, after the delay that it is to have."""
        code, delay_us = 0, 0
        for fault in self._state.faults():
            if int(fault["gpu"]) in (ALL_GPUS, gpu) and _is_meant(fault["call"].decode(), call):
                code = int(fault["code"]) or code
                delay_us += int(fault["delay_us"])
        if delay_us:
            self._clock.sleep_until(self._clock.monotonic_s() + delay_us / 1e6)
        return code

    def check(self, call: str, gpu: int = ALL_GPUS) -> None:
        """Raise what the call's code stands for; see `answer`."""
        code = self.answer(call, gpu)
        if code:
            raise error_of(code, call)

    def times_out(self, call: str) -> bool:
        """Return True if a waiting call is to end with nothing; raise what any other code stands for."""
        code = self.answer(call)
        if code not in (0, NVML_TIMEOUT):
            raise error_of(code, call)
        return code == NVML_TIMEOUT


def error_of(code: int, call: str) -> RailwatchError:
    """Return the error that a return code stands for."""
    return nvml_error_class(code)(f"{call}: a fault was injected: NVML {code}")


def _is_meant(wanted: str, called: str) -> bool:
    """Return True if a name matches a call: it matches newer versions of the function too."""
    return wanted == "*" or re.fullmatch(re.escape(wanted) + r"(_v\d.*)?", called) is not None
