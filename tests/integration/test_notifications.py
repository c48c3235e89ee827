"""Responder process that notifies operators, drains through an API server and cycles the power over real HTTP."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.collectors.bmc.redfish_client import ROOT
from agent.responding.notification.notice import NoticeKind
from telemetry.clock import SystemClock
from telemetry.records import Action, ActionState, Incident, IncidentState, Severity
from tests import record_samples
from tests.agent.collectors.bmc.services import PASSWORD, USER, Tree, make_certificate, served
from tests.agent.responding.kubernetes_server import Kubernetes, kubeconfig, serving
from tests.agent.responding.notification.incidents import incident
from tests.agent.responding.notification.listening import listening
from tests.integration.responding import Run
from tests.services import require

pytestmark = [pytest.mark.integration]

SYSTEM = f"{ROOT}Systems/1"
TARGET = f"{SYSTEM}/Actions/ComputerSystem.Reset"


def now_of(one: Incident, **changes: object) -> Incident:
    now_ns = SystemClock().utc_ns()
    return replace(one, **({"time_ns": now_ns, "opened_ns": now_ns} | changes))  # type: ignore[arg-type]


def cap(on: Incident) -> Action:
    return replace(
        record_samples.ACTION,
        id="cap",
        time_ns=SystemClock().utc_ns(),
        decision_id="sag:i-0001:1",
        incident_id=on.id,
        knob="clock_cap",
        entity_id="gpu:a",
        reason="it sags",
    )


def test_an_incident_is_reported_once_over_a_kill_with_what_was_done_and_so_are_its_rise_and_its_end(
    tmp_path: Path,
) -> None:
    with listening() as listener:
        route = {"kind": "webhook", "url": f"{listener.url}/in"}
        run = Run.begin(tmp_path, actuators={"notification": {"routes": {"log": route}, "group": "1s"}})
        one = now_of(incident())
        actuator = run.context.journal_writer("actuator")
        actuator.append(cap(one))

        def reported() -> list[tuple[str, str]]:
            notices = [notice for posted in listener.posted for notice in posted.json["notices"]]
            return [(notice["kind"], notice["severity"]) for notice in notices]

        with run.processes() as processes:
            processes.start()
            run.guard.append(one)
            run.decide("notify", incident=one.id)
            run.decide("notify", incident=one.id)
            run.until(lambda: len(run.reported()) == 2)
            processes.kill()  # what waits is on the disk
            processes.start()
            run.until(lambda: bool(reported()))
            assert "clock_cap 1057 MHz on gpu:a: done" in listener.posted[0].json["text"]
            run.guard.append(now_of(one, opened_ns=one.opened_ns, severity=Severity.CRITICAL))
            run.until(lambda: len(reported()) == 2)
            end_ns = SystemClock().utc_ns()
            run.guard.append(replace(one, time_ns=end_ns, closed_ns=end_ns, state=IncidentState.CLOSED))
            run.until(lambda: len(reported()) == 3)
            assert processes.end() == 0
        actuator.close()
        assert reported() == [
            (NoticeKind.OPENED, Severity.WARNING),
            (NoticeKind.WORSE, Severity.CRITICAL),
            (NoticeKind.RECOVERED, Severity.CRITICAL),
        ]
        text = [action.reason for action in run.reported()]
        assert text[0] == "queued for log"
        assert text[1].startswith("sent already")


def test_without_a_route_a_notification_is_no_failure(tmp_path: Path) -> None:
    run = Run.begin(tmp_path, actuators={})
    with run.process() as child:
        run.decide("notify", incident="i-1")
        run.until_done(child)
    (action,) = run.reported()
    assert (action.state, "no route is configured" in action.reason) == (ActionState.DONE, True)


def test_a_node_of_kubernetes_is_drained_over_a_kill_and_given_back(tmp_path: Path) -> None:
    cluster = Kubernetes()
    node = cluster.add_node("box")
    cluster.add_pod("train-0", node="box")
    cluster.add_pod("web-0", node="box", labels={"app": "web"})
    cluster.budgets["web"] = 0
    with serving(cluster) as port:
        section = {"kubeconfig": str(kubeconfig(tmp_path, port)), "evict": "pods"}
        run = Run.begin(tmp_path, actuators={"drain": ["kubernetes"], "kubernetes": section})
        with run.processes() as child:
            child.start()
            run.decide("drain", incident="i-1")
            run.until(lambda: len(cluster.evicted) == 1)
            child.kill()  # one pod is left, which its budget holds back
            assert run.reported() == []
            cluster.budgets["web"] = 1
            child.start()
            run.until(lambda: bool(run.reported()))
            assert node["spec"]["unschedulable"] is True
            assert cluster.pods == {}
            run.decide("drain_release", incident="i-1")
            run.until(lambda: len(run.reported()) == 2)
            assert child.end() == 0
    assert [action.state for action in run.reported()] == [ActionState.APPLIED, ActionState.RELEASED]
    assert node["metadata"]["annotations"] == {"kept": "yes"}


def test_a_power_cycle_is_asked_for_over_tls_once_a_person_has_approved_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("openssl")
    certificate = make_certificate(tmp_path)
    action = {"target": TARGET, "ResetType@Redfish.AllowableValues": ["PowerCycle"]}
    system = {"PowerState": "On", "Actions": {"#ComputerSystem.Reset": action}}
    tree = Tree(resources={SYSTEM: system}, wants_login=True)
    asked: list[object] = []

    def reset(body: object) -> int:
        asked.append(body)
        tree.resources[SYSTEM] = system | {"LastResetTime": "now"}
        return 204

    tree.actions[TARGET] = reset
    (tmp_path / "password").write_text(PASSWORD)
    with served(tree, certificate) as port:
        section = {
            "address": "127.0.0.1",
            "port": port,
            "user": USER,
            "password_file": str(tmp_path / "password"),
            "ca_file": str(certificate),
            "system": SYSTEM,
            "undrained": "allow",
        }
        run = Run.begin(tmp_path, actuators={"power_cycle": section})
        with run.process() as child:
            run.decide("power_cycle", incident="i-1")
            run.until(lambda: len(run.reported()) == 1)
            assert asked == []
            run.decide("power_cycle", incident="i-2", approved_by="ops")
            run.until_done(child)
    first, second = run.reported()
    assert (first.state, first.reason) == (
        ActionState.REFUSED,
        "not approved by a person: railwatch actions approve",
    )
    assert (second.state, second.reason) == (ActionState.DONE, "PowerCycle, approved by ops: PowerState On again")
    assert asked == [{"ResetType": "PowerCycle"}]
