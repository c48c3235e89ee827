"""Wrapper of NVIDIA's management library: the only module that imports `pynvml`.

Return codes are those of ``nvmlReturn_t`` in ``nvml.h``. They are translated here, once, by what the caller must do.
"""

import contextlib
import ctypes
import logging
import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any

import pynvml

from agent.driver.call_costs import CallCosts, CostCap
from telemetry.clock import Clock
from telemetry.errors import (
    DeviceLostError,
    EnvironmentLacksError,
    NotPermittedError,
    NotSupportedError,
    RailwatchError,
    TransientError,
)
from telemetry.gpu import (
    NVML_LOST_CODES,
    NVML_NEVER_CODES,
    NVML_NO_PERMISSION,
    NVML_NOT_LOADED_CODES,
    NVML_TIMEOUT,
    GpuIdentity,
    nvml_error_class,
)

logger = logging.getLogger(__name__)

CLOCK_GRAPHICS = 0
CLOCK_MEMORY = 2

_FUNCTION_MISSING = 13
_XID_CRITICAL = 0x8
_MAX_EVENTS_PER_WAIT = 64
# Heuristic: the share of time that looking for a lost GPU may take from the others, and the longest pause.
_LOOK_UPS = CostCap(share=0.01, longest_s=30.0)


class CallResult(StrEnum):
    """Result of a call for one value."""

    WORKING = "working"
    ELSEWHERE = "elsewhere"  # another signal has the same quantity, measured better
    NOT_SUPPORTED = "not_supported"
    FUNCTION_MISSING = "function_missing"
    NOT_PERMITTED = "not_permitted"
    LOST = "lost"
    FAILED = "failed"


def result_of(code: int) -> CallResult:
    """Classify a return code by whether another call can succeed."""
    if code == 0:
        return CallResult.WORKING
    if code == _FUNCTION_MISSING:
        return CallResult.FUNCTION_MISSING
    if code in NVML_NEVER_CODES:
        return CallResult.NOT_SUPPORTED
    if code == NVML_NO_PERMISSION:
        return CallResult.NOT_PERMITTED
    return CallResult.LOST if code in NVML_LOST_CODES else CallResult.FAILED


def error_of(code: int, what: str) -> RailwatchError:
    """Return the error for a return code; `what` names the operation."""
    return nvml_error_class(code)(f"{what}: NVML {code}: {pynvml.NVMLError(code)}")


@contextlib.contextmanager
def nvml_errors(what: str) -> Iterator[None]:
    """Translate the errors that the vendor's library raises inside."""
    try:
        yield
    except pynvml.NVMLError as err:
        raise error_of(int(err.value), what) from err


class NvmlLibrary:
    """The loaded library: its GPUs, their handles, and calls with their costs.

    Attributes
    ----------
    gpus
        The GPUs that answered at opening, in driver order. Their rows keep this order whatever happens later.
    lost_at_open
        Why each GPU that the driver counts could not be opened; those that this user may not open are not among them.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.costs = CallCosts()
        try:
            with nvml_errors("load NVML"):
                pynvml.nvmlInit()
        except NotPermittedError as err:
            raise EnvironmentLacksError(f"{err}; expected a user with access to /dev/nvidia*") from err
        except RailwatchError as err:
            raise EnvironmentLacksError(f"{err}; is the NVIDIA driver installed and loaded?") from err
        with nvml_errors("read the driver version"):
            self.driver_version: str = pynvml.nvmlSystemGetDriverVersion()
        self._handles: dict[str, Any] = {}
        self._look_again_s: dict[str, float] = {}
        self.lost_at_open: list[str] = []
        self.gpus = self._identify_all()
        self._open = True

    def close(self) -> None:
        """Shut the library down; closing twice is harmless."""
        if self._open:
            self._open = False
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()

    def function(self, name: str) -> Callable[..., int] | None:
        """Return the C function of that name, which returns a code; None where this driver has none."""
        try:
            found: Callable[..., int] = getattr(pynvml.nvmlLib, name)
        except AttributeError:
            return None
        return found

    def handle(self, uuid: str) -> Any:
        """Return the handle that was good last; a GPU that was not there at opening is looked up.

        DeviceLostError where there is no such GPU now.
        """
        known = self._handles.get(uuid)
        return self.find(uuid) if known is None else known

    def is_back(self, uuid: str) -> bool:
        """Look a GPU up again as `find` does; return False while that fails, for any reason.

        A look-up may initialise the GPU (``nvml.h``, nvmlDeviceGetHandleByUUID), which takes seconds on a failing
        one, and its siblings are not read meanwhile. So a failed look-up is not repeated before its cost allows it.
        """
        began_s = self.clock.monotonic_s()
        if began_s < self._look_again_s.get(uuid, 0.0):
            return False
        try:
            self.find(uuid)
        except RailwatchError:
            ended_s = self.clock.monotonic_s()
            self._look_again_s[uuid] = ended_s + _LOOK_UPS.pause_s(ended_s - began_s)
            return False
        return True

    def find(self, uuid: str) -> Any:
        """Look a GPU up again, after it was lost or the driver was reloaded; DeviceLostError where it is not back."""
        try:
            handle = self._look_up(uuid)
        except NotSupportedError as err:  # "not found" of a look-up: it is gone
            raise DeviceLostError(str(err)) from err
        self._handles[uuid] = handle
        return handle

    def call(self, name: str, uuid: str, *arguments: Any) -> Any:
        """Call one function of pynvml for one GPU, count its cost and translate its errors."""
        handle = self.handle(uuid)
        started_s = self.clock.monotonic_s()
        try:
            with nvml_errors(f"{name} on {uuid}"):
                return getattr(pynvml, name)(handle, *arguments)
        finally:
            self.costs.of(name).add(self.clock.monotonic_s() - started_s)

    def new_event_set(self) -> Any:
        """Create an event set without any subscription."""
        with nvml_errors("make an event set"):
            return pynvml.nvmlEventSetCreate()

    def subscribe_xids(self, events: Any, uuid: str) -> None:
        """Subscribe an event set to the Xids of a GPU; NotSupportedError where it reports none."""
        if not self.call("nvmlDeviceGetSupportedEventTypes", uuid) & _XID_CRITICAL:
            raise NotSupportedError(f"{uuid} reports no Xids")
        self.call("nvmlDeviceRegisterEvents", uuid, _XID_CRITICAL, events)

    def free_event_set(self, events: Any) -> None:
        """Free an event set; a driver that is gone has freed it already."""
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlEventSetFree(events)

    def wait_events(self, events: Any, timeout_s: float) -> list[tuple[str | None, int]]:
        """Wait for Xids: ``(uuid, code)``, the UUID None where the driver cannot identify the GPU. Empty on time-out.

        DeviceLostError where a GPU of the set is lost; every further wait on this set answers so at once.
        """
        found: list[tuple[str | None, int]] = []
        remaining_ms = max(0, round(timeout_s * 1000))
        while len(found) < _MAX_EVENTS_PER_WAIT:
            try:
                with nvml_errors("wait for events"):
                    data = pynvml.nvmlEventSetWait_v2(events, remaining_ms)
            except RailwatchError as err:
                timed_out = isinstance(err.__cause__, pynvml.NVMLError) and err.__cause__.value == NVML_TIMEOUT
                if timed_out or found:  # return what came first; after any other error the next wait raises
                    break
                raise
            if data.eventType & _XID_CRITICAL:
                found.append((self._owner(data.device), int(data.eventData)))
            remaining_ms = 0
        return found

    def _owner(self, device: Any) -> str | None:
        try:
            with nvml_errors("identify the GPU of an event"):
                uuid: str = pynvml.nvmlDeviceGetUUID(device)
        except RailwatchError:
            return self._owner_by_address(device)
        return uuid

    def _owner_by_address(self, device: Any) -> str | None:
        """Return the UUID of a GPU by its handle: a lost one does not report its UUID, but its pointer is unchanged."""
        wanted = _pointer(device)
        return next((uuid for uuid, handle in self._handles.items() if _pointer(handle) == wanted), None)

    def _look_up(self, uuid: str) -> Any:
        try:
            with nvml_errors(f"find {uuid}"):
                return pynvml.nvmlDeviceGetHandleByUUID(uuid)
        except TransientError as err:
            if not isinstance(err.__cause__, pynvml.NVMLError) or err.__cause__.value not in NVML_NOT_LOADED_CODES:
                raise
        with nvml_errors("load NVML again"):
            pynvml.nvmlInit()
        with nvml_errors(f"find {uuid}"):
            return pynvml.nvmlDeviceGetHandleByUUID(uuid)

    def _identify_all(self) -> tuple[GpuIdentity, ...]:
        with nvml_errors("count the GPUs"):
            count: int = pynvml.nvmlDeviceGetCount()
        found = []
        for index in range(count):
            try:
                found.append(self._identify(index))
            except NotPermittedError as err:  # the count holds those of others too (nvml.h, nvmlDeviceGetCount_v2)
                logger.info("GPU is not accessible to this user: %s", err, extra={"gpu_index": index})
            except RailwatchError as err:
                # Every process that opens the driver finds the same: the reader of the list reports it, once.
                self.lost_at_open.append(str(err))
                logger.info("GPU that the driver counts does not answer: %s", err, extra={"gpu_index": index})
        return tuple(found)

    def _identify(self, index: int) -> GpuIdentity:
        with nvml_errors(f"identify GPU {index}"):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid = pynvml.nvmlDeviceGetUUID(handle)
            name = pynvml.nvmlDeviceGetName(handle)
            pci = normal_pci(_text(pynvml.nvmlDeviceGetPciInfo(handle).busId))
        try:
            with nvml_errors(f"read the serial number of GPU {index}"):
                serial = pynvml.nvmlDeviceGetSerial(handle)
        except RailwatchError:
            serial = None
        self._handles[uuid] = handle
        return GpuIdentity(
            uuid=uuid, index=index, name=name, pci=pci, serial=serial, driver_version=self.driver_version
        )


def normal_pci(bus_id: str) -> str:
    """Write a PCI address as the kernel does: NVML's ``00000000:3B:00.0`` is ``0000:3b:00.0``."""
    match = re.fullmatch(r"([0-9a-fA-F]+):([0-9a-fA-F]+):([0-9a-fA-F]+)\.([0-7])", bus_id)
    if match is None:
        return bus_id.lower()
    domain, bus, device = (int(part, 16) for part in match.groups()[:3])
    return f"{domain:04x}:{bus:02x}:{device:02x}.{match[4]}"


def _pointer(handle: Any) -> int | None:
    """Return the address that an opaque handle is; None for a null handle."""
    return ctypes.cast(handle, ctypes.c_void_p).value


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
