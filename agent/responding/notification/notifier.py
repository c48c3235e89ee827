"""Notification of people about incidents: one message per incident and per rise of its severity."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.responding.notification.activity import IncidentActivity
from agent.responding.notification.ledger import Ledger, NotifiedIncident
from agent.responding.notification.message_text import notice_of
from agent.responding.notification.notice import Notice, NoticeKind
from agent.responding.notification.route import Route
from agent.responding.notification.route_delivery import RouteDelivery
from agent.responding.port import MessageRequest, Receipt
from telemetry.clock import Clock, iso_utc
from telemetry.errors import ActionRefusedError, TransientError
from telemetry.records import Incident, IncidentState

logger = logging.getLogger(__name__)

# Parameter of a policy that names one route instead of all that accept its incident.
ROUTE_PARAMETER = "route"
# heuristic: time limit of deliveries at the end of the process, on all routes together; the supervisor kills 10 s after
# its request to stop, and the other actuators have 7 s before.
END_S = 2.0
_NO_MESSAGE = "no message about it was sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Sender of messages: the node, the address of its page, and whether it is simulated."""

    node: str
    page_url: str = ""
    simulated: bool = False


class Notifier:
    """Puts messages into the queues of the routes that accept them; one thread per route delivers them.

    Several decisions on one incident give one message, and so does the same request twice. `follow` receives every
    update of an incident: it sends a message if the severity rose, and when the incident closed.
    """

    name = "notify"

    def __init__(
        self,
        routes: Sequence[Route],
        *,
        ledger: Ledger,
        couriers: Sequence[RouteDelivery],
        activity: IncidentActivity,
        sender: Sender,
        clock: Clock,
    ) -> None:
        self._routes = {route.name: route for route in routes}
        self._ledger = ledger
        self._couriers = tuple(couriers)
        self._activity = activity
        self._sender = sender
        self._clock = clock
        self._lock = threading.Lock()
        self._missed: dict[str, Incident] = {}

    def start(self) -> None:
        """Start delivery, including messages that an earlier run left."""
        for courier in self._couriers:
            courier.start()

    def close(self) -> None:
        """Stop delivery; the next run delivers what waits, and possibly a message that is under way a second time."""
        for courier in self._couriers:
            courier.request_stop()
        until_s = self._clock.monotonic_s() + END_S
        for courier in self._couriers:
            courier.join(max(0.0, until_s - self._clock.monotonic_s()))
        self._ledger.close()

    def send(self, order: MessageRequest) -> Receipt:
        """Queue the message about an incident, or about its end."""
        with self._lock:
            incident, earlier = self._subject(order)
            if _is_over(order, incident):
                return Receipt(summary=self._recovered(incident, earlier))
            return Receipt(summary=self._queue(incident, earlier, self._chosen(order)))

    def check(self, order: MessageRequest) -> str:
        """Return which message would go to which routes."""
        incident, earlier = self._subject(order)
        if _is_over(order, incident):
            return _NO_MESSAGE if earlier is None else f"would send the recovery to {_list(earlier.routes)}"
        routes = [name for name in self._chosen(order) if self._takes(name, incident)]
        notice = self._notice(incident, NoticeKind.OPENED, None)
        return self._why_not(incident, earlier, routes) or f"would notify {_list(routes)}: {notice.title}"

    def follow(self, incident: Incident) -> None:
        """Queue a message if an incident with an earlier one got worse, is over, or is no longer silenced.

        On a full disk the newest update of each incident is kept for the next call.
        """
        with self._lock:
            self._missed[incident.id] = incident
            for one in tuple(self._missed.values()):
                try:
                    self._follow(one)
                except TransientError as err:
                    logger.warning("cannot queue the update of %s, will retry: %s", one.id, err)
                    return
                del self._missed[one.id]

    def _follow(self, incident: Incident) -> None:
        earlier = self._ledger.notified(incident.id)
        if earlier is None or earlier.closed:
            return
        if incident.state is IncidentState.CLOSED:
            self._recovered(incident, earlier)
        elif incident.silence is None and (earlier.quiet or incident.severity.rank > earlier.severity.rank):
            self._queue(incident, earlier, earlier.routes if earlier.quiet else tuple(self._routes))

    def _chosen(self, order: MessageRequest) -> tuple[str, ...]:
        named = [value for name, value in order.decision.parameters if name == ROUTE_PARAMETER]
        unknown = sorted(set(named) - set(self._routes))
        if unknown:
            known = ", ".join(self._routes)
            raise ActionRefusedError(f"no route {unknown[0]}; expected one of {known}")
        return tuple(named) or tuple(self._routes)

    def _subject(self, order: MessageRequest) -> tuple[Incident, NotifiedIncident | None]:
        if order.incident is None:
            raise ActionRefusedError("the decision names no incident")
        if not self._routes:
            raise ActionRefusedError("no route is configured: actuators.notification.routes")
        return order.incident, self._ledger.notified(order.incident.id)

    def _why_not(self, incident: Incident, earlier: NotifiedIncident | None, routes: Sequence[str]) -> str | None:
        """Return why no message about an open incident is sent; None if one is."""
        before = None if earlier is None or earlier.quiet else earlier
        if before is not None and incident.severity.rank <= before.severity.rank:
            return f"sent already at {iso_utc(before.notice.time_ns)[:19]}Z: {_list(before.routes)}"
        if not routes:
            return f"no route accepts {incident.severity.value} of {incident.cause.value}: not sent"
        return None if incident.silence is None else f"silenced: {incident.silence}"

    def _queue(self, incident: Incident, earlier: NotifiedIncident | None, among: Sequence[str]) -> str:
        routes = [name for name in among if self._takes(name, incident)]
        before = None if earlier is None or earlier.quiet else earlier
        why_not = self._why_not(incident, earlier, routes)
        if why_not is None:
            notice = self._notice(incident, NoticeKind.OPENED if before is None else NoticeKind.WORSE, before)
            known = () if before is None else before.routes
            lost = self._ledger.enqueue(notice, routes, notified_routes=tuple(dict.fromkeys((*known, *routes))))
            return f"queued for {_list(routes)}" + (f"; queue full: {lost} older messages dropped" if lost else "")
        if incident.silence is not None and routes and before is None:  # sent when the silence ends
            self._ledger.enqueue(
                self._notice(incident, NoticeKind.OPENED, None), (), notified_routes=routes, quiet=True
            )
        return why_not

    def _recovered(self, incident: Incident, earlier: NotifiedIncident | None) -> str:
        if earlier is None or earlier.closed:
            return _NO_MESSAGE if earlier is None else "recovery sent already"
        if earlier.quiet:
            self._ledger.forget(incident.id)
            return f"{_NO_MESSAGE}: it was silenced"
        routes = [name for name in earlier.routes if name in self._routes and self._routes[name].recoveries]
        notice = self._notice(incident, NoticeKind.RECOVERED, earlier)
        notice = replace(notice, severity=earlier.severity, previous=None)
        self._ledger.enqueue(notice, routes, notified_routes=earlier.routes)
        return f"recovery queued for {_list(routes)}" if routes else "no route accepts recoveries"

    def _takes(self, name: str, incident: Incident) -> bool:
        return self._routes[name].takes(cause=incident.cause, severity=incident.severity)

    def _notice(self, incident: Incident, kind: NoticeKind, before: NotifiedIncident | None) -> Notice:
        notice = notice_of(
            incident,
            kind,
            node=self._sender.node,
            now_ns=self._clock.utc_ns(),
            previous=None if before is None else before.severity,
            activity=self._activity.of(incident.id),
            link=self._sender.page_url,
            simulated=self._sender.simulated,
        )
        if before is None:
            return notice
        return replace(notice, cause=before.notice.cause, entity_id=before.notice.entity_id)


class NoRoutes:
    """Notifier of a configuration without routes: incidents are on the page and in the journals alone."""

    name = "notify"

    def send(self, order: MessageRequest) -> Receipt:
        """Report that nothing is sent."""
        return Receipt(summary=self.check(order))

    def check(self, order: MessageRequest) -> str:
        """Return why nothing would be sent."""
        return f"no route is configured: {order.decision.incident_id} is on the page and in the journals alone"


def _is_over(order: MessageRequest, incident: Incident) -> bool:
    return order.recovery or incident.state is IncidentState.CLOSED


def _list(routes: Sequence[str]) -> str:
    return ", ".join(routes)
