"""``railwatch replay``: the live pipeline over a recording, deterministic."""

import logging
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from config.guard_pipeline import pipeline_settings
from config.loading import load_config
from config.policies import with_site_policies
from evaluation.recording_faults import cleaned
from evaluation.replay import recommending, replayed
from railwatch.cli.printing import describe, pluralize, print_json
from railwatch.cli.run_folder import ConfigFile, JsonFlag, RulesFolder
from railwatch.operator.coarse_meters import hidden_faults
from railwatch.operator.unjudged import signals_of, unjudged
from telemetry.clock import NS_PER_S, iso_utc
from telemetry.record_json import to_json
from telemetry.recording import read_recording

logger = logging.getLogger(__name__)

_DAY_NS = 86_400 * NS_PER_S  # longer recordings are printed with dates


def replay(
    recording: Annotated[Path, typer.Argument(help="Recording, .parquet or .csv in long form.")],
    rules: RulesFolder = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Run detectors and policies over a recording; nothing is changed, decisions are printed.

    The recorded load already has the caps of that day in it, so decisions may differ from those of the run;
    `rules test --recording` compares the two. What cannot be judged with the readings of the recording is named at the
    end.
    """
    read, left_out = cleaned(read_recording(recording))
    for left in left_out:
        logger.warning("%s: %s", recording, left.text)
    config = with_site_policies(load_config(config_file, os.environ), () if rules is None else (rules,))
    settings = recommending(pipeline_settings(config, simulated=bool(read.meta.simulated)))
    ids: defaultdict[str, list[str]] = defaultdict(list)
    console = Console(highlight=False)
    first_ns, last_ns = read.span_ns or (0, 0)
    shown = slice(11, 19) if last_ns - first_ns < _DAY_NS else slice(0, 19)
    for record in replayed(read, settings):
        ids[type(record).__name__.lower()].append(record.id)
        if as_json:
            print_json(to_json(record, simulated=read.meta.simulated))
        else:
            console.print(f"[dim]{iso_utc(record.time_ns)[shown]}[/]  {describe(record)}", soft_wrap=True)
    if not as_json:
        for one in (*unjudged(signals_of(read)), *hidden_faults(read)):
            console.print(f"not judged: {one.text}", soft_wrap=True, markup=False, style="dim")
        counts = ", ".join(_count_text(name, found) for name, found in sorted(ids.items())) or "no findings"
        fewer = f"; {sum(one.readings for one in left_out)} readings left out" if left_out else ""
        console.print(f"{recording}: {counts}{fewer}", soft_wrap=True, markup=False)


def _count_text(name: str, ids: Sequence[str]) -> str:
    """Return the number of ids, and of records if different: an incident has one for each change."""
    many = pluralize(len(set(ids)), name)
    return many if len(set(ids)) == len(ids) else f"{many} ({pluralize(len(ids), 'record')})"
