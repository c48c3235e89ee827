"""Messages that really arrive: through Apprise, by mail, at a web server, at an Alertmanager."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from email import message_from_bytes
from email.header import decode_header, make_header
from pathlib import Path
from typing import Any

import pytest
import urllib3
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import Envelope

from agent.responding.notification.apprise_channel import ByApprise
from agent.responding.notification.http_channels import Alertmanager, Webhook
from agent.responding.notification.notice import Notice, NoticeKind
from agent.responding.notification.route import Route, RouteKind, Secret
from telemetry.clock import Clock, SystemClock
from telemetry.errors import ActionRefusedError, TransientError
from telemetry.records import Severity
from tests.agent.collectors.bmc.services import Tree, make_certificate, served
from tests.agent.fakes import FakeClock
from tests.agent.responding.notification.incidents import notice
from tests.agent.responding.notification.listening import Listener, listening
from tests.services import free_port, require
from tests.waiting import wait_for

SECRET = "s3cret-t0ken"
# Apprise asks for a module that Python 3.13 no longer has.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


@pytest.fixture
def listener() -> Iterator[Listener]:
    with listening() as made:
        yield made


@pytest.fixture
def apprise_to(monkeypatch: pytest.MonkeyPatch) -> Any:
    def made(*addresses: str) -> ByApprise:
        monkeypatch.setenv("ONCALL", "# who is on call\n" + "\n".join(addresses))
        return ByApprise(Route(name="oncall", kind=RouteKind.APPRISE, address=Secret(variable="ONCALL")))

    return made


def hook(listener: Listener, **changes: Any) -> Webhook:
    return Webhook(Route(name="hook", kind=RouteKind.WEBHOOK, url=f"{listener.url}/in", **changes))


def test_apprise_posts_json_and_xml_with_the_colour_of_the_worst(apprise_to: Any, listener: Listener) -> None:
    channel = apprise_to(f"json://127.0.0.1:{listener.port}/j", f"xml://127.0.0.1:{listener.port}/x")
    channel.deliver([notice(severity=Severity.CRITICAL), notice(2, NoticeKind.RECOVERED)])
    first, second = listener.posted
    assert (first.path, second.path) == ("/j", "/x")
    assert first.json["type"] == "failure"
    assert first.json["title"] == "railwatch: 1 incidents, worst critical, 1 recovered, on node7"
    assert "railwatch explain incident i-0001" in first.json["message"]
    assert b"<Subject>railwatch: 1 incidents" in second.body
    channel.deliver([notice(2, NoticeKind.RECOVERED)])
    assert listener.posted[2].json["type"] == "success"


def test_an_address_that_took_it_is_not_reported_again_with_one_that_did_not(
    apprise_to: Any, listener: Listener
) -> None:
    channel = apprise_to(f"json://127.0.0.1:{listener.port}/j", f"xml://127.0.0.1:{listener.port}/x")
    listener.answers = [200, 503]
    with pytest.raises(TransientError, match="route oncall: address 2 \\(XML\\) refused the message"):
        channel.deliver([notice()])
    channel.deliver([notice(), notice(2)])
    assert [item.path for item in listener.posted] == ["/j", "/x", "/j", "/x"]
    assert "i-0001" not in listener.posted[2].json["message"]
    assert b"i-0001" in listener.posted[3].body
    assert b"i-0002" in listener.posted[3].body


def test_what_apprise_cannot_send_reports_no_secret(
    apprise_to: Any, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    for address, text in (
        (f"json://user:{SECRET}@127.0.0.1:{port}/{SECRET}", "refused the message"),
        (f"nothing://{SECRET}", "address 1 is not an Apprise URL"),
    ):
        with caplog.at_level(1), pytest.raises(TransientError, match=text) as caught:
            apprise_to(address).deliver([notice()])
        assert SECRET not in str(caught.value)
    out, err = capfd.readouterr()
    assert SECRET not in caplog.text + out + err


def test_a_web_server_gets_our_json_with_a_token_and_a_key_that_stays_the_same(
    listener: Listener, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(f"{SECRET}\n")
    channel = hook(listener, token=Secret(file=tmp_path / "token"))
    channel.deliver([notice()])
    channel.deliver([notice()])
    first, second = listener.posted
    assert first.headers["Authorization"] == f"Bearer {SECRET}"
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
    body = first.json
    assert (body["type"], len(body["notices"])) == ("notification", 1)
    received = body["notices"][0]
    assert (received["kind"], received["severity"], received["incident_id"]) == ("opened", "warning", "i-0001")
    assert received["numbers"][0] == ["minimum_v", 11.31, "V"]
    assert received["time"] == "2026-01-31T12:00:00.000000Z"


@pytest.mark.parametrize(
    ("status", "error"),
    [(500, TransientError), (401, TransientError), (429, TransientError), (422, ActionRefusedError)],
)
def test_the_answer_of_a_web_server_states_whether_to_try_again(
    listener: Listener, status: int, error: type[Exception]
) -> None:
    listener.answers = [status]
    with pytest.raises(error, match=f"route hook: HTTP status {status}"):
        hook(listener).deliver([notice()])


def test_what_cannot_be_reached_or_read_reports_neither_address_nor_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", f"http://127.0.0.1:{free_port()}/{SECRET}")
    route = Route(name="hook", kind=RouteKind.WEBHOOK, address=Secret(variable="HOOK"))
    with pytest.raises(TransientError, match="no reply") as caught:
        Webhook(route).deliver([notice()])
    assert SECRET not in "".join(map(str, (caught.value, caught.value.__cause__)))
    monkeypatch.setenv("HOOK", f"http://[{SECRET}")
    with pytest.raises(TransientError) as caught:
        Webhook(route).deliver([notice()])
    assert SECRET not in str(caught.value)
    monkeypatch.delenv("HOOK")
    with pytest.raises(TransientError, match="the environment variable HOOK is empty"):
        Webhook(route).deliver([notice()])
    missing = Route(name="hook", kind=RouteKind.WEBHOOK, address=Secret(file=tmp_path / "none"))
    with pytest.raises(TransientError, match="none cannot be read"):
        Webhook(missing).deliver([notice()])
    (tmp_path / "ca").write_text("no certificate")
    broken = Route(name="hook", kind=RouteKind.WEBHOOK, url="https://127.0.0.1:1", ca_file=tmp_path / "ca")
    with pytest.raises(TransientError, match="contains no valid certificates"):
        Webhook(broken).deliver([notice()])


def alerts_of(listener: Listener, *notices: Notice, clock: Clock | None = None) -> list[dict[str, Any]]:
    route = Route(name="am", kind=RouteKind.ALERTMANAGER, url=listener.url)
    Alertmanager(route, clock=clock or FakeClock()).deliver(notices)
    posted = listener.posted[-1]
    assert posted.path == "/api/v2/alerts"
    alerts: list[dict[str, Any]] = posted.json
    return alerts


def test_an_alert_is_known_by_its_labels_and_a_rise_ends_the_one_before(listener: Listener) -> None:
    opened = alerts_of(listener, notice())[0]
    worse = alerts_of(listener, notice(kind=NoticeKind.WORSE, severity=Severity.CRITICAL, previous=Severity.WARNING))
    assert opened["labels"] == {
        "alertname": "railwatch_supply_sag",
        "severity": "warning",
        "cause": "supply_sag",
        "node": "node7",
        "entity": "supply:psu0",
        "incident": "i-0001",
        "simulated": "false",
    }
    assert (opened["startsAt"][:19], opened["endsAt"][:19]) == ("2026-01-31T12:00:00", "2026-01-31T13:00:00")
    assert worse[0]["labels"] == opened["labels"]
    assert worse[0]["endsAt"] == worse[0]["startsAt"]
    assert worse[1]["labels"]["severity"] == "critical"
    over = alerts_of(listener, notice(kind=NoticeKind.RECOVERED))[0]
    assert over["labels"] == opened["labels"]
    assert over["endsAt"][:19] == "2026-01-31T12:00:00"


@pytest.mark.integration
def test_a_mail_arrives_at_a_mail_server(apprise_to: Any) -> None:
    mails: list[bytes] = []

    class Box:
        async def handle_DATA(self, server: object, session: object, envelope: Envelope) -> str:  # noqa: N802 -- aiosmtpd's name
            assert isinstance(envelope.content, bytes)
            mails.append(envelope.content)
            return "250 taken"

    controller = Controller(Box(), hostname="127.0.0.1", port=free_port())
    controller.start()
    try:
        apprise_to(
            f"mailto://127.0.0.1:{controller.port}/?from=railwatch@example.org&to=oncall@example.org&mode=insecure"
        ).deliver([notice(severity=Severity.CRITICAL)])
    finally:
        controller.stop()
    mail = message_from_bytes(mails[0])
    assert str(make_header(decode_header(mail["Subject"]))) == ("railwatch: critical: supply_sag on node7, PSU 0")
    text = "".join(
        part.get_payload(decode=True).decode()  # type: ignore[union-attr]
        for part in mail.walk()
        if part.get_content_maintype() == "text"
    )
    assert "railwatch explain incident i-0001" in text


@contextlib.contextmanager
def running_alertmanager(folder: Path, receiver: str) -> Iterator[Listener]:
    """Run Debian's Alertmanager; return where it listens."""
    config = folder / "alertmanager.yml"
    config.write_text(
        json.dumps(
            {
                "route": {"receiver": "us", "group_by": ["node"], "group_wait": "1s", "group_interval": "1s"},
                "receivers": [{"name": "us", "webhook_configs": [{"url": receiver, "send_resolved": True}]}],
            }
        )
    )
    port = free_port()
    command = [require("prometheus-alertmanager"), f"--config.file={config}", f"--storage.path={folder / 'data'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        retries = urllib3.Retry(total=300, backoff_factor=0.1, backoff_max=0.2)
        urllib3.request("GET", f"http://127.0.0.1:{port}/-/ready", retries=retries)
        yield Listener(port=port)
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.integration
def test_an_alertmanager_takes_alerts_groups_them_and_reports_that_they_are_over(
    tmp_path: Path, listener: Listener
) -> None:
    clock = SystemClock()

    def now(number: int, kind: NoticeKind, **changes: Any) -> Notice:
        return notice(number, kind, opened_ns=clock.utc_ns() - 5 * 10**9, **changes)

    with running_alertmanager(tmp_path, f"{listener.url}/told") as server:
        channel = Alertmanager(Route(name="am", kind=RouteKind.ALERTMANAGER, url=server.url), clock=clock)
        first, second = now(1, NoticeKind.OPENED), now(2, NoticeKind.OPENED)
        channel.deliver([first, second])
        received = _received(listener, at_least=1)[0]
        assert received["status"] == "firing"
        assert {alert["labels"]["incident"] for alert in received["alerts"]} == {"i-0001", "i-0002"}
        assert received["commonAnnotations"]["summary"] == "psu0 dips to 11.31 V under load"
        held = json.loads(urllib3.request("GET", f"{server.url}/api/v2/alerts").data)
        assert {alert["status"]["state"] for alert in held} == {"active"}
        channel.deliver([now(1, NoticeKind.WORSE, severity=Severity.CRITICAL, previous=Severity.WARNING)])
        channel.deliver([now(2, NoticeKind.RECOVERED)])
        held = json.loads(urllib3.request("GET", f"{server.url}/api/v2/alerts").data)
        assert [(alert["labels"]["incident"], alert["labels"]["severity"]) for alert in held] == [
            ("i-0001", "critical")
        ]
        last = _received(listener, at_least=2)[-1]
        states = {(one["labels"]["incident"], one["labels"]["severity"]): one["status"] for one in last["alerts"]}
        assert states["i-0002", "warning"] == states["i-0001", "warning"] == "resolved"
        assert states["i-0001", "critical"] == "firing"


def _received(listener: Listener, *, at_least: int) -> list[Any]:
    wait_for(lambda: len(listener.posted) >= at_least)
    return [posted.json for posted in listener.posted]


@pytest.mark.integration
def test_a_web_server_is_trusted_by_the_certificates_of_the_user(tmp_path: Path) -> None:
    require("openssl")
    certificate = make_certificate(tmp_path)
    tree = Tree()
    tree.actions["/in"] = lambda _: 200
    with served(tree, certificate) as port:
        url = f"https://127.0.0.1:{port}/in"
        with pytest.raises(TransientError):
            Webhook(Route(name="hook", kind=RouteKind.WEBHOOK, url=url)).deliver([notice()])
        Webhook(Route(name="hook", kind=RouteKind.WEBHOOK, url=url, ca_file=certificate)).deliver([notice()])
    assert tree.requests_seen == [("POST", "/in")]
