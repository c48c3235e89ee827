"""The Xids that the driver reports by itself, of every GPU: also of one that was lost and is back."""

import logging
from typing import Any

from agent.driver.nvml_library import NvmlLibrary
from agent.driver.port import DriverEvent
from telemetry.errors import NotPermittedError, NotSupportedError, RailwatchError

logger = logging.getLogger(__name__)

# Heuristic: how often a GPU that is not heard is asked; an Xid of the time before stands in the kernel log alone.
_LOOK_EVERY_S = 1.0


class NvmlXids:
    """One event set of all GPUs of a library; fills `GpuEvents`.

    A GPU is registered anew under each new handle, since what was registered does not survive its loss. After an
    error the set is made anew, so that siblings of a lost GPU go on being heard, and all after a reload of the driver.
    """

    def __init__(self, library: NvmlLibrary) -> None:
        self._library = library
        self._set: Any | None = None
        self._heard: dict[str, Any] = {}
        self._never: set[str] = set()
        self._look_s = 0.0

    def wait(self, timeout_s: float) -> tuple[DriverEvent, ...]:
        """Return the Xids that came within the time-out; where no GPU is heard it waits and gives nothing."""
        clock = self._library.clock
        if self._set is None:
            self._set = self._library.new_event_set()
        now_s = clock.monotonic_s()
        if now_s >= self._look_s:
            self._look_s = now_s + _LOOK_EVERY_S
            self._hear_all(self._set)
        if not self._heard:
            clock.sleep_until(now_s + timeout_s)
            return ()
        try:
            found = self._library.wait_events(self._set, timeout_s)
        except RailwatchError:
            self.close()
            raise
        return tuple(DriverEvent(uuid=uuid, code=code) for uuid, code in found)

    def close(self) -> None:
        """Give the set back; closing twice is harmless."""
        if self._set is not None:
            self._library.free_event_set(self._set)
        self._set, self._heard, self._look_s = None, {}, 0.0

    def _hear_all(self, events: Any) -> None:
        for gpu in self._library.gpus:
            handle = self._library.handle(gpu.uuid)
            if gpu.uuid in self._never or self._heard.get(gpu.uuid) is handle:
                continue
            self._heard.pop(gpu.uuid, None)
            try:
                self._library.hear_xids(events, gpu.uuid)
            except (NotSupportedError, NotPermittedError) as err:
                self._never.add(gpu.uuid)
                logger.info("the driver reports no events of a GPU: %s", err, extra={"gpu": gpu.uuid})
            except RailwatchError:  # it is lost, which its readings tell
                continue
            else:
                self._heard[gpu.uuid] = handle
