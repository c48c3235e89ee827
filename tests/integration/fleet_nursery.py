"""Fleet service that tests kill: started once, it forks a fresh one for each line on standard input.

The line holds how long what it requests may take until it begins.

The service asks agents over TLS, by the real engine, ledger and signatures. Its incident is read from a file.
"""

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

from fleet.acting import FleetActing, FleetActuators
from fleet.agent_client import AgentClient, TlsTransport
from fleet.certificates.identity import client_context, private_key
from fleet.ledger_file import CommandReader, LedgerFile
from fleet.outbox import Outbox
from fleet.rehearsal.pdu_sag import DiscardingStore
from rules.fleet.engine import FleetEngine
from rules.fleet.loading import load_fleet_policies
from rules.fleet.orders import FleetIncident, FleetView
from rules.fleet.policy import FleetPolicy
from rules.limits.fleet import FleetLimits
from rules.policy.model import ActionClass
from telemetry.clock import SystemClock
from telemetry.identity_names import Identity
from telemetry.records import Cause, Incident, Mode
from tests import record_samples

FLEET = "fleet-a"
# Short enough for actions to begin and end all the time, so that kills find all their points.
WINDOW_S, BUDGET = 1.0, 3
STEP_S = 0.01


def limits(life_s: float) -> FleetLimits:
    modes = dict.fromkeys(ActionClass, Mode.ENFORCE)
    return FleetLimits(me=FLEET, modes=modes, nodes_max=BUDGET, window_s=WINDOW_S, life_s=life_s, breaker_ratio=1.0)


def policies() -> tuple[FleetPolicy, ...]:
    (cap,) = [one for one in load_fleet_policies() if one.then.action is ActionClass.CLOCK_CAP]
    # The lease is longer than the test may take: on a machine that stands still nothing runs out.
    then = replace(cap.then, cooldown_s=0.0, release_after_s=0.05, release_every_s=0.01, lease_s=600.0)
    return (replace(cap, then=then),)


def incident(name: str, opened_ns: int) -> Incident:
    return replace(
        record_samples.INCIDENT,
        id=name,
        time_ns=opened_ns,
        opened_ns=opened_ns,
        cause=Cause.INPUT_SAG,
        entity_id="supply:feed/pdu-a",
        affected=("supply:feed/pdu-a",),
        summary="all nodes on pdu-a sag",
    )


def serve(folder: Path, life_s: float) -> None:
    """Act until killed."""
    clock = SystemClock()
    agents: dict[str, str] = json.loads((folder / "agents.json").read_text())
    ca = folder / "ca"
    identity = Identity(
        authority=ca / "authority.pem", certificate=ca / f"fleet-{FLEET}.pem", key=ca / f"fleet-{FLEET}.key"
    )
    token = (ca / f"fleet-{FLEET}.token").read_text().strip()
    ledger = LedgerFile(folder, clock)
    memory = ledger.load()
    client = AgentClient(
        fleet=FLEET,
        key=private_key(identity.key),
        token=token,
        wire=TlsTransport(client_context(identity), agents, port=1, token=token),
        clock=clock,
        term=ledger.begin_term(),
        instance=token_hex(8),
        life_s=life_s / 2,
    )
    outbox = Outbox(folder, DiscardingStore(), clock, name=FLEET, spool_max_bytes=1 << 20)
    acting = FleetActing(
        FleetEngine(policies(), limits(life_s), memory),
        FleetActuators(client=client),
        ledger,
        outbox,
        clock,
        commands=CommandReader(folder, memory.person),
    )
    nodes = tuple(sorted(agents))
    view = FleetView(racks={node: f"r{place // 2}" for place, node in enumerate(nodes)}, reporting=frozenset(nodes))
    while True:
        name = (folder / "incident").read_text()
        cases = [FleetIncident(incident=incident(name, 1), nodes=nodes)] if name else []
        acting.step(cases, view)
        clock.sleep_until(clock.monotonic_s() + STEP_S)


def main() -> None:
    """Fork a service for each line and print its process id."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            serve(Path(sys.argv[1]), float(line))
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
