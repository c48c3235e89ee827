"""Newest checkpoint of a job, from its heartbeat in the ring of readings."""

from pathlib import Path

import numpy as np

from agent.ring.ring import Ring, RingTable
from telemetry.entities import EntityKind
from telemetry.errors import EnvironmentLacksError

SIGNAL = "checkpoint_step"


def checkpoint_step(ring_path: Path, key: str) -> float | None:
    """Return the step of the newest checkpoint that a job's heartbeat reported; None if it reported none.

    Looks back as far as the ring reaches. The ring is opened at each call: a new sender replaces it with an empty one,
    whose first row repeats the last report.
    """
    try:
        ring = Ring.attach(ring_path)
    except EnvironmentLacksError:
        return None
    try:
        steps = [step for table in ring.tables.values() if (step := _newest(table, key)) is not None]
        return steps[-1] if steps else None
    finally:
        ring.close()


def _newest(table: RingTable, key: str) -> float | None:
    rows = [row for row, entity in enumerate(table.spec.entities) if entity.key == key]
    if table.spec.kind is not EntityKind.JOB or SIGNAL not in table.spec.signals or not rows:
        return None
    cell = rows[0], table.spec.signals.index(SIGNAL)
    newest, since = None, 0
    while since < table.count:  # a read ends where the clock was set back
        read = table.read(since)
        since = read.next
        values, fresh = read.frame.values[:, *cell], read.frame.fresh[:, *cell]
        known = np.isfinite(values)
        steps = values[known & fresh] if newest is not None or (known & fresh).any() else values[known]
        newest = float(steps[-1]) if steps.size else newest
    return newest
