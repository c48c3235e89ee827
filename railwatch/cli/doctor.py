"""``railwatch doctor``: what this node can measure and control, what is missing, and how to get it."""

import contextlib
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from agent.collectors.events.factories import kernel_log_status
from agent.collectors.port import BuiltCollector, Collector, SourceState, SourceStatus
from agent.collectors.readings.source import Readings, readings_status
from agent.collectors.registry.settings import FastSettings
from agent.collectors.registry.sources import (
    build_collectors,
    build_event_sources,
    build_slow_collectors,
    build_slow_event_sources,
)
from agent.sampler.counters import SamplerCounters
from config.loading import load_config
from config.models import Config
from railwatch.cli.doctor_report import Fields, period_rows, print_rows, probe_rows
from railwatch.cli.durations import duration_option
from railwatch.cli.printing import print_json
from railwatch.cli.run_folder import ConfigFile, JsonFlag
from railwatch.operator.unjudged import Unjudged, unjudged
from railwatch.run_context import DriverKind, RunContext
from railwatch.wiring.driver_watch import OPEN_LIMIT_S, open_in_time
from railwatch.wiring.gpu_driver import OpenDriver
from railwatch.wiring.samplers import event_settings
from railwatch.wiring.slow_sources import slow_settings
from simulator.driver.build import find_compiler
from telemetry.clock import SystemClock
from telemetry.entities import Entity
from telemetry.errors import RailwatchError
from telemetry.gpu import KnobKind


def doctor(
    measure: Annotated[
        float | None, duration_option("Poll the GPUs this long, e.g. 10s, to time their sensors.")
    ] = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Report what this node can measure and control, what is missing and so not judged, and how to get it.

    Reads only. Exit status 1 if neither a GPU nor a supply can be read.
    """
    clock, context = SystemClock(), _context(load_config(config_file, os.environ))
    driver = open_in_time(context, clock, OPEN_LIMIT_S) or OpenDriver(
        reader=None, events=None, why=f"the GPU driver does not answer within {OPEN_LIMIT_S:g} s"
    )
    fast, slow = _fast_sources(context, driver, clock), _slow_sources_with_status(context, clock, quiet=as_json)
    rows = [*fast.rows, *slow.rows, *_event_sources(context, driver, clock), *_abilities(driver)]
    rows += [_unjudged_row(one) for one in unjudged((*fast.shown, *slow.shown))]
    if driver.nvml is not None:
        rows += probe_rows(driver.nvml)
        if measure is not None:
            rows += period_rows(driver.nvml, clock, measure)
    if as_json:
        for row in rows:
            print_json(row)
    else:
        print_rows(rows)
    usable = any(row["kind"] == "source" and row["state"] == "working" and row["name"] in CORE for row in rows)
    if not usable:
        raise typer.Exit(1)


def _context(config: Config) -> RunContext:
    """Return the context of a run on this node that is never started."""
    return RunContext(
        run_dir=Path(),
        config_json=config.model_dump_json(),
        driver=DriverKind.NVML,
        source="",
        simulated=False,
        sysfs=str(config.sources.sysfs),
        kmsg=str(config.sources.kmsg),
        proc=str(config.sources.proc),
    )


# With none of these there is nothing to watch.
CORE = ("gpu_fast", "supply")
# Columns that tables of the sampling process have also where no sensor fills them.
_OPTIONAL = frozenset({"current_a", "inlet_temp_c"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Probed:
    """Rows of sources, and what they show: each entity with each of its signals."""

    rows: list[Fields]
    shown: list[tuple[Entity, str]]


def _fast_sources(context: RunContext, driver: OpenDriver, clock: SystemClock) -> _Probed:
    built = build_collectors(
        FastSettings(
            node=context.node.key,
            clock=clock,
            counters=SamplerCounters(),
            reader=driver.reader,
            why_no_reader=driver.why,
            sysfs_root=Path(context.sysfs),
            proc_root=Path(context.proc),
            links=driver.links,
            pipes=driver.pipes,
            samples=None if driver.nvml is None else driver.nvml.samples,
            wireview_gpu=context.config.sources.wireview_gpu,
        )
    )
    return _probed("fast", built, optional=_OPTIONAL)


def _slow_sources_with_status(context: RunContext, clock: SystemClock, *, quiet: bool) -> _Probed:
    """Probe the slow sources; a terminal shows meanwhile what they wait for."""
    waiting = Console(stderr=True)
    if quiet or not waiting.is_terminal:
        return _slow_sources(context, clock)
    with waiting.status("probing board controller, meters and processes (at most 20 s)"):
        return _slow_sources(context, clock)


def _slow_sources(context: RunContext, clock: SystemClock) -> _Probed:
    settings = slow_settings(context, clock, os.environ)
    collectors = _probed("slow", build_slow_collectors(settings))
    rows = [*collectors.rows]
    for source in build_slow_event_sources(settings):
        status = SourceStatus(name=source.name, state=SourceState.WORKING, detail="ready while the agent runs")
        if settings.readings is not None and source.name == Readings.name:
            where = readings_status(settings.readings.listener)
            # Without a configured path the socket is in the folder of a run, and there is no run.
            status = where if settings.readings.listener.path.is_absolute() or where.how_to_get else status
        rows.append(_row("events", status))
        source.close()
    return replace(collectors, rows=rows)


def _event_sources(context: RunContext, driver: OpenDriver, clock: SystemClock) -> list[Fields]:
    statuses = [kernel_log_status(Path(context.kmsg))]
    for part in build_event_sources(event_settings(context, driver.gpus, clock)):
        statuses.append(part.status)
        if part.source is not None:
            part.source.close()
    return [_row("events", status) for status in statuses]


def _probed(group: str, built: Iterable[BuiltCollector], *, optional: frozenset[str] = frozenset()) -> _Probed:
    """Close collectors and return their rows and what they show; tables with `optional` columns are read once."""
    rows, shown = list[Fields](), list[tuple[Entity, str]]()
    for part in built:
        rows.append(_row(group, part.status))
        if part.source is not None:
            shown += _shown(part.source, optional.intersection(part.source.spec.signals))
            part.source.close()
    return _Probed(rows=rows, shown=shown)


def _shown(source: Collector, optional: frozenset[str]) -> Iterator[tuple[Entity, str]]:
    """Yield each entity of a table with each signal of it, an optional one only where it has a value now."""
    spec, values = source.spec, np.full(source.spec.shape, np.nan)
    if optional:
        with contextlib.suppress(RailwatchError, OSError):  # then nothing is read, as in a run
            source.open()
            source.read(values)
    for entity, row in zip(spec.entities, values.tolist(), strict=True):
        for signal, value in zip(spec.signals, row, strict=True):
            if signal not in optional or math.isfinite(value):
                yield entity, signal


def _row(group: str, status: SourceStatus) -> Fields:
    return {
        "kind": "source",
        "group": group,
        "name": status.name,
        "state": status.state.value,
        "detail": status.detail,
        "how_to_get": status.how_to_get,
    }


def _unjudged_row(one: Unjudged) -> Fields:
    return {
        "kind": "not_judged",
        "name": one.what,
        "state": SourceState.MISSING.value,
        "detail": one.why,
        "how_to_get": one.how_to_get,
    }


def _knob_row(kind: KnobKind, driver: OpenDriver, *, root: bool) -> Fields:
    knob = driver.knob(kind)
    why = driver.why or f"no GPU with a {kind.label} that can be set"
    return {
        "kind": "ability",
        "name": kind.value,
        "state": "missing" if knob is None else ("working" if root else "not_permitted"),
        "detail": why if knob is None else f"through {knob.name}",
        "how_to_get": "" if knob is None or root else "run railwatch actuatord as root",
    }


def _abilities(driver: OpenDriver) -> list[Fields]:
    root = os.geteuid() == 0
    compiler = find_compiler()
    return [
        *(_knob_row(kind, driver, root=root) for kind in KnobKind),
        {
            "kind": "ability",
            "name": "simulated_driver",
            "state": "missing" if compiler is None else "working",
            "detail": compiler or "no C compiler: a simulated node is read in process",
            "how_to_get": "" if compiler else "install gcc or clang",
        },
    ]
