"""Loads and rooms of the suite `heat`: stretches of public recordings, scaled to a GPU and to a room."""

import csv
import gzip
from functools import lru_cache
from pathlib import Path

import numpy as np

from evaluation.heat.plan import InletPlan, LoadPlan
from evaluation.rows import data_folder
from simulator.files.gpu import GpuPart
from telemetry.errors import EnvironmentLacksError
from telemetry.frames import FloatArray


def loads_w(plan: LoadPlan, part: GpuPart, chances: list[np.random.Generator], *, seconds: int) -> FloatArray:
    """Return power of a GPU of each node, ``(seconds, n_nodes)``: traces one after the other, in an order by chance.

    A recorded second is a second here; EnvironmentLacksError where the recordings are not there.
    """
    traces = _traces(plan)
    return np.stack([_one_load(plan, part, traces, chance, seconds) for chance in chances], axis=1)


def rooms_c(plan: InletPlan, chances: list[np.random.Generator], *, seconds: int) -> FloatArray:
    """Return temperature before each node, ``(seconds, n_nodes)``: a stretch of the recording, from hour to hour."""
    path = data_folder(plan.folder) / plan.file
    if not path.is_file():
        raise EnvironmentLacksError(f"{path}: no such file; expected the room's temperatures by the hour")
    with path.open(newline="", encoding="utf-8") as lines:
        by_hour_c = np.array([(float(row["value"]) - 32.0) * 5.0 / 9.0 for row in csv.DictReader(lines)])
    by_hour_c += plan.median_c - np.median(by_hour_c)
    hours = np.arange(seconds) / 3600.0
    starts = [int(chance.integers(len(by_hour_c) - int(hours[-1]) - 2)) for chance in chances]
    return np.stack([np.interp(hours + start, np.arange(len(by_hour_c)), by_hour_c) for start in starts], axis=1)


@lru_cache(maxsize=2)
def _traces(plan: LoadPlan) -> tuple[FloatArray, ...]:
    """Return the traces, each from 0 to 1, a value a second."""
    folder = data_folder(plan.folder)
    index = folder / "INDEX.csv"
    if not index.is_file():
        raise EnvironmentLacksError(f"{index}: no such file; expected the list of the recordings")
    with index.open(newline="", encoding="utf-8") as lines:
        names = [
            row.get("file") or f"{row['trace']}.csv.gz"
            for row in csv.DictReader(lines)
            if float(row["w_max"]) > plan.least_w
            and float(row.get("w_min", 0.0)) <= plan.least_swing * float(row["w_max"])
            and int(row.get("n") or row["rows"]) >= plan.least_rows
        ]
    picked = np.unique(np.linspace(0, len(names) - 1, min(plan.traces, len(names))).astype(np.intp))
    return tuple(_trace(folder / names[place]) for place in picked)


def _trace(path: Path) -> FloatArray:
    """Return one trace; of several nodes in a file the first one's, a recorded second being a second here."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    rows = [row for row in rows if row.get("node") == rows[0].get("node")]
    power_w = np.array([float(row["watts"]) for row in rows])
    if "time_s" in rows[0] and "node" in rows[0]:
        time_s = np.array([float(row["time_s"]) for row in rows])
        power_w = np.interp(np.arange(time_s[0], time_s[-1]), time_s, power_w)
    power_w = power_w[power_w >= 0.0]  # a reading that failed is below zero
    level: FloatArray = (power_w - power_w.min()) / (power_w.max() - power_w.min())
    return level


def _one_load(
    plan: LoadPlan, part: GpuPart, traces: tuple[FloatArray, ...], chance: np.random.Generator, seconds: int
) -> FloatArray:
    low_w, limit_w = part.power.idle_w, part.power_limit_w.default
    parts: list[FloatArray] = []
    while sum(map(len, parts)) < seconds:
        high_w = chance.uniform(*plan.high_ratio) * limit_w
        level = np.tile(traces[chance.integers(len(traces))], chance.integers(1, plan.repeats + 1))
        parts.append(low_w + level * (high_w - low_w))
    return np.concatenate(parts)[:seconds]
