"""Notes of the live detector `novelty` on public series, against the budget that it was given.

No public set has healthy GPUs for months, so columns of servers stand for GPUs: five columns of one machine each are
the load and the four signals that answer to it, scaled so that their spread while learning is three steps of a sensor.
Each row is a window. It shows how the learnt threshold holds on measured series, not on GPUs.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from analytics.calibration.achieved import MONTH_S
from analytics.detectors.limits import NoveltyLimits
from analytics.detectors.novelty import Novelty
from analytics.novelty.calibration import AlarmBudget, AlarmRate, alarm_rate
from analytics.novelty.features import FEATURE_SIGNALS
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, TableSpec
from telemetry.records import FindingStatus

SIGNALS = tuple(FEATURE_SIGNALS)[:5]
LEARNT_STEPS = 3.0  # heuristic: boards at a steady load move by a few steps of their sensors
MOST_ROWS = 6000  # two days of windows; heuristic, for the time it takes
_FRAME_ROWS = 500


def note_rate(machines: Sequence[FloatArray], budget: AlarmBudget) -> AlarmRate | None:
    """Return the notes in 1000 windows behind the learning time, over the healthy rows of all machines.

    None where no machine has five columns that move, or rows behind the learning time.
    """
    limits = NoveltyLimits()
    month_windows = MONTH_S / limits.window_s
    limits = NoveltyLimits(notes_per_gpu_month=budget.per_1000_rows * month_windows / 1000.0)
    learnt = limits.learn_windows + limits.blocks * limits.block_windows
    groups = [one for rows in machines for one in _groups(rows[:MOST_ROWS], learnt)]
    if not groups:
        return None
    places: list[int] = []
    n_rows = 0
    for length in sorted({len(one) for one in groups}):
        same = np.stack([one for one in groups if len(one) == length], axis=1)
        for begins in _notes(same, limits):
            places.extend(n_rows + begin - learnt for begin in begins)
            n_rows += length - learnt
    return alarm_rate(np.array(places, dtype=np.int64), n_rows)


def _groups(rows: FloatArray, learnt: int) -> Iterator[FloatArray]:
    """Yield the columns of a machine in groups of five, in deviations of their first `learnt` rows."""
    if len(rows) <= learnt:
        return
    first = rows[:learnt]
    moving = np.flatnonzero(first.std(axis=0) > 1e-3 * np.maximum(np.ptp(rows, axis=0), 1e-9))
    for begin in range(0, len(moving) - len(SIGNALS) + 1, len(SIGNALS)):
        columns = moving[begin : begin + len(SIGNALS)]
        yield (rows[:, columns] - first[:, columns].mean(axis=0)) / first[:, columns].std(axis=0)


def _notes(groups: FloatArray, limits: NoveltyLimits) -> list[list[int]]:
    """Return the rows at which notes of each group ``(n_rows, n_groups, 5)`` begin."""
    gpus = tuple(Entity(kind=EntityKind.GPU, key=str(place), name=str(place)) for place in range(groups.shape[1]))
    nodes = tuple(Entity(kind=EntityKind.NODE, key=str(place), name=str(place)) for place in range(groups.shape[1]))
    edges = tuple((node.id, gpu.id) for node, gpu in zip(nodes, gpus, strict=True))
    topology = Topology(entities=(*nodes, *gpus), edges=edges)
    spec = TableSpec(name="gpu", kind=EntityKind.GPU, entities=gpus, signals=SIGNALS)
    values = np.empty(groups.shape)
    for place, name in enumerate(SIGNALS):
        signal = FEATURE_SIGNALS[name]
        steps = LEARNT_STEPS * groups[:, :, place]
        values[:, :, place] = np.exp(np.clip(steps * signal.step, -50, 50)) if signal.is_ratio else steps * signal.step
    times_ns = (np.arange(len(groups)) * round(limits.window_s)).astype(np.int64) * NS_PER_S
    detector = Novelty(limits=limits)
    state, begins = detector.start(spec), {gpu.id: list[int]() for gpu in gpus}
    for first in range(0, len(groups), _FRAME_ROWS):
        part = slice(first, first + _FRAME_ROWS)
        frame = Frame(
            spec=spec, time_ns=times_ns[part], values=values[part], fresh=np.ones(values[part].shape, dtype=np.bool_)
        )
        state, findings = detector.step(state, frame, topology)
        for finding in findings:
            if finding.status is FindingStatus.RAISED:
                begins[finding.entity_id].append(int(finding.since_ns // NS_PER_S // round(limits.window_s)))
    return [begins[gpu.id] for gpu in gpus]
