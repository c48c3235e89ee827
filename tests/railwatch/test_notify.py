"""`railwatch notify`: routes are tried at once, and what waits on them is shown."""

import json
import os
from pathlib import Path

import pytest

from agent.responding.notification.ledger import Ledger
from config.loading import load_config
from telemetry.errors import ConfigError
from tests.agent.responding.notification.incidents import notice
from tests.agent.responding.notification.listening import listening
from tests.railwatch.command_line import Run

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


def config_with(folder: Path, *routes: str) -> Path:
    path = folder / "railwatch.yaml"
    lines = ["node: {name: node7}", "actuators:", "  notification:", "    routes:"]
    path.write_text("\n".join([*lines, *(f"      {route}" for route in routes)]) + "\n")
    return path


def test_a_test_message_reaches_each_route_or_the_one_that_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening() as listener:
        monkeypatch.setenv("ONCALL", f"json://127.0.0.1:{listener.port}/j")
        config = config_with(
            tmp_path,
            "oncall: {kind: apprise, url_env: ONCALL, severity: critical}",
            f"hook: {{kind: webhook, url: '{listener.url}/h'}}",
            f"am: {{kind: alertmanager, url: '{listener.url}'}}",
        )
        status, out, _ = run("notify", "test", "--config", str(config))
        assert (status, out) == (
            0,
            "oncall: accepted (apprise)\nhook: accepted (webhook)\nam: accepted (alertmanager)\n",
        )
        assert [posted.path for posted in listener.posted] == ["/j", "/h", "/api/v2/alerts"]
        assert "railwatch: test from node7" in listener.posted[0].json["title"]
        listener.answers = [500]
        status, out, _ = run("notify", "test", "--route", "hook", "--config", str(config), "--json")
        assert status == 1
        assert json.loads(out) == {
            "route": "hook",
            "kind": "webhook",
            "taken": False,
            "trouble": "route hook: HTTP status 500",
        }


def test_a_route_that_is_not_there_is_reported_with_those_that_are(run: Run, tmp_path: Path) -> None:
    config = config_with(tmp_path, "hook: {kind: webhook, url: 'http://127.0.0.1:9'}")
    status, _, err = run("notify", "test", "--route", "pager", "--config", str(config))
    assert status == 2
    assert err == f"railwatch: {config}: actuators.notification.routes: no route 'pager'; expected one of hook\n"
    status, _, err = run("notify", "test")
    assert status == 2
    assert err.endswith("no route; expected at least one route\n")


def test_the_status_shows_what_was_sent_waits_and_was_lost(run: Run, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "responder", most=2)
    for number in range(3):
        ledger.enqueue(notice(number), ["hook"], notified_routes=["hook"])
    ledger.delivered("hook", [ledger.waiting("hook", most=1)[0].position])
    status, out, _ = run("notify", "status", "--data-dir", str(tmp_path), "--json")
    assert (status, json.loads(out)) == (
        0,
        {"route": "hook", "sent": 1, "waiting": 1, "lost": 1, "trouble": "", "simulated": False},
    )
    ledger.note_trouble("hook", "HTTP 500", now_ns=1)
    ledger.close()
    status, out, _ = run("notify", "status", "--data-dir", str(tmp_path))
    assert status == 1
    assert out.splitlines()[1].split() == ["hook", "1", "1", "1", "HTTP", "500"]
    status, _, err = run("notify", "status", "--data-dir", str(tmp_path), "--simulated")
    assert status == 3
    assert "no notification was ever queued here" in err


def test_the_status_finds_the_queue_of_a_simulated_node_and_shows_the_newest_first(run: Run, tmp_path: Path) -> None:
    def queued(folder: str, route: str) -> Path:
        ledger = Ledger(tmp_path / folder, most=2)
        ledger.enqueue(notice(1), [route], notified_routes=[route])
        if folder == "responder":
            ledger.note_trouble(route, "HTTP 500", now_ns=1)
        ledger.close()
        return tmp_path / folder / "notification.sqlite"

    simulated = queued("responder-simulated", "tried")
    status, out, _ = run("notify", "status", "--data-dir", str(tmp_path))
    assert (status, out.splitlines()[0]) == (0, "simulated node")
    real = queued("responder", "hook")
    os.utime(real, (1, 1))
    status, out, _ = run("notify", "status", "--data-dir", str(tmp_path), "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert (status, [row["route"] for row in rows]) == (0, ["tried", "hook"])
    os.utime(simulated, (0, 0))
    assert run("notify", "status", "--data-dir", str(tmp_path))[0] == 1


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        ("a: {kind: pigeon, url: 'http://x'}", "a.kind: got 'pigeon'; expected 'apprise', 'alertmanager' or 'webhook'"),
        ("a: {kind: webhook}", "a: values conflict; expected exactly one of url, url_env and url_file"),
        ("a: {kind: apprise, url: 'http://x'}", "a.url: not allowed when kind is apprise; expected url_env"),
        ("a: {kind: apprise, url_env: A, token_env: B}", "expected no token and no ca_file"),
        ("a: {kind: webhook, url: 'ftp://x'}", "a.url: got 'ftp://x'; expected an address such as"),
        ("a: {kind: webhook, url_env: 'A B'}", "a.url_env: got 'A B'; expected the name of an environment variable"),
        ("a: {kind: webhook, url_env: A, severity: bad}", "a.severity: got 'bad'; expected 'info', 'warning' or"),
        ("a: {kind: webhook, url_env: A, token_env: B, token_file: c}", "expected token_env or token_file, not both"),
        ("A b: {kind: webhook, url_env: A}", "expected"),
    ],
)
def test_a_route_that_cannot_be_is_refused_with_its_line(tmp_path: Path, route: str, expected: str) -> None:
    config = config_with(tmp_path, route)
    with pytest.raises(ConfigError) as caught:
        load_config(config, {})
    assert str(caught.value).startswith(f"{config}:5: actuators.notification.routes.")
    assert expected in str(caught.value)


@pytest.mark.parametrize("url", ["http://user:s3cret@host/x", "http://host/x?token=s3cret"])
def test_a_secret_in_an_address_is_refused_and_not_repeated(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(config_with(tmp_path, f"a: {{kind: webhook, url: '{url}'}}"), {})
    assert "without user, password and query" in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("kubernetes", "{node: 'Node 7'}", "the name of one node as kubectl"),
        ("kubernetes", "{evict: all}", "'never' or 'pods'"),
        ("kubernetes", "{evict_within: 2h}", "at most 1h"),
        ("power_cycle", "{address: 'https://bmc'}", "a host name or an address"),
        ("power_cycle", "{system: /redfish/v1/Chassis/1}", "a path such as /redfish/v1/Systems/1"),
        ("power_cycle", "{reset: Nmi}", "'GracefulRestart', 'ForceRestart' or 'PowerCycle'"),
    ],
)
def test_what_cannot_be_acted_through_is_refused(tmp_path: Path, key: str, value: str, expected: str) -> None:
    config = tmp_path / "railwatch.yaml"
    config.write_text(f"actuators:\n  {key}: {value}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(config, {})
    assert str(caught.value).startswith(f"{config}:2: actuators.{key}.")
    assert expected in str(caught.value)
