"""Devices that were taken away in order: given up by their driver first, with no word of trouble before.

`nvidia-smi drain`, a GPU handed to a virtual machine and a driver that is unloaded all begin with the driver letting go
of the device, which the kernel tells (uevent ``unbind``). A GPU that falls off its bus is let go of as well, but the
driver or the port says so first: Xid 79, "fallen off the bus", or a fatal PCIe error.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analytics.fusion import LOSS_WINDOW_NS, is_bus_loss
from telemetry.entities import Entity
from telemetry.frames import MaskArray
from telemetry.records import Event, EventKind, Severity

# They tell that the kernel took a device off the bus, whoever asked for it.
_REMOVAL_SOURCES = frozenset({"uevents", "link_state"})
_BACK = frozenset({EventKind.DEVICE_ADDED, EventKind.DRIVER_BOUND})
_MAX_REMEMBERED = 4096

DeviceTimes = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderlyRemovals:
    """When each device was last let go of, and when it was last in trouble; entity ids with times."""

    released: DeviceTimes = ()
    troubled: DeviceTimes = ()

    def after(self, events: Sequence[Event]) -> "OrderlyRemovals":
        """Return what holds after these events."""
        released, troubled = dict(self.released), dict(self.troubled)
        for event in events:
            if event.entity_id is None:
                continue
            if event.kind is EventKind.DRIVER_UNBOUND:
                released[event.entity_id] = event.time_ns
            elif event.kind in _BACK:
                released.pop(event.entity_id, None)
                troubled.pop(event.entity_id, None)
            elif is_trouble(event):
                troubled[event.entity_id] = event.time_ns
        if released == dict(self.released) and troubled == dict(self.troubled):
            return self
        return OrderlyRemovals(
            released=tuple(released.items())[-_MAX_REMEMBERED:], troubled=tuple(troubled.items())[-_MAX_REMEMBERED:]
        )

    def was_taken(self, entity_id: str) -> bool:
        """Return whether the device was let go of, is not back, and nothing told of trouble shortly before or since."""
        released_ns = dict(self.released).get(entity_id)
        if released_ns is None:
            return False
        trouble_ns = dict(self.troubled).get(entity_id)
        return trouble_ns is None or trouble_ns < released_ns - LOSS_WINDOW_NS

    def mask(self, entities: Sequence[Entity]) -> MaskArray:
        """Return who was taken away in order, shape ``(n_entities,)``."""
        taken = {entity_id for entity_id, _ in self.released if self.was_taken(entity_id)}
        return np.array([entity.id in taken for entity in entities], dtype=np.bool_)


def is_removal(event: Event) -> bool:
    """Return whether an event only tells that the kernel took a device off the bus."""
    return event.kind is EventKind.BUS_DROP and set(event.sources) <= _REMOVAL_SOURCES


def is_trouble(event: Event) -> bool:
    """Return whether an event tells that a device was lost, not taken: Xid 79, the driver's words, a fatal PCIe error."""
    fatal = event.kind is EventKind.AER and event.severity is Severity.CRITICAL
    return fatal or (is_bus_loss(event) and not is_removal(event))
