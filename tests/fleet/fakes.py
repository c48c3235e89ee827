"""A store and a server that tests have in their hand."""

from dataclasses import dataclass, field, replace

from analytics.fleet.window import Window
from telemetry.errors import TransientError
from telemetry.store.resolution import Resolution
from telemetry.uplink.port import WriteReply, WriteStatus


@dataclass(slots=True)
class FakeFleetReader:
    """Gives windows that are made for each start; those in `away` do not come."""

    windows: dict[int, Window]
    away: bool = False
    asked: list[int] = field(default_factory=list)
    late: dict[str, int] = field(default_factory=dict)

    def window(self, start_ns: int, stop_ns: int, *, ahead_ns: int) -> Window:
        if self.away:
            raise TransientError("http://store/query: not reached")
        self.asked.append(start_ns)
        made = self.windows.get(start_ns)
        return Window(start_ns=start_ns, stop_ns=stop_ns, tables={}) if made is None else replace(made)

    def values_by_node(self, start_ns: int, stop_ns: int) -> dict[str, int]:
        made = self.windows.get(start_ns)
        counts = {} if made is None else made.values_by_node()
        return {node: counts.get(node, 0) + self.late.get(node, 0) for node in {*counts, *self.late}}

    def close(self) -> None:
        return


@dataclass(slots=True)
class FakeServer:
    """Takes every line."""

    name: str = "a server in the test"
    lines: list[str] = field(default_factory=list)

    def prepare(self) -> WriteReply:
        return WriteReply(status=WriteStatus.STORED)

    def write(self, resolution: Resolution, body: bytes) -> WriteReply:
        self.lines += body.decode().splitlines()
        return WriteReply(status=WriteStatus.STORED)

    def close(self) -> None:
        return
