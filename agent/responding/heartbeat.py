"""What the heartbeat of a job says of its checkpoints: the newest step that one holds, out of the ring of readings."""

from pathlib import Path

import numpy as np

from agent.ring.ring import Ring, RingTable
from telemetry.entities import EntityKind
from telemetry.errors import EnvironmentLacksError

SIGNAL = "checkpoint_step"


def checkpoint_step(ring_path: Path, key: str) -> float | None:
    """Return step that the newest checkpoint of a job holds, as its heartbeat told last; None where it told of none.

    It looks back as far as the ring reaches. The ring is opened anew each time: a new sender replaces it by one that
    is empty, whose first row says again what was told before.
    """
    try:
        ring = Ring.attach(ring_path)
    except EnvironmentLacksError:
        return None
    try:
        told = [step for table in ring.tables.values() if (step := _newest(table, key)) is not None]
        return told[-1] if told else None
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
        told = np.isfinite(values)
        steps = values[told & fresh] if newest is not None or (told & fresh).any() else values[told]
        newest = float(steps[-1]) if steps.size else newest
    return newest
