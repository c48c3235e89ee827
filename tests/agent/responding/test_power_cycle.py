"""A power cycle: only approved, only drained and idle, once a day, read back, and never twice for one order."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import urllib3

from agent.collectors.bmc.redfish_client import ROOT, RedfishClient
from agent.collectors.bmc.settings import BmcKind, BmcSettings, Login, Transport
from agent.responding.pacing import RateLimit
from agent.responding.port import CheckableMessage, Message, MessageRequest, SwitchOwner, SwitchState
from agent.responding.power_cycle import FILE_NAME, NodeDrain, PowerCycle
from agent.responding.reset import PowerCycleSettings, Reset
from agent.responding.sending import DELIVERY_POLICIES, MessageSender
from agent.responding.work import ActuatorCounts, Task, work_of
from agent.responding.work_queue import WorkQueue
from rules.policy.model import ActionClass
from telemetry.clock import SystemClock
from telemetry.errors import ActionRefusedError, NotPermittedError, NotSupportedError, TransientError
from telemetry.records import ActionState, Decision, Mode, Verdict
from tests.agent.collectors.bmc.services import PASSWORD, USER, Tree, make_certificate, served
from tests.agent.fakes import START_NS, FakeClock
from tests.agent.responding.rig import Killed
from tests.services import free_port, require

SYSTEMS, SYSTEM = f"{ROOT}Systems", f"{ROOT}Systems/1"
TARGET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
INFO = f"{SYSTEM}/ResetActionInfo"
# OpenStack's emulator draws how long a system is off from whole seconds up to 11; below 2 s a look may miss it.
EMULATOR = """\
import random
random.randint = lambda least, most: 4
from sushy_tools.emulator.main import main
main()
"""


class Switch:
    """A scheduler's switch that stands where it is put."""

    name = "slurm_drain"
    held = SwitchOwner.OURS

    def read(self, target: str) -> SwitchState:
        return SwitchState(held=self.held, summary="idle" if self.held is SwitchOwner.FREE else "drained")

    def engage(self, target: str, *, token: str, reason: str) -> None:
        raise AssertionError("a power cycle drains nothing")

    def release(self, target: str, *, token: str) -> None:
        raise AssertionError("a power cycle gives nothing back")


class Jobs:
    """Work on the node."""

    running: Sequence[str] = ()

    def busy(self) -> Sequence[str]:
        return self.running


class Bench:
    """A node, its controller, its scheduler and who approved."""

    def __init__(self, folder: Path, tree: Tree, port: int) -> None:
        self.clock, self.tree, self.folder, self.port = FakeClock(), tree, folder, port
        self.switch, self.jobs = Switch(), Jobs()
        self.approved_by: str | None = "ops@desk"
        self.asked: list[Any] = []
        tree.resources |= {
            SYSTEMS: {"Members": [{"@odata.id": SYSTEM}]},
            SYSTEM: self.system("On"),
        }
        tree.actions[TARGET] = self._reset

    def system(self, state: str, **more: Any) -> dict[str, Any]:
        action = {"target": TARGET, "ResetType@Redfish.AllowableValues": ["On", "ForceRestart", "PowerCycle"]}
        return {"PowerState": state, "Actions": {"#ComputerSystem.Reset": action}, **more}

    def _reset(self, body: Any) -> int:
        self.asked.append(body)
        self.tree.resources[SYSTEM] = self.system("On", LastResetTime=f"reset {len(self.asked)}")
        return 204

    def message(self, *, drained: bool = True, **changes: Any) -> PowerCycle:
        settings = BmcSettings(
            kind=BmcKind.REDFISH, address="127.0.0.1", port=self.port, user=USER, transport=Transport.PLAIN
        )
        return PowerCycle(
            PowerCycleSettings(node="node7", **changes),
            lambda: RedfishClient(settings, clock=self.clock),
            folder=self.folder,
            clock=self.clock,
            approver=lambda decision: self.approved_by,
            drains=[NodeDrain(switch=self.switch, target="node7")] if drained else [],
            occupancies=[self.jobs],
        )


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("IPMI_PASSWORD", PASSWORD)
    tree = Tree(wants_login=True)
    with served(tree) as port:
        yield Bench(tmp_path, tree, port)


def order(mark: str = "aa", **changes: Any) -> MessageRequest:
    decision = Decision(
        id=f"cycle:i-1:{START_NS}",
        time_ns=START_NS,
        rule="cycle",
        incident_id="i-1",
        action="power_cycle",
        targets=("node:node7",),
        lease_s=None,
        mode=Mode.ENFORCE,
        verdict=Verdict.EXECUTE,
        reason="the GPU needs it",
    )
    return MessageRequest(decision=replace(decision, **changes), incident=None, recovery=False, token=mark)


def test_an_approved_cycle_of_a_drained_node_is_asked_for_and_read_back(bench: Bench) -> None:
    message: Message = bench.message()
    receipt = message.send(order())
    assert bench.asked == [{"ResetType": "PowerCycle"}]
    assert receipt.done
    assert receipt.summary == "PowerCycle, approved by ops@desk: PowerState On again"
    kept = json.loads((bench.folder / FILE_NAME).read_text())
    assert (kept["approved_by"], kept["token"], kept["time_ns"]) == ("ops@desk", "aa", START_NS)
    assert bench.tree.tokens == set(), "the session is ended"


def test_looking_first_asks_the_controller_for_nothing(bench: Bench) -> None:
    message = bench.message()
    assert isinstance(message, CheckableMessage)
    bench.approved_by = None
    summary = message.check(order(verdict=Verdict.RECOMMEND))
    assert summary.startswith(f"would request PowerCycle of {SYSTEM} from ")
    assert bench.asked == []
    assert not (bench.folder / FILE_NAME).exists()


@pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict is not Verdict.EXECUTE])
def test_a_decision_that_is_not_to_be_executed_is_refused(bench: Bench, verdict: Verdict) -> None:
    with pytest.raises(ActionRefusedError, match="not approved by a person"):
        bench.message().send(order(verdict=verdict))
    assert bench.asked == []


def test_without_the_approval_of_a_person_it_is_refused(bench: Bench) -> None:
    bench.approved_by = None
    with pytest.raises(ActionRefusedError, match="not approved by a person"):
        bench.message().send(order())
    assert bench.asked == bench.tree.requests_seen == []


def test_another_node_is_never_cycled(bench: Bench) -> None:
    with pytest.raises(ActionRefusedError, match="node:node8 is not this node"):
        bench.message().send(order(targets=("node:node8",)))


def test_a_node_that_is_not_drained_or_still_works_is_left_alone(bench: Bench) -> None:
    bench.switch.held = SwitchOwner.FREE
    with pytest.raises(ActionRefusedError, match="node7 is not drained in slurm_drain: idle"):
        bench.message().send(order())
    bench.switch.held = SwitchOwner.OTHERS
    bench.jobs.running = ("job 17", "job 18", "job 19", "job 20")
    with pytest.raises(ActionRefusedError, match="still works: job 17, job 18, job 19 and 1 more"):
        bench.message().send(order())
    bench.jobs.running = ()
    assert bench.message().send(order()).done


def test_without_a_scheduler_it_is_refused_unless_that_is_configured(bench: Bench) -> None:
    with pytest.raises(ActionRefusedError, match=r"actuators\.drain"):
        bench.message(drained=False).send(order())
    assert bench.message(drained=False, undrained=True).send(order()).done


def test_there_is_one_a_day(bench: Bench) -> None:
    bench.message().send(order())
    bench.clock.advance(23 * 3600)
    with pytest.raises(ActionRefusedError, match="last power cycle at 2026-01-31T12:00:00Z; at most one a day"):
        bench.message().send(order("bb"))
    bench.clock.advance(3600)
    assert bench.message().send(order("bb")).done
    assert len(bench.asked) == 2


def test_an_order_whose_answer_was_lost_is_not_carried_out_twice(bench: Bench) -> None:
    bench.message().send(order())
    receipt = bench.message().send(order())
    assert (receipt.done, len(bench.asked)) == (False, 1)
    assert "not repeated" in receipt.summary


def test_a_node_that_started_since_reports_that_it_was_cycled(bench: Bench) -> None:
    bench.message().send(order())
    bench.clock = FakeClock(monotonic_s=40.0, utc_ns=START_NS + 300 * 10**9)
    receipt = bench.message().send(order())
    assert (receipt.done, len(bench.asked)) == (True, 1)
    assert receipt.summary == "PowerCycle requested at 2026-01-31T12:00:00Z; the node has started since"


def test_what_cannot_be_noted_before_is_not_done(bench: Bench) -> None:
    (bench.folder / f"{FILE_NAME}.new").mkdir()
    with pytest.raises(TransientError, match="not requested without a record"):
        bench.message().send(order())
    assert bench.asked == []


def test_a_note_that_cannot_be_read_allows_nothing(bench: Bench) -> None:
    (bench.folder / FILE_NAME).write_text("{")
    with pytest.raises(ActionRefusedError, match="cannot read the time"):
        bench.message().send(order())
    (bench.folder / FILE_NAME).write_text("{}")
    with pytest.raises(ActionRefusedError, match="remove the file"):
        bench.message().send(order("cc"))


def test_what_the_controller_does_not_allow_is_not_asked_for(bench: Bench) -> None:
    with pytest.raises(NotSupportedError, match=r"not allow GracefulRestart; it allows On, ForceRestart, PowerCycle"):
        bench.message(reset=Reset.GRACEFUL_RESTART).send(order())
    assert not (bench.folder / FILE_NAME).exists()
    bench.tree.resources[SYSTEM] = {"PowerState": "On"}
    with pytest.raises(NotSupportedError, match="no action"):
        bench.message().send(order())


def test_what_is_allowed_may_stand_in_a_resource_of_its_own(bench: Bench) -> None:
    action = {"target": TARGET, "@Redfish.ActionInfo": INFO}
    bench.tree.resources[SYSTEM] = {"PowerState": "On", "Actions": {"#ComputerSystem.Reset": action}}
    bench.tree.resources[INFO] = {"Parameters": [{"Name": "ResetType", "AllowableValues": ["ForceRestart"]}]}
    with pytest.raises(NotSupportedError, match="it allows ForceRestart"):
        bench.message().send(order())
    assert bench.message(reset=Reset.FORCE_RESTART).send(order()).done


def test_of_several_systems_one_has_to_be_named(bench: Bench) -> None:
    bench.tree.resources[SYSTEMS] = {"Members": [{"@odata.id": SYSTEM}, {"@odata.id": f"{SYSTEMS}/2"}]}
    with pytest.raises(NotSupportedError, match="has 2 systems"):
        bench.message().send(order())
    assert bench.message(system=SYSTEM).send(order()).done


@pytest.mark.parametrize(
    ("status", "error"), [(400, ActionRefusedError), (403, NotPermittedError), (503, TransientError)]
)
def test_a_controller_that_states_no_is_reported(bench: Bench, status: int, error: type[Exception]) -> None:
    bench.tree.actions[TARGET] = lambda body: status
    with pytest.raises(error, match=str(status)):
        bench.message().send(order())


def test_a_node_that_never_went_off_is_reported_as_not_done(bench: Bench) -> None:
    bench.tree.actions[TARGET] = lambda body: 204
    receipt = bench.message(back_within_s=20.0).send(order())
    assert not receipt.done
    assert "was never seen off within 20 s, PowerState On" in receipt.summary


def test_after_a_kill_behind_the_request_it_is_reported_what_became_of_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = work_of("power_cycle", Task.SEND, order().decision, None)
    journal = WorkQueue(bench.folder)
    journal.take_in([work], (), journal="guard", position=(1, 2), now_ns=START_NS)
    manner = DELIVERY_POLICIES[ActionClass.POWER_CYCLE]

    def step() -> None:
        MessageSender(bench.message(), manner, journal, bench.clock, tally=ActuatorCounts(), pace=RateLimit()).step()

    with monkeypatch.context() as patched:
        patched.setattr(PowerCycle, "_read_back", killed)
        with pytest.raises(Killed):
            step()
    step()
    (reported,) = [action for _, action in journal.outbox()]
    journal.close()
    assert reported.state is ActionState.FAILED
    assert "no reply and no restart since; not repeated" in reported.reason
    assert len(bench.asked) == 1


def killed(*_: object, **__: object) -> None:
    raise Killed


@pytest.mark.integration
def test_an_independent_controller_over_tls_with_a_login_goes_off_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("openssl")
    certificate = make_certificate(tmp_path)
    port = free_port()
    (tmp_path / "htpasswd").write_text(f"{USER}:{bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()}\n")
    node = {"uuid": "6d2c", "name": "node7", "power_state": "On", "external_notifier": False, "nics": []}
    (tmp_path / "emulator.conf").write_text(
        f"SUSHY_EMULATOR_FAKE_DRIVER = True\nSUSHY_EMULATOR_STATE_DIR = {str(tmp_path)!r}\n"
        f"SUSHY_EMULATOR_FAKE_SYSTEMS = [{node!r}]\nSUSHY_EMULATOR_AUTH_FILE = {str(tmp_path / 'htpasswd')!r}\n"
    )
    command = [sys.executable, "-c", EMULATOR, "-i", "127.0.0.1", "-p", str(port)]
    command += ["--config", str(tmp_path / "emulator.conf")]
    command += ["--ssl-certificate", str(certificate), "--ssl-key", str(certificate)]
    monkeypatch.setenv("IPMI_PASSWORD", PASSWORD)
    settings = BmcSettings(
        kind=BmcKind.REDFISH, address="127.0.0.1", port=port, user=USER, ca_file=certificate, login=Login.BASIC
    )
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _await(port, certificate)
        message = PowerCycle(
            PowerCycleSettings(node="node7", reset=Reset.FORCE_RESTART, back_within_s=60.0, undrained=True),
            lambda: RedfishClient(settings, clock=SystemClock()),
            folder=tmp_path,
            clock=SystemClock(),
            approver=lambda decision: "ops",
        )
        receipt = message.send(order())
        assert receipt.summary == "ForceRestart, approved by ops: PowerState On again"
        monkeypatch.setenv("IPMI_PASSWORD", "wrong")
        with pytest.raises(NotPermittedError):
            a_day_later(message, tmp_path).check(order("bb"))
    finally:
        process.terminate()
        process.wait(60)


def a_day_later(message: PowerCycle, folder: Path) -> PowerCycle:
    """Advance the clock by a day."""
    (folder / FILE_NAME).unlink()
    return message


def _await(port: int, certificate: Path) -> None:
    retries = urllib3.Retry(total=240, backoff_factor=0.1, backoff_max=0.25)
    with urllib3.PoolManager(ca_certs=str(certificate)) as pool:
        pool.request("GET", f"https://127.0.0.1:{port}/redfish/v1/", retries=retries)
