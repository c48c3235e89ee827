"""Absent entities: silent while siblings answer, or removed in order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from analytics.connectivity import GroupArray, any_sibling
from analytics.fusion import DEVICE_BACK, LOSS_WINDOW_NS, is_bus_loss
from telemetry.entities import Entity
from telemetry.frames import FloatArray, MaskArray
from telemetry.records import Event, EventKind, Severity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Presence:
    """Masks of entities that ever answered, and that are silent now, shape ``(n_entities,)``."""

    answered: MaskArray
    silent: Annotated[MaskArray, True]

    def after(self, silent: MaskArray) -> "Presence":
        """Return the state after a row in which these were silent."""
        return Presence(answered=self.answered | ~silent, silent=silent)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StructuralLoss:
    """Masks of entities that are lost, and whose PCI device is gone."""

    lost: MaskArray
    off_bus: MaskArray


def structural_loss(presence: Presence, groups: GroupArray, pci_present: FloatArray) -> StructuralLoss:
    """Return entities that vanished while a sibling answers, or whose PCI device is gone; NaN is no evidence."""
    gone = presence.answered & presence.silent
    if not gone.any():
        return StructuralLoss(lost=gone, off_bus=gone)
    off_bus = gone & (pci_present == 0)
    return StructuralLoss(lost=(gone & any_sibling(~presence.silent, groups)) | off_bus, off_bus=off_bus)


# Sources that report every removal of a device by the kernel, orderly or not.
_REMOVAL_SOURCES = frozenset({"uevents", "link_state"})
_MAX_REMEMBERED = 4096

DeviceTimes = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderlyRemovals:
    """Times at which each device was last unbound, and last in trouble, by entity id."""

    released: DeviceTimes = ()
    troubled: DeviceTimes = ()

    def after(self, events: Sequence[Event]) -> "OrderlyRemovals":
        """Return the state after these events."""
        released, troubled = dict(self.released), dict(self.troubled)
        for event in events:
            if event.entity_id is None:
                continue
            if event.kind is EventKind.DRIVER_UNBOUND:
                released[event.entity_id] = event.time_ns
            elif event.kind in DEVICE_BACK:
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
        """Return True if the device was unbound, is not back, and had no trouble shortly before or since."""
        released_ns = dict(self.released).get(entity_id)
        if released_ns is None:
            return False
        trouble_ns = dict(self.troubled).get(entity_id)
        return trouble_ns is None or trouble_ns < released_ns - LOSS_WINDOW_NS

    def mask(self, entities: Sequence[Entity]) -> MaskArray:
        """Return a mask of devices removed in order, shape ``(n_entities,)``."""
        taken = {entity_id for entity_id, _ in self.released if self.was_taken(entity_id)}
        return np.array([entity.id in taken for entity in entities], dtype=np.bool_)


def is_removal(event: Event) -> bool:
    """Return True if an event only reports that the kernel removed a device from the bus."""
    return event.kind is EventKind.BUS_DROP and set(event.sources) <= _REMOVAL_SOURCES


def is_trouble(event: Event) -> bool:
    """Return True if an event shows a loss, not a removal: Xid 79, the driver's report, a fatal PCIe error."""
    fatal = event.kind is EventKind.AER and event.severity is Severity.CRITICAL
    return fatal or (is_bus_loss(event) and not is_removal(event))
