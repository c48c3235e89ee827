"""The fleet's whole judgement at work in a process of its own. Run as a module with its task as JSON.

Windows are made up beforehand: nodes of eight GPUs at work, two supplies, four fans and a job each. What is measured is
everything behind the reading of the store: values held, every detector, common mode, incident book. What it takes to
keep the state once, and to begin, is a row of its own.
"""

import json
import resource
import sys
from collections.abc import Callable
from importlib import import_module

import numpy as np

from analytics.fleet.judge import FleetJudge, FleetSettings
from analytics.fleet.snapshot import pack_judge
from analytics.fleet.topology import fleet_entity
from analytics.fleet.window import JUDGED, FleetTable, FleetWindow
from bench.cores import pin
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray

START_NS = 1_700_000_000 * NS_PER_S // (3600 * NS_PER_S) * 3600 * NS_PER_S
WINDOW_S = 5
GPUS, SUPPLIES, FANS = 8, 2, 4
_KINDS = ((EntityKind.NODE, 1), (EntityKind.GPU, GPUS), (EntityKind.SUPPLY, SUPPLIES), (EntityKind.FAN, FANS),
          (EntityKind.JOB, 1))  # fmt: skip
# As many windows differ; then they come again with later stamps.
_WINDOWS = 4

_MEANS: dict[str, tuple[float, float]] = {
    "power_w": (420.0, 60.0), "sm_clock_mhz": (1600.0, 20.0), "gpu_util_ratio": (0.97, 0.01),
    "mem_util_ratio": (0.5, 0.05), "hbm_temp_c": (70.0, 1.0),
    "throttle_reasons": (0.0, 0.0), "gpu_temp_c": (58.0, 1.0), "slowdown_temp_c": (87.0, 0.0), "margin_c": (29.0, 1.0),
    "power_limit_w": (700.0, 0.0), "memory_used_bytes": (6e10, 0.0), "power_brake_s": (0.0, 0.0),
    "pci_present": (1.0, 0.0), "pcie_generation": (5.0, 0.0), "pcie_width": (16.0, 0.0),
    "max_pcie_generation": (5.0, 0.0), "max_pcie_width": (16.0, 0.0), "pcie_replays": (3.0, 0.0),
    "voltage_v": (12.05, 0.0), "current_a": (140.0, 0.0), "voltage_min_v": (12.0, 0.0), "inlet_temp_c": (24.0, 0.2),
    "fan_rpm": (9000.0, 30.0), "fan_ratio": (0.6, 0.0), "steps": (0.0, 0.0),
}  # fmt: skip


def windows_of(gpus: int, seed: int = 1) -> list[FleetWindow]:
    """Make windows of nodes with so many GPUs in all."""
    rng = np.random.default_rng(seed)
    names = [f"node{number}" for number in range(max(1, gpus // GPUS))]
    parts = {kind: _parts(kind, names, each, gpus) for kind, each in _KINDS}
    made = []
    for number in range(_WINDOWS):
        tables = {}
        for kind, (entities, nodes) in parts.items():
            values = np.full((WINDOW_S, len(entities), len(JUDGED[kind])), np.nan)
            for column, signal in enumerate(JUDGED[kind]):
                if signal in _MEANS:
                    mean, spread = _MEANS[signal]
                    values[:, :, column] = mean + spread * rng.standard_normal(values.shape[:2])
            tables[kind] = FleetTable(entities=entities, nodes=nodes, signals=JUDGED[kind], values=values)
        _load(tables[EntityKind.SUPPLY], rng)
        tables[EntityKind.JOB].values[:, :, 0] = np.arange(number * WINDOW_S, (number + 1) * WINDOW_S)[:, np.newaxis]
        start_ns = START_NS + number * WINDOW_S * NS_PER_S
        made.append(FleetWindow(start_ns=start_ns, stop_ns=start_ns + WINDOW_S * NS_PER_S, tables=tables))
    return made


def _parts(kind: EntityKind, names: list[str], each: int, gpus: int) -> tuple[tuple[Entity, ...], tuple[str, ...]]:
    each = min(each, gpus) if kind is EntityKind.GPU else each
    pairs = [(name, number) for name in names for number in range(each)]
    if kind is EntityKind.NODE:
        entities = tuple(Entity(kind=kind, key=name, name=name) for name in names)
        return tuple(fleet_entity(one, one.key) for one in entities), tuple(names)
    entities = tuple(
        fleet_entity(
            Entity(kind=kind, key=f"{kind}-{name}-{number}" if kind is EntityKind.GPU else f"{kind}{number}",
                   name=f"{kind}{number}"), name)
        for name, number in pairs
    )  # fmt: skip
    return entities, tuple(name for name, _ in pairs)


def _load(table: FleetTable, rng: np.random.Generator) -> None:
    """Make a load step through a supply of two milliohm, so that its path can be estimated."""
    amps = 90.0 + 100.0 * rng.integers(0, 2, table.values.shape[:2]) + rng.standard_normal(table.values.shape[:2])
    volts: FloatArray = 12.2 - 0.002 * amps + 0.002 * rng.standard_normal(amps.shape)
    for name, rows in (
        ("current_a", amps),
        ("voltage_v", volts),
        ("voltage_min_v", volts - 0.01),
        ("power_w", volts * amps),
    ):
        table.values[:, :, JUDGED[EntityKind.SUPPLY].index(name)] = rows


def judged(gpus: int, seconds: int, warm_s: int) -> dict[str, float]:
    """Return the CPU seconds for so many seconds of data after some to begin with, and what it held in memory."""
    made = windows_of(gpus)
    before_mib = _resident_mib()
    judge = FleetJudge(FleetSettings())
    incidents = 0
    cpu_s = {False: 0.0, True: 0.0}
    for number in range((warm_s + seconds) // WINDOW_S):
        window = _later(made[number % _WINDOWS], number)
        began = _cpu_s()
        found = judge.step(window)
        cpu_s[number >= warm_s // WINDOW_S] += _cpu_s() - began
        incidents += len(found.incidents)
    began = _cpu_s()
    pack_judge(judge)
    return {
        "keep_cpu_s": _cpu_s() - began,
        "cpu_s": cpu_s[True],
        "begin_cpu_s": cpu_s[False],
        "values": float(sum(np.isfinite(table.values).sum() for table in made[0].tables.values())) / WINDOW_S,
        "state_mib": _resident_mib() - before_mib,
        "resident_mib": _resident_mib(),
        "incidents": float(incidents),
    }


def _later(window: FleetWindow, number: int) -> FleetWindow:
    start_ns = START_NS + number * WINDOW_S * NS_PER_S
    tables = window.tables
    return FleetWindow(start_ns=start_ns, stop_ns=start_ns + WINDOW_S * NS_PER_S, tables=tables)


def isolation_forest(rows: int) -> dict[str, float]:
    """Return the CPU seconds of scikit-learn's Isolation Forest to score rows of GPU values, once it is fitted."""
    isolation_forest_of = import_module("sklearn.ensemble").IsolationForest

    values = _gpu_rows(rows)
    forest = isolation_forest_of(random_state=1, n_jobs=1).fit(values[:2000])
    began = _cpu_s()
    forest.score_samples(values)
    return {"cpu_s": _cpu_s() - began, "values": float(values.size)}


def half_space_trees(rows: int) -> dict[str, float]:
    """Return the CPU seconds of river's half-space trees to score rows of GPU values and learn from them."""
    values = _gpu_rows(rows)
    low, high = values.min(axis=0), values.max(axis=0)
    scaled = (values - low) / np.where(high > low, high - low, 1.0)
    names = [str(column) for column in range(values.shape[1])]
    samples = [dict(zip(names, row, strict=True)) for row in scaled.tolist()]
    trees = import_module("river.anomaly").HalfSpaceTrees(seed=1)
    began = _cpu_s()
    for one in samples:
        trees.score_one(one)
        trees.learn_one(one)
    return {"cpu_s": _cpu_s() - began, "values": float(values.size)}


def _gpu_rows(rows: int) -> FloatArray:
    table = windows_of(max(GPUS, rows // WINDOW_S // GPUS * GPUS))[0].tables[EntityKind.GPU]
    flat: FloatArray = table.values.reshape(-1, len(table.signals))
    return flat[:, np.isfinite(flat).all(axis=0)][:rows]


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _resident_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print what one task gave."""
    task = json.loads(sys.argv[1])
    pin(task.pop("core"))
    subjects: dict[str, Callable[..., dict[str, float]]] = {
        "judged": judged,
        "isolation_forest": isolation_forest,
        "half_space_trees": half_space_trees,
    }
    print(json.dumps(subjects[task.pop("subject")](**task)))


if __name__ == "__main__":
    main()
