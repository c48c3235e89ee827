"""Incidents as alerts of a Prometheus Alertmanager: POST /api/v2/alerts.

The form is that of Alertmanager's own OpenAPI description, api/v2/openapi.yaml in its repository.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.responding.notification.notice import Notice, NoticeKind
from agent.responding.notification.posting import Poster
from agent.responding.notification.route import Route
from telemetry.clock import NS_PER_S, Clock, iso_utc
from telemetry.records import Severity

# An alert that is not sent again counts as resolved at its end time; Prometheus repeats it after a minute
# (--rules.alert.resend-delay, prometheus.io/docs/prometheus/latest/command-line/prometheus).
_RENEW_S = 60.0
# heuristic: Prometheus sets the end four minutes ahead. A node whose agent died has not recovered, so its alerts last
# an hour.
_LASTS_NS = 3600 * NS_PER_S
# heuristic: longer than Alertmanager's group_wait, 30 s by default.
_TEST_LASTS_NS = 300 * NS_PER_S


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
