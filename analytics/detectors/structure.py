"""Silent entities, and whether they fell silent alone or together."""

from dataclasses import dataclass

import numpy as np

from analytics.connectivity import GroupArray, any_sibling
from telemetry.frames import FloatArray, MaskArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Presence:
    """Masks of entities that ever answered, and that are silent now, shape ``(n_entities,)``."""

    answered: MaskArray
    silent: MaskArray

    @staticmethod
    def never(n_entities: int) -> "Presence":
        """Return the state before the first row."""
        return Presence(answered=np.zeros(n_entities, dtype=np.bool_), silent=np.ones(n_entities, dtype=np.bool_))

    def after(self, silent: MaskArray) -> "Presence":
        """Return the state after a row in which these were silent."""
        return Presence(answered=self.answered | ~silent, silent=silent)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loss:
    """Masks of entities that are lost, and whose PCI device is gone."""

    lost: MaskArray
    off_bus: MaskArray


def structural_loss(presence: Presence, groups: GroupArray, pci_present: FloatArray) -> Loss:
    """Return entities that vanished while a sibling answers, or whose PCI device is gone; NaN is no evidence."""
    gone = presence.answered & presence.silent
    if not gone.any():
        return Loss(lost=gone, off_bus=gone)
    off_bus = gone & (pci_present == 0)
    return Loss(lost=(gone & any_sibling(~presence.silent, groups)) | off_bus, off_bus=off_bus)
