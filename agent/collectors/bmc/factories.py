"""Factories of the board controller's collectors: node, supplies, fans and event log."""

import os
from collections.abc import Callable, Sequence

from agent.collectors.bmc.board import BoardLog, BoardNode, BoardTable
from agent.collectors.bmc.layout import FAN_TABLE, NODE_TABLE, SUPPLY_TABLE, Layout, TableLayout
from agent.collectors.bmc.settings import BmcKind, BmcSettings
from agent.collectors.port import BuiltCollector, EventSource, SourceState, missing, working
from agent.collectors.registry.settings import SlowSettings
from telemetry.controller_names import SUFFIX
from telemetry.entities import NOMINAL_SOURCE_TAG, Entity
from telemetry.errors import EnvironmentLacksError, NotPermittedError, RailwatchError

_HOW_TO_GET_ANY = (
    "run as root on a machine with /dev/ipmi0 (modprobe ipmi_devintf ipmi_si) and ipmitool, or set `sources.bmc` to "
    "ipmi or redfish with address and user"
)
_HOW_TO_GET = {
    BmcKind.INBAND: "modprobe ipmi_devintf ipmi_si, install ipmitool, and allow this user to open /dev/ipmi0",
    BmcKind.IPMI: "install ipmitool, and check with: ipmitool -I lanplus -L USER -H ADDRESS -U USER -a mc info",
    BmcKind.REDFISH: "check with: curl -u USER https://ADDRESS/redfish/v1/Chassis",
}
_OFF, _HOW_TO_SWITCH_ON = "switched off by configuration", "set `sources.bmc.kind` to another value than off"


def bmc(settings: SlowSettings) -> BuiltCollector:
    """Build the collector of the node's values; `FAILED`, to be retried, where the controller does not respond."""
    source = settings.board
    if source is None or source.settings.kind is BmcKind.OFF:
        return missing(NODE_TABLE, _OFF, _HOW_TO_SWITCH_ON)
    if source.board is None:
        return missing(NODE_TABLE, "no board controller found on this machine", _HOW_TO_GET_ANY)
    try:
        layout = source.survey(source.board)
    except RailwatchError as err:
        return missing(NODE_TABLE, str(err), _how_to_get(source.settings, err), state=_state(err))
    return working(BoardNode(source.board, layout.node), source.board.link.name)


def bmc_supplies(settings: SlowSettings) -> BuiltCollector:
    """Build the collector of the controller's supplies and rails."""
    built = _part(settings, SUPPLY_TABLE, lambda layout: layout.supplies, "supply and no rail")
    board = None if settings.board is None else settings.board.board
    if built.source is None or board is None or board.layout is None or not board.layout.contradictory:
        return built
    found = board.layout.contradictory
    return working(
        built.source,
        f"{built.status.detail}; contradictory: {'; '.join(found)}",
        warnings=tuple(f"nominal voltage of rail {one}" for one in found),
    )


def bmc_fans(settings: SlowSettings) -> BuiltCollector:
    """Build the collector of the controller's fans."""
    return _part(settings, FAN_TABLE, lambda layout: layout.fans, "fan")


def bmc_log(settings: SlowSettings) -> EventSource | None:
    """Build the source of the controller's event log; None where the controller did not respond at start."""
    source = settings.board
    if source is None or source.board is None or source.board.layout is None:
        return None
    return BoardLog(source.board, node=source.node, clock=source.clock)


def _part(
    settings: SlowSettings, name: str, select: Callable[[Layout], TableLayout | None], what: str
) -> BuiltCollector:
    source = settings.board
    if source is None or source.settings.kind is BmcKind.OFF:
        return missing(name, _OFF, _HOW_TO_SWITCH_ON)
    try:
        layout = None if source.board is None else source.survey(source.board)
    except RailwatchError:
        layout = None
    if layout is None or source.board is None:
        # No second failure: the source of the node reports it and is retried.
        return missing(name, f"needs the source {NODE_TABLE}", f"see {NODE_TABLE}")
    table = select(layout)
    if table is None:
        return missing(name, f"{source.board.link.name} shows no {what}", "update its firmware, or read them by hwmon")
    return working(
        BoardTable(source.board, table),
        _names(table.spec.entities),
    )


def _names(entities: Sequence[Entity]) -> str:
    """Return the names of parts, rails of one nominal voltage together: ``psu0, P12V (12 V by label)``."""
    groups: dict[str, list[str]] = {}
    for one in entities:
        named = "" if one.nominal_v is None else f" ({one.nominal_v:g} V by {one.tag(NOMINAL_SOURCE_TAG)})"
        groups.setdefault(named, []).append(one.name.removesuffix(SUFFIX))
    return ", ".join(f"{', '.join(names)}{named}" for named, names in groups.items())


def _how_to_get(settings: BmcSettings, err: RailwatchError) -> str:
    file = settings.password_file
    if isinstance(err, NotPermittedError) and file is not None and not os.access(file, os.R_OK):
        return f"write the password to {file}, readable for this user, or name another `sources.bmc.password_file`"
    return _HOW_TO_GET.get(settings.kind, _HOW_TO_GET_ANY)


def _state(err: RailwatchError) -> SourceState:
    if isinstance(err, NotPermittedError):
        return SourceState.NOT_PERMITTED
    return SourceState.MISSING if isinstance(err, EnvironmentLacksError) else SourceState.FAILED
