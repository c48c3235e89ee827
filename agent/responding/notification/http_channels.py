"""Messages as JSON over HTTP: alerts of a Prometheus Alertmanager, and a web server of the operator.

The form of an alert (POST /api/v2/alerts) is that of Alertmanager's own OpenAPI description, api/v2/openapi.yaml.
"""

import hashlib
import ssl
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import urllib3

from agent.responding.notification.message_text import message_of
from agent.responding.notification.notice import Notice, NoticeKind
from agent.responding.notification.route import Route
from telemetry.clock import NS_PER_S, Clock, iso_utc
from telemetry.errors import ActionRefusedError, NotPermittedError, TransientError
from telemetry.json_text import json_bytes
from telemetry.records import Severity

# heuristic: chat services answer within a second; after this the message is retried.
_TIMEOUT = urllib3.Timeout(connect=3.0, read=7.0)
# The body itself is wrong, a retry would not help: RFC 9110 sections 15.5.1, 15.5.14, 15.5.16, 15.5.21.
_BODY_REFUSED = (400, 413, 415, 422)
# An alert that is not sent again counts as resolved at its end time; Prometheus repeats it after a minute
# (--rules.alert.resend-delay, prometheus.io/docs/prometheus/latest/command-line/prometheus).
_RENEW_S = 60.0
# heuristic: Prometheus sets the end four minutes ahead. A node whose agent died has not recovered, so its alerts last
# an hour.
_LASTS_NS = 3600 * NS_PER_S
# heuristic: longer than Alertmanager's group_wait, 30 s by default.
_TEST_LASTS_NS = 300 * NS_PER_S


class Poster:
    """Posts JSON to one server; errors never contain address or token."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._pool: urllib3.PoolManager | None = None

    def post(self, body: Any, *, path: str = "", headers: Mapping[str, str] | None = None) -> None:
        """Send one body to the route's address, with `path` appended.

        TransientError where there is no reply, or a status that may change: too many requests, a server error, an
        unknown token. ActionRefusedError where the server refuses the body.
        """
        route = self._route
        try:
            url = route.addresses()[0] + path
            token = route.token.read()
        except NotPermittedError as err:
            raise TransientError(f"route {route.name}: {err}") from err
        if not url.startswith(("http://", "https://")):
            raise TransientError(f"route {route.name}: expected an address that begins with http:// or https://")
        sent = {"Content-Type": "application/json", "User-Agent": "railwatch", **(headers or {})}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        try:
            answer = self._connection().request(
                "POST",
                url,
                body=json_bytes(body),
                headers=sent,
                timeout=_TIMEOUT,
                retries=False,
                preload_content=False,  # the body may be of any length and is not read
            )
            answer.close()
        except (urllib3.exceptions.HTTPError, ValueError):
            # The message contains the address: it is left out, and so is the cause.
            raise TransientError(f"route {route.name}: no reply") from None
        if 200 <= answer.status < 300:
            return
        reason = f"route {route.name}: HTTP status {answer.status}"
        if answer.status in _BODY_REFUSED:
            raise ActionRefusedError(reason)
        raise TransientError(reason)

    def _connection(self) -> urllib3.PoolManager:
        if self._pool is None:
            file, context = self._route.ca_file, None
            if file is not None:
                context = ssl.create_default_context()
                try:
                    context.load_verify_locations(file)
                except OSError as err:  # SSLError is one
                    raise TransientError(f"route {self._route.name}: {file} contains no valid certificates") from err
            self._pool = urllib3.PoolManager(num_pools=1, maxsize=1, ssl_context=context)
        return self._pool


class Alertmanager:
    """Posts alerts; Alertmanager itself groups, repeats and silences them."""

    groups = False
    renew_every_s: float | None = _RENEW_S

    def __init__(self, route: Route, *, clock: Clock) -> None:
        self._poster = Poster(route)
        self._clock = clock

    def deliver(self, notices: Sequence[Notice]) -> None:
        """Post an alert for each notice, and the end of the alert that it replaces if the severity rose."""
        now_ns = self._clock.utc_ns()
        self._poster.post([alert for notice in notices for alert in _alerts(notice, now_ns)], path="/api/v2/alerts")


def _alerts(notice: Notice, now_ns: int) -> Iterator[Mapping[str, Any]]:
    # Labels identify an alert: with another severity it is another alert.
    if notice.previous is not None:
        yield _alert(notice, notice.previous, ends_ns=now_ns)
    lasts_ns = {NoticeKind.RECOVERED: 0, NoticeKind.TEST: _TEST_LASTS_NS}.get(notice.kind, _LASTS_NS)
    yield _alert(notice, notice.severity, ends_ns=now_ns + lasts_ns)


def _alert(notice: Notice, severity: Severity, *, ends_ns: int) -> Mapping[str, Any]:
    labels = {
        "alertname": f"railwatch_{notice.cause}",
        "severity": severity.value,
        "cause": notice.cause,
        "node": notice.node,
        "entity": notice.entity_id,
        "incident": notice.incident_id,
        "simulated": "true" if notice.simulated else "false",
    }
    annotations = {
        "summary": notice.summary,
        "description": notice.text,
        "command": f"railwatch explain incident {notice.incident_id}",
    }
    # Alertmanager refuses an alert whose end lies before its beginning.
    begins_ns = min(notice.opened_ns, ends_ns)
    return {
        "labels": labels,
        "annotations": annotations,
        "startsAt": iso_utc(begins_ns),
        "endsAt": iso_utc(ends_ns),
        **({"generatorURL": notice.link} if notice.link else {}),
    }


class Webhook:
    """Posts ``{"type": "notification", "title", "text", "notices": [...]}``.

    The header ``Idempotency-Key`` is the same if a message is sent twice, as after a kill between the reply of the
    server and the note of it.
    """

    groups = True
    renew_every_s: float | None = None

    def __init__(self, route: Route) -> None:
        self._poster = Poster(route)

    def deliver(self, notices: Sequence[Notice]) -> None:
        """Post all notices in one request."""
        title, text = message_of(notices)
        body = {
            "type": "notification",
            "title": title,
            "text": text,
            "notices": [notice.fields() for notice in notices],
        }
        key = hashlib.blake2b("\n".join(notice.token for notice in notices).encode(), digest_size=16).hexdigest()
        self._poster.post(body, headers={"Idempotency-Key": key})
