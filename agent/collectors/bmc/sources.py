"""The board's controller of this node as sources: which there are, or why there are none and how to get them."""

import os
import threading
from collections.abc import Callable

from agent.collectors.bmc import ipmitool
from agent.collectors.bmc.board import Board
from agent.collectors.bmc.ipmi import IpmiLink
from agent.collectors.bmc.layout import FAN_TABLE, NODE_TABLE, OF_BMC, SUPPLY_TABLE, Layout, TableLayout
from agent.collectors.bmc.log_source import BoardLog
from agent.collectors.bmc.point import BoardLink
from agent.collectors.bmc.settings import BmcKind, BmcSettings
from agent.collectors.bmc.tables import BoardNode, BoardTable
from agent.collectors.build.fast import Built
from agent.collectors.port import EventSource, SourceState, SourceStatus
from telemetry.clock import Clock
from telemetry.errors import EnvironmentLacksError, NotPermittedError, RailwatchError

# Heuristic: three sources ask for one controller at the start; one that was just silent is not asked again for each.
_FAILURE_KEPT_S = 5.0
_HOW_TO_GET_ANY = (
    "run as root on a machine with /dev/ipmi0 (modprobe ipmi_devintf ipmi_si) and ipmitool, or set `sources.bmc` to "
    "ipmi or redfish with address and user"
)
_HOW_TO_GET = {
    BmcKind.INBAND: "modprobe ipmi_devintf ipmi_si, install ipmitool, and let this user open /dev/ipmi0",
    BmcKind.IPMI: "install ipmitool, and check with: ipmitool -I lanplus -L USER -H ADDRESS -U USER -a mc info",
    BmcKind.REDFISH: "check with: curl -u USER https://ADDRESS/redfish/v1/Chassis",
}
_OFF, _HOW_TO_SWITCH_ON = "switched off by configuration", "give `sources.bmc.kind` another value than off"


class BoardSource:
    """The controller, opened when the first source wants it.

    Ask from a thread that may wait: the first answer takes seconds.

    Attributes
    ----------
    board
        None where there is no controller to ask.
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
        """Return what the controller measures; raises what its link raises."""
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


def node_source(source: BoardSource | None) -> Built:
    """Return the node as the controller sees it; `FAILED` where it does not answer, to be tried again."""
    if source is None or source.settings.kind is BmcKind.OFF:
        return _missing(NODE_TABLE, _OFF, _HOW_TO_SWITCH_ON)
    if source.board is None:
        return _missing(NODE_TABLE, "this machine shows no board controller", _HOW_TO_GET_ANY)
    try:
        layout = source.survey(source.board)
    except RailwatchError as err:
        how_to_get = _how_to_get(source.settings, err)
        status = SourceStatus(name=NODE_TABLE, state=_state(err), detail=str(err), how_to_get=how_to_get)
        return Built(collector=None, status=status)
    return _working(BoardNode(source.board, layout.node), source.board.link.name)


def supply_source(source: BoardSource | None) -> Built:
    """Return the supplies and rails as the controller sees them."""
    return _part(source, SUPPLY_TABLE, lambda layout: layout.supplies, "supply and no rail")


def fan_source(source: BoardSource | None) -> Built:
    """Return the fans as the controller sees them."""
    return _part(source, FAN_TABLE, lambda layout: layout.fans, "fan")


def log_source(source: BoardSource | None) -> EventSource | None:
    """Return the controller's log, None where the controller did not answer at the start."""
    if source is None or source.board is None or source.board.layout is None:
        return None
    return BoardLog(source.board, node=source.node, clock=source.clock)


def _part(source: BoardSource | None, name: str, take: Callable[[Layout], TableLayout | None], what: str) -> Built:
    if source is None or source.settings.kind is BmcKind.OFF:
        return _missing(name, _OFF, _HOW_TO_SWITCH_ON)
    try:
        layout = None if source.board is None else source.survey(source.board)
    except RailwatchError:
        layout = None
    if layout is None or source.board is None:
        # Not another failure: it is the source of the node that tells of it and that is tried again.
        return _missing(name, f"needs the source {NODE_TABLE}", f"see {NODE_TABLE}")
    table = take(layout)
    if table is None:
        return _missing(name, f"{source.board.link.name} shows no {what}", "update its firmware, or read them by hwmon")
    return _working(
        BoardTable(source.board, table), ", ".join(entity.name.removesuffix(OF_BMC) for entity in table.spec.entities)
    )


def _missing(name: str, detail: str, how_to_get: str) -> Built:
    status = SourceStatus(name=name, state=SourceState.MISSING, detail=detail, how_to_get=how_to_get)
    return Built(collector=None, status=status)


def _ipmi(settings: BmcSettings, clock: Clock) -> BoardLink:
    return IpmiLink(ipmitool.IpmitoolPort(settings, clock=clock), clock=clock, round_s=settings.round_s)


def _redfish(settings: BmcSettings, clock: Clock) -> BoardLink:
    # Only who wants Redfish pays for an HTTP client.
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


def _how_to_get(settings: BmcSettings, err: RailwatchError) -> str:
    file = settings.password_file
    if isinstance(err, NotPermittedError) and file is not None and not os.access(file, os.R_OK):
        return f"write the password to {file}, readable for this user, or name another `sources.bmc.password_file`"
    return _HOW_TO_GET.get(settings.kind, _HOW_TO_GET_ANY)


def _state(err: RailwatchError) -> SourceState:
    if isinstance(err, NotPermittedError):
        return SourceState.NOT_PERMITTED
    return SourceState.MISSING if isinstance(err, EnvironmentLacksError) else SourceState.FAILED


def _working(collector: BoardNode | BoardTable, detail: str) -> Built:
    status = SourceStatus(name=collector.name, state=SourceState.WORKING, detail=detail)
    return Built(collector=collector, status=status)
