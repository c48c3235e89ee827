"""Measures of the golden table: what the boards' power sensors make of the truth."""

import numpy as np

from simulator.golden.table import GoldenRow
from simulator.golden.traces import Traces, node_of, plant_of, scenario_of
from simulator.plant.plant import BLOCK_MS
from simulator.sensors.bank import SensorBank


def power_update_ms(traces: Traces, row: GoldenRow) -> float:
    """Return the time between two values of a board's power sensor, the mean over boards and a run."""
    run = traces.run(row.run)
    plant = plant_of(run)
    bank = SensorBank(node_of(run), scenario_of(run), run.seed)
    seen: list[set[int]] = [set() for _ in plant.state.gpus.present]
    for _ in range(round(1000.0 * run.length) // BLOCK_MS):
        bank.advance(plant.advance(BLOCK_MS), plant.state)
        for times, at_ms in zip(seen, bank.gpu_power_at_ms, strict=True):
            times.add(int(at_ms))
    return float(np.mean([np.diff(sorted(times - {0})).mean() for times in seen]))  # 0: before the first value
