import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.entities import EntityKind
from telemetry.frames import Frame, TableSpec
from telemetry.rollup import CLOCK_STEP_NS, Rollup, decimals_of, rollup_spec
from tests.telemetry.frames_for_tests import START_NS, gpu_spec, sampled

NS_PER_S = 1_000_000_000
FAR_NS = START_NS + 10**15


def one_signal(name: str, values: list[float], times_ns: list[int]) -> Frame:
    whole = gpu_spec(1)
    spec = TableSpec(name="t", kind=EntityKind.GPU, entities=whole.entities, signals=(name,))
    table = np.array(values, dtype=float).reshape(-1, 1, 1)
    return Frame(
        spec=spec, time_ns=np.array(times_ns, dtype=np.int64), values=table, fresh=np.ones(table.shape, dtype=bool)
    )


def naive(frame: Frame) -> dict[tuple[int, str, str], float]:
    """Second, entity and column to value, row by row in plain Python."""
    rows: dict[tuple[int, str, str], list[float]] = {}
    for row, time_ns in enumerate(frame.time_ns.tolist()):
        for i, entity in enumerate(frame.spec.entities):
            for j, name in enumerate(frame.spec.signals):
                kept = rows.setdefault((time_ns // NS_PER_S, entity.key, name), [])
                if not math.isnan(frame.values[row, i, j]):
                    kept.append(float(frame.values[row, i, j]))
    found: dict[tuple[int, str, str], float] = {}
    for (second, key, name), values in rows.items():
        if not values:
            continue
        if name == "throttle_reasons":
            bits = 0
            for value in values:
                bits |= int(value)
            statistics = {"last": values[-1], "any": float(bits)}
        elif name == "energy_j":
            statistics = {"last": values[-1]}
        else:
            statistics = {
                "mean": sum(values) / len(values), "min": min(values), "max": max(values), "last": values[-1],
            }  # fmt: skip
        found |= {(second, key, f"{name}_{statistic}"): value for statistic, value in statistics.items()}
    return found


def as_table(frames: list[Frame]) -> dict[tuple[int, str, str], float]:
    found: dict[tuple[int, str, str], float] = {}
    for frame in frames:
        for row, time_ns in enumerate(frame.time_ns.tolist()):
            for i, entity in enumerate(frame.spec.entities):
                for j, name in enumerate(frame.spec.signals):
                    value = float(frame.values[row, i, j])
                    if not math.isnan(value):
                        place = (time_ns // NS_PER_S, entity.key, name)
                        assert place not in found, "a second came twice"
                        found[place] = value
    return found


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), cuts=st.lists(st.integers(0, 120), max_size=6), period_ms=st.integers(5, 900))
def test_rollups_equal_a_naive_count_however_the_rows_arrive(seed: int, cuts: list[int], period_ms: int) -> None:
    spec = gpu_spec(2)
    spec = TableSpec(name=spec.name, kind=spec.kind, entities=spec.entities, signals=(*spec.signals, "energy_j"))
    frame = sampled(spec, 120, period_ns=period_ms * 1_000_000, seed=seed)
    flags = spec.signals.index("throttle_reasons")
    frame.values[:, :, flags] = np.round(frame.values[:, :, flags])
    rollup = Rollup(spec)
    bounds = [0, *sorted(cuts), 120]
    out = [rollup.feed(frame.rows(a, b)) for a, b in pairwise(bounds)]
    out.append(rollup.flush(FAR_NS))
    found, wanted = as_table(out), naive(frame)
    assert found.keys() == wanted.keys()
    for place, value in wanted.items():
        assert found[place] == pytest.approx(value, rel=1e-9, abs=1e-9)
    assert rollup.late_rows == 0


@given(values=st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=30))
def test_the_mean_lies_between_minimum_and_maximum(values: list[float]) -> None:
    frame = one_signal("power_w", values, [START_NS + i for i in range(len(values))])
    rollup = Rollup(frame.spec)
    rollup.feed(frame)
    mean, low, high, last = rollup.flush(FAR_NS).values[0, 0]
    assert low <= mean <= high
    assert last == values[-1]


def test_a_second_is_given_out_when_the_next_begins() -> None:
    rollup = Rollup(one_signal("power_w", [], []).spec)
    assert len(rollup.feed(one_signal("power_w", [1.0, 3.0], [START_NS, START_NS + 500_000_000]))) == 0
    done = rollup.feed(one_signal("power_w", [9.0], [START_NS + NS_PER_S]))
    assert done.time_ns.tolist() == [START_NS]
    assert done.values[0, 0].tolist() == [2.0, 1.0, 3.0, 3.0]
    assert len(rollup.flush(START_NS + NS_PER_S + 1)) == 0
    assert len(rollup.flush(START_NS + 2 * NS_PER_S)) == 1


def test_a_late_row_is_counted_and_changes_nothing() -> None:
    rollup = Rollup(one_signal("power_w", [], []).spec)
    rollup.feed(one_signal("power_w", [1.0, 2.0], [START_NS, START_NS + NS_PER_S]))
    assert len(rollup.feed(one_signal("power_w", [500.0], [START_NS + 5]))) == 0
    assert rollup.late_rows == 1
    assert rollup.flush(FAR_NS).values[0, 0].tolist() == [2.0, 2.0, 2.0, 2.0]


def test_a_clock_that_is_stepped_back_starts_again() -> None:
    rollup = Rollup(one_signal("power_w", [], []).spec)
    rollup.feed(one_signal("power_w", [1.0], [START_NS]))
    back_ns = START_NS - CLOCK_STEP_NS - NS_PER_S
    done = rollup.feed(one_signal("power_w", [7.0, 8.0], [back_ns, back_ns + NS_PER_S]))
    assert done.time_ns.tolist() == [START_NS, back_ns]
    assert (rollup.late_rows, rollup.clock_steps) == (0, 1)


def test_bits_that_were_set_for_one_row_are_seen() -> None:
    frame = one_signal("throttle_reasons", [1.0, 128.0, 0.0, math.nan], [START_NS + i for i in range(4)])
    rollup = Rollup(frame.spec)
    rollup.feed(frame)
    assert rollup.flush(FAR_NS).values[0, 0].tolist() == [0.0, 129.0]


def test_a_signal_that_is_never_known_stays_absent() -> None:
    frame = one_signal("power_w", [math.nan, math.inf], [START_NS, START_NS + 1])
    rollup = Rollup(frame.spec)
    rollup.feed(frame)
    done = rollup.flush(FAR_NS)
    assert np.isnan(done.values).all()
    assert not done.fresh.any()


def test_decimals_follow_the_catalogue_through_the_statistic() -> None:
    assert decimals_of(EntityKind.GPU, "sm_clock_mhz") == 0
    assert decimals_of(EntityKind.GPU, "sm_clock_mhz_max") == 0
    assert decimals_of(EntityKind.GPU, "sm_clock_mhz_mean") == 2
    assert decimals_of(EntityKind.NODE, "load_1min") == 2
    assert decimals_of(EntityKind.GPU, "unheard_of") == 6
    assert "throttle_reasons_any" in rollup_spec(gpu_spec()).signals
