"""Fleet service killed at random points of its actions: no cap is left behind, the budget is kept.

Real TLS on loopback, real desks, actuators and journals of eight agents; the service is a process of its own.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from agent.actuation.actuator import KnobActuator
from agent.actuation.knob_log import KnobLog
from fleet.certificates.authority import Authority
from fleet.certificates.identity import authority_key
from fleet.certificates.tokens import act
from fleet.control.admission import Admission, AdmissionSettings
from fleet.control.node_limits import NodeState
from fleet.control.replay_protection import ReplayProtection
from fleet.control.server import ControlServer
from fleet.ledger_file import read_memory
from fleet.rehearsal.simulated_agents import CLOCKS_MHZ, SimulatedKnob
from rules.limits.node import NodeLimits
from rules.policy.model import ActionClass
from telemetry.clock import NS_PER_S, SystemClock
from telemetry.gpu import KnobKind
from telemetry.identity_names import Identity
from telemetry.records import Decision, Event, Mode, Verdict
from tests.integration import fleet_nursery
from tests.integration.fleet_nursery import BUDGET, FLEET, WINDOW_S
from tests.integration.running import PATIENCE_S
from tests.waiting import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
NODES = tuple(f"node{number}" for number in range(8))
FOUND_MHZ = CLOCKS_MHZ[-1]


@dataclass
class Agents:
    """Eight listening agents; `reported` holds the records of their admission, with the node.

    `let_ns` is when a node's desk last let a cap through. Budgets hold for that moment: how long a busy machine then
    takes to turn a knob is for the seconds that a real service allows for it.
    """

    folder: Path
    knobs: dict[str, SimulatedKnob] = field(default_factory=dict)
    actuators: dict[str, KnobActuator] = field(default_factory=dict)
    desks: dict[str, Admission] = field(default_factory=dict)
    reported: list[tuple[str, Decision, int]] = field(default_factory=list)
    let_ns: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def listen(self, stack: contextlib.ExitStack) -> dict[str, str]:
        clock, ca = SystemClock(), self.folder / "ca"
        authority = Authority.begin(ca, clock, name="test")
        authority.issue_fleet(FLEET, clock)
        authority.issue_token(FLEET, (act(ActionClass.CLOCK_CAP),), clock)
        found: dict[str, str] = {}
        for node in NODES:
            authority.issue_node(node, clock)
            admission = self.desks[node] = self.admission(node, clock)
            stack.callback(admission.seen.close)
            identity = Identity(
                authority=ca / "authority.pem", certificate=ca / f"node-{node}.pem", key=ca / f"node-{node}.key"
            )
            server = ControlServer(admission, identity, host="127.0.0.1", port=0)
            server.start()
            stack.callback(server.close)
            found[node] = f"127.0.0.1:{server.port}"
        return found

    def admission(self, node: str, clock: SystemClock) -> Admission:
        knob = self.knobs[node] = SimulatedKnob({f"GPU-{node}": FOUND_MHZ})
        journal = KnobLog(self.folder / node, run_id="run-1")
        actuator = self.actuators[node] = KnobActuator((knob,), journal, clock, sink=lambda _: None)
        settings = AdmissionSettings(
            node=node,
            fleets=frozenset({FLEET}),
            authority=authority_key(self.folder / "ca" / "authority.pem"),
            limits=NodeLimits(modes=dict.fromkeys(ActionClass, Mode.ENFORCE), actions_per_hour=3600),
        )
        state = NodeState(settings={KnobKind.CLOCK: {f"gpu:GPU-{node}": CLOCKS_MHZ}})
        seen = ReplayProtection(self.folder / node / "seen.jsonl", now_ns=clock.utc_ns())

        def report(record: Decision | Event) -> None:
            if isinstance(record, Event):
                # On a stalled machine a request comes too late, and is sent again; or after that of the next service,
                # when its sender is dead.
                assert "refused as stale" in record.message or "refused as fenced" in record.message, record
                return
            with self.lock:
                self.reported.append((node, record, self.let_ns.get(node, 0)))

        def look() -> NodeState:
            self.let_ns[node] = clock.utc_ns()
            return state

        return Admission(settings, actuator, seen, clock, look, report)

    @property
    def capped(self) -> set[str]:
        return {node for node, knob in self.knobs.items() if set(knob.settings.values()) != {FOUND_MHZ}}

    @property
    def unleased(self) -> set[str]:
        """Return the nodes that are capped without a claim whose lease is still valid."""
        now_ns, found = SystemClock().utc_ns(), set()
        for node, actuator in self.actuators.items():
            with self.desks[node]._lock:  # what was under way when the service died is carried out first
                if node in self.capped and not any((one.lease_until_ns or 0) > now_ns for one in actuator.in_force()):
                    found.add(node)
        return found

    def begun(self) -> list[tuple[int, str]]:
        """Return when a new action began on which node: caps that were carried out, without repeated requests.

        A node may hold the cap of an incident that is over beside that of the next, so each counts by itself.
        """
        with self.lock:
            reported = list(self.reported)
        holds, found = set[tuple[str, str]](), list[tuple[int, str]]()
        for node, one, let_ns in reported:
            claim = node, one.incident_id
            if one.verdict is Verdict.EXECUTE and one.action == "clock_cap" and claim not in holds:
                holds.add(claim)
                found.append((let_ns, node))
            elif one.action == "clock_release":
                holds.discard(claim)
        return found


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[tuple[Agents, subprocess.Popen[str]]]:
    agents = Agents(tmp_path)
    with contextlib.ExitStack() as stack:
        (tmp_path / "agents.json").write_text(json.dumps(agents.listen(stack)))
        (tmp_path / "incident").write_text("")
        process = subprocess.Popen(
            [sys.executable, fleet_nursery.__file__, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
            start_new_session=True,
        )
        try:
            yield agents, process
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # with a service that a test which fails has left, and its pipe
            process.communicate()


def begun_service(process: subprocess.Popen[str], life_s: float) -> int:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{life_s}\n")
    process.stdin.flush()
    return int(process.stdout.readline())


def kill(pid: int) -> None:
    """Kill a service and wait for its end: a system call in progress is finished first."""
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not psutil.pid_exists(pid), "the end of the service")


def busy_service(agents: Agents, process: subprocess.Popen[str]) -> tuple[int, float]:
    """Start a service with request lifetimes that fit this machine; return it and the lifetime once it has acted."""
    life_s = 0.5
    while True:
        pid = begun_service(process, life_s)
        try:
            wait_for(lambda: agents.capped, within_s=4 * life_s)
        except AssertionError:
            kill(pid)
            life_s *= 2
            assert life_s < PATIENCE_S, "no request of a service is carried out"
        else:
            return pid, life_s


def killed_at_random(agents: Agents, process: subprocess.Popen[str], *, kills: int, seed: int) -> None:
    chance, clock = random.Random(seed), SystemClock()  # noqa: S311 -- no secret, a seed
    capped, life_s = 0, 0.0
    for number in range(kills):
        # Another incident each time, so that the actions of the one before end while new ones begin.
        fresh = agents.folder / "incident.new"
        fresh.write_text(f"i-{number}")
        fresh.replace(agents.folder / "incident")
        # However slow this machine is, the kills find actions under way.
        if not capped:
            pid, life_s = busy_service(agents, process)
        else:
            pid = begun_service(process, life_s)
            if capped <= number // 10:
                wait_for(lambda: agents.capped, "a cap to be killed over", within_s=PATIENCE_S)
        clock.sleep_until(clock.monotonic_s() + chance.uniform(0.05, 0.6))
        kill(pid)
        memory = read_memory(agents.folder)
        known = set() if memory is None else {claim.node for claim in memory.claims.values()}
        assert agents.capped <= known  # what was done had been written down
        capped += bool(agents.capped)
        assert agents.unleased == set()
    assert capped > kills // 10  # the kills did find actions under way
    assert busiest(agents.begun(), WINDOW_S) <= BUDGET
    settled(agents, process)


def settled(agents: Agents, process: subprocess.Popen[str]) -> None:
    """End the incident and start one more service: every setting returns to the value that was found."""
    (agents.folder / "incident").write_text("")
    pid = begun_service(process, PATIENCE_S)

    def is_over() -> bool:
        memory = read_memory(agents.folder)
        return not agents.capped and memory is not None and not memory.claims

    wait_for(is_over, "the end of every claim", within_s=PATIENCE_S)
    kill(pid)
    assert all(not actuator.in_force() for actuator in agents.actuators.values())


def busiest(begun: list[tuple[int, str]], window_s: float) -> int:
    window_ns = round(window_s * NS_PER_S)
    return max(
        (sum(0 <= other - first < window_ns for other, _ in begun) for first, _ in begun),
        default=0,
    )


def test_a_service_that_is_killed_anywhere_leaves_nothing_behind_and_stays_within_its_budget(
    nursery: tuple[Agents, subprocess.Popen[str]],
) -> None:
    killed_at_random(*nursery, kills=8, seed=1)
    assert nursery[0].begun()


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_two_hundred_kills(nursery: tuple[Agents, subprocess.Popen[str]]) -> None:
    killed_at_random(*nursery, kills=200, seed=2)
    assert len(nursery[0].begun()) > 20
