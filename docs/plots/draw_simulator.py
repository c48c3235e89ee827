"""Draws the plots of docs/explanation/simulator.md: ``make plots``."""

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from simulator.files.node import load_node
from simulator.files.scenario import load_scenario
from simulator.fleet.fleet import Fleet
from simulator.plant.events import PlantEventKind
from simulator.plant.plant import BLOCK_MS, Plant
from simulator.sensors.bank import SensorBank

IMAGES = Path(__file__).parents[1] / "images"
POWER_LIMIT_W = 200.0
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44")  # Paul Tol's bright scheme, distinct to colour-blind readers
TRUE, SENSED = "#4477aa", "#ee6677"


def training_step() -> None:
    """Draw training at 1 kHz: what each GPU draws, what NVML shows of it, and what the rail does."""
    node = load_node("v100x4-double-ring")
    scenario = load_scenario("healthy", node)
    plant, bank = Plant(node, scenario, 1), SensorBank(node, scenario, 1)
    time_s, power_w, rail_v, sensed_w = [], [], [], []
    for _ in range(500):
        stretch = plant.advance(BLOCK_MS)
        bank.advance(stretch, plant.state)
        if plant.state.now_ms > 3000:
            time_s.append((stretch.time_ms - 3000) / 1000.0)
            power_w.append(stretch.power_w)
            rail_v.append(stretch.voltage_v)
            sensed_w.append(np.repeat(bank.driver.power.shown[0], BLOCK_MS))
    time = np.concatenate(time_s)
    figure, (upper, lower) = plt.subplots(2, 1, sharex=True, figsize=(9, 5.5), layout="constrained")
    true_w = np.concatenate(power_w)
    for gpu in range(node.gpu_count):
        upper.plot(time, true_w[:, gpu], color=COLOURS[gpu], linewidth=0.7, label=f"GPU {gpu}, true")
    upper.step(
        time, np.concatenate(sensed_w), color="black", linewidth=1.2, where="post", label="GPU 0, as NVML shows it"
    )
    upper.set_ylabel("power of a GPU, W")
    upper.legend(ncols=5, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    lower.plot(time, np.concatenate(rail_v), color=TRUE, linewidth=0.8)
    lower.set_ylabel("12 V rail at the modules, V")
    lower.set_xlabel("time, s")
    figure.savefig(IMAGES / "simulator-step.png", dpi=130)
    plt.close(figure)


def drop() -> None:
    """Draw a drop under a power limit: the peaks, the dips, the moment a GPU leaves the bus, and its siblings."""
    node = load_node("v100x4-banana")
    plant = Plant(node, load_scenario("healthy", node), 1)
    plant.obey(replace(plant.settings, power_limit_w=np.full(node.gpu_count, POWER_LIMIT_W)))
    plant.settle()
    stretches, lost_ms, stop_ms = [], None, 120_000
    lost: dict[int, float] = {}
    while plant.state.now_ms < stop_ms:
        stretches.append(plant.advance(BLOCK_MS))
        for event in plant.take_events():
            if event.kind is PlantEventKind.GPU_LOST and event.gpu is not None:
                lost[event.gpu] = event.time_ms / 1000.0
                if lost_ms is None:
                    lost_ms, stop_ms = event.time_ms, event.time_ms + 2500
    if lost_ms is None:
        raise RuntimeError("no GPU was lost within two minutes")
    time = np.concatenate([stretch.time_ms for stretch in stretches]) / 1000.0
    shown = time > lost_ms / 1000.0 - 2.5
    power_w = np.concatenate([stretch.power_w for stretch in stretches])[shown]
    rail_v = np.concatenate([stretch.voltage_v for stretch in stretches])[shown]
    figure, (upper, lower) = plt.subplots(2, 1, sharex=True, figsize=(9, 5.5), layout="constrained")
    for gpu in range(node.gpu_count):
        upper.plot(time[shown], power_w[:, gpu], color=COLOURS[gpu], linewidth=0.8, label=f"GPU {gpu}")
    lower.plot(time[shown], rail_v, color=TRUE, linewidth=0.8)
    upper.axhline(POWER_LIMIT_W, color="black", linestyle=":", linewidth=1, label="power limit")
    for gpu, at_s in lost.items():
        for axes in (upper, lower):
            axes.axvline(at_s, color=COLOURS[gpu], linestyle="--", linewidth=1)
        lower.annotate(f"GPU {gpu} lost", (at_s, rail_v.min()), (8, 0), textcoords="offset points", color=COLOURS[gpu])
    upper.set_ylabel("power of a GPU, W")
    upper.legend(ncols=5, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    lower.set_ylabel("12 V rail at the modules, V")
    lower.set_xlabel("time since the run began, s")
    figure.savefig(IMAGES / "simulator-drop.png", dpi=130)
    plt.close(figure)


def ageing() -> None:
    """Draw 200 days of ageing joints on three supplies: resistance, the lowest voltage and the drops to expect."""
    node = load_node("v100x4-double-ring")
    scenario = load_scenario("joint-ageing", node)
    pace = [change.model_copy(update={"to": 1.0}) for change in scenario.changes]
    fleet = Fleet([node], scenario.model_copy(update={"changes": tuple(pace)}), seed=1, step_s=3600.0)
    stretch = fleet.advance(200 * 24)
    truth, lost_day = stretch.truth, stretch.drops[0].time_s / 86400.0
    day = stretch.time_s / 86400.0
    until = day < lost_day
    figure, (upper, middle, lower) = plt.subplots(3, 1, sharex=True, figsize=(9, 7), layout="constrained")
    upper.plot(day, truth.joint_mohm[:, 0, 0], color=TRUE, linewidth=1.2)
    upper.set_ylabel("each joint, milliohm")
    middle.plot(day[until], truth.v_min_v[until, 0], color=TRUE, linewidth=1.2)
    middle.set_ylabel("lowest voltage\nof a training step, V")
    per_day = np.nansum(truth.drop_rate_per_s[until, 0], axis=1) * 86400.0
    lower.semilogy(day[until], per_day, color=SENSED, linewidth=1.2)
    lower.set_ylim(1e-6, 1e2)
    lower.set_ylabel("drops to expect\nper day")
    lower.set_xlabel("time, days")
    for axes in (upper, middle, lower):
        axes.axvline(lost_day, color="black", linewidth=0.8, linestyle="--")
    upper.annotate("first GPU lost", (lost_day, 4.0), (8, 0), textcoords="offset points")
    figure.savefig(IMAGES / "simulator-ageing.png", dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    plt.rcParams["axes.xmargin"] = 0.01
    training_step()
    drop()
    ageing()
