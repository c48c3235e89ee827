from pathlib import Path

import numpy as np
import pytest

from analytics.supply.sampling import Sampled
from evaluation.source_resistance.coverage import KINDS, Cell
from evaluation.source_resistance.feeds import LoggedFeed, judge_feed, load_feeds
from evaluation.source_resistance.plan import SUPPLY, SupplyPlan
from telemetry.documents import load_document

R_OHM = 0.005


def square_wave(*, seconds: float = 10.0, rate_hz: int = 1000, noise_v: float = 0.005) -> LoggedFeed:
    time_s = np.arange(round(seconds * rate_hz)) / rate_hz
    amps = np.where(time_s % 0.1 < 0.05, 20.0, 5.0) + np.where(time_s % 3.0 < 1.5, 5.0, 0.0)
    noise = np.random.default_rng(3).normal(0.0, noise_v, len(time_s))
    return LoggedFeed(name="made-up", time_s=time_s, voltage_v=12.1 - R_OHM * amps + noise, current_a=amps)


def test_a_clean_feed_meets_every_goal_also_where_it_is_skewed() -> None:
    plan = load_document(SupplyPlan, SUPPLY).recordings.model_copy(update={"phases": 8, "covered_hz": (100.0, 10.0)})
    result = judge_feed(square_wave(), plan)
    assert result.full_rate is not None
    assert result.full_rate <= plan.goals.full_rate
    assert all(error is not None and error <= plan.goals.averaged for error in result.averaged.values())
    assert {(cell.kind, cell.rate_hz, cell.skew_s): tally.asked for cell, tally in result.tallies.items()} == {
        (kind, rate_hz, skew_s): 16 if skew_s else 8
        for kind in KINDS
        for rate_hz in (100.0, 10.0)
        for skew_s in (0.0, 0.05)
    }
    assert all(tally.held >= plan.goals.covered * tally.answered for tally in result.tallies.values())
    # Picks of 10 Hz of a load of 10 Hz, half a period apart, show the wrong level where they lie beside an edge.
    refused = [cell for cell, tally in result.tallies.items() if tally.answered < tally.asked]
    assert [cell for cell in refused if cell != Cell(kind=Sampled.PICKS, rate_hz=10.0, skew_s=0.05)] == []


def test_a_feed_that_reports_nothing_has_no_error_instead_of_none_at_all() -> None:
    feed = square_wave()
    flat = LoggedFeed(
        name="flat", time_s=feed.time_s, voltage_v=feed.voltage_v, current_a=np.full_like(feed.current_a, 5.0)
    )
    assert flat.estimate().source_resistance_ohm is None


def test_a_skew_moves_the_current_against_the_voltage_either_way() -> None:
    feed = square_wave(seconds=1.0)
    late, early = feed.skewed(50), feed.skewed(-50)
    assert len(late.time_s) == len(early.time_s) == len(feed.time_s) - 50
    assert late.current_a[0] == feed.current_a[50]
    assert late.voltage_v[0] == feed.voltage_v[0]
    assert early.voltage_v[0] == feed.voltage_v[50]


def test_the_feed_that_carries_the_load_is_found_in_a_file(tmp_path: Path) -> None:
    feed = square_wave(seconds=1.0)
    amps = np.stack([np.zeros_like(feed.current_a), feed.current_a], axis=1)
    volts = np.stack([np.full_like(feed.voltage_v, 12.0), feed.voltage_v], axis=1)
    np.savez(tmp_path / "one.npz", t_s=feed.time_s, voltage_v=volts, current_a=amps)
    (loaded,) = load_feeds(tmp_path)
    assert loaded.name == "one"
    assert loaded.least_squares_ohm == pytest.approx(R_OHM, rel=0.02)
