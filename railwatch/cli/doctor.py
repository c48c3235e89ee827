"""``railwatch doctor``: what this node can measure and do, what is missing, and how to get it."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from agent.accounts import Accounts
from agent.collectors.build import Built, CollectorSettings, build_collectors, kernel_log_status
from agent.collectors.build_events import build_event_sources
from agent.collectors.build_slow import build_slow_collectors, build_slow_event_sources
from agent.collectors.port import SourceState, SourceStatus
from agent.driver.nvml import NvmlDriver
from agent.driver.nvml_library import Answer
from agent.driver.probe import measure_update_period, probe
from analytics.precision import Precision, precision_of
from railwatch.cli.output import print_json
from railwatch.cli.place import ConfigFile, JsonFlag
from railwatch.cli.up import seconds
from railwatch.config.loading import load_config
from railwatch.driver import OpenDriver
from railwatch.driver_watch import OPEN_LIMIT_S, open_in_time
from railwatch.event_sources import event_settings
from railwatch.session import DriverKind, Session
from railwatch.slow_sources import slow_settings
from simulator.driver.build import find_compiler
from telemetry.clock import SystemClock
from telemetry.signals import RateClass

Fields = dict[str, Any]

MARKS = {
    SourceState.WORKING.value: "[green]works[/]",
    SourceState.MISSING.value: "[yellow]missing[/]",
    SourceState.NOT_PERMITTED.value: "[yellow]not permitted[/]",
    SourceState.FAILED.value: "[red]failed[/]",
}


def doctor(
    measure: Annotated[
        float | None,
        typer.Option(
            parser=seconds, metavar="DURATION", help="Poll the GPUs this long to see how often sensors update."
        ),
    ] = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Say what this node can measure and do. Reads only; exit status 1 where neither GPU nor supply can be read."""
    config = load_config(config_file, os.environ)
    clock = SystemClock()
    session = Session(
        run_dir=Path(),
        config_json=config.model_dump_json(),
        driver=DriverKind.NVML,
        source="",
        simulated=False,
        sysfs=str(config.sources.sysfs),
        kmsg=str(config.sources.kmsg),
        proc=str(config.sources.proc),
    )
    driver = open_in_time(session, clock, OPEN_LIMIT_S) or OpenDriver(
        reader=None, events=None, knob=None, why=f"the GPU driver does not answer within {OPEN_LIMIT_S:g} s"
    )
    rows = [*_fast_sources(session, driver, clock), *_asked_slowly(session, clock, quiet=as_json)]
    rows += [*_event_sources(session, driver, clock), *_abilities(driver)]
    if driver.nvml is not None:
        rows += _probe_rows(driver.nvml)
        if measure is not None:
            rows += _period_rows(driver.nvml, clock, measure)
    if as_json:
        for row in rows:
            print_json(row)
    else:
        _tell(rows)
    usable = any(row["kind"] == "source" and row["state"] == "working" and row["name"] in CORE for row in rows)
    if not usable:
        raise typer.Exit(1)


# Without one of these there is nothing to watch.
CORE = ("gpu_fast", "supply")


def _fast_sources(session: Session, driver: OpenDriver, clock: SystemClock) -> list[Fields]:
    built = build_collectors(
        CollectorSettings(
            node=session.node.key,
            clock=clock,
            accounts=Accounts(),
            reader=driver.reader,
            why_no_reader=driver.why,
            sysfs_root=Path(session.sysfs),
            proc_root=Path(session.proc),
            links=driver.links,
            pipes=driver.pipes,
            samples=None if driver.nvml is None else driver.nvml.samples,
        )
    )
    return [_row("fast", status) for status in _closed(built)]


def _asked_slowly(session: Session, clock: SystemClock, *, quiet: bool) -> list[Fields]:
    """Ask what takes its time to answer; a terminal is told meanwhile what is waited for."""
    waiting = Console(stderr=True)
    if quiet or not waiting.is_terminal:
        return _slow_sources(session, clock)
    with waiting.status("asking board controller, meters and processes (20 s at most)"):
        return _slow_sources(session, clock)


def _slow_sources(session: Session, clock: SystemClock) -> list[Fields]:
    settings = slow_settings(session, clock, os.environ)
    rows = [_row("slow", status) for status in _closed(build_slow_collectors(settings))]
    for source in build_slow_event_sources(settings):
        status = SourceStatus(name=source.name, state=SourceState.WORKING, detail="ready; told while the agent runs")
        rows.append(_row("events", status))
        source.close()
    return rows


def _event_sources(session: Session, driver: OpenDriver, clock: SystemClock) -> list[Fields]:
    statuses = [kernel_log_status(Path(session.kmsg))]
    for part in build_event_sources(event_settings(session, driver.gpus, clock)):
        statuses.append(part.status)
        if part.source is not None:
            part.source.close()
    return [_row("events", status) for status in statuses]


def _closed(built: Iterable[Built]) -> list[SourceStatus]:
    parts = list(built)
    for part in parts:
        if part.collector is not None:
            part.collector.close()
    return [part.status for part in parts]


def _row(group: str, status: SourceStatus) -> Fields:
    return {
        "kind": "source",
        "group": group,
        "name": status.name,
        "state": status.state.value,
        "detail": status.detail,
        "how_to_get": status.how_to_get,
    }


def _abilities(driver: OpenDriver) -> list[Fields]:
    root = os.geteuid() == 0
    knob = None if driver.knob is None else driver.knob.name
    compiler = find_compiler()
    return [
        {
            "kind": "ability",
            "name": "clock_cap",
            "state": "missing" if knob is None else ("working" if root else "not_permitted"),
            "detail": driver.why or "no GPU has a clock that can be set" if knob is None else f"through {knob}",
            "how_to_get": "" if knob is None or root else "run the actuator as root",
        },
        {
            "kind": "ability",
            "name": "simulated_driver",
            "state": "missing" if compiler is None else "working",
            "detail": compiler or "no C compiler: the simulated node is read in process",
            "how_to_get": "" if compiler else "install gcc or clang",
        },
    ]


def _probe_rows(driver: NvmlDriver) -> list[Fields]:
    found = probe(driver)
    pipes: dict[str, dict[str, float]] = {gpu.uuid: {} for gpu in driver.gpus()}
    for item in found.signals:
        if item.value is not None:
            pipes[item.uuid][item.signal] = item.value
    gpus = [
        {
            "kind": "gpu",
            "name": f"gpu{gpu.index}",
            "state": "working",
            "detail": f"{gpu.name}, PCI {gpu.pci}, driver {gpu.driver_version}",
            "uuid": gpu.uuid,
            "precision": precision_of(pipes[gpu.uuid]).value,
        }
        for gpu in driver.gpus()
    ]
    signals = [
        {
            "kind": "signal",
            "name": item.signal,
            "uuid": item.uuid,
            "state": item.answer.value,
            "detail": item.source,
            "nvml_code": item.code,
            "asked_every_s": item.every_s,
            "value": item.value,
        }
        for item in found.signals
    ]
    calls = [
        {
            "kind": "call",
            "name": item.name,
            "state": "working",
            "detail": f"{item.count} calls, mean {item.mean_s * 1e6:.1f} us, worst {item.max_s * 1e6:.1f} us",
            "count": item.count,
            "mean_us": round(item.mean_s * 1e6, 2),
            "max_us": round(item.max_s * 1e6, 2),
        }
        for item in found.calls
    ]
    return [*gpus, *signals, *calls]


def _period_rows(driver: NvmlDriver, clock: SystemClock, duration_s: float) -> list[Fields]:
    periods = [
        period
        for rate in RateClass
        for period in measure_update_period(driver, clock, rate=rate, duration_s=duration_s / len(RateClass))
    ]
    return [
        {
            "kind": "update_period",
            "name": item.signal,
            "uuid": item.uuid,
            "state": "missing" if item.period_s is None else "working",
            "detail": f"{item.changes} changes in {item.polls} polls",
            "period_ms": None if item.period_s is None else round(item.period_s * 1000, 2),
            "shortest_ms": None if item.shortest_s is None else round(item.shortest_s * 1000, 2),
        }
        for item in periods
    ]


# Wide enough for the names of the usual sources and for the longest state; a longer name moves its own line only.
_NAME_COLUMNS, _STATE_COLUMNS, _INDENT_COLUMNS = 20, 13, 4
_TITLES = (
    ("source", "fast", "sources read at the speed of their sensors"),
    ("source", "slow", "sources that take their time"),
    ("source", "events", "sources of events"),
    ("ability", None, "abilities"),
    ("gpu", None, "GPUs"),
    ("call", None, "driver calls"),
    ("update_period", None, "sensor update periods"),
)


def _tell(rows: list[Fields]) -> None:
    console = Console(highlight=False)
    told: dict[tuple[str, str], str] = {}
    for kind, group, title in _TITLES:
        chosen = [row for row in rows if row["kind"] == kind and row.get("group") == group]
        if chosen:
            console.print(f"[bold]{title}[/]")
        for row in chosen:
            same = _same_as(row, told) if kind in ("source", "ability") else None
            _print_row(console, row, _detail(row) if same is None else f"as {same}")
            if same is None and row.get("how_to_get"):
                hint = Text(f"to get it: {row['how_to_get']}", style="dim")
                console.print(Padding(hint, (0, 0, 0, _INDENT_COLUMNS), expand=False))
    for state, words in _ABSENT.items():
        absent = [row["name"] for row in rows if row["kind"] == "signal" and row["state"] == state]
        names = sorted({name.rpartition("/")[2] for name in absent})  # of the links of a GPU one stands for all
        if names:
            console.print(f"[bold]{words}[/]")
            console.print(Padding(Text(", ".join(names)), (0, 0, 0, _INDENT_COLUMNS), expand=False))


# What the driver answers for a signal that it does not give (`agent.driver.nvml_library.Answer`).
_ABSENT = {
    Answer.NOT_SUPPORTED.value: "signals that a GPU does not have",
    Answer.FUNCTION_MISSING.value: "signals that this driver has no function for",
    Answer.NOT_PERMITTED.value: "signals that the driver keeps from this user",
    Answer.LOST.value: "signals of a GPU that is lost",
    Answer.FAILED.value: "signals that cannot be read now",
}


def _same_as(row: Fields, told: dict[tuple[str, str], str]) -> str | None:
    """Give which row before said the same of what is missing, None where none did; most need the same driver."""
    if row["state"] == SourceState.WORKING.value:
        return None
    said = row["state"], row["detail"]
    first = told.setdefault(said, row["name"])
    return None if first == row["name"] else first


def _detail(row: Fields) -> str:
    if row.get("period_ms") is not None:
        return f"{row['period_ms']} ms, {row['detail']}"
    precision = row.get("precision", Precision.UNKNOWN.value)
    return row["detail"] if precision == Precision.UNKNOWN.value else f"{row['detail']}, computes in {precision}"


def _print_row(console: Console, row: Fields, detail: str) -> None:
    """Print name, state and detail in columns; a long detail wraps within its own."""
    line = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
    line.add_column(min_width=_NAME_COLUMNS, no_wrap=True)
    line.add_column(min_width=_STATE_COLUMNS, no_wrap=True)
    line.add_column(overflow="fold")
    line.add_row(row["name"], MARKS.get(row["state"], row["state"]), Text(detail))
    console.print(line)
