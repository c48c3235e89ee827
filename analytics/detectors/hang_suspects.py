"""Suspects of a hang: the ranks that do not spin with the others, else the last ones to begin."""

import numpy as np

from analytics.connectivity import GroupArray
from telemetry.entities import Entity
from telemetry.frames import FloatArray, MaskArray

# heuristic: spinning is counted in whole seconds, so one second may be the phase of a sensor.
_LATER_S = 2.0


def suspects_text(
    index: int, entities: tuple[Entity, ...], groups: GroupArray, *, answered: MaskArray, spinning_s: FloatArray
) -> str:
    """Return a text on the suspects among the siblings of a hung GPU; empty if there is none.

    A rank that never enters a collective blocks the others: it idles, or still computes. Where all have entered, the
    last one shows where the step was slow, which is weaker.
    """
    kin = np.flatnonzero((groups == groups[index]) & answered)
    absent = [place for place in kin.tolist() if spinning_s[place] == 0.0]
    if absent:
        return f"; {_names(absent, entities)} did not enter"
    newest_s = float(spinning_s[kin].min())
    last = [place for place in kin.tolist() if spinning_s[place] < newest_s + _LATER_S]
    return f"; {_names(last, entities)} entered last" if len(last) < len(kin) else ""


def _names(places: list[int], entities: tuple[Entity, ...]) -> str:
    return ", ".join(entities[place].label for place in places)
