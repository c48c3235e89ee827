"""``railwatch up``: everything on one node under one supervisor."""

import contextlib
import math
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from config.loading import load_config
from config.models import Config
from config.policies import check_names, policies_of
from railwatch import __version__
from railwatch.cli.live_lines import LiveLines
from railwatch.cli.printing import print_json
from railwatch.cli.run_folder import names_of_run
from railwatch.launcher import Launcher
from railwatch.operator.entity_names import EntityNames
from railwatch.run import NodeRun, RunRequest
from rules.policy.model import ActionClass
from simulator.files import DEFAULT_NODE, DEFAULT_SCENARIO
from simulator.files.node import load_node
from simulator.files.scenario import load_scenario
from telemetry.clock import Clock, SystemClock, iso_utc
from telemetry.commands import Command
from telemetry.durations import format_duration, parse_duration_s
from telemetry.records import IN_FORCE, Action, ActionState, Event, Mode, Record, to_json

# heuristic: nobody watches a scenario for longer than this.
LONG_S = 3600.0
# heuristic: a stop that takes longer reports what it waits for.
STOPPING_REPORT_S = 3.0


def seconds(text: str) -> float:
    """Read a duration from the command line."""
    try:
        return parse_duration_s(text)
    except ValueError as err:
        raise typer.BadParameter(f"got {text!r}; expected {err}") from err


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
    data_dir: Annotated[Path | None, typer.Option(help="Folder for store and journals.")] = None,
    run_for: Annotated[
        float | None,
        typer.Option(
            "--for",
            parser=seconds,
            metavar="DURATION",
            help="Stop after this time, e.g. 10m.",
        ),
    ] = None,
    config_file: Annotated[Path | None, typer.Option("--config", help="Configuration file (YAML).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Run railwatch on this node: sampling, guard, store and web page.

    Uses the GPUs that NVML finds; without an NVIDIA driver it simulates a node, and the first line names it. Lists of
    nodes and scenarios: railwatch simulate list. Ctrl-C releases every cap, flushes the store and exits.
    """
    config = _with_options(load_config(config_file, os.environ), port=port, data_dir=data_dir)
    length_s = 0.0
    check_names(config, policies_of(config))  # refuse wrong policies before anything starts
    if simulate is not None or scenario is not None:
        length_s = load_scenario(scenario or DEFAULT_SCENARIO, load_node(simulate or DEFAULT_NODE)).duration
    clock = SystemClock()
    launcher = Launcher.fork()  # before this process has a second thread, a lock or a socket
    run = NodeRun(config, RunRequest(plant_node=simulate, scenario=scenario, seed=seed), clock, launcher)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    reporter = _Reporter(clock, simulated=run.simulated, as_json=as_json, data_dir=config.data_dir)
    run.claim()
    reporter.line(f"railwatch {__version__}: {run.source}")
    for line in (_mode_line(config, simulated=run.simulated), *_approval_line(config, simulated=run.simulated)):
        reporter.line(line)
    if length_s > LONG_S:
        reporter.line(
            f"the scenario takes {format_duration(length_s)} in real time; `railwatch simulate run` is faster"
        )
    source = run.source
    address = run.start()
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
            with _slow_stop_reported(run, reporter):
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


@contextlib.contextmanager
def _slow_stop_reported(run: NodeRun, reporter: "_Reporter", *, after_s: float = STOPPING_REPORT_S) -> Iterator[None]:
    """Report the process that a stop waits for, once that takes long."""
    over = threading.Event()

    def follow() -> None:
        reported = ""
        while not over.wait(after_s):
            if run.waits_for != reported:
                reported = run.waits_for
                reporter.line(f"still stopping: waiting for {reported}")

    thread = threading.Thread(target=follow, name="report-stopping", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class _Reporter:
    """Prints records, as JSON lines or as lines for people, and counts them for the summary."""

    def __init__(self, clock: Clock, *, simulated: bool, as_json: bool, data_dir: Path) -> None:
        self._clock = clock
        self._simulated = simulated
        self._as_json = as_json
        # In JSON mode standard output carries records and nothing else.
        self._console = Console(stderr=as_json, highlight=False)
        self._counts: Counter[str] = Counter()
        self._incidents: set[str] = set()
        self._in_force: set[tuple[str, str]] = set()
        self._data_dir = data_dir
        self._names = EntityNames()
        self._lines = LiveLines(self._names_now)

    @property
    def caps_left(self) -> tuple[tuple[str, str], ...]:
        """Incident and entity of each cap that the records show in force."""
        return tuple(sorted(self._in_force))

    def line(self, text: str) -> None:
        """Print one line of text."""
        self._console.print(text, soft_wrap=True)

    def report(self, records: Iterable[Record], *, last: bool = False) -> None:
        """Print records; `last` also prints the steps that were held for a common line."""
        shown = [record for record in records if not isinstance(record, Event | Command)]
        for record in shown:
            self._count(record)
            if self._as_json:
                print_json(to_json(record, simulated=self._simulated))
        if self._as_json:
            return
        now_s = self._clock.monotonic_s()
        for text in self._lines.lines(shown, now_s=now_s):
            self.line(text)
        for text in self._lines.last_lines(now_s=now_s) if last else ():
            self.line(text)

    def _names_now(self) -> EntityNames:
        if not self._names.known:
            self._names = names_of_run(self._data_dir)
        return self._names

    def _count(self, record: Record) -> None:
        fields = type(record).__name__.lower()
        self._counts[fields] += 1
        if fields == "incident":
            self._incidents.add(record.id)
        if isinstance(record, Action):
            key = (record.incident_id, record.entity_id)
            if record.state in IN_FORCE:
                self._in_force.add(key)
            elif record.state is ActionState.RELEASED:
                self._in_force.discard(key)

    def summary(self, run: NodeRun, troubles: dict[str, Any]) -> None:
        fields = {
            "time": iso_utc(self._clock.utc_ns()),
            "type": "summary",
            "source": run.source,
            "simulated": run.simulated,
            "incidents": len(self._incidents),
            "findings": self._counts["finding"],
            "decisions": self._counts["decision"],
            "actions": self._counts["action"],
            "outcomes": self._counts["outcome"],
            "caps_left": len(self.caps_left),
            "records_lost": run.records_lost,
            "restarts": run.restarts,
            "troubles": troubles,
        }
        for incident_id, entity_id in self.caps_left:
            sys.stderr.write(
                f"railwatch: {self._names_now().name(entity_id)}: cap of incident {incident_id} could not be released\n"
            )
        if run.records_lost:
            sys.stderr.write(f"railwatch: {run.records_lost} records of this run were lost: {run.record_trouble}\n")
        if self._as_json:
            print_json(fields)
            return
        left = "no cap left behind" if not self._in_force else f"{len(self._in_force)} caps could not be released"
        count = len(self._incidents)
        self.line(f"ended: {count} incident{'' if count == 1 else 's'}, {left}")
        if run.restarts:
            self.line(f"restarted processes: {run.restarts}")
        for name, status in troubles.items():
            sys.stderr.write(f"railwatch: process {name} exited with status {status}\n")
