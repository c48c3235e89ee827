"""The steps of a live guard, noted and taken again."""

from pathlib import Path

import numpy as np

from agent.guard.step_log import EVENTS, TABLE, StepLog, tables_of
from agent.ring.ring import Ring
from telemetry.entities import Entity, EntityKind
from tests.agent.fakes import START_NS

NODE = Entity(kind=EntityKind.NODE, key="box", name="box")


def test_each_step_states_which_row_comes_next_and_how_many_events_it_reported(tmp_path: Path) -> None:
    log = StepLog(tmp_path / "steps", ("gpu_fast", "supply"), node=NODE, simulated=True, rows=10)
    for number, (nexts, events) in enumerate([((1, 0), 0), ((1, 0), 2), ((3, 1), 0)]):
        log.note(START_NS + number, dict(zip(("gpu_fast", "supply"), nexts, strict=True)), events)
    table = Ring.attach(tmp_path / "steps").tables[TABLE]
    frame = table.read(0).frame
    assert tables_of(frame.spec) == ("gpu_fast", "supply")
    assert frame.values[:, 0, :].tolist() == [[1, 0, 0], [1, 0, 2], [3, 1, 0]]
    # What is fresh is what a recording keeps: a position that moved, and every step that reported something.
    assert frame.fresh[:, 0, :].tolist() == [[True, True, False], [False, False, True], [True, True, False]]
    assert frame.signal(EVENTS)[:, 0].tolist() == [0, 2, 0]
    log.close()


def test_a_guard_that_starts_again_counts_on(tmp_path: Path) -> None:
    for number in range(2):
        log = StepLog(tmp_path / "steps", ("supply",), node=NODE, simulated=True, rows=10)
        log.note(START_NS + number, {"supply": number}, 0)
        log.close()
    assert np.array_equal(Ring.attach(tmp_path / "steps").tables[TABLE].read(0).frame.values[:, 0, 0], [0, 1])
