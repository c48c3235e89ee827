"""``railwatch simulate serve``: a simulated node for other programs, as long as it is wanted."""

import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import psutil
import typer

from railwatch.cli.run_folder import JsonFlag
from railwatch.cli.simulate.serve_news import News, print_notes
from railwatch.cli.simulate.serve_program import run_program
from railwatch.cli.up import seconds
from simulator.files.node import load_node
from simulator.files.scenario import load_scenario
from simulator.files.workload import load_workload
from simulator.served.description import Served, library_for
from simulator.served.offering import BoardWish, Offering, offer
from telemetry.clock import SystemClock
from telemetry.errors import ConfigError, EnvironmentLacksError, Problem

_PREFIX = "railwatch-serve-"
_MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 -- files that change a hundred times a second belong in memory
_NO_LIBRARY = "no driver library"


class Login(StrEnum):
    """Whether Redfish asks who is there."""

    NONE = "none"
    REQUIRED = "required"


def serve(
    node_name: Annotated[str, typer.Argument(metavar="NODE", help="Name of a node, or the path of a node file.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND...]", help="Run this on the node, then end with its exit status."),
    ] = None,
    scenario_name: Annotated[str, typer.Option("--scenario", help="What happens to the node.")] = "healthy",
    workload_name: Annotated[str | None, typer.Option("--workload", help="What runs on it.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 1,
    run_for: Annotated[
        float | None, typer.Option("--for", parser=seconds, metavar="DURATION", help="Stop by itself: 60s, 10m.")
    ] = None,
    run_dir: Annotated[Path | None, typer.Option(help="Folder for its files; must be new or empty.")] = None,
    bmc: Annotated[
        bool | None, typer.Option("--bmc/--no-bmc", help="Require the board's controller, or leave it out.")
    ] = None,
    ipmi_port: Annotated[int, typer.Option(min=0, max=65535, help="UDP port of IPMI; 0 takes a free one.")] = 0,
    redfish_port: Annotated[int, typer.Option(min=0, max=65535, help="TCP port of Redfish; 0: a free one.")] = 0,
    redfish_login: Annotated[Login, typer.Option(help="Whether Redfish wants a user and password.")] = Login.NONE,
    as_json: JsonFlag = False,
) -> None:
    """Serve a simulated node: driver library, sysfs, proc, kernel log, IPMI and Redfish, in real time.

    Prints the environment with which other programs see it, and what happens; Ctrl-C stops and cleans up.
    """
    node = load_node(node_name, option="NODE")
    scenario = load_scenario(scenario_name, node)
    workload = None if workload_name is None else load_workload(workload_name)
    if bmc and node.sensors.bmc is None:
        found, expected = f"{node.name} has none", "a node with sensors.bmc, or no --bmc"
        raise ConfigError([Problem(where="--bmc", line=None, key="bmc", found=found, expected=expected)])
    login_needed = redfish_login is Login.REQUIRED
    ipmi_needed = bool(bmc) or ipmi_port > 0
    wish = BoardWish(
        ipmi_needed=ipmi_needed, ipmi_port=ipmi_port, redfish_port=redfish_port, redfish_login=login_needed
    )
    clock = SystemClock()
    stopped = _stop_signal()  # before anything stands that would have to be cleaned up
    with _own_folder(run_dir) as folder:
        board = None if bmc is False else wish
        offering = offer(node, scenario, seed=seed, run_dir=folder, clock=clock, workload=workload, board=board)
        with closing(offering):
            served = _with_library(offering)
            end_s = None if run_for is None else clock.monotonic_s() + run_for

            def has_ended() -> bool:
                return stopped() or (end_s is not None and clock.monotonic_s() >= end_s)

            status = _keep(offering, served, command or (), has_ended, News(node, as_json=as_json))
    if offering.server.skipped_ms:
        sys.stderr.write(f"railwatch: the machine was too busy: {offering.server.skipped_ms} ms were skipped\n")
    if status:
        raise typer.Exit(status)


def _keep(offering: Offering, served: Served, command: Sequence[str], has_ended: Callable[[], bool], news: News) -> int:
    """Serve until it is over, with news on the terminal or a command that has it; give the exit status."""
    if command:
        print_notes(tuple(note for note in offering.notes if note.startswith(_NO_LIBRARY)))
        return run_program(command, offering.server, served, has_ended)
    news.announce(served, offering)
    offering.server.add(news)
    offering.server.run(has_ended)
    return 0


def _with_library(offering: Offering) -> Served:
    """Return the node with the driver library that other programs load; where none can be built, a note says why."""
    library, why = library_for(Path("~/.cache/railwatch").expanduser())
    if library is None:
        offering.notes = (f"{_NO_LIBRARY}: {why}", *offering.notes)
    return replace(offering.server.served, library_dir=library)


def _stop_signal() -> Callable[[], bool]:
    """Turn the signals that end a program into a flag; a terminal that is closed is one too."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    return stop.is_set


@contextmanager
def _own_folder(run_dir: Path | None) -> Iterator[Path]:
    """Make the folder of this run, in memory where the machine has a file system there; it goes when we do."""
    folder = _claimed(run_dir)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(parent: Path) -> None:
    """Remove the folders of those that were killed: nobody has the process number in their name any more."""
    for folder in parent.glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).split("-")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def _claimed(run_dir: Path | None) -> Path:
    """Make a new folder, or take an empty one."""
    if run_dir is None:
        parent = _MEMORY_FOLDER if os.access(_MEMORY_FOLDER, os.W_OK) else Path(tempfile.gettempdir())
        _sweep(parent)
        return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        if any(run_dir.iterdir()):
            found, expected = f"{run_dir} holds files", "a new or empty folder, since it is removed at the end"
            raise ConfigError([Problem(where="--run-dir", line=None, key="run_dir", found=found, expected=expected)])
    except OSError as err:
        raise EnvironmentLacksError(f"{run_dir}: {err.strerror}") from err
    return run_dir.absolute()
