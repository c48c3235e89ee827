"""Which rank of a hung job to look at first: the one that does not spin with the others, else the last to begin."""

import numpy as np

from analytics.connectivity import GroupArray
from telemetry.entities import Entity
from telemetry.frames import FloatArray, MaskArray

# heuristic: seconds are what spinning is counted in, so that one more may be the phase of a sensor.
_LATER_S = 2.0


def suspects_text(
    index: int, entities: tuple[Entity, ...], groups: GroupArray, *, answered: MaskArray, spinning_s: FloatArray
) -> str:
    """Return words on the siblings of a GPU that hangs; empty where it is alone, or where nothing tells one from another.

    A rank that never enters a collective keeps the others in it: it idles, or still computes. Where all have entered,
    the last one tells where the step was slow, which is less.
    """
    kin = np.flatnonzero((groups == groups[index]) & answered)
    absent = [place for place in kin.tolist() if spinning_s[place] == 0.0]
    if absent:
        return f"; {_names(absent, entities)} did not enter and may be what the others wait for"
    newest_s = float(spinning_s[kin].min())
    last = [place for place in kin.tolist() if spinning_s[place] < newest_s + _LATER_S]
    return f"; {_names(last, entities)} entered last" if len(last) < len(kin) else ""


def _names(places: list[int], entities: tuple[Entity, ...]) -> str:
    return ", ".join(entities[place].name for place in places)
