"""Injected results of driver calls for the in-process driver; the library has the same in faults.c."""

import re

from simulator.driver.layout import ALL_GPUS
from simulator.driver.state import StateFile
from telemetry.clock import Clock
from telemetry.errors import (
    ActionRefusedError,
    DeviceLostError,
    EnvironmentLacksError,
    NotPermittedError,
    NotSupportedError,
    RailwatchError,
    TransientError,
)

# nvmlReturn_t, nvml.h, by what whoever called must do.
UNLOADED_CODES = frozenset({1, 9})  # uninitialized, driver not loaded
LOST_CODES = frozenset({8, 15, 16, 28})  # insufficient power, lost, reset required, not found
_TIMEOUT = 10
_ERRORS: dict[int, type[RailwatchError]] = {
    **dict.fromkeys((2, 3, 6, 13, 22, 25, 26, 30), NotSupportedError),
    **dict.fromkeys(LOST_CODES, DeviceLostError),
    **dict.fromkeys((12, 18), EnvironmentLacksError),
    4: NotPermittedError,
    24: ActionRefusedError,
}


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
        """Return whether a waiting call is to end with nothing; raise what any other code stands for."""
        code = self.answer(call)
        if code not in (0, _TIMEOUT):
            raise error_of(code, call)
        return code == _TIMEOUT


def error_of(code: int, call: str) -> RailwatchError:
    """Return the error that a return code stands for."""
    return _ERRORS.get(code, TransientError)(f"{call}: a fault was injected: NVML {code}")


def _is_meant(wanted: str, called: str) -> bool:
    """Return whether a name stands for a call: it does for the newer versions of the function too."""
    return wanted == "*" or re.fullmatch(re.escape(wanted) + r"(_v\d.*)?", called) is not None
