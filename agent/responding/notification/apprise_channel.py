"""Messages through Apprise: e-mail, chats, pagers and about a hundred other services."""

import logging
from collections.abc import Sequence

from agent.responding.notification.message_text import message_of
from agent.responding.notification.notice import Notice
from agent.responding.notification.route import Route
from telemetry.errors import EnvironmentLacksError, NotPermittedError, TransientError
from telemetry.records import Severity

_TYPES = {Severity.INFO: "info", Severity.WARNING: "warning", Severity.CRITICAL: "failure"}


class ByApprise:
    """Sends messages to each address of its route.

    Apprise is loaded with the first message: it takes a third of a second and 20 MiB. Its own log is switched off,
    since it may contain an address.
    """

    groups = True
    renew_every_s: float | None = None

    def __init__(self, route: Route) -> None:
        self._route = route
        # Notices that an address accepted while another did not: not sent to it again.
        self._took: set[tuple[int, str]] = set()

    def deliver(self, notices: Sequence[Notice]) -> None:
        """Send all notices in one message."""
        try:
            import apprise  # noqa: PLC0415
        except ImportError as err:
            raise EnvironmentLacksError("the Python package apprise is not installed; pip install apprise") from err
        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
        name = self._route.name
        try:
            addresses = self._route.addresses()
        except NotPermittedError as err:
            raise TransientError(f"route {name}: {err}") from err
        services = apprise.Apprise(asset=apprise.AppriseAsset(app_id="railwatch", async_mode=False))
        for place, address in enumerate(addresses, start=1):
            if not services.add(address):
                raise TransientError(f"route {name}: address {place} is not an Apprise URL")
        tokens = {notice.token for notice in notices}
        self._took = {entry for entry in self._took if entry[1] in tokens}  # forget dropped notices
        for place, service in enumerate(services, start=1):
            fresh = [notice for notice in notices if (place, notice.token) not in self._took]
            if not fresh:
                continue
            title, text = message_of(fresh)
            if not service.notify(title=title, body=text, notify_type=apprise.NotifyType(_kind(fresh))):
                raise TransientError(f"route {name}: address {place} ({service.service_name}) refused the message")
            self._took.update((place, notice.token) for notice in fresh)
        self._took.clear()


def _kind(notices: Sequence[Notice]) -> str:
    """Return the type of a message: that of the worst incident that is not over."""
    live = [notice.severity for notice in notices if not notice.over]
    return _TYPES[max(live, key=lambda one: one.rank)] if live else "success"
