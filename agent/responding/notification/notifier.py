"""Telling people of incidents, as a message of the response framework: one an incident and rise of its severity."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.responding.notification.activity import IncidentActivity
from agent.responding.notification.ledger import Ledger, Notified
from agent.responding.notification.message_text import notice_of
from agent.responding.notification.notice import Notice, NoticeKind
from agent.responding.notification.route import Route
from agent.responding.notification.route_delivery import RouteDelivery
from agent.responding.port import MessageRequest, Receipt
from telemetry.clock import Clock, iso_utc
from telemetry.errors import ActionRefusedError, TransientError
from telemetry.records import Incident, IncidentState

logger = logging.getLogger(__name__)

# The parameter of a policy that names one route instead of all that take its incident.
ROUTE_PARAMETER = "route"
# What is delivered as the process ends may take this long, on all routes together. Heuristic: the supervisor kills
# 10 s after it asked, and the other actuators have 7 s before.
END_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Who speaks: the node, where its page is, and whether it is a simulated one."""

    node: str
    page_url: str = ""
    simulated: bool = False


class Notifier:
    """Puts messages into the queues of the routes that take them; couriers carry them from there.

    Several decisions on one incident are one message, and so is the same order twice. `follow` is to be told of every
    news of an incident: it says what grew worse, and what closed.
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
        self._deeds = activity
        self._sender = sender
        self._clock = clock
        self._lock = threading.Lock()
        self._missed: dict[str, Incident] = {}

    def start(self) -> None:
        """Begin to deliver, also what an earlier run left."""
        for courier in self._couriers:
            courier.start()

    def close(self) -> None:
        """End the couriers; what waits is delivered by the next run, and what is under way perhaps twice."""
        for courier in self._couriers:
            courier.ask_to_stop()
        until_s = self._clock.monotonic_s() + END_S
        for courier in self._couriers:
            courier.join(max(0.0, until_s - self._clock.monotonic_s()))
        self._ledger.close()

    def send(self, order: MessageRequest) -> Receipt:
        """Return of an incident, or that it is over."""
        with self._lock:
            incident, told = self._subject(order)
            if _is_over(order, incident):
                return Receipt(words=self._recovered(incident, told))
            return Receipt(words=self._tell(incident, told, self._chosen(order)))

    def check(self, order: MessageRequest) -> str:
        """Return what would be told to whom."""
        incident, told = self._subject(order)
        if _is_over(order, incident):
            return "nobody was told of it" if told is None else f"would tell {_list(told.routes)} that it is over"
        routes = [name for name in self._chosen(order) if self._takes(name, incident)]
        notice = self._notice(incident, NoticeKind.OPENED, None)
        return self._why_not(incident, told, routes) or f"would tell {_list(routes)}: {notice.title}"

    def follow(self, incident: Incident) -> None:
        """Take the news of an incident: say that one which was told of is worse or over, or is silenced no more.

        On a full disk the newest news of each incident are kept for the next call.
        """
        with self._lock:
            self._missed[incident.id] = incident
            for one in tuple(self._missed.values()):
                try:
                    self._follow(one)
                except TransientError as err:
                    logger.warning("news of %s wait: %s", one.id, err)
                    return
                del self._missed[one.id]

    def _follow(self, incident: Incident) -> None:
        told = self._ledger.told(incident.id)
        if told is None or told.closed:
            return
        if incident.state is IncidentState.CLOSED:
            self._recovered(incident, told)
        elif incident.silence is None and (told.quiet or incident.severity.rank > told.severity.rank):
            self._tell(incident, told, told.routes if told.quiet else tuple(self._routes))

    def _chosen(self, order: MessageRequest) -> tuple[str, ...]:
        named = [value for name, value in order.decision.parameters if name == ROUTE_PARAMETER]
        unknown = sorted(set(named) - set(self._routes))
        if unknown:
            known = ", ".join(self._routes)
            raise ActionRefusedError(f"no route {unknown[0]}; expected one of {known}")
        return tuple(named) or tuple(self._routes)

    def _subject(self, order: MessageRequest) -> tuple[Incident, Notified | None]:
        if order.incident is None:
            raise ActionRefusedError("there is no incident to tell of")
        if not self._routes:
            raise ActionRefusedError("no route is configured: actuators.notification.routes")
        return order.incident, self._ledger.told(order.incident.id)

    def _why_not(self, incident: Incident, told: Notified | None, routes: Sequence[str]) -> str | None:
        """Return why nobody is to be told of an incident that stands; None where somebody is."""
        before = None if told is None or told.quiet else told
        if before is not None and incident.severity.rank <= before.severity.rank:
            return f"told already at {iso_utc(before.notice.time_ns)[:19]}Z: {_list(before.routes)}"
        if not routes:
            return f"no route takes {incident.severity.value} of {incident.cause.value}: nobody is told"
        return None if incident.silence is None else f"kept quiet: {incident.silence}"

    def _tell(self, incident: Incident, told: Notified | None, among: Sequence[str]) -> str:
        routes = [name for name in among if self._takes(name, incident)]
        before = None if told is None or told.quiet else told
        why_not = self._why_not(incident, told, routes)
        if why_not is None:
            notice = self._notice(incident, NoticeKind.OPENED if before is None else NoticeKind.WORSE, before)
            known = () if before is None else before.routes
            lost = self._ledger.enqueue(notice, routes, notified_routes=tuple(dict.fromkeys((*known, *routes))))
            return f"queued for {_list(routes)}" + (f"; {lost} older messages were lost to make room" if lost else "")
        if incident.silence is not None and routes and before is None:  # it is told once nobody asks for silence
            self._ledger.enqueue(
                self._notice(incident, NoticeKind.OPENED, None), (), notified_routes=routes, quiet=True
            )
        return why_not

    def _recovered(self, incident: Incident, told: Notified | None) -> str:
        if told is None or told.closed:
            return "nobody was told of it" if told is None else "told already that it is over"
        if told.quiet:
            self._ledger.forget(incident.id)
            return "nobody was told of it: it was silenced"
        routes = [name for name in told.routes if name in self._routes and self._routes[name].recoveries]
        notice = replace(self._notice(incident, NoticeKind.RECOVERED, told), severity=told.severity, previous=None)
        self._ledger.enqueue(notice, routes, notified_routes=told.routes)
        return f"recovery queued for {_list(routes)}" if routes else "no route wants to hear that it is over"

    def _takes(self, name: str, incident: Incident) -> bool:
        return self._routes[name].takes(cause=incident.cause, severity=incident.severity)

    def _notice(self, incident: Incident, kind: NoticeKind, before: Notified | None) -> Notice:
        notice = notice_of(
            incident,
            kind,
            node=self._sender.node,
            now_ns=self._clock.utc_ns(),
            previous=None if before is None else before.severity,
            activity=self._deeds.of(incident.id),
            link=self._sender.page_url,
            simulated=self._sender.simulated,
        )
        if before is None:
            return notice
        return replace(notice, cause=before.notice.cause, entity_id=before.notice.entity_id)


class NoRoutes:
    """What stands in for a notifier where no route is configured: people read the page and the journals alone."""

    name = "notify"

    def send(self, order: MessageRequest) -> Receipt:
        """Send nothing, and say so."""
        return Receipt(words=self.check(order))

    def check(self, order: MessageRequest) -> str:
        """Return that nothing would be sent."""
        return f"{order.decision.incident_id} is on the page and in the journals alone: no route is configured"


def _is_over(order: MessageRequest, incident: Incident) -> bool:
    return order.recovery or incident.state is IncidentState.CLOSED


def _list(routes: Sequence[str]) -> str:
    return ", ".join(routes)
