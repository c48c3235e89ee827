"""``railwatch up``: everything on one node under one supervisor."""

import contextlib
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from config.loading import load_config
from config.models import Config
from config.policies import check_names, policies_of
from railwatch import __version__
from railwatch.cli.printing import describe, print_json, record_fields
from railwatch.run import NodeRun, Wanted
from rules.policy.model import ActionClass
from simulator.files import DEFAULT_NODE, DEFAULT_SCENARIO
from simulator.files.node import load_node
from simulator.files.scenario import load_scenario
from telemetry.clock import Clock, SystemClock, iso_utc
from telemetry.durations import format_duration, parse_duration_s
from telemetry.records import IN_FORCE, Action, ActionState, Event, Incident, Mode, Record

# How often the records are looked at for the terminal: what people read as at once.
LOOK_S = 0.1
# A scenario that goes on for longer is none to watch.
LONG_S = 3600.0
# heuristic: a stop that takes longer says what it waits for.
STOPPING_SAY_S = 3.0


def seconds(text: str) -> float:
    """Read a duration from the command line."""
    try:
        return parse_duration_s(text)
    except ValueError as err:
        raise typer.BadParameter(f"got {text!r}; expected {err}") from err


def up(
    simulate: Annotated[
        str | None, typer.Option("--simulate", metavar="NODE", help="Simulate this node even where there are GPUs.")
    ] = None,
    scenario: Annotated[str | None, typer.Option(help="What happens to the simulated node.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 1,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port of the page; 0 takes a free one.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder for store, spool and journals.")] = None,
    run_for: Annotated[
        float | None, typer.Option("--for", parser=seconds, metavar="DURATION", help="Stop by itself: 60s, 10m.")
    ] = None,
    config_file: Annotated[Path | None, typer.Option("--config", help="Configuration file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Records as JSON lines on standard output.")] = False,
) -> None:
    """Run everything on this node: agent, guard, store and page.

    Uses the GPUs that NVML finds; without an NVIDIA driver it simulates a node and says so. Ctrl-C releases every cap,
    flushes and ends.
    """
    config = _with_options(load_config(config_file, os.environ), port=port, data_dir=data_dir)
    length_s = 0.0
    check_names(config, policies_of(config))  # what is wrong with them is said before anything starts
    if simulate is not None or scenario is not None:
        length_s = load_scenario(scenario or DEFAULT_SCENARIO, load_node(simulate or DEFAULT_NODE)).duration
    clock = SystemClock()
    run = NodeRun(config, Wanted(plant_node=simulate, scenario=scenario, seed=seed), clock)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    teller = _Teller(clock, simulated=run.simulated, as_json=as_json)
    run.claim()
    teller.say(f"railwatch {__version__}: {run.source}")
    for line in (_mode_line(config, simulated=run.simulated), *_approval_line(config, simulated=run.simulated)):
        teller.say(line)
    if length_s > LONG_S:
        words = f"the scenario goes on for {format_duration(length_s)}, and this takes as long"
        teller.say(f"{words}; `railwatch simulate run` is faster")
    source = run.source
    address = run.start()
    end_s = None if run_for is None else clock.monotonic_s() + run_for
    try:
        if run.source != source:
            teller.say(run.source)
        teller.say(f"page: {address}")
        teller.say(f"data: {config.data_dir}   (Ctrl-C stops and releases every cap)")
        while not stop.is_set() and (end_s is None or clock.monotonic_s() < end_s):
            teller.tell(run.watch())
            stop.wait(LOOK_S)
    finally:
        try:
            teller.say("stopping: releasing caps, flushing")
        finally:
            with _told_what_takes_long(run, teller):
                troubles = run.stop()  # in any case: the terminal may be gone
        teller.tell(run.records())
    teller.summary(run, troubles)
    if troubles or teller.caps_left or run.records_lost:
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
        "recommend": "nothing is changed on the hardware; what would be done is said",
        "enforce": "clocks are capped when a rule says so, and restored at the end",
    }[mode]
    return f"mode: {mode} ({meaning})"


def _approval_line(config: Config, *, simulated: bool) -> Iterator[str]:
    """Return which classes of action wait for a person, of those that could act without one."""
    waiting = [
        one.value
        for one in config.rails.approval
        if one is not ActionClass.POWER_CYCLE and config.actions.of(one).resolve(simulated=simulated) is Mode.ENFORCE
    ]
    if waiting:
        verb = "waits" if len(waiting) == 1 else "wait"
        yield f"{', '.join(waiting)} {verb} for a person's approval: railwatch actions pending"


@contextlib.contextmanager
def _told_what_takes_long(run: NodeRun, teller: "_Teller", *, after_s: float = STOPPING_SAY_S) -> Iterator[None]:
    """Return what a stop waits for, once it takes long."""
    over = threading.Event()

    def tell() -> None:
        told = ""
        while not over.wait(after_s):
            if run.waits_for != told:
                told = run.waits_for
                teller.say(f"still stopping: waiting for {told}")

    thread = threading.Thread(target=tell, name="tell-stopping", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


_told = partial(describe, brief=True)


class _Teller:
    """Says what happens: JSON lines for programs, words for people, and counts for the summary."""

    def __init__(self, clock: Clock, *, simulated: bool, as_json: bool) -> None:
        self._clock = clock
        self._simulated = simulated
        self._as_json = as_json
        # In JSON mode standard output carries records and nothing else.
        self._console = Console(stderr=as_json, highlight=False)
        self._counts: Counter[str] = Counter()
        self._incidents: set[str] = set()
        self._in_force: set[tuple[str, str]] = set()
        self._told: dict[str, str] = {}

    @property
    def caps_left(self) -> tuple[tuple[str, str], ...]:
        """Incident and entity of each cap that is still in force, as far as the records say."""
        return tuple(sorted(self._in_force))

    def say(self, sentence: str) -> None:
        self._console.print(sentence, soft_wrap=True)

    def tell(self, records: Iterable[Record]) -> None:
        told = [record for record in records if not isinstance(record, Event)]
        for record in told:
            self._count(record)
            if self._as_json:
                print_json(record_fields(record, simulated=self._simulated))
        if self._as_json:
            return
        # What happens to several GPUs alike in one moment is one line, and an incident that reads the same is no news.
        news = [record for record in told if not isinstance(record, Incident) or self._is_news(record)]
        for words, same in groupby(news, key=_told):
            alike = list(same)
            stamp = iso_utc(alike[0].time_ns)[11:19]
            times = f"  [dim]({len(alike)} GPUs)[/]" if len(alike) > 1 else ""
            self._console.print(f"[dim]{stamp}[/]  {words}{times}", soft_wrap=True)

    def _is_news(self, incident: Incident) -> bool:
        words = _told(incident)
        known = self._told.get(incident.id) == words
        self._told[incident.id] = words
        return not known

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
            sys.stderr.write(f"railwatch: {entity_id}: the cap of incident {incident_id} could not be released\n")
        if run.records_lost:
            sys.stderr.write(f"railwatch: {run.records_lost} records of this run are not kept: {run.record_trouble}\n")
        if self._as_json:
            print_json(fields)
            return
        left = "no cap left behind" if not self._in_force else f"{len(self._in_force)} caps could not be released"
        count = len(self._incidents)
        self.say(f"ended: {count} incident{'' if count == 1 else 's'}, {left}")
        if run.restarts:
            self.say(f"processes that had to be started again: {run.restarts}")
        for name, status in troubles.items():
            sys.stderr.write(f"railwatch: process {name} ended with status {status}\n")
