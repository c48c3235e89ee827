"""Measures of the golden table: heat, hangs, joints, power sensors, and numbers that are put in."""

import numpy as np

from simulator.golden.table import GoldenRow
from simulator.golden.traces import Traces, node_of, plant_of, scenario_of
from simulator.plant.ageing import aged_joint_mohm
from simulator.plant.plant import BLOCK_MS
from simulator.sensors.bank import SensorBank

FULL_LOAD_A = 46.0  # of each of three branches: the peak of a step, 1670 W at 12.05 V
TRAINING_SHARE = 0.6  # assumption: of the time, during which a node trains


def hottest_c(traces: Traces, row: GoldenRow) -> float:
    """Return the temperature of the hottest die at the end of a run."""
    return float(traces.of(row.run).state.gpus.die_c.max())


def excess_k(traces: Traces, row: GoldenRow) -> float:
    """Return by how much GPU 2 is hotter than its siblings, less what the air arrives warmer there."""
    trace = traces.of(row.run)
    above_air_k = trace.state.gpus.die_c - np.array([slot.preheat_k for slot in trace.node.slots])
    return float(above_air_k[2] - np.delete(above_air_k, 2).mean())


def fan_rpm(traces: Traces, row: GoldenRow) -> float:
    """Return the speed of the fastest fan at the end of a run."""
    return float(traces.of(row.run).state.fan_rpm.max())


def nv_queue_percent(traces: Traces, row: GoldenRow) -> float:
    """Return the share of a CPU that nv_queue takes at the end of a run, in per cent."""
    return 100.0 * traces.of(row.run).state.nv_queue_ratio


def nv_irq_percent(traces: Traces, row: GoldenRow) -> float:
    """Return the same of the interrupt thread."""
    return 100.0 * traces.of(row.run).state.nv_irq_ratio


def joint_mohm(traces: Traces, row: GoldenRow) -> float:
    """Return the resistance of the first joint after `at` days of training."""
    if row.at is None:
        raise ValueError(f"row {row.id}: at, the age in days")
    supply = node_of(traces.run(row.run)).supply
    new_mohm, current_a = np.array([supply.units[0].joint_mohm]), np.array([FULL_LOAD_A])
    return float(aged_joint_mohm(new_mohm, current_a, row.at, supply.ageing, duty=TRAINING_SHARE)[0])


def node_value(traces: Traces, row: GoldenRow) -> float:
    """Return a number of the node file, by its dotted key; a list gives how many there are."""
    if row.key is None:
        raise ValueError(f"row {row.id}: key, in the node file")
    value: object = node_of(traces.run(row.run))
    for part in row.key.split("."):
        value = value[int(part)] if isinstance(value, tuple) else getattr(value, part)
    if isinstance(value, int | float):
        return float(value)
    raise ValueError(f"row {row.id}: the key of a number, not {row.key}")


def power_update_ms(traces: Traces, row: GoldenRow) -> float:
    """Return the time between two values of a board's power sensor, the mean over boards and a run."""
    run = traces.run(row.run)
    plant = plant_of(run)
    bank = SensorBank(node_of(run), scenario_of(run), run.seed)
    seen: list[set[int]] = [set() for _ in plant.state.gpus.present]
    for _ in range(round(1000.0 * run.length) // BLOCK_MS):
        bank.advance(plant.advance(BLOCK_MS), plant.state)
        for times, at_ms in zip(seen, bank.driver.power.at_ms, strict=True):
            times.add(int(at_ms))
    return float(np.mean([np.diff(sorted(times - {0})).mean() for times in seen]))  # 0: before the first value
