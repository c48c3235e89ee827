"""Windows of a stream: rows that only repeat a reading are no further evidence."""

import numpy as np
import pytest

from analytics.supply.pair_rows import PairRows
from analytics.supply.stream_estimate import Blocks, add_rows, close
from analytics.supply.window_fit import ResistanceWindows
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, filled

OHM = 0.03


def measured(seed: int, n: int) -> tuple[FloatArray, FloatArray]:
    """Return voltage and current of a noisy meter on a load that moves, shape ``(n, 1)`` each."""
    rng = np.random.default_rng(seed)
    current_a = rng.uniform(5.0, 10.0, (n, 1))
    return 54.0 - OHM * current_a + rng.normal(0.0, 0.01, (n, 1)), current_a


def windows(voltage_v: FloatArray, current_a: FloatArray) -> ResistanceWindows:
    """Return the windows after rows ten times a second, in one block."""
    time_ns = (np.arange(len(voltage_v)) * NS_PER_S // 10).tolist()
    rows = PairRows(
        time_ns=time_ns,
        places=list(range(len(time_ns))),
        voltage_v=voltage_v,
        current_a=current_a,
        used=np.isfinite(voltage_v),
    )
    return close(add_rows(filled(Blocks, 1), rows), time_ns[-1])[2]


@pytest.mark.parametrize("held", [2, 6])
def test_rows_that_repeat_a_reading_make_a_resistance_no_better_known(held: int) -> None:
    once = windows(*measured(1, 240))
    repeated = windows(*(np.repeat(one, held, axis=0) for one in measured(1, 240)))
    assert repeated.resistance_ohm == pytest.approx(once.resistance_ohm, rel=1e-6)
    assert repeated.sd_ohm == pytest.approx(once.sd_ohm, rel=1e-2)
