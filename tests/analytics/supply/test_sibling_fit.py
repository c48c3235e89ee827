"""A current that is late leaves the line on which the currents of its bus lie."""

import tracemalloc

import numpy as np
import pytest

from analytics.connectivity import GroupArray
from analytics.supply.pair_rows import PairRows
from analytics.supply.sibling_fit import SiblingFit
from analytics.supply.window_fit import ResistanceWindows
from telemetry.frames import FloatArray, filled

ROWS = 40
ONE_BUS: GroupArray = np.zeros(3, dtype=np.intp)


def steps(seed: int, blocks: int) -> FloatArray:
    """Return a load that steps between two levels at random times, in amperes."""
    rng = np.random.default_rng(seed)
    return np.repeat(rng.choice([10.0, 40.0], blocks * ROWS // 4), 4)


def rows_of(amps: FloatArray) -> PairRows:
    times = list(range(len(amps)))
    used = np.isfinite(amps)
    return PairRows(time_ns=times, places=times, voltage_v=np.full(amps.shape, 12.0), current_a=amps, used=used)


def pair_windows(n: int, correlation: FloatArray | float = -0.9) -> ResistanceWindows:
    known, unknown = np.ones(n, dtype=np.bool_), np.full(n, np.nan)
    return ResistanceWindows(
        complete=known,
        moved=known,
        skewed=~known,
        correlation=np.broadcast_to(correlation, n),
        spread_a=unknown,
        scatter_v=unknown,
        resistance_ohm=unknown,
        sd_ohm=unknown,
        open_v=unknown,
        load_hz=unknown,
    )


def fitted(
    fit: SiblingFit, amps: FloatArray, *, buses: GroupArray = ONE_BUS, correlation: FloatArray | float = -0.9
) -> SiblingFit:
    """Return the fit after blocks of rows ``(n_rows, n_supplies)``."""
    n = amps.shape[1]
    for block in amps.reshape(-1, ROWS, n):
        fit = fit.after_rows(rows_of(block), buses)
        fit = fit.after_block(pair_windows(n, correlation), np.full(n, 0.1), np.full(n, 25.0), buses)
    return fit


def shared(load_a: FloatArray, n: int, *, late: int = 0) -> FloatArray:
    """Return the currents of supplies that share a load; that of the first is late by so many rows."""
    amps = load_a[:, np.newaxis] * np.linspace(0.9, 1.1, n)
    amps[:, 0] = np.roll(amps[:, 0], late)
    return amps


def usual(n: int = 3, *, buses: GroupArray = ONE_BUS) -> SiblingFit:
    return fitted(filled(SiblingFit, n), shared(steps(1, 8), n), buses=buses)


USUAL_OWN = np.full(3, 0.2)
# A stiff rail on a coarse meter: the voltage follows its noise, whatever the current does.
COARSE_OWN, COARSE = np.full(8, 0.8), -0.45


def test_of_three_supplies_the_late_one_fits_the_others_worst() -> None:
    fit = fitted(usual(), shared(steps(2, 3), 3, late=3), correlation=COARSE)
    assert fit.late(COARSE_OWN[:3], ONE_BUS).tolist() == [True, False, False]


@pytest.mark.parametrize(("own", "late"), [(-0.9, False), (-0.3, True)])
def test_a_current_that_its_own_voltage_follows_as_before_is_not_late(own: float, *, late: bool) -> None:
    correlation = np.array([own, -0.9, -0.9])
    fit = fitted(usual(), shared(steps(2, 3), 3, late=3), correlation=correlation)
    assert fit.late(USUAL_OWN, ONE_BUS).tolist() == [late, False, False]


def read_apart(seed: int, step_s: float, apart_s: FloatArray) -> FloatArray:
    """Return four minutes of a job of steps on supplies that convert every 0.13 s, each at a phase of its own."""
    rng = np.random.default_rng(seed)
    ends_s = np.cumsum(rng.normal(step_s, 0.02 * step_s, 2000))
    edges = np.sort(np.concatenate((ends_s, ends_s - 0.25 * step_s)))
    taken_s = np.floor((np.arange(60 * ROWS)[:, np.newaxis] * 0.1 - apart_s) / 0.13) * 0.13 + apart_s
    amps = np.where(np.searchsorted(edges, taken_s) % 2 == 0, 22.0, 16.0)
    return np.asarray(amps + rng.normal(0.0, 0.15, amps.shape), dtype=np.float64)


@pytest.mark.parametrize("seed", range(12))
def test_a_faster_job_blurs_meters_that_are_read_apart_and_shows_none_of_them(seed: int) -> None:
    bus: GroupArray = np.zeros(4, dtype=np.intp)
    apart_s = np.random.default_rng(100 + seed).uniform(0.0, 0.13, 4)
    fit = fitted(filled(SiblingFit, 4), read_apart(seed, 1.8, apart_s), buses=bus, correlation=COARSE)
    found: list[list[bool]] = []
    for block in read_apart(seed + 50, 0.7, apart_s).reshape(-1, ROWS, 4):
        fit = fitted(fit, block, buses=bus, correlation=COARSE)
        found.append(fit.late(COARSE_OWN[:4], bus).tolist())
    in_a_row = np.lib.stride_tricks.sliding_window_view(np.array(found), 3, axis=0).all(axis=2)
    assert not in_a_row.any()


@pytest.mark.parametrize("seed", range(12))
def test_supplies_that_a_meter_reads_in_turn_as_the_job_steps_are_not_judged(seed: int) -> None:
    bus: GroupArray = np.zeros(6, dtype=np.intp)
    rng = np.random.default_rng(seed)
    ends_s = np.cumsum(rng.normal(0.9, 0.03, 400))
    edges = np.sort(np.concatenate((ends_s, ends_s - 0.3)))
    # One supply every 0.05 s, so each is new every 0.3 s and held between.
    ticks = np.arange(60 * ROWS)[:, np.newaxis]
    taken_s = 0.05 * ((ticks - np.arange(6)) // 6 * 6 + np.arange(6))
    amps = np.where(np.searchsorted(edges, taken_s) % 2 == 0, 22.0, 12.0)
    fit, found = filled(SiblingFit, 6), []
    for block in amps.reshape(-1, ROWS, 6):
        fit = fitted(fit, block, buses=bus, correlation=COARSE)
        found.append(fit.late(COARSE_OWN[:6], bus))
    assert not np.any(found)


def test_a_bus_whose_job_is_not_learnt_by_one_is_learnt_by_none() -> None:
    bus: GroupArray = np.zeros(8, dtype=np.intp)
    before = usual(8, buses=bus)
    after = fitted(before, shared(steps(2, 1), 8, late=3), buses=bus)
    assert (after.windows == before.windows).all()


@pytest.mark.parametrize(("correlation", "late"), [((0.0, -0.9), [True, False]), ((0.0, 0.0), [False, False])])
def test_of_two_supplies_the_voltage_shows_which_one_is_late(
    correlation: tuple[float, float], late: list[bool]
) -> None:
    bus = ONE_BUS[:2]
    fit = fitted(usual(2, buses=bus), shared(steps(2, 3), 2, late=3), buses=bus, correlation=np.array(correlation))
    assert fit.late(USUAL_OWN[:2], bus).tolist() == late


def test_a_change_of_share_is_no_delay() -> None:
    amps = shared(steps(2, 3), 3)
    amps[:, 0] = 0.5 * amps[:, 0] + 3.0
    assert not fitted(usual(), amps).late(USUAL_OWN, ONE_BUS).any()


def test_a_job_that_blurs_all_supplies_alike_shows_none_of_them() -> None:
    rng = np.random.default_rng(3)
    amps = shared(steps(2, 3), 3) + rng.normal(0.0, 15.0, (3 * ROWS, 3))
    assert not fitted(usual(), amps, correlation=-0.3).late(USUAL_OWN, ONE_BUS).any()


def test_supplies_of_other_buses_are_no_siblings() -> None:
    buses: GroupArray = np.array([0, 1, 2])
    fit = fitted(usual(buses=buses), shared(steps(2, 3), 3, late=3), buses=buses)
    assert np.isnan(fit.blur).all()


def test_a_load_that_stands_still_shows_nothing() -> None:
    rng = np.random.default_rng(4)
    fit = fitted(usual(), 25.0 + rng.normal(0.0, 0.1, (3 * ROWS, 3)))
    assert not fit.late(USUAL_OWN, ONE_BUS).any()


def test_the_sums_do_not_depend_on_how_rows_are_cut() -> None:
    amps = shared(steps(5, 1), 3)
    at_once = filled(SiblingFit, 3).after_rows(rows_of(amps), ONE_BUS)
    cut = filled(SiblingFit, 3)
    for start, stop in ((0, 1), (1, 17), (17, ROWS)):
        cut = cut.after_rows(rows_of(amps[start:stop]), ONE_BUS)
    assert (at_once.sums == cut.sums).all()


def test_the_supplies_of_a_fleet_cost_memory_by_their_number_and_not_by_its_square() -> None:
    n_supplies = 4000
    buses: GroupArray = np.arange(n_supplies) // 2
    rows, empty = rows_of(shared(steps(5, 1)[:4], n_supplies)), filled(SiblingFit, n_supplies)
    tracemalloc.start()
    empty.after_rows(rows, buses)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 8 * n_supplies**2 / 4
