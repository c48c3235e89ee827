"""The comparison of what was kept with what the driver logged."""

from pathlib import Path

import numpy as np
import pytest

from bench import fidelity
from bench.registry import BENCHMARKS
from simulator.driver.build import find_compiler
from telemetry.frames import Frame
from tests.agent.fakes import gpu_fast_spec

MS = 1_000_000


def table(updates: list[tuple[int, int]]) -> Frame:
    """Return a table of one GPU's power, each row an update at a time in ms with mW."""
    spec = gpu_fast_spec(1)
    values = np.full((len(updates), *spec.shape), np.nan)
    column = spec.signals.index("power_w")
    values[:, 0, column] = [power_mw / 1000.0 for _, power_mw in updates]
    fresh = ~np.isnan(values)
    return Frame(
        spec=spec, time_ns=np.array([at * MS for at, _ in updates], dtype=np.int64), values=values, fresh=fresh
    )


def score(log: list[tuple[int, int]], polled: list[tuple[int, int]], filled: list[tuple[int, int]]) -> fidelity.Score:
    return fidelity.score(
        [[(at * MS, power) for at, power in log]],
        table(polled),
        table(filled),
        between=(0, 1000 * MS),
        polls=10,
        late_p99_s=0.001,
    )


def test_updates_are_counted_once_whether_polled_or_filled_and_repeats_are_none() -> None:
    log = [(-20, 1), (0, 2), (20, 3), (40, 3), (60, 4), (80, 5)]
    found = score(log, [(3, 2), (65, 4)], [(20, 3)])
    assert (found.updates, found.polled, found.filled, found.foreign) == (4, 2, 1, 0)
    assert found.kept_share == pytest.approx(0.75)
    assert found.calls_per_update == pytest.approx(5.0)
    assert sorted(found.error_ms) == pytest.approx([0.0, 3.0, 5.0])


def test_what_is_kept_twice_or_was_never_measured_is_foreign() -> None:
    log = [(-20, 1), (0, 2), (20, 3)]
    found = score(log, [(3, 2), (23, 3), (50, 99)], [(20, 3)])
    assert (found.polled, found.filled, found.foreign) == (1, 1, 2)


def test_rows_name_the_case_and_what_it_is_compared_with() -> None:
    one = score([(-20, 1), (0, 2)], [(3, 2)], [])
    rows = {row.name: row for row in fidelity.rows_of(one, one, suffix="20ms", against="fixed 100 Hz")}
    assert {"kept_share_20ms", "duplicate_share_20ms", "jitter_p99_ms_20ms", "calls_per_update_20ms"} <= rows.keys()
    assert rows["kept_share_20ms"].ratio == 1.0
    assert "fidelity" in {benchmark.name for benchmark in BENCHMARKS}


@pytest.mark.integration
@pytest.mark.alone  # it measures times
def test_a_short_run_keeps_nearly_everything_and_nothing_twice(tmp_path: Path) -> None:
    if find_compiler() is None:
        pytest.skip("no C compiler on this machine")
    found = fidelity.measure("v100x4", 100.0, tmp_path / "run", 2.0, warm_up_s=4.0)
    assert found.updates > 50
    assert found.kept_share > 0.9
    assert found.foreign <= 0.01 * found.updates
