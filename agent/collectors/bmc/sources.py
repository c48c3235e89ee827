"""The board controller of this node, opened once and shared by its collectors."""

import threading
from collections.abc import Callable

from agent.collectors.bmc import ipmitool
from agent.collectors.bmc.board import Board
from agent.collectors.bmc.ipmi import IpmiLink
from agent.collectors.bmc.layout import Layout
from agent.collectors.bmc.point import BoardLink
from agent.collectors.bmc.settings import BmcKind, BmcSettings
from telemetry.clock import Clock
from telemetry.errors import RailwatchError

# heuristic: three sources request the same controller at start; one that has just failed is not tried again for each.
_FAILURE_KEPT_S = 5.0


class BoardSource:
    """Opens the controller when the first source needs it.

    Call from a thread that may wait: the first response takes seconds.

    `board` is None where there is no controller to query.
    """

    def __init__(self, settings: BmcSettings, *, node: str, clock: Clock, with_inlet: bool = True) -> None:
        self.settings = settings
        self.node = node
        self.clock = clock
        self._lock = threading.Lock()
        self._failure: RailwatchError | None = None
        self._failed_at_s = 0.0
        link = _link(settings, clock)
        self.board = (
            None
            if link is None
            else Board(link, node=node, clock=clock, interval_s=settings.interval_s, with_inlet=with_inlet)
        )

    def survey(self, board: Board) -> Layout:
        """Return the tables of the controller; raises the errors of its link."""
        with self._lock:
            if board.layout is not None:
                return board.layout
            now_s = self.clock.monotonic_s()
            if self._failure is not None and now_s - self._failed_at_s < _FAILURE_KEPT_S:
                raise self._failure
            try:
                return board.survey()
            except RailwatchError as err:
                self._failure, self._failed_at_s = err, self.clock.monotonic_s()
                raise


def _ipmi(settings: BmcSettings, clock: Clock) -> BoardLink:
    return IpmiLink(ipmitool.IpmitoolPort(settings, clock=clock), clock=clock, round_s=settings.round_s)


def _redfish(settings: BmcSettings, clock: Clock) -> BoardLink:
    # Imported here, so that only nodes with Redfish load an HTTP client.
    from agent.collectors.bmc.redfish import RedfishLink  # noqa: PLC0415
    from agent.collectors.bmc.redfish_client import RedfishClient  # noqa: PLC0415

    return RedfishLink(RedfishClient(settings, clock=clock), clock=clock, round_s=settings.round_s)


_LINKS: dict[BmcKind, Callable[[BmcSettings, Clock], BoardLink]] = {
    BmcKind.INBAND: _ipmi,
    BmcKind.IPMI: _ipmi,
    BmcKind.REDFISH: _redfish,
}


def _link(settings: BmcSettings, clock: Clock) -> BoardLink | None:
    if settings.kind is BmcKind.AUTO:
        return _ipmi(settings, clock) if ipmitool.device() is not None else None
    make = _LINKS.get(settings.kind)
    return None if make is None else make(settings, clock)
