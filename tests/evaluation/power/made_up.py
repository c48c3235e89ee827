"""Recordings in the layout of the public sets, made up: feeds with a known resistance, nodes with twins, pins."""

import gzip
from pathlib import Path

import numpy as np

from evaluation.injection.traces import FeedTrace, NodeTrace
from evaluation.power.chains import START_NS, Chain, Half
from evaluation.power.pin_trace import PinTrace
from evaluation.power.plan import Track
from telemetry.catalogue.pins import PIN_COUNT
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray

OHM = 0.2
TWINS = ("node_1", "node_2")


def load_w(rows: int, rng: np.random.Generator) -> FloatArray:
    """Return watts of a server whose job moves between two levels every half minute."""
    steps = (np.arange(rows) // 30) % 2
    return np.asarray(2000.0 + 1500.0 * steps + rng.normal(0.0, 5.0, rows))


def feed_arrays(rows: int, seed: int, feeds: int = 3) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return volts, amperes and watts ``(rows, feeds)`` in the steps of an analyser."""
    rng = np.random.default_rng(seed)
    shares = np.linspace(1.0, 1.2, feeds)
    watts = np.outer(load_w(rows, rng), shares / shares.sum()) * (1.0 + rng.normal(0.0, 0.001, (rows, feeds)))
    drift_v = 0.3 * np.sin(np.arange(rows) / 200.0 + seed)
    volts = 230.0 + drift_v[:, np.newaxis] - OHM * watts / 230.0 + rng.normal(0.0, 0.02, (rows, feeds))
    return np.round(volts, 2), np.round(watts / volts / 0.98, 3), np.round(watts, 1)


def feed_chain(rows: int = 600, *, feeds: int = 3, half: Half = Half.SCORED, seed: int = 1) -> Chain:
    """Return a chain of one run of feeds, of which 0.4 are for learning."""
    volts, amps, watts = feed_arrays(rows, seed, feeds)
    trace = FeedTrace(
        name="machine", time_ns=START_NS + np.arange(rows) * NS_PER_S, voltage_v=volts, current_a=amps, power_w=watts
    )
    return Chain(track=Track.FEEDS, half=half, name=f"machine, {half} 0", trace=trace, learn_rows=int(0.4 * rows))


def node_watts(rows: int, nodes: int, seed: int) -> FloatArray:
    """Return watts of nodes ``(rows, nodes)`` that do the same work, each with a level of its own."""
    rng = np.random.default_rng(seed)
    own = 1.0 + 0.01 * rng.normal(0.0, 1.0, nodes)
    return np.asarray(np.round(np.outer(load_w(rows, rng), own) + rng.normal(0.0, 10.0, (rows, nodes))))


def node_chain(rows: int = 400, *, nodes: int = 5, half: Half = Half.SCORED) -> Chain:
    """Return a chain of one job."""
    trace = NodeTrace(
        name="job",
        nodes=tuple(f"node_{number}" for number in range(nodes)),
        time_ns=START_NS + np.arange(rows) * NS_PER_S,
        power_w=node_watts(rows, nodes, 2),
    )
    return Chain(track=Track.NODES, half=half, name=f"job, {half} 0", trace=trace, learn_rows=int(0.4 * rows))


def pin_arrays(rows: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return volts and amperes of six pins in steps of 8 mV and 20 mA."""
    rng = np.random.default_rng(seed)
    shares = np.array([0.158, 0.162, 0.172, 0.164, 0.178, 0.166])
    total = 30.0 + 10.0 * ((np.arange(rows) // 20) % 2)
    amps = np.outer(total, shares) + rng.normal(0.0, 0.02, (rows, PIN_COUNT))
    volts = 12.2 - 0.005 * total[:, np.newaxis] + rng.normal(0.0, 0.002, (rows, PIN_COUNT))
    return np.round(volts / 0.008) * 0.008, np.round(amps / 0.02) * 0.02


def pin_chain(rows: int = 400) -> Chain:
    """Return a chain of one recording of pins at 2 Hz."""
    volts, amps = pin_arrays(rows, 3)
    trace = PinTrace(name="card", time_ns=START_NS + np.arange(rows) * (NS_PER_S // 2), voltage_v=volts, current_a=amps)
    return Chain(track=Track.PINS, half=Half.SCORED, name="card, scored 0", trace=trace, learn_rows=int(0.4 * rows))


def write_csv(path: Path, head: str, rows: list[list[object]]) -> Path:
    """Write a recording and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        file.write("\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def write_feeds(path: Path, rows: int, seed: int, *, feeds: int = 3) -> Path:
    """Write a log of an analyser with channels, as in mlperf_feeds."""
    volts, amps, watts = feed_arrays(rows, seed, feeds)
    names = [f"ch{feed + 1}_{name}" for feed in range(feeds) for name in ("watts", "volts", "amps", "pf")]
    head = ",".join(["time_s", "watts", "volts", "amps", "pf", *names])
    lines: list[list[object]] = []
    for row in range(rows):
        total = [round(watts[row].sum(), 1), round(volts[row].mean(), 2), round(amps[row].mean(), 3), 0.98]
        own = [(watts[row, feed], volts[row, feed], amps[row, feed], 0.98) for feed in range(feeds)]
        lines.append([row, *total, *(value for one in own for value in one)])
    return write_csv(path, head, lines)


def write_nodes(path: Path, rows: int, seed: int, *, nodes: int = 4, twins: bool = False) -> Path:
    """Write the watts of the nodes of a job, as in mlperf_training_power; with twins two share one series."""
    watts = node_watts(rows, nodes, seed)
    if twins:
        watts[:, 2] = watts[:, 1]
    lines: list[list[object]] = [
        [row + 0.01 * node, f"node_{node}", int(watts[row, node])] for node in range(nodes) for row in range(rows)
    ]
    lines += [[row, "sw_0", 690] for row in range(rows)]
    return write_csv(path, "time_s,node,watts", lines)


def write_pins(path: Path, rows: int, seed: int) -> Path:
    """Write volts and amperes of pins, as in astral_pins."""
    volts, amps = pin_arrays(rows, seed)
    head = ",".join(["time_s", *(f"pin{pin + 1}_{unit}" for unit in "va" for pin in range(PIN_COUNT)), "gpu_w"])
    lines: list[list[object]] = [
        [row / 2, *np.round(volts[row], 3).tolist(), *np.round(amps[row], 2).tolist(), ""] for row in range(rows)
    ]
    return write_csv(path, head, lines)


def write_sets(root: Path, *, rows: int = 300) -> Path:
    """Write a small copy of all sets but the one of direct current."""
    for machine in ("A", "B"):
        for run in range(4):
            if machine == "A":
                write_feeds(root / "mlperf_feeds" / f"v1__A__m{run}__Offline__run_1.csv.gz", rows, run)
            write_feeds(root / "mlperf_power" / f"v1__Vendor__{machine}__m{run}__Offline.csv.gz", rows, run, feeds=2)
    for run in range(4):
        write_nodes(root / "mlperf_training_power" / f"v1__job__model__result_{run}.csv.gz", rows, run)
    write_nodes(root / "mlperf_training_power" / "v1__twins__model__result_7_1.csv.gz", rows, 9, twins=True)
    write_pins(root / "astral_pins" / "burn.csv.gz", 1300, 1)
    write_pins(root / "astral_pins" / "game.csv.gz", 1300, 2)
    return root
