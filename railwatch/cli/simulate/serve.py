"""``railwatch simulate serve``: a simulated node for other programs, as long as it is wanted."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from railwatch.cli.output import print_json
from railwatch.cli.place import JsonFlag
from railwatch.cli.up import seconds
from simulator.files.node import NodeFile, load_node
from simulator.files.scenario import load_scenario
from simulator.files.workload import load_workload
from simulator.plant.events import PlantEvent
from simulator.plant.state import NodeState
from simulator.sensors.bank import SensorBank
from simulator.served.board.ipmi import CIPHER_SUITE, PASSWORD, USER
from simulator.served.description import Served, library_for
from simulator.served.offering import BoardWish, Offering, offer
from simulator.served.sentences import sentence
from telemetry.clock import SystemClock, iso_utc
from telemetry.errors import ConfigError, EnvironmentLacksError, Problem

_MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 -- files that change a hundred times a second belong in memory
_PATIENCE_S = 5.0  # assumption: what ends at all on SIGTERM does so by then
_NOT_STARTED = 127  # what a shell answers where there is no such program


class Login(StrEnum):
    """Whether Redfish asks who is there."""

    NONE = "none"
    BASIC = "basic"


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
    wish = BoardWish(
        ipmi_needed=bool(bmc),
        ipmi_port=ipmi_port,
        redfish_port=redfish_port,
        redfish_login=redfish_login is Login.BASIC,
    )
    clock = SystemClock()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):  # before anything stands that would have to be cleaned up
        signal.signal(number, lambda *_: stop.set())
    folder = _claimed(run_dir)
    try:
        library, why = library_for(Path("~/.cache/railwatch").expanduser())
        offering = offer(
            node,
            scenario,
            seed=seed,
            run_dir=folder,
            clock=clock,
            workload=workload,
            board=None if bmc is False else wish,
        )
        try:
            if library is None:
                offering.notes = (f"no driver library: {why}", *offering.notes)
            served = replace(offering.server.served, library_dir=library)
            teller = _Teller(node, as_json=as_json, quiet=command is not None)
            teller.announce(served, offering)
            offering.server.add([teller])
            end_s = None if run_for is None else clock.monotonic_s() + run_for

            def is_over() -> bool:
                return stop.is_set() or (end_s is not None and clock.monotonic_s() >= end_s)

            status = 0
            if command:
                status = _run_command(offering, served, command, is_over)
            else:
                offering.server.run(is_over)
        finally:
            offering.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if offering.server.skipped_ms:
        sys.stderr.write(f"railwatch: the machine was too busy: {offering.server.skipped_ms} ms were skipped\n")
    if status:
        raise typer.Exit(status)


def _claimed(run_dir: Path | None) -> Path:
    """Make the folder of this run, in memory where the machine has a file system there."""
    if run_dir is None:
        parent = _MEMORY_FOLDER if os.access(_MEMORY_FOLDER, os.W_OK) else None
        return Path(tempfile.mkdtemp(prefix="railwatch-serve-", dir=parent))
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        if any(run_dir.iterdir()):
            found, expected = f"{run_dir} holds files", "a new or empty folder, since it is removed at the end"
            raise ConfigError([Problem(where="--run-dir", line=None, key="run_dir", found=found, expected=expected)])
    except OSError as err:
        raise EnvironmentLacksError(f"{run_dir}: {err.strerror}") from err
    return run_dir.absolute()


def _run_command(offering: Offering, served: Served, command: Sequence[str], is_over: Callable[[], bool]) -> int:
    """Run a command on the node; its exit status, 128 and the signal's number where one ended it."""
    variables = _variables(served, os.environ)
    # Ctrl-C reaches the command by itself, since it stands in front; it decides what that means.
    signal.signal(signal.SIGINT, lambda *_: None)
    try:
        process = subprocess.Popen(list(command), env=os.environ | variables | {"PATH": _path(os.environ)})
    except OSError as err:
        sys.stderr.write(f"railwatch: {command[0]}: {err.strerror}\n")
        return _NOT_STARTED
    try:
        offering.server.run(lambda: process.poll() is not None or is_over())
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            status = process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
    return 128 - status if status < 0 else status


def _path(environ: Mapping[str, str]) -> str:
    """Give where programs are looked for; those beside this Python come last, so that nvitop needs no activation."""
    return os.pathsep.join((environ.get("PATH", os.defpath), str(Path(sys.executable).parent)))


def _variables(served: Served, environ: Mapping[str, str]) -> dict[str, str]:
    """Give the variables of a program on the node; what the library path already holds stays behind ours."""
    variables = served.environment | served.sources
    before = environ.get("LD_LIBRARY_PATH")
    if before and "LD_LIBRARY_PATH" in variables:
        variables["LD_LIBRARY_PATH"] += f":{before}"
    return variables


class _Teller:
    """Says where everything is, and what happens: words for people, JSON lines for programs."""

    def __init__(self, node: NodeFile, *, as_json: bool, quiet: bool) -> None:
        self._node = node
        self._as_json = as_json
        self._quiet = quiet  # a command has the terminal
        self._console = Console(highlight=False, soft_wrap=True, markup=False)

    def announce(self, served: Served, offering: Offering) -> None:
        missing = offering.notes if not self._quiet else tuple(note for note in offering.notes if "library" in note)
        for note in missing:
            sys.stderr.write(f"railwatch: {note}\n")
        if self._quiet:
            return
        if self._as_json:
            print_json(_place(served, offering))
            return
        say = self._console.print
        say(f"# {served.node}, scenario {served.scenario}, seed {served.seed}; Ctrl-C stops")
        for name, value in (served.environment | served.sources).items():
            say(f"export {name}={shlex.quote(value)}")
        if offering.ipmi is not None:
            say(f"{_ipmitool(offering.ipmi.port)} sensor")
        if offering.redfish is not None:
            say(f"curl -s {offering.redfish.address}Chassis/1/Power")

    def tell(self, event: PlantEvent, *, time_ns: int) -> None:
        if self._quiet:
            return
        words = sentence(event, self._node)
        if self._as_json:
            print_json(
                {
                    "type": "event",
                    "time": iso_utc(time_ns),
                    "simulated_s": event.time_ms / 1000.0,
                    "event": event.kind.value,
                    "gpu": event.gpu,
                    "supply": event.supply,
                    "code": event.code,
                    "message": words,
                }
            )
            return
        self._console.print(f"{iso_utc(time_ns)[11:19]}  {event.time_ms / 1000.0:8.2f} s  {words}")

    def show(self, state: NodeState, bank: SensorBank, *, time_ns: int) -> None:
        """Say nothing of readings: programs read them."""

    def close(self) -> None:
        """Nothing is held open."""


def _ipmitool(port: int) -> str:
    return f"ipmitool -I lanplus -C {CIPHER_SUITE} -H 127.0.0.1 -p {port} -U {USER} -P {PASSWORD}"


def _place(served: Served, offering: Offering) -> dict[str, Any]:
    ipmi, redfish = offering.ipmi, offering.redfish
    return {
        "type": "served",
        "node": served.node,
        "scenario": served.scenario,
        "seed": served.seed,
        "environment": served.environment | served.sources,
        "sysfs": str(served.sysfs_root),
        "proc": str(served.proc_root),
        "kmsg": str(served.kernel_log),
        "ipmi": None if ipmi is None else {"port": ipmi.port, "user": USER, "password": PASSWORD, "pid": ipmi.pid},
        "redfish": None if redfish is None else redfish.address,
        "notes": list(offering.notes),
    }
