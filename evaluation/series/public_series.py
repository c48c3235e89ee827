"""The three public sets of labelled series: SMD, ASD and NAB, as a healthy stretch and a stretch with events."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from telemetry.errors import EnvironmentLacksError
from telemetry.frames import FloatArray, MaskArray

SETS = ("smd", "asd", "nab")
# The share of a NAB series that is given for learning (Lavin and Ahmad, "Evaluating real-time anomaly detection
# algorithms", ICMLA 2015: the probationary period).
NAB_HEALTHY_SHARE = 0.15


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelledSeries:
    """Machine: rows to learn from, rows to be scored ``(n_rows, n_columns)``, and which of these are events."""

    name: str
    healthy: FloatArray
    rows: FloatArray
    truth: MaskArray


def load_set(folder: Path, name: str) -> tuple[LabelledSeries, ...]:
    """Return every machine of one set, by name; EnvironmentLacksError where the folder holds none."""
    place = folder / name
    found = _nab(place) if name == "nab" else tuple(_npz(path) for path in sorted(place.glob("*.npz")))
    if not found:
        raise EnvironmentLacksError(f"{place}: no series of the set {name}; set RAILWATCH_DATA to where the sets are")
    return found


def _npz(path: Path) -> LabelledSeries:
    with np.load(path) as held:
        return LabelledSeries(
            name=path.stem,
            healthy=held["train"].astype(np.float64),
            rows=held["test"].astype(np.float64),
            truth=held["test_label"] > 0,
        )


def _nab(place: Path) -> tuple[LabelledSeries, ...]:
    windows = place / "windows.json"
    if not windows.exists():
        return ()
    events = json.loads(windows.read_text())
    return tuple(_nab_series(path, events.get(path.name, [])) for path in sorted(place.glob("*.csv")))


def _nab_series(path: Path, events: list[list[str]]) -> LabelledSeries:
    with path.open(newline="") as lines:
        rows = list(csv.reader(lines))[1:]
    times = np.array([row[0][:19] for row in rows], dtype="datetime64[s]")
    truth = np.zeros(len(rows), dtype=np.bool_)
    for first, last in events:
        truth |= (times >= np.datetime64(first[:19])) & (times <= np.datetime64(last[:19]))
    values = np.array([[float(row[1])] for row in rows])
    cut = int(NAB_HEALTHY_SHARE * len(rows))
    return LabelledSeries(name=path.stem.split("__")[-1], healthy=values[:cut], rows=values[cut:], truth=truth[cut:])
