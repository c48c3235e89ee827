"""Draws the plot of docs/explanation/closing-the-loop.md: ``make plots``."""

from pathlib import Path

import matplotlib as mpl

from telemetry.documents import load_document

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from evaluation.control.plan import CONTROL, ControlPlan
from evaluation.control.story import JobStartPlan, order_of, settings_holding
from evaluation.rehearsal.loop import moved, watch
from simulator.plant.events import PlantEvent, PlantEventKind
from simulator.plant.plant import Plant
from simulator.plant.state import Stretch
from telemetry.frames import FloatArray

IMAGES = Path(__file__).parents[1] / "images"
SEED = 1001
WITH, WITHOUT = "#4477aa", "#ee6677"  # Paul Tol's bright scheme, distinct to colour-blind readers
LIMIT_V = 11.40


class Seen:
    """The lowest voltage and the highest clock of each 10 ms, and when a GPU was lost first."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, float, float]] = []
        self.lost_s: float | None = None

    def take(self, plant: Plant, stretch: Stretch, events: tuple[PlantEvent, ...]) -> None:
        """Keep the lowest voltage and the highest clock of a block."""
        lost = [event.time_ms / 1000.0 for event in events if event.kind is PlantEventKind.GPU_LOST]
        if self.lost_s is None and lost:
            self.lost_s = min(lost)
        clock_mhz = float(plant.state.gpus.clock_mhz.max())
        self.rows.append((stretch.time_ms[0] / 1000.0, float(stretch.voltage_v.min()), clock_mhz))

    @property
    def columns(self) -> FloatArray:
        """Return time, voltage and clock."""
        return np.array(self.rows).T


def story() -> None:
    """Draw the start of a job on the node with banana plugs, with railwatch and without."""
    start = JobStartPlan(plan=load_document(ControlPlan, CONTROL).story, seed=SEED, watched=True)
    order = order_of(start)
    ours, bare = Seen(), Seen()
    watch(order, settings_holding(None), ours.take)
    plant = order.plant()
    for stretch, events in moved(plant, order.duration_ms):
        bare.take(plant, stretch, events)
    figure, (upper, lower) = plt.subplots(2, 1, sharex=True, figsize=(9, 6), layout="constrained")
    for seen, colour, label in ((bare, WITHOUT, "without railwatch"), (ours, WITH, "with railwatch")):
        time_s, rail_v, clock_mhz = seen.columns
        upper.plot(time_s, rail_v, color=colour, linewidth=0.8, label=label)
        lower.plot(time_s, clock_mhz, color=colour, linewidth=1.2)
        if seen.lost_s is not None:
            for axes in (upper, lower):
                axes.axvline(seen.lost_s, color=colour, linestyle="--", linewidth=1)
            upper.annotate("GPU lost", (seen.lost_s, 11.1), (6, 0), textcoords="offset points", color=colour)
    upper.axhline(LIMIT_V, color="black", linestyle=":", linewidth=1, label=f"{LIMIT_V:.2f} V")
    upper.set_ylabel("lowest voltage\nof each 10 ms, V")
    upper.legend(ncols=3, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    lower.set_ylabel("highest clock, MHz")
    lower.set_xlabel("time since the node was at rest, s")
    figure.savefig(IMAGES / "rehearsal-story.png", dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    plt.rcParams["axes.xmargin"] = 0.01
    story()
