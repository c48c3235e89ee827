"""``railwatch simulate serve``: a simulated node for other programs."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer
from rich.console import Console

from railwatch.cli.durations import duration_option
from railwatch.cli.printing import print_json
from railwatch.cli.run_folder import JsonFlag
from simulator.files.node import NodeFile, load_node
from simulator.files.scenario import load_scenario
from simulator.files.workload import load_workload
from simulator.plant.events import PlantEvent, sentence
from simulator.plant.state import PlantNodeState
from simulator.sensors.bank import SensorBank
from simulator.served.board.ipmi import CIPHER_SUITE, PASSWORD, USER
from simulator.served.description import PlantAddress, library_for
from simulator.served.served_node import BoardOptions, ServedNode, serve_node
from simulator.served.server import PlantServer
from telemetry.clock import SystemClock, iso_utc
from telemetry.errors import ConfigError, EnvironmentLacksError
from telemetry.stop_signals import set_on_signals

_LIBRARY_PATH = "LD_LIBRARY_PATH"
_PATIENCE_S = 5.0  # heuristic: a program that ends on SIGTERM at all does so by then
_NOT_STARTED = 127  # as a shell returns for an unknown program
_PREFIX = "railwatch-serve-"
_MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 -- files that change a hundred times a second belong in memory


class EventPrinter:
    """Port of the plant that prints events: text for people, JSON lines for programs."""

    def __init__(self, node: NodeFile, *, as_json: bool) -> None:
        self._node = node
        self._as_json = as_json
        self._console = Console(highlight=False, soft_wrap=True, markup=False)

    def announce(self, served: PlantAddress, running: ServedNode) -> None:
        """Print the address of everything that is served; report on standard error what is not."""
        print_notes(running.notes)
        if self._as_json:
            print_json(_place(served, running))
            return
        print_line = self._console.print
        print_line(f"# {served.node}, scenario {served.scenario}, seed {served.seed}; Ctrl-C stops")
        for name, value in (served.environment | served.sources).items():
            # The library path of the other terminal comes after ours.
            rest = f"${{{name}:+:${name}}}" if name == _LIBRARY_PATH else ""
            print_line(f"export {name}={shlex.quote(value)}{rest}")
        if running.ipmi is not None:
            print_line(f"{_ipmitool(running.ipmi.port)} sensor")
        if running.redfish is not None:
            login = f"-u {USER}:{PASSWORD} " if running.redfish.login_needed else ""
            print_line(f"curl -s {login}{running.redfish.address}Chassis/1/Power")

    def receive_event(self, event: PlantEvent, *, time_ns: int) -> None:
        """Print an event of the plant."""
        text = sentence(event, self._node)
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
                    "message": text,
                }
            )
            return
        self._console.print(f"{iso_utc(time_ns)[11:19]}  {event.time_ms / 1000.0:8.2f} s  {text}")

    def show(self, state: PlantNodeState, bank: SensorBank, *, time_ns: int) -> None:
        """Ignore readings: programs read them."""

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def print_notes(notes: tuple[str, ...]) -> None:
    """Report on standard error what is not served, one line each."""
    for note in notes:
        sys.stderr.write(f"railwatch: {note}\n")


def _ipmitool(port: int) -> str:
    return f"ipmitool -I lanplus -C {CIPHER_SUITE} -H 127.0.0.1 -p {port} -U {USER} -P {PASSWORD}"


def _place(served: PlantAddress, running: ServedNode) -> dict[str, Any]:
    ipmi, redfish = running.ipmi, running.redfish
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
        "notes": list(running.notes),
    }


def run_program(
    command: Sequence[str], server: PlantServer, served: PlantAddress, has_ended: Callable[[], bool]
) -> int:
    """Run a program while the node is served and return its exit status: 128 plus the signal if one ended it."""
    variables = _variables(served, os.environ)
    # Ctrl-C reaches the program as well, since it is in the foreground; the program decides what to do.
    signal.signal(signal.SIGINT, lambda *_: None)
    try:
        process = subprocess.Popen(list(command), env=os.environ | variables | {"PATH": _path(os.environ)})
    except OSError as err:
        sys.stderr.write(f"railwatch: {command[0]}: {err.strerror}\n")
        return _NOT_STARTED
    try:
        server.run(lambda: process.poll() is not None or has_ended())
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
    """Return PATH with the folder of this Python at the end, so that nvitop needs no activation."""
    return os.pathsep.join((environ.get("PATH", os.defpath), str(Path(sys.executable).parent)))


def _variables(served: PlantAddress, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a program on the node; the present library path comes after ours."""
    variables = served.environment | served.sources
    before = environ.get("LD_LIBRARY_PATH")
    if before and "LD_LIBRARY_PATH" in variables:
        variables["LD_LIBRARY_PATH"] += f":{before}"
    return variables


class Login(StrEnum):
    """Authentication of the served Redfish."""

    NONE = "none"
    REQUIRED = "required"


def serve(
    node_name: Annotated[str, typer.Argument(metavar="NODE", help="Name of a node, or path of a node file.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND...]", help="Program to run on the node; its exit status is returned."),
    ] = None,
    scenario_name: Annotated[str, typer.Option("--scenario", help="Scenario, by name or file.")] = "healthy",
    workload_name: Annotated[
        str | None, typer.Option("--workload", help="Workload, by name or file; default: that of the node.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 1,
    run_for: Annotated[float | None, duration_option("Stop after this time: 60s, 10m.", "--for")] = None,
    run_dir: Annotated[
        Path | None, typer.Option(help="Folder for its files: new or empty; removed at the end.")
    ] = None,
    bmc: Annotated[
        bool | None,
        typer.Option(
            "--bmc/--no-bmc", help="Require a board controller, or serve none; default: serve it if the node has one."
        ),
    ] = None,
    ipmi_port: Annotated[int, typer.Option(min=0, max=65535, help="UDP port of IPMI; 0: a free one.")] = 0,
    redfish_port: Annotated[int, typer.Option(min=0, max=65535, help="TCP port of Redfish; 0: a free one.")] = 0,
    redfish_login: Annotated[Login, typer.Option(help="Authentication of Redfish.")] = Login.NONE,
    as_json: JsonFlag = False,
) -> None:
    """Serve a simulated node: driver library, sysfs, proc, kernel log, IPMI and Redfish, in real time.

    Prints the environment variables with which other programs see the node, then its events. Ctrl-C stops it and
    removes its files.
    """
    node = load_node(node_name, option="NODE")
    scenario = load_scenario(scenario_name, node)
    workload = None if workload_name is None else load_workload(workload_name)
    if bmc and node.sensors.bmc is None:
        found, expected = f"{node.name} has none", "a node with sensors.bmc, or no --bmc"
        raise ConfigError.at("--bmc", found, expected)
    login_needed = redfish_login is Login.REQUIRED
    ipmi_needed = bool(bmc) or ipmi_port > 0
    wish = BoardOptions(
        ipmi_needed=ipmi_needed, ipmi_port=ipmi_port, redfish_port=redfish_port, redfish_login=login_needed
    )
    clock = SystemClock()
    stopped = _stop_signal()  # before anything exists that must be cleaned up
    with _own_folder(run_dir) as folder:
        board = None if bmc is False else wish
        running = serve_node(node, scenario, seed=seed, run_dir=folder, clock=clock, workload=workload, board=board)
        with closing(running):
            served = _with_library(running)
            end_s = None if run_for is None else clock.monotonic_s() + run_for

            def has_ended() -> bool:
                return stopped() or (end_s is not None and clock.monotonic_s() >= end_s)

            status = _keep(running, served, command or (), has_ended, EventPrinter(node, as_json=as_json))
    if running.server.skipped_ms:
        sys.stderr.write(f"railwatch: the machine was too busy: {running.server.skipped_ms} ms were skipped\n")
    if status:
        raise typer.Exit(status)


def _keep(
    running: ServedNode,
    served: PlantAddress,
    command: Sequence[str],
    has_ended: Callable[[], bool],
    printer: EventPrinter,
) -> int:
    """Serve until the end, with events on the terminal or a program in the foreground; return the exit status."""
    if command:
        print_notes(running.notes[:1] if served.library_dir is None else ())  # the first is about the library
        return run_program(command, running.server, served, has_ended)
    printer.announce(served, running)
    running.server.add(printer)
    running.server.run(has_ended)
    return 0


def _with_library(running: ServedNode) -> PlantAddress:
    """Return the node with the driver library for other programs; a note gives the reason if none can be built."""
    library, why = library_for(Path("~/.cache/railwatch").expanduser())
    if library is None:
        running.notes = (f"no driver library: {why}", *running.notes)
    return replace(running.server.served, library_dir=library)


def _stop_signal() -> Callable[[], bool]:
    """Return a function that is true after SIGINT, SIGTERM or SIGHUP."""
    stop = threading.Event()
    set_on_signals(stop, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    return stop.is_set


@contextmanager
def _own_folder(run_dir: Path | None) -> Iterator[Path]:
    """Create the folder of this run, in memory if the machine has a file system there; remove it at the end."""
    folder = _claimed(run_dir)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(parent: Path) -> None:
    """Remove the folders of runs that were killed: the process id in their name no longer exists."""
    for folder in parent.glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).split("-")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def _claimed(run_dir: Path | None) -> Path:
    """Create a new folder, or use an empty one."""
    if run_dir is None:
        parent = _MEMORY_FOLDER if os.access(_MEMORY_FOLDER, os.W_OK) else Path(tempfile.gettempdir())
        _sweep(parent)
        return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        if any(run_dir.iterdir()):
            found, expected = f"{run_dir} holds files", "a new or empty folder, since it is removed at the end"
            raise ConfigError.at("--run-dir", found, expected)
    except OSError as err:
        raise EnvironmentLacksError(f"{run_dir}: {err.strerror}") from err
    return run_dir.absolute()
