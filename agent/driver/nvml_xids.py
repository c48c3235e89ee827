"""The Xids that the driver reports by itself, of every GPU: also of one that was lost and is back."""

import logging
from typing import Any

from agent.driver.nvml_library import NvmlLibrary
from telemetry.errors import NotPermittedError, NotSupportedError, RailwatchError
from telemetry.gpu import DriverEvent

logger = logging.getLogger(__name__)

# Heuristic: pause between two attempts to subscribe to a GPU; an Xid before that is in the kernel log alone.
_LOOK_EVERY_S = 1.0


class NvmlXids:
    """Event set of all GPUs of a library; fills `GpuEvents`.

    A GPU is registered again under each new handle, since a registration does not survive its loss. After an
    error the set is created again, so that events of its siblings, and of all after a reload of the driver, still come.
    """

    def __init__(self, library: NvmlLibrary) -> None:
        self._library = library
        self._set: Any | None = None
        self._subscribed: dict[str, Any] = {}
        self._never: set[str] = set()
        self._look_s = 0.0

    def wait(self, timeout_s: float) -> tuple[DriverEvent, ...]:
        """Return the Xids that came within the time-out; without a subscription wait and return nothing."""
        clock = self._library.clock
        if self._set is None:
            self._set = self._library.new_event_set()
        now_s = clock.monotonic_s()
        if now_s >= self._look_s:
            self._look_s = now_s + _LOOK_EVERY_S
            self._subscribe_all(self._set)
        if not self._subscribed:
            clock.sleep_until(now_s + timeout_s)
            return ()
        try:
            found = self._library.wait_events(self._set, timeout_s)
        except RailwatchError:
            self.close()
            raise
        return tuple(DriverEvent(uuid=uuid, code=code) for uuid, code in found)

    def close(self) -> None:
        """Free the event set; closing twice is harmless."""
        if self._set is not None:
            self._library.free_event_set(self._set)
        self._set, self._subscribed, self._look_s = None, {}, 0.0

    def _subscribe_all(self, events: Any) -> None:
        for gpu in self._library.gpus:
            handle = self._library.handle(gpu.uuid)
            if gpu.uuid in self._never or self._subscribed.get(gpu.uuid) is handle:
                continue
            self._subscribed.pop(gpu.uuid, None)
            try:
                self._library.subscribe_xids(events, gpu.uuid)
            except (NotSupportedError, NotPermittedError) as err:
                self._never.add(gpu.uuid)
                logger.info("the driver reports no events of a GPU: %s", err, extra={"gpu": gpu.uuid})
            except RailwatchError:  # it is lost, which its readings show
                continue
            else:
                self._subscribed[gpu.uuid] = handle
