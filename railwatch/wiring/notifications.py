"""Telling people, made out of the configuration."""

from pathlib import Path

from agent.responding.notification.build import build_notifier
from agent.responding.notification.deeds import Deeds
from agent.responding.notification.notifier import Notifier, Sender
from railwatch.session import Session
from telemetry.clock import Clock

# Whose journals tell what railwatch did.
_DOERS = ("guard", "actuator", "responder")


def notifier_for(session: Session, *, folder: Path, clock: Clock) -> Notifier | None:
    """Return a notifier that keeps its queue in a folder and is to be started; None where no route is configured."""
    settings = session.config.actuators.notification.settings()
    if not settings.routes:
        return None
    starts = session.journal_starts()
    return build_notifier(
        settings,
        folder=folder,
        sender=Sender(node=session.node.key, page_url=settings.page_url, simulated=session.simulated),
        clock=clock,
        deeds=Deeds([session.journal_reader(name, starts.get(name)) for name in _DOERS]),
    )
