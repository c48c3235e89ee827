"""``railwatch dither``: plan and judge an experiment that shows which GPU moves a voltage; it changes nothing."""

import json
import math
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from analytics.connectivity.dither import MAX_STEP_MHZ, MIN_STEP_MHZ, DitherLevel, DitherPlan, judge_dither, plan_dither
from railwatch.cli.printing import print_json
from railwatch.cli.run_folder import JsonFlag
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.errors import ConfigError
from telemetry.json_text import json_text
from telemetry.recording import Recording, read_recording

app = typer.Typer(
    no_args_is_help=True,
    help="Plan and judge an experiment: which GPU moves a supply voltage.",
    epilog="Example: railwatch dither plan gpu2 --clock 1530 --low 1440 --out plan.json",
)


@app.command(epilog="Example: railwatch dither plan gpu2 --clock 1530 --low 1440 --out plan.json")
def plan(
    gpu: Annotated[str, typer.Argument(metavar="GPU", help="Name or UUID of the GPU.")],
    clock_mhz: Annotated[float, typer.Option("--clock", help="Present clock in MHz, the high level.")],
    low_mhz: Annotated[float, typer.Option("--low", help="Supported clock 60 to 120 MHz below, in MHz.")],
    out: Annotated[Path, typer.Option("--out", help="File for the plan; dither judge reads it.")],
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the order of the levels.")] = 1,
) -> None:
    """Write a schedule of clocks to set by hand or by script while railwatch records.

    Each level is held for three seconds; at the end the clock returns to its earlier setting.
    """
    made = plan_dither(gpu, clock_mhz=clock_mhz, supported_mhz=(low_mhz, clock_mhz), seed=seed)
    if made is None:
        if not 0.0 < clock_mhz < math.inf:
            raise ConfigError.at("--clock", f"got {clock_mhz:g}", "a clock in MHz, above 0")
        expected = (
            f"{clock_mhz - MAX_STEP_MHZ:g} to {clock_mhz - MIN_STEP_MHZ:g} MHz for a --clock of {clock_mhz:g} MHz"
        )
        raise ConfigError.at("--low", f"got {low_mhz:g}", expected)
    if not out.parent.is_dir():
        expected = "a file in a folder that exists"
        raise ConfigError.at("--out", f"got {str(out)!r}", expected)
    out.write_text(json_text(asdict(made), indent=1) + "\n", encoding="utf-8")
    for level in made.levels:
        typer.echo(f"{level.start_s:5.0f} s to {level.stop_s:3.0f} s: {level.clock_mhz:.0f} MHz")
    typer.echo(f"{made.duration_s:5.0f} s: back to {made.restore_mhz:.0f} MHz, or to the earlier setting")


@app.command(
    epilog="Example: railwatch dither judge tuesday.parquet plan.json --supply psu0 --start 2026-03-01T18:00:00Z"
)
def judge(
    recording: Annotated[Path, typer.Argument(help="Recording made during the experiment.")],
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan written by dither plan.")],
    supply: Annotated[str, typer.Option("--supply", help="Supply to judge; name or id.")],
    start: Annotated[str, typer.Option("--start", help="Start of the first level, e.g. 2026-03-01T18:00:00Z.")],
    as_json: JsonFlag = False,
) -> None:
    """Judge whether the voltage followed the plan, by how much, and the source resistance that follows.

    Exit status 1 if it did not follow, or if that is unknown.
    """
    made, read = _read_plan(plan_file), read_recording(recording)
    time_ns, voltage_v, power_w = _columns(read, recording, gpu=made.gpu_id, supply=supply)
    verdict = judge_dither(made, start_ns=_start_ns(start), time_ns=time_ns, voltage_v=voltage_v, power_w=power_w)
    if as_json:
        print_json(asdict(verdict))
    else:
        result = {True: "yes", False: "no", None: "unknown"}[verdict.moves]
        ohm = verdict.source_resistance_ohm
        more = "" if ohm is None or not verdict.moves else f"; source resistance {ohm * 1e3:.2f} mΩ"
        typer.echo(f"{made.gpu_id} moves the voltage of {supply}: {result}; {verdict.why}{more}")
    if not verdict.moves:
        raise typer.Exit(1)


def _read_plan(path: Path) -> DitherPlan:
    try:
        held: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        levels = tuple(DitherLevel(**level) for level in held["levels"])
        return DitherPlan(gpu_id=str(held["gpu_id"]), levels=levels, restore_mhz=float(held["restore_mhz"]))
    except (OSError, ValueError, KeyError, TypeError) as err:
        found = getattr(err, "strerror", None) or f"not a plan ({err})"
        raise ConfigError.at(path, found, "a file written by railwatch dither plan") from err


def _start_ns(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        expected = "a time with its offset from UTC, such as 2026-03-01T18:00:00Z"
        raise ConfigError.at("--start", f"got {text!r}", expected)
    return round(moment.timestamp() * NS_PER_S)


def _columns(read: Recording, path: Path, *, gpu: str, supply: str) -> tuple[Any, Any, Any]:
    """Return times, voltage and power ``(n_times,)``, each NaN in the rows of the other."""
    found = []
    for kind, signal, name in ((EntityKind.SUPPLY, "voltage_v", supply), (EntityKind.GPU, "power_w", gpu)):
        merged = read.series(kind, (signal,))
        places = [place for place, one in enumerate(merged.spec.entities) if name in (one.id, one.key, one.name)]
        if len(places) != 1:
            known = ", ".join(one.name for one in merged.spec.entities) or "none"
            raise ConfigError.at(path, f"no {kind.value} {name!r}", f"one of {known}", key=signal)
        found.append((merged.time_ns, merged.values[:, places[0], 0]))
    (volts_ns, volts), (watts_ns, watts) = found
    time_ns = np.union1d(volts_ns, watts_ns)
    columns = [np.full(len(time_ns), np.nan) for _ in found]
    columns[0][np.searchsorted(time_ns, volts_ns)] = volts
    columns[1][np.searchsorted(time_ns, watts_ns)] = watts
    return time_ns, columns[0], columns[1]
