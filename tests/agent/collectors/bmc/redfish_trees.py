"""Trees of Redfish services for tests, and links to them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agent.collectors.bmc.redfish import RedfishLink
from agent.collectors.bmc.redfish_client import ROOT, RedfishClient
from agent.collectors.bmc.settings import BmcKind, BmcSettings, Transport
from tests.agent.collectors.bmc.services import Tree, served
from tests.agent.fakes import FakeClock

CHASSIS = f"{ROOT}Chassis/1"
SENSORS = f"{CHASSIS}/Sensors"
LOG = f"{ROOT}Managers/1/LogServices/SEL"


def link_of(port: int, clock: FakeClock | None = None, **changes: Any) -> RedfishLink:
    clock = FakeClock() if clock is None else clock
    settings: dict[str, Any] = {"address": "127.0.0.1", "port": port, "transport": Transport.PLAIN} | changes
    return RedfishLink(
        RedfishClient(BmcSettings(kind=BmcKind.REDFISH, **settings), clock=clock), clock=clock, round_s=15.0
    )


def a_tree() -> Tree:
    """A service with two voltages."""
    return Tree(
        resources={
            ROOT: {"Chassis": at(f"{ROOT}Chassis"), "Managers": at(f"{ROOT}Managers")},
            f"{ROOT}Chassis": {"Members": [at(CHASSIS)]},
            CHASSIS: {**at(CHASSIS), "Sensors": at(SENSORS)},
            SENSORS: {"Members": [at(f"{SENSORS}/a"), at(f"{SENSORS}/b")]},
            f"{SENSORS}/a": sensor("a", "P12V", 12.1),
            f"{SENSORS}/b": sensor("b", "P54V", 54.2),
        }
    )


def at(path: str) -> dict[str, Any]:
    return {"@odata.id": path}


def sensor(key: str, name: str, value: Any, **more: Any) -> dict[str, Any]:
    return {**at(f"{SENSORS}/{key}"), "Name": name, "Reading": value, "ReadingUnits": "V", **more}


@contextmanager
def opened(tree: Tree, clock: FakeClock | None = None) -> Iterator[RedfishLink]:
    with served(tree) as port:
        link = link_of(port, clock)
        link.open()
        yield link
        link.close()
