"""The parts of telling people, put together."""

from collections.abc import Sequence
from pathlib import Path

from agent.responding.notification.alertmanager import Alertmanager
from agent.responding.notification.by_apprise import ByApprise
from agent.responding.notification.channel import Channel
from agent.responding.notification.courier import Courier
from agent.responding.notification.deeds import Deeds
from agent.responding.notification.ledger import Ledger
from agent.responding.notification.notifier import Notifier, Sender
from agent.responding.notification.route import Route, RouteKind
from agent.responding.notification.settings import NotificationSettings
from agent.responding.notification.webhook import Webhook
from telemetry.clock import Clock


def channel_for(route: Route, *, clock: Clock) -> Channel:
    """Return what carries messages on a route."""
    match route.kind:
        case RouteKind.APPRISE:
            return ByApprise(route)
        case RouteKind.ALERTMANAGER:
            return Alertmanager(route, clock=clock)
        case RouteKind.WEBHOOK:
            return Webhook(route)


def build_notifier(
    settings: NotificationSettings, *, folder: Path, sender: Sender, clock: Clock, deeds: Deeds | None = None
) -> Notifier:
    """Return a notifier that keeps its queue in a folder; it delivers once it is started."""
    ledger = Ledger(folder, most=settings.queue_max)
    couriers: Sequence[Courier] = [
        Courier(
            route.name,
            channel_for(route, clock=clock),
            ledger,
            clock=clock,
            group_s=settings.group_s,
            keep_s=settings.keep_s,
        )
        for route in settings.routes
    ]
    return Notifier(
        settings.routes,
        ledger=ledger,
        couriers=couriers,
        deeds=Deeds(()) if deeds is None else deeds,
        sender=sender,
        clock=clock,
    )
