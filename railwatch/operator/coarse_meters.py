"""Faults of meters that the readings of a recording cannot show, as their steps hide what the load moves."""

from collections.abc import Iterator, Sequence

import numpy as np

from analytics.supply.stream_estimate import BLOCK_ROWS
from railwatch.operator.unjudged import Unjudged
from telemetry.entities import Entity, EntityKind, label_list
from telemetry.frames import FloatArray
from telemetry.recording import Recording

# A value on two levels spreads by half a step at most (`analytics.supply.plausibility`).
_HIDDEN_STEPS = 0.6
# heuristic: fewer blocks show no usual spread.
_LEAST_BLOCKS = 8
# heuristic: one block in four is one in which the load moves most.
_LOADED_SHARE = 0.75
_PAGE = "docs/explanation/sensor-faults.md"
_NAMES_COLUMNS = 30


def hidden_faults(read: Recording) -> tuple[Unjudged, ...]:
    """Return what of the supplies' meters cannot be judged: a voltage that repeats, on a meter of coarse steps."""
    coarse = tuple(entity for entity, volts in _voltages(read) if _is_hidden(volts))
    if not coarse:
        return ()
    names = label_list(one.label for one in coarse)
    names = names if len(names) <= _NAMES_COLUMNS else f"{len(coarse)} supplies"
    why = "its meter shows the load on two levels at most"
    return (Unjudged(what=f"a stuck voltage of {names}", why=why, how_to_get=_PAGE),)


def _voltages(read: Recording) -> Iterator[tuple[Entity, FloatArray]]:
    """Yield each supply that has a current, with the readings of its voltage."""
    samples = read.samples
    supplies = {one.key: one for spec in read.tables if spec.kind is EntityKind.SUPPLY for one in spec.entities}
    with_current = {key for kind, key, signal in samples.places if kind == EntityKind.SUPPLY and signal == "current_a"}
    for place, (kind, key, signal) in enumerate(samples.places):
        if kind == EntityKind.SUPPLY and signal == "voltage_v" and key in with_current and key in supplies:
            values = samples.value[samples.place == place]
            yield supplies[key], values[np.isfinite(values)]


def _is_hidden(volts: FloatArray) -> bool:
    """Return True if blocks of readings, shape ``(n,)``, spread by no more than two levels of the meter do."""
    count = len(volts) // BLOCK_ROWS
    changes = np.abs(np.diff(volts))
    changes = changes[changes > 1e-6]
    if count < _LEAST_BLOCKS or not changes.size:
        return False
    spreads: Sequence[float] = volts[: count * BLOCK_ROWS].reshape(count, BLOCK_ROWS).std(axis=1).tolist()
    return float(np.quantile(spreads, _LOADED_SHARE)) < _HIDDEN_STEPS * float(changes.min())
