"""``railwatch replay``: the live pipeline over a recording, the same every time."""

import os
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from railwatch.cli.output import describe, print_json
from railwatch.cli.place import ConfigFile, JsonFlag
from railwatch.config.loading import load_config
from railwatch.pipeline import pipeline_settings
from railwatch.policies import laid_over
from railwatch.replaying import recommending, replayed
from telemetry.clock import NS_PER_S, iso_utc
from telemetry.recording import read_recording
from telemetry.records import to_json

_DAY_NS = 86_400 * NS_PER_S  # what takes longer is told with its dates


def replay(
    recording: Annotated[Path, typer.Argument(help="A .parquet or .csv file in long form.")],
    rules: Annotated[
        Path | None,
        typer.Option(help="A folder of policies, taken as the site's: they replace those of the same id."),
    ] = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Run detectors, incidents and rules over a recording; nothing is carried out, decisions say what would be."""
    read = read_recording(recording)
    config = laid_over(load_config(config_file, os.environ), () if rules is None else (rules,))
    settings = recommending(pipeline_settings(config, simulated=bool(read.meta.simulated)))
    counts: Counter[str] = Counter()
    console = Console(highlight=False)
    first_ns, last_ns = read.span_ns or (0, 0)
    shown = slice(11, 19) if last_ns - first_ns < _DAY_NS else slice(0, 19)
    for record in replayed(read, settings):
        counts[type(record).__name__.lower()] += 1
        if as_json:
            print_json(to_json(record, simulated=read.meta.simulated))
        else:
            console.print(f"[dim]{iso_utc(record.time_ns)[shown]}[/]  {describe(record)}", soft_wrap=True)
    if not as_json:
        told = ", ".join(f"{count} {name}s" for name, count in sorted(counts.items())) or "nothing found"
        console.print(f"{recording}: {told}")
