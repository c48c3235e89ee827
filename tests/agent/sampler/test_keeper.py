"""Each distinct update once, against a plain oracle."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.collectors.port import StampedRow
from agent.ring.ring import Ring, RingTable
from agent.sampler.keeper import RowKeeper
from telemetry.entities import Topology
from tests.agent.fakes import gpu_fast_spec


def _table(folder: Path) -> RingTable:
    ring = Ring.create(
        folder / "ring",
        [gpu_fast_spec(1)],
        node="node0",
        topology=Topology(entities=()),
        simulated=True,
        rows={"gpu_fast": 64},
    )
    return ring.tables["gpu_fast"]


@settings(max_examples=60)
@given(readings=st.lists(st.sampled_from([150.0, 151.0, math.nan, 0.0, -0.0]), max_size=40))
def test_a_value_is_fresh_exactly_when_it_differs_from_the_one_before(
    readings: list[float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = _table(tmp_path_factory.mktemp("ring"))
    keeper = RowKeeper(table)
    row = np.full(table.spec.shape, 7.0)
    kept = 0
    expected = []
    last = math.nan
    for number, reading in enumerate(readings):
        row[0, 0] = reading
        kept += keeper.keep(number, row)
        both_absent = math.isnan(reading) and math.isnan(last)
        expected.append(not both_absent and reading != last)
        last = reading
    frame = table.read(0).frame
    assert list(frame.fresh[:, 0, 0]) == expected
    assert np.array_equal(frame.values[:, 0, 0], np.array(readings), equal_nan=True)
    fresh_numbers = sum(fresh and not math.isnan(reading) for fresh, reading in zip(expected, readings, strict=True))
    assert kept == fresh_numbers + (6 if readings else 0), "the other six signals are new once"


def test_held_rows_bring_nothing_new_and_abandoned_ones_bring_absence_once(tmp_path: Path) -> None:
    table = _table(tmp_path)
    keeper = RowKeeper(table)
    keeper.keep(1, np.full(table.spec.shape, 5.0))
    keeper.hold(2)
    keeper.give_up(3)
    keeper.give_up(4)
    keeper.keep(5, np.full(table.spec.shape, 5.0))
    frame = table.read(0).frame
    assert [bool(fresh) for fresh in frame.fresh[:, 0, 0]] == [True, False, True, False, True]
    assert list(np.isnan(frame.values[:, 0, 0])) == [False, False, True, True, False]


def test_a_row_of_the_past_is_added_with_its_own_time_and_only_its_updates_are_fresh(tmp_path: Path) -> None:
    table = _table(tmp_path)
    values = np.full(table.spec.shape, np.nan)
    values[0, 0] = 151.0
    assert RowKeeper(table).add(StampedRow(time_ns=7, values=values)) == 1
    frame = table.read(0).frame
    assert frame.time_ns.tolist() == [7]
    assert np.array_equal(frame.fresh[0], ~np.isnan(values))


def test_an_update_is_in_a_row_with_its_age_which_is_no_update_and_is_held_with_it(tmp_path: Path) -> None:
    table = _table(tmp_path)
    power, age = (table.spec.signals.index(name) for name in ("power_w", "power_age_s"))
    keeper = RowKeeper(table, ((power, age),))
    row = np.full(table.spec.shape, np.nan)
    ages_s = iter([0.004, 0.004, math.nan])
    kept = []
    for number, power_w in enumerate([150.0, 150.0, 151.0, math.nan, 152.0]):
        row[0, power], row[0, age] = power_w, math.nan  # as a driver leaves the column that it knows nothing of
        kept.append(keeper.keep(number, row, lambda _: next(ages_s)))
    frame = table.read(0).frame
    assert kept == [1, 0, 1, 0, 1]
    assert np.array_equal(frame.values[:, 0, age], [0.004, 0.004, 0.004, math.nan, math.nan], equal_nan=True)
    assert frame.fresh[:, 0, age].tolist() == [True, False, True, True, False]
    assert frame.fresh[:, 0, power].tolist() == [True, False, True, True, True]
