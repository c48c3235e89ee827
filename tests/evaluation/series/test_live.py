import numpy as np
import pytest

from evaluation.series.live import note_rate
from evaluation.series.suite import BUDGET
from telemetry.frames import FloatArray


def machine(seed: int, *, rows: int = 1500, columns: int = 7) -> FloatArray:
    rng = np.random.default_rng(seed)
    made: FloatArray = rng.normal(0, 1, (rows, columns)) @ rng.normal(0, 1, (columns, columns))
    return made


def test_quiet_machines_have_few_notes_and_a_broken_one_has_some() -> None:
    machines = [machine(seed) for seed in range(3)]
    quiet = note_rate(machines, BUDGET)
    assert quiet is not None
    assert quiet.rows == 3 * (1500 - 240)
    assert quiet.low <= quiet.per_1000_rows <= 1.0
    machines[1][900:, 2] += 60.0
    broken = note_rate(machines, BUDGET)
    assert broken is not None
    assert broken.alarms == quiet.alarms + 1


@pytest.mark.parametrize("few", [machine(1, columns=4), machine(1, rows=200)])
def test_too_few_columns_or_rows_have_no_rate(few: FloatArray) -> None:
    assert note_rate([few], BUDGET) is None
