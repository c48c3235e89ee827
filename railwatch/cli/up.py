"""``railwatch up``: everything on one node under one supervisor."""

import math
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from config.loading import load_config
from config.models import Config
from config.policies import check_names, policies_of
from railwatch import __version__
from railwatch.cli.durations import duration_option
from railwatch.cli.run_folder import ConfigFile, JsonFlag
from railwatch.launcher import Launcher
from railwatch.run import NodeRun, RunRequest
from rules.policy.model import ActionClass
from simulator.files import DEFAULT_SCENARIO
from simulator.files.node import load_node
from simulator.files.scenario import load_scenario, node_for
from telemetry.clock import SystemClock
from telemetry.durations import format_duration
from telemetry.records import Mode
from telemetry.stop_signals import set_on_signals

# heuristic: longer than anyone watches a scenario.
LONG_S = 3600.0


def up(
    simulate: Annotated[
        str | None,
        typer.Option("--simulate", metavar="NODE", help="Simulate a node, e.g. v100x4."),
    ] = None,
    scenario: Annotated[str | None, typer.Option(help="Scenario to simulate, e.g. psu-sag.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 1,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="TCP port of the page; 0: a free one."),
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(readable=False, help="Folder for store and journals.")] = None,
    run_for: Annotated[float | None, duration_option("Stop after this time, e.g. 10m.", "--for")] = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Run railwatch on this node: sampling, guard, store and web page.

    Uses the GPUs that NVML finds; without an NVIDIA driver it simulates a node, and the first line names it. Lists of
    nodes and scenarios: railwatch simulate list. Ctrl-C releases every cap, flushes the store and exits.
    """
    config = _with_options(load_config(config_file, os.environ), port=port, data_dir=data_dir)
    length_s = 0.0
    check_names(config, policies_of(config))  # refuse wrong policies before anything starts
    if simulate is not None or scenario is not None:
        wanted = scenario or DEFAULT_SCENARIO
        length_s = load_scenario(wanted, load_node(simulate or node_for(wanted))).duration
    clock = SystemClock()
    launcher = Launcher.fork()  # before this process has a second thread, a lock or a socket
    run = NodeRun(config, RunRequest(plant_node=simulate, scenario=scenario, seed=seed), clock, launcher)
    stop = threading.Event()
    set_on_signals(stop, (signal.SIGINT, signal.SIGTERM))
    run.claim()
    with ExitStack() as undo:
        undo.callback(run.stop)  # where the terminal is gone, or a process cannot run
        run.begin()
        from railwatch.cli.live_lines import Reporter, slow_stop_reported  # noqa: PLC0415 -- while the plant starts

        reporter = Reporter(clock, simulated=run.simulated, as_json=as_json, data_dir=config.data_dir)
        reporter.line(f"railwatch {__version__}: {run.source}")
        for line in (_mode_line(config, simulated=run.simulated), *_approval_line(config, simulated=run.simulated)):
            reporter.line(line)
        if length_s > LONG_S:
            reporter.line(
                f"the scenario takes {format_duration(length_s)} in real time; `railwatch simulate run` is faster"
            )
        source = run.source
        address = run.start()
        undo.pop_all()
    end_s = clock.monotonic_s() + (math.inf if run_for is None else run_for)
    try:
        if run.source != source:
            reporter.line(run.source)
        reporter.line(f"page: {address}")
        reporter.line(f"data: {config.data_dir}   (Ctrl-C stops and releases every cap)")
        while not stop.is_set() and (left_s := end_s - clock.monotonic_s()) > 0.0:
            reporter.report(run.watch())
            run.wait(stop, left_s)
    finally:
        try:
            reporter.line("stopping: releasing caps, flushing")
        finally:
            with slow_stop_reported(run, reporter):
                troubles = run.stop()  # in any case: the terminal may be gone
        reporter.report(run.records(), last=True)
    reporter.summary(run, troubles)
    if troubles or reporter.caps_left or run.records_lost:
        raise typer.Exit(1)


def _with_options(config: Config, *, port: int | None, data_dir: Path | None) -> Config:
    if port is not None:
        config = config.model_copy(update={"page": config.page.model_copy(update={"port": port})})
    if data_dir is not None:
        config = config.model_copy(update={"data_dir": data_dir.absolute()})
    return config


def _mode_line(config: Config, *, simulated: bool) -> str:
    mode = config.actions.clock_cap.resolve(simulated=simulated).value
    meaning = {
        "observe": "nothing is changed on the hardware",
        "recommend": "nothing is changed on the hardware; decisions are reported",
        "enforce": "clocks are capped when a policy decides so, and restored at the end",
    }[mode]
    return f"mode: {mode} ({meaning})"


def _approval_line(config: Config, *, simulated: bool) -> Iterator[str]:
    """Yield a line that names the action classes in enforce mode that need approval."""
    waiting = [
        one.value
        for one in config.limits.approval
        if one is not ActionClass.POWER_CYCLE and config.actions.of(one).resolve(simulated=simulated) is Mode.ENFORCE
    ]
    if waiting:
        verb = "waits" if len(waiting) == 1 else "wait"
        yield f"{', '.join(waiting)} {verb} for approval: railwatch actions pending"
