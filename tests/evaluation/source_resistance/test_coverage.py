"""Random circuits have the resistance that they state, and each way to sample them is counted."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from analytics.supply.sampling import Sampled
from evaluation.rows import Row, within
from evaluation.source_resistance.circuits import RATE_HZ, random_circuit
from evaluation.source_resistance.coverage import Tally, cover, log_cells, stream_cells
from evaluation.source_resistance.mains import feed_spreads
from evaluation.source_resistance.plan import SUPPLY, SupplyPlan
from telemetry.documents import load_document


def test_a_circuit_is_the_same_for_a_seed_and_has_meters_about_its_truth() -> None:
    one, other = random_circuit((1, 2)), random_circuit((1, 2))
    assert np.array_equal(one.voltage_v, other.voltage_v)
    assert 0.004 < one.resistance_ohm < 0.014
    assert -float(np.polyfit(one.current_a, one.voltage_v, 1)[0]) == pytest.approx(one.resistance_ohm, rel=0.05)


def test_means_of_a_late_voltage_belong_to_the_same_current() -> None:
    circuit = random_circuit((1, 3))
    means = circuit.sampled(Sampled.MEANS, step=48, phase=0, lag=240)
    assert means.clean_a[1] == pytest.approx(float(circuit.clean_a[48:96].mean()))
    assert means.voltage_v[1] == pytest.approx(float(circuit.voltage_v[288:336].mean()))
    picks = circuit.sampled(Sampled.PICKS, step=48, phase=5, lag=-240)
    assert picks.current_a[0] == circuit.current_a[245]
    assert picks.voltage_v[0] == circuit.voltage_v[5]


def test_every_cell_is_asked_and_most_bounds_hold() -> None:
    plan = load_document(SupplyPlan, SUPPLY).coverage.model_copy(
        update={
            "rates_hz": (100.0,),
            "coarse_rates_hz": (10.0,),
            "stream_rates_hz": (100.0, 1.0),
            "slow": 90.0,
            "slow_every": 6,
        }
    )
    found = cover(plan, range(6))
    assert set(found) == {("log", cell) for cell in log_cells(plan)} | {("stream", cell) for cell in stream_cells(plan)}
    assert all(tally.asked for tally in found.values())
    fine = [tally for (how, cell), tally in found.items() if how == "log" and not cell.coarse]
    assert all(tally.asked == 6 for tally in fine)
    assert sum(tally.held for tally in fine) >= 0.85 * sum(tally.answered for tally in fine)


def test_a_refusal_is_no_answer() -> None:
    tally = Tally()
    for bounds in (None, (0.9, 1.1), (1.1, 1.2)):
        tally.take(bounds, 1.0)
    assert tally.coverage.value == 0.5
    assert tally.refusals.value == pytest.approx(1 / 3)


def test_a_share_meets_a_range_that_its_bounds_reach() -> None:
    row = Row(suite="supply", name="bounds", value=0.9, low=0.85, high=0.94)
    assert within(row, 0.93, 0.97).met is True
    assert within(row, 0.95, 0.97).met is False
    assert within(Row(suite="supply", name="bounds", value=None), 0.93, 0.97).missed


def test_feeds_at_mains_are_the_same_in_every_run_by_differences(tmp_path: Path) -> None:
    for run in range(4):
        rng = np.random.default_rng(run)
        amps = 10.0 + np.repeat(rng.uniform(-4.0, 4.0, 60), 15)
        mains = 238.0 + np.cumsum(rng.normal(0.0, 0.02, len(amps)))
        with gzip.open(tmp_path / f"run{run}__BOX__job.csv.gz", "wt", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["time_s", *(f"ch{feed}_{what}" for feed in (1, 2, 3) for what in ("volts", "amps"))])
            writer.writerows([second, *(mains[second] - 0.12 * amp, amp) * 3] for second, amp in enumerate(amps))
    feeds = feed_spreads(tmp_path, error=0.05)
    assert [feed.feed for feed in feeds] == ["BOX feed 1", "BOX feed 2", "BOX feed 3"]
    for feed in feeds:
        assert feed.runs == feed.answered == feed.sharp == 4
        assert feed.spread is not None
        assert feed.spread < 0.05 < feed.levels


def test_the_rate_of_circuits_is_that_of_the_recording() -> None:
    circuit = random_circuit((1, 4), lasts_s=2.0)
    assert len(circuit.time_s) == 2 * RATE_HZ
