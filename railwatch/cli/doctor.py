"""``railwatch doctor``: what this node can measure and do, what is missing, and how to get it."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from agent.accounts import Accounts
from agent.collectors.build import CollectorSettings, build_collectors, kernel_log_status
from agent.collectors.port import SourceState
from agent.driver.nvml import NvmlDriver
from agent.driver.probe import measure_update_period, probe
from railwatch.cli.output import print_json
from railwatch.cli.place import ConfigFile, JsonFlag
from railwatch.cli.up import seconds
from railwatch.config.loading import load_config
from railwatch.driver import OpenDriver, open_driver
from railwatch.session import DriverKind, Session
from simulator.driver.build import find_compiler
from telemetry.clock import SystemClock
from telemetry.signals import RateClass

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
    )
    driver = open_driver(session, clock)
    rows = [*_sources(session, driver, clock), *_abilities(driver)]
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


def _sources(session: Session, driver: OpenDriver, clock: SystemClock) -> list[dict[str, Any]]:
    built = build_collectors(
        CollectorSettings(
            node=session.node.key,
            clock=clock,
            accounts=Accounts(),
            reader=driver.reader,
            why_no_reader=driver.why,
            sysfs_root=Path(session.sysfs),
        )
    )
    for part in built:
        if part.collector is not None:
            part.collector.close()
    statuses = [part.status for part in built] + [kernel_log_status(Path(session.kmsg))]
    return [
        {
            "kind": "source",
            "name": status.name,
            "state": status.state.value,
            "detail": status.detail,
            "how_to_get": status.how_to_get,
        }
        for status in statuses
    ]


def _abilities(driver: OpenDriver) -> list[dict[str, Any]]:
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


def _probe_rows(driver: NvmlDriver) -> list[dict[str, Any]]:
    found = probe(driver)
    gpus = [
        {
            "kind": "gpu",
            "name": f"gpu{gpu.index}",
            "state": "working",
            "detail": f"{gpu.name}, PCI {gpu.pci}, driver {gpu.driver_version}",
            "uuid": gpu.uuid,
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


def _period_rows(driver: NvmlDriver, clock: SystemClock, duration_s: float) -> list[dict[str, Any]]:
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


def _tell(rows: list[dict[str, Any]]) -> None:
    console = Console(highlight=False)
    for kind, title in (
        ("source", "sources"),
        ("ability", "abilities"),
        ("gpu", "GPUs"),
        ("call", "driver calls"),
        ("update_period", "sensor update periods"),
    ):
        chosen = [row for row in rows if row["kind"] == kind]
        if chosen:
            console.print(f"[bold]{title}[/]")
        for row in chosen:
            mark = MARKS.get(row["state"], row["state"])
            extra = f" {row['period_ms']} ms" if row.get("period_ms") is not None else ""
            console.print(f"  {row['name']:<34} {mark}{extra}  {escape(row['detail'])}", soft_wrap=True)
            if row.get("how_to_get"):
                console.print(f"  {'':<34} [dim]to get it: {escape(row['how_to_get'])}[/]", soft_wrap=True)
    absent = sorted({row["name"] for row in rows if row["kind"] == "signal" and row["state"] != "working"})
    if absent:
        console.print(f"[bold]signals that no GPU gives here[/]\n  {', '.join(absent)}", soft_wrap=True)
