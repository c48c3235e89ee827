"""Replay of the steps of a live guard from a recording."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agent.guard.pipeline import Pipeline
from agent.guard.step_log import EVENTS, tables_of
from telemetry.commands import Command
from telemetry.frames import Frame
from telemetry.records import Action, ActionState, Event, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSteps:
    """Steps of a guard in a recording.

    `steps` are the rows of the step log, `tables` all rows of each table that the guard judged, `first_rows` the
    number of the first of them. `reports` are the events and commands in the order in which the guard read them,
    `actions` are in order of time.
    """

    steps: Frame
    tables: Mapping[str, Frame]
    first_rows: Mapping[str, int]
    reports: Sequence[Event | Command]
    actions: Sequence[Action]


def retrace(pipeline: Pipeline, trace: RecordedSteps) -> Iterator[Record]:
    """Yield the records of the pipeline at each step of the live guard: the same rows, the same times.

    Actions are processed as by the live guard, so that incidents have the same states. A lease that ran out was renewed
    at once, without an effect on its incident.
    """
    names = tables_of(trace.steps.spec)
    nexts = np.nan_to_num(trace.steps.values[:, 0, : len(names)]).astype(np.int64)
    counts = np.nan_to_num(trace.steps.signal(EVENTS)[:, 0]).astype(np.int64)
    done = dict.fromkeys(names, 0)
    reports = iter(trace.reports)
    actions = [action for action in trace.actions if action.state is not ActionState.EXPIRED]
    times_ns = trace.steps.time_ns.tolist()
    for number, now_ns in enumerate(times_ns):
        frames = []
        for place, name in enumerate(names):
            table = trace.tables.get(name)
            if table is None:
                continue
            stop = min(len(table), int(nexts[number, place]) - trace.first_rows.get(name, 0))
            if stop > done[name]:
                frames.append(table.rows(done[name], stop))
                done[name] = stop
        read = [report for _, report in zip(range(counts[number]), reports, strict=False)]
        yield from pipeline.step(frames, read, now_ns).records
        until_ns = times_ns[number + 1] if number + 1 < len(times_ns) else now_ns + 1
        noted = [action for action in actions if action.time_ns < until_ns]
        if noted:
            actions = actions[len(noted) :]
            yield from pipeline.note_actions(noted, now_ns)
