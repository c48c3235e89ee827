"""Where a run's slow sources are, out of its configuration: for the process that reads them and for doctor."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from agent.collectors.bmc.settings import RARE_FROM_S, BmcKind
from agent.collectors.bmc.sources import BoardSource
from agent.collectors.build.settings import SlowSettings
from agent.collectors.hwmon.tree import find_inlet
from agent.collectors.readings.listener import ListenerSettings
from agent.collectors.readings.source import ReadingsSettings
from config.sources import SourceUse
from railwatch.session import Session
from railwatch.wiring.slow_gpus import slow_gpus
from telemetry.clock import Clock


def slow_settings(session: Session, clock: Clock, environ: Mapping[str, str]) -> SlowSettings:
    """Return what the slow sources are built with; ConfigError where the environment lacks a secret that is named."""
    sources = session.config.sources
    return SlowSettings(
        node=session.node.key,
        clock=clock,
        sysfs_root=Path(session.sysfs),
        gpus=slow_gpus(session, clock),
        board=_board(session, clock),
        pdus=tuple(pdu.settings(environ) for pdu in sources.pdus),
        upsds=tuple(upsd.settings() for upsd in sources.upsd),
        hwmon=sources.hwmon is SourceUse.AUTO,
        readings=readings_settings(session),
    )


def readings_settings(session: Session) -> ReadingsSettings | None:
    """Return where readings of other programs come in, None where they are switched off."""
    readings = session.config.sources.readings
    if readings.use is SourceUse.OFF:
        return None
    return ReadingsSettings(
        listener=ListenerSettings(path=session.readings_socket, group=readings.group, tcp_port=readings.tcp_port),
        ring_path=session.readings_ring_path,
        ring_s=session.config.sampling.ring,
        simulated=session.simulated,
    )


def _board(session: Session, clock: Clock) -> BoardSource | None:
    """Return the board's controller; that of this machine is none of a simulated node."""
    bmc = session.config.sources.bmc
    if session.simulated and bmc.kind in (BmcKind.AUTO, BmcKind.INBAND):
        return None
    settings = bmc.settings()
    if settings.interval_s >= RARE_FROM_S:  # it is then read with the rare sources
        settings = replace(settings, interval_s=max(settings.interval_s, session.config.sampling.rare))
    with_inlet = find_inlet(Path(session.sysfs)) is None  # the host's own sensor is the faster one
    return BoardSource(settings, node=session.node.key, clock=clock, with_inlet=with_inlet)
