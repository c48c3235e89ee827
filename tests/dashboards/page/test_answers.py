"""A yes or a no over HTTP: who may give it, what it may be about, and that nothing else acts."""

from dataclasses import dataclass, field, replace

import pytest

from dashboards.page.app import create_app
from telemetry.commands import Command, CommandVerb, new_command
from telemetry.errors import TransientError
from telemetry.records import Verdict
from tests import record_samples
from tests.dashboards.fakes import FakeSource
from tests.dashboards.page.asgi import Client
from tests.dashboards.page.clocks import START_NS, StandingClock

WAITING = replace(
    record_samples.DECISION,
    id="cap:i1:5",
    time_ns=START_NS,
    rule="cap",
    incident_id="i1",
    setting=1005.0,
    verdict=Verdict.PENDING,
    reason="needs approval",
    expires_ns=START_NS + 1,
)
READ, ACT = "read-token-of-sixteen", "act-token-of-sixteen"
YES = {"answer": "approve", "who": "ana", "why": "spare is up"}
PATH = f"/api/v1/approvals/{WAITING.id}"


@dataclass
class RecordedApprovals:
    deaf: bool = False
    calls: list[tuple[str, bool, str, str]] = field(default_factory=list)

    def answer(self, decision_id: str, *, approve: bool, who: str, why: str) -> Command:
        if self.deaf:
            raise TransientError("the guard did not hear of it in 10 s; say it again")
        self.calls.append((decision_id, approve, who, why))
        verb = CommandVerb.APPROVE if approve else CommandVerb.REJECT
        return new_command(verb, decision_id, who=who, why=why, now_ns=1)


def client(
    recorded: RecordedApprovals, *, token: str | None = None, act: str | None = ACT, base_url: str = "http://127.0.0.1"
) -> Client:
    clock = StandingClock(START_NS)
    source = FakeSource(clock=clock, started_ns=START_NS, waiting=(WAITING,))
    return Client(create_app(source, clock=clock, token=token, act_token=act, answers=recorded), base_url=base_url)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_who_holds_the_token_to_act_answers_what_waits() -> None:
    recorded = RecordedApprovals()
    reply = client(recorded).post(PATH, YES, headers=bearer(ACT))
    assert (reply.status_code, reply.json()["message"]) == (200, f"{WAITING.id} approved by ana: spare is up")
    assert [reply.json()[key] for key in ("type", "verb", "subject", "who")] == [
        "command",
        "approve",
        WAITING.id,
        "ana",
    ]
    client(recorded).post(PATH, {"answer": "reject", "who": " ben "}, headers=bearer(ACT))
    assert recorded.calls == [(WAITING.id, True, "ana", "spare is up"), (WAITING.id, False, "ben", "")]


@pytest.mark.parametrize("token", [None, READ])
@pytest.mark.parametrize("headers", [{}, bearer(READ), bearer(""), {"Authorization": ACT}])
def test_no_one_else_acts_not_even_on_loopback_or_with_the_token_to_read(
    token: str | None, headers: dict[str, str]
) -> None:
    recorded = RecordedApprovals()
    assert client(recorded, token=token).post(PATH, YES, headers=headers).status_code == 403
    assert recorded.calls == []


def test_a_cookie_a_rebound_name_and_a_page_without_such_a_token_do_not_act() -> None:
    recorded = RecordedApprovals()
    browser = client(recorded, token=READ)
    browser.get(f"/?token={READ}")
    assert browser.get("/api/v1/approvals").status_code == 200
    assert browser.post(PATH, YES).status_code == 403
    assert client(recorded, base_url="http://evil.example").post(PATH, YES, headers=bearer(ACT)).status_code == 403
    assert client(recorded, act=None).post(PATH, YES, headers=bearer("")).status_code == 403
    assert recorded.calls == []


def test_the_token_to_act_reads_as_well() -> None:
    assert client(RecordedApprovals(), token=READ).get("/api/v1/approvals", headers=bearer(ACT)).status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/v1/approvals/other:i1:5", YES, 404),
        (PATH, {**YES, "answer": "perhaps"}, 422),
        (PATH, {**YES, "who": " "}, 422),
        (PATH, {**YES, "who": "a" * 101}, 422),
        (PATH, {**YES, "why": "two\nlines"}, 422),
        (PATH, {**YES, "more": 1}, 422),
        ("/api/v1/status", YES, 405),
    ],
)
def test_a_wrong_answer_states_nothing_to_the_rules(path: str, body: dict[str, object], status: int) -> None:
    recorded = RecordedApprovals()
    assert client(recorded).post(path, body, headers=bearer(ACT)).status_code == status
    assert recorded.calls == []


def test_an_answer_that_was_not_received_is_a_503() -> None:
    reply = client(RecordedApprovals(deaf=True)).post(PATH, YES, headers=bearer(ACT))
    assert (reply.status_code, "say it again" in reply.text) == (503, True)
