"""Build the notifier from the configuration."""

from pathlib import Path

from agent.responding.notification.activity import IncidentActivity
from agent.responding.notification.build import build_notifier
from agent.responding.notification.notifier import Notifier, Sender
from railwatch.run_context import RunContext
from telemetry.clock import Clock

# Journals of the actions that notifications mention.
_DOERS = ("guard", "actuator", "responder")


def notifier_for(context: RunContext, *, folder: Path, clock: Clock) -> Notifier | None:
    """Return a notifier, not started, that keeps its queue in a folder; None if no route is configured."""
    settings = context.config.actuators.notification.settings()
    if not settings.routes:
        return None
    starts = context.journal_starts()
    return build_notifier(
        settings,
        folder=folder,
        sender=Sender(node=context.node.key, page_url=settings.page_url, simulated=context.simulated),
        clock=clock,
        activity=IncidentActivity([context.journal_reader(name, starts.get(name)) for name in _DOERS]),
    )
