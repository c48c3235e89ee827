"""Faults of a recording as it was written: named in one line each, left out and counted."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from evaluation.recording_faults import LeftOut, cleaned
from telemetry.recording import Recording, read_recording

START_NS = 1_700_000_000 * 10**9
Row = tuple[float, str, str, str, float]


def csv_of(path: Path, rows: Iterable[Row]) -> Path:
    lines = [
        f"{START_NS + round(at_s * 1e9)},{kind},{name},{signal},{value}," for at_s, kind, name, signal, value in rows
    ]
    path.write_text("\n".join(["time_ns,kind,entity,signal,value,text", *lines]) + "\n", encoding="utf-8")
    return path


def feed_rows(n_feeds: int = 2, rows: int = 120) -> list[Row]:
    """Rows of an analyser: volts, amperes and watts of each feed, once a second."""
    rng = np.random.default_rng(1)
    volts = np.round(206.0 + rng.normal(0.0, 0.05, (rows, n_feeds)), 2)
    amps = np.round(5.0 + np.arange(n_feeds) + rng.normal(0.0, 0.1, (rows, n_feeds)), 4)
    found: list[Row] = []
    for row in range(rows):
        for feed in range(n_feeds):
            name = f"feed{feed}"
            found.append((row, "supply", name, "voltage_v", volts[row, feed]))
            found.append((row, "supply", name, "current_a", amps[row, feed]))
            found.append((row, "supply", name, "power_w", round(volts[row, feed] * amps[row, feed], 1)))
    return found


def of_rows(tmp_path: Path, rows: Iterable[Row]) -> tuple[Recording, Recording, tuple[LeftOut, ...]]:
    read = read_recording(csv_of(tmp_path / "one.csv", rows))
    return read, *cleaned(read)


def test_a_sound_recording_is_left_as_it_is(tmp_path: Path) -> None:
    before, after, left = of_rows(tmp_path, feed_rows(3))
    assert left == ()
    assert len(after.samples.time_ns) == len(before.samples.time_ns)


def test_rows_of_minus_one_are_failed_reads(tmp_path: Path) -> None:
    rows = [(*row[:4], -1.0) if 40 <= row[0] < 43 else row for row in feed_rows()]
    before, after, (left,) = of_rows(tmp_path, rows)
    assert left.readings == 18 == len(before.samples.time_ns) - len(after.samples.time_ns)
    assert left.text == "18 readings of -1 at 3 times (supply feed0, supply feed1): failed reads, left out"
    assert after.samples.value.min() > 0.0


def test_a_coarse_meter_of_a_supply_that_is_off_toggles_about_nothing(tmp_path: Path) -> None:
    coarse = [(at_s, "supply", "psu0", "power_w", (-2.0, 0.0, 2.0)[at_s % 3]) for at_s in range(60)]
    assert of_rows(tmp_path, coarse)[2] == ()


def test_of_readings_with_one_stamp_the_first_counts(tmp_path: Path) -> None:
    rows = feed_rows()
    again = [(*row[:4], row[4] * 2.0) for row in rows[30:36]]
    _, after, (left,) = of_rows(tmp_path, rows + again)
    assert (left.readings, len(after.samples.time_ns)) == (6, len(rows))
    assert "have the stamp of the one before" in left.text
    assert after.samples.value.max() < 1500.0


@pytest.mark.parametrize(("hours", "shown"), [(-5.0, "5 h behind"), (5.5, "5.5 h ahead of")])
def test_a_clock_hours_off_is_named_and_its_readings_left_out(tmp_path: Path, hours: float, shown: str) -> None:
    rng = np.random.default_rng(2)
    rows: list[Row] = [
        (at_s + (3600.0 * hours if node == 3 else 0.0), "node", f"n{node}", "node_power_w", rng.normal(6000.0, 50.0))
        for at_s in range(120)
        for node in range(5)
    ]
    _, after, (left,) = of_rows(tmp_path, rows)
    assert left.text == f"clock of node n3 is {shown} the others: its 120 readings left out"
    assert (after.samples.time_ns.max() - after.samples.time_ns.min()) / 1e9 == 119.0


@pytest.mark.parametrize("what", ["mean", "sum"])
def test_a_channel_made_of_the_others_is_no_feed(tmp_path: Path, what: str) -> None:
    rows, made = feed_rows(3), list[Row]()
    for at_s in range(120):
        parts = {signal: [row[4] for row in rows if row[0] == at_s and row[3] == signal] for signal in
                 ("voltage_v", "current_a", "power_w")}  # fmt: skip
        watts = np.sum(parts["power_w"]) if what == "sum" else np.mean(parts["power_w"])
        made += [
            (at_s, "supply", "total", "voltage_v", round(float(np.mean(parts["voltage_v"])), 2)),
            (at_s, "supply", "total", "power_w", float(watts)),
        ]
    _, after, (left,) = of_rows(tmp_path, rows + made)
    assert left.text == f"total shows the {what} of feed0, feed1, feed2: its 240 readings left out"
    assert {entity for _, entity, _ in (after.samples.places[place] for place in np.unique(after.samples.place))} == {
        "feed0", "feed1", "feed2"
    }  # fmt: skip
