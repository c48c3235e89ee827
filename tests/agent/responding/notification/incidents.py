"""Incidents, decisions and notices for the tests of notification."""

from dataclasses import replace
from typing import Any

from agent.responding.notification.message_text import notice_of
from agent.responding.notification.notice import Notice, NoticeKind
from agent.responding.port import MessageRequest
from telemetry.clock import NS_PER_S
from telemetry.records import (
    Decision,
    Evidence,
    Incident,
    IncidentState,
    Mode,
    Verdict,
)
from tests import record_samples
from tests.agent.fakes import START_NS


def incident(number: int = 1, **changes: Any) -> Incident:
    finding = replace(
        record_samples.FINDING,
        id=f"f-{number}",
        time_ns=START_NS,
        since_ns=START_NS,
        score=0.7,
        summary="it sags",
        evidence=(
            Evidence(name="minimum_v", value=11.31, unit="V"),
            Evidence(name="gpus", value=4, unit=""),
        ),
    )
    made = replace(
        record_samples.INCIDENT,
        id=f"i-{number:04d}",
        time_ns=START_NS,
        opened_ns=START_NS,
        affected=("supply:psu0", "gpu:a"),
        impact_gpu_hours=0.6,
        summary="psu0 dips to 11.31 V under load",
        findings=(finding,),
    )
    return replace(made, **changes)


def closed(of: Incident, *, after_s: float = 720.0) -> Incident:
    end_ns = of.opened_ns + round(after_s * NS_PER_S)
    return replace(of, state=IncidentState.CLOSED, closed_ns=end_ns, time_ns=end_ns)


def order(of: Incident | None, *, recovery: bool = False, **parameters: str) -> MessageRequest:
    decision = Decision(
        id=f"tell:{of.id if of else 'none'}:{START_NS}",
        time_ns=START_NS,
        rule="tell",
        incident_id=of.id if of else "none",
        action="notify",
        targets=("supply:psu0",),
        lease_s=None,
        mode=Mode.ENFORCE,
        verdict=Verdict.EXECUTE,
        reason="it sags",
        parameters=tuple(parameters.items()),
    )
    return MessageRequest(decision=decision, incident=of, recovery=recovery, token="0123")


def notice(number: int = 1, kind: NoticeKind = NoticeKind.OPENED, *, node: str = "node7", **changes: Any) -> Notice:
    previous = changes.pop("previous", None)
    return notice_of(incident(number, **changes), kind, node=node, now_ns=START_NS, previous=previous)
