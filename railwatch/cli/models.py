"""``railwatch models``: thresholds calibrated from healthy recordings, for a budget of pages."""

import os
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import TimeElapsedColumn

from analytics.calibration.healthy import BLOCK_S, MIN_BLOCKS, CalibratedLimit, HealthyMaxima, calibrated
from analytics.detectors.limits import DetectorLimits
from config.calibrated_thresholds import ThresholdFile, in_force, write_thresholds
from config.loading import load_config
from evaluation.calibration import calibration_steps
from railwatch.cli.printing import ProgressLog, print_json, print_table, progress_bar
from railwatch.cli.run_folder import ConfigFile, JsonFlag
from telemetry.clock import SystemClock
from telemetry.errors import ConfigError
from telemetry.recording import Recording, read_recording

app = typer.Typer(
    no_args_is_help=True,
    help="Calibrate thresholds from healthy recordings, for a budget of pages.",
    epilog="Example: railwatch models calibrate monday.parquet --out thresholds.yaml",
)


@app.command(epilog="Example: railwatch models calibrate monday.parquet tuesday.parquet --out thresholds.yaml")
def calibrate(
    recordings: Annotated[list[Path], typer.Argument(metavar="RECORDING...", help="Recordings of a healthy node.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="File for the thresholds; the key analytics.thresholds names it.")
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option("--pages-per-node-month", help="Budget of pages per node and month; default: the configuration."),
    ] = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Raise limits until the healthy recordings page no more often than the budget allows; no limit is lowered.

    Every recording is taken as healthy; findings in it are listed. Exit status 1: a limit cannot be raised far enough
    for the budget, or there is too little healthy time for any limit.
    """
    config = load_config(config_file, os.environ)
    budget = config.analytics.pages_per_node_month if budget is None else budget
    _check(out, budget)
    healthy, found = HealthyMaxima(), Counter[str]()
    for path in recordings:
        healthy = _with_recording(path, read_recording(path), healthy, found, config.detectors)
    rows = calibrated(healthy, config.detectors, pages_per_node_month=budget)
    days = max((len(values) for values in healthy.maxima.values()), default=0) * BLOCK_S / 86_400
    if out is not None:
        held = ThresholdFile(
            version=1,
            pages_per_node_month=budget,
            healthy_node_days=round(days, 3),
            recordings=tuple(path.name for path in recordings),
            thresholds={one.statistic.name: one.threshold for one in rows if one.threshold > one.limit},
        )
        write_thresholds(out, held)
    if as_json:
        for one in rows:
            print_json(_fields(one))
    else:
        _print(rows, found, out=out, days=days, budget=budget)
    too_little = all(one.wanted is None for one in rows)
    if too_little or any(one.wanted is not None and one.wanted > max(one.threshold, one.limit) for one in rows):
        raise typer.Exit(1)


@app.command(epilog="Example: railwatch models thresholds --config railwatch.yaml")
def thresholds(config_file: ConfigFile = None, as_json: JsonFlag = False) -> None:
    """Show every limit that can be calibrated, as configured and as in force."""
    config = load_config(config_file, os.environ)
    held = in_force(config)
    if as_json:
        for name, (configured, now) in held.items():
            print_json({"limit": name, "configured": configured, "in_force": now})
        return
    where = config.analytics.thresholds
    title = "limits as configured" if where is None else f"limits, raised by {where}"
    rows = [(name, f"{configured:.4g}", f"{now:.4g}") for name, (configured, now) in held.items()]
    print_table(title, ("limit", "configured", "in force"), rows)


def _check(out: Path | None, budget: float) -> None:
    if not 0 < budget <= 1000:
        found, expected = f"got {budget:g}", "pages per node-month, above 0 and at most 1000"
        raise ConfigError.at("--pages-per-node-month", found, expected)
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        found, expected = f"got {str(out)!r}", "a file in a folder that exists"
        raise ConfigError.at("--out", found, expected)


def _with_recording(
    path: Path, read: Recording, healthy: HealthyMaxima, found: Counter[str], limits: DetectorLimits
) -> HealthyMaxima:
    """Add one recording to the healthy time, and count its findings by detector and entity."""
    first_ns, last_ns = read.span_ns or (0, 0)
    log, is_terminal = ProgressLog(SystemClock()), Console(stderr=True).is_terminal
    with progress_bar(path.name, max(last_ns - first_ns, 1), TimeElapsedColumn()) as progress:
        for seen in calibration_steps(read, limits, healthy):
            healthy = seen.healthy
            progress(seen.time_ns - first_ns)
            if not is_terminal and seen.time_ns:
                log.update(f"{path.name}: {(seen.time_ns - first_ns) / max(last_ns - first_ns, 1):.0%}")
            for one in seen.raised:
                found[f"{one.severity.value} {one.cause.value} on {one.entity_id} by {one.detector}"] += 1
    return healthy


def _fields(one: CalibratedLimit) -> dict[str, object]:
    return {
        "limit": one.statistic.name,
        "about": one.statistic.about,
        "is_page": one.statistic.is_page,
        "configured": one.limit,
        "threshold": one.threshold,
        "wanted": one.wanted,
        "healthy_node_days": one.days,
        "blocks": one.blocks,
        "crossings": one.crossings,
        "largest": one.largest,
        "why": one.why,
    }


def _print(
    rows: tuple[CalibratedLimit, ...], found: Counter[str], *, out: Path | None, days: float, budget: float
) -> None:
    print_table(
        f"{days:.3g} healthy node-days, budget {budget:g} pages per node-month",
        ("limit", "now", "largest seen", "needed", "set to", ""),
        [
            (
                one.statistic.name,
                f"{one.limit:.4g}",
                "-" if one.largest is None else f"{one.largest:.4g}",
                "-" if one.wanted is None else f"{one.wanted:.4g}",
                f"{one.threshold:.4g}",
                one.why,
            )
            for one in rows
        ],
    )
    console = Console(highlight=False)
    for text, count in found.most_common():
        console.print(f"finding in healthy time, {count}x: {escape(text)}", soft_wrap=True)
    if out is not None:
        console.print(f"wrote {escape(str(out))}; set analytics.thresholds to this file", soft_wrap=True)
    if all(one.wanted is None for one in rows):
        hours = MIN_BLOCKS * BLOCK_S / 3600
        console.print(f"too little healthy time for any limit: each needs {hours:g} hours with values", soft_wrap=True)
