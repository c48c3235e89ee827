"""What ``railwatch simulate serve`` says: where everything is, and what happens."""

import shlex
import sys
from typing import Any

from rich.console import Console

from railwatch.cli.printing import print_json
from simulator.files.node import NodeFile
from simulator.plant.events import PlantEvent
from simulator.plant.state import NodeState
from simulator.sensors.bank import SensorBank
from simulator.served.board.ipmi import CIPHER_SUITE, PASSWORD, USER
from simulator.served.description import Served
from simulator.served.offering import Offering
from simulator.served.sentences import sentence
from telemetry.clock import iso_utc

_LIBRARY_PATH = "LD_LIBRARY_PATH"


class News:
    """A face of the plant that speaks: words for people, JSON lines for programs."""

    def __init__(self, node: NodeFile, *, as_json: bool) -> None:
        self._node = node
        self._as_json = as_json
        self._console = Console(highlight=False, soft_wrap=True, markup=False)

    def announce(self, served: Served, offering: Offering) -> None:
        """Report where everything is; what is not offered goes to standard error."""
        print_notes(offering.notes)
        if self._as_json:
            print_json(_place(served, offering))
            return
        print_line = self._console.print
        print_line(f"# {served.node}, scenario {served.scenario}, seed {served.seed}; Ctrl-C stops")
        for name, value in (served.environment | served.sources).items():
            # What the other terminal already looks for stays behind ours.
            rest = f"${{{name}:+:${name}}}" if name == _LIBRARY_PATH else ""
            print_line(f"export {name}={shlex.quote(value)}{rest}")
        if offering.ipmi is not None:
            print_line(f"{_ipmitool(offering.ipmi.port)} sensor")
        if offering.redfish is not None:
            login = f"-u {USER}:{PASSWORD} " if offering.redfish.login_needed else ""
            print_line(f"curl -s {login}{offering.redfish.address}Chassis/1/Power")

    def receive_event(self, event: PlantEvent, *, time_ns: int) -> None:
        """Report what happened."""
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

    def show(self, state: NodeState, bank: SensorBank, *, time_ns: int) -> None:
        """Report nothing of readings: programs read them."""

    def close(self) -> None:
        """Nothing is held open."""


def print_notes(notes: tuple[str, ...]) -> None:
    """Report on standard error what is not offered, a line each."""
    for note in notes:
        sys.stderr.write(f"railwatch: {note}\n")


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
