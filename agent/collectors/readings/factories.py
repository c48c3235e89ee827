"""Factory of the source of sent readings."""

from agent.collectors.port import EventSource
from agent.collectors.readings.source import Readings
from agent.collectors.registry.settings import SlowSettings


def readings(settings: SlowSettings) -> EventSource | None:
    """Build the source of readings that other programs send; None where it is switched off."""
    wanted = settings.readings
    return None if wanted is None else Readings(wanted, node=settings.node, clock=settings.clock)
