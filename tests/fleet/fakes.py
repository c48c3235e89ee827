"""Fake store and fake server."""

from dataclasses import dataclass, field, replace

from analytics.fleet.window import FleetWindow
from telemetry.errors import TransientError
from telemetry.rollup import Resolution
from telemetry.uplink.port import WriteReply, WriteStatus


@dataclass(slots=True)
class FakeFleetReader:
    """Reader with one window per start; fails while `away` is set."""

    windows: dict[int, FleetWindow]
    away: bool = False
    requested: list[int] = field(default_factory=list)
    late: dict[str, int] = field(default_factory=dict)

    def window(self, start_ns: int, stop_ns: int, *, ahead_ns: int) -> FleetWindow:
        if self.away:
            raise TransientError("http://store/query: not reached")
        self.requested.append(start_ns)
        made = self.windows.get(start_ns)
        return FleetWindow(start_ns=start_ns, stop_ns=stop_ns, tables={}) if made is None else replace(made)

    def values_by_node(self, start_ns: int, stop_ns: int) -> dict[str, int]:
        made = self.windows.get(start_ns)
        counts = {} if made is None else made.values_by_node()
        return {node: counts.get(node, 0) + self.late.get(node, 0) for node in {*counts, *self.late}}

    def close(self) -> None:
        return


@dataclass(slots=True)
class FakeServer:
    """Server that accepts every line."""

    name: str = "a server in the test"
    lines: list[str] = field(default_factory=list)

    def prepare(self) -> WriteReply:
        return WriteReply(status=WriteStatus.STORED)

    def write(self, resolution: Resolution, body: bytes) -> WriteReply:
        self.lines += body.decode().splitlines()
        return WriteReply(status=WriteStatus.STORED)

    def close(self) -> None:
        return
