"""Construction of the notifier from its settings."""

from collections.abc import Sequence
from pathlib import Path

from agent.responding.notification.activity import IncidentActivity
from agent.responding.notification.apprise_channel import ByApprise
from agent.responding.notification.http_channels import Alertmanager, Webhook
from agent.responding.notification.ledger import Ledger
from agent.responding.notification.notifier import Notifier, Sender
from agent.responding.notification.route import NotificationSettings, Route, RouteKind
from agent.responding.notification.route_delivery import MessageChannel, RouteDelivery
from telemetry.clock import Clock


def channel_for(route: Route, *, clock: Clock) -> MessageChannel:
    """Return the channel of a route."""
    match route.kind:
        case RouteKind.APPRISE:
            return ByApprise(route)
        case RouteKind.ALERTMANAGER:
            return Alertmanager(route, clock=clock)
        case RouteKind.WEBHOOK:
            return Webhook(route)


def build_notifier(
    settings: NotificationSettings,
    *,
    folder: Path,
    sender: Sender,
    clock: Clock,
    activity: IncidentActivity | None = None,
) -> Notifier:
    """Return a notifier with its queue in a folder; delivery begins with `start`."""
    ledger = Ledger(folder, most=settings.queue_max)
    couriers: Sequence[RouteDelivery] = [
        RouteDelivery(
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
        activity=IncidentActivity(()) if activity is None else activity,
        sender=sender,
        clock=clock,
    )
