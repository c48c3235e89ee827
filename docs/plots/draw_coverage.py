"""Draws the plot of docs/explanation/source-resistance.md: ``make plots``, some minutes."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from analytics.supply.sampling import Sampled
from evaluation.rows import Effort
from evaluation.source_resistance.coverage import Cell, Tally
from evaluation.source_resistance.plan import SUPPLY, CoveragePlan, SupplyPlan
from evaluation.source_resistance.suite import Tallies, tallies_of
from telemetry.documents import load_document

IMAGES = Path(__file__).parents[1] / "images"
COLOURS = {Sampled.PICKS: "#4477aa", Sampled.MEANS: "#ee6677"}  # Paul Tol's bright scheme, distinct to colour-blind
SHIFT = {Sampled.PICKS: 1.06, Sampled.MEANS: 1.0 / 1.06}  # so that the bars of both do not lie on each other

Panel = tuple[str, str, float, bool]
PANELS: tuple[Panel, ...] = (
    ("logs", "log", 0.0, False),
    ("logs, 50 ms of skew", "log", 0.05, False),
    ("logs, voltage of 8 bits", "log", 0.0, True),
    ("live", "stream", 0.0, False),
)


def draw(plan: CoveragePlan, tallies: Tallies) -> None:
    """Draw one panel for each way in which samples reach an estimate, with 95 % bounds of each share."""
    figure, panels = plt.subplots(1, len(PANELS), sharey=True, figsize=(11, 3.6), layout="constrained")
    for axes, panel in zip(panels, PANELS, strict=True):
        axes.axhspan(plan.goals.lowest * 100.0, plan.goals.highest * 100.0, color="#dddddd", linewidth=0)
        for kind, colour in COLOURS.items():
            _series(axes, kind, colour, _of(tallies, panel, kind))
        axes.set_title(panel[0], fontsize="medium")
        axes.set_xscale("log")
        axes.set_xlabel("samples a second")
    panels[0].set_ylim(50.0, 101.0)
    panels[0].set_ylabel("95 % bounds that hold the truth, %")
    panels[0].legend(loc="lower left", frameon=False)
    figure.savefig(IMAGES / "coverage.png", dpi=130)
    plt.close(figure)


def _of(tallies: Tallies, panel: Panel, kind: Sampled) -> list[tuple[Cell, Tally]]:
    _, how, skew_s, coarse = panel
    return [
        (cell, tally)
        for (found, cell), tally in tallies.items()
        if (found, cell.kind, cell.skew_s, cell.coarse) == (how, kind, skew_s, coarse) and tally.answered
    ]


def _series(axes: Axes, kind: Sampled, colour: str, found: list[tuple[Cell, Tally]]) -> None:
    for cell, tally in found:
        share = tally.coverage
        rate_hz = cell.rate_hz * SHIFT[kind]
        if share.value is not None and share.low is not None and share.high is not None:
            axes.plot([rate_hz, rate_hz], [share.low * 100.0, share.high * 100.0], color=colour, linewidth=1.0)
            axes.plot([rate_hz], [share.value * 100.0], "o", color=colour, markersize=4)
    axes.plot([], [], "o-", color=colour, markersize=4, label=kind.value)


if __name__ == "__main__":
    PLAN = load_document(SupplyPlan, SUPPLY).coverage
    draw(PLAN, tallies_of(PLAN, Effort(), lambda _text, _part: None))
