"""Complete path with real processes and a real InfluxDB: two nodes sag, the fleet sends requests, agents reply.

Both nodes are ``railwatch up`` on simulated hardware, and write what they read into one server. ``railwatch fleet``
reads it there, finds the feed that both hang on, and asks both agents for a cap over mutual TLS. node1 lets it; the
rails of node2 do not.
"""

import json
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import rules
from fleet.certificates.authority import Authority
from fleet.certificates.tokens import READ, act
from fleet.ledger_file import LedgerFile, read_memory
from railwatch.run_context import read_status
from rules.fleet.memory import ClaimState, FleetMemory
from rules.policy.model import ActionClass
from telemetry.clock import NS_PER_S, SystemClock
from tests.integration.running import COMMAND, PATIENCE_S, Fields, Node, environment, node_up, quick_sag
from tests.servers import Server, influxd

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
FLEET, LETS, FORBIDS = "fleet-a", "node1", "node2"
# The share that the built-in policy asks for of the 1530 MHz of a V100, in the steps that it has.
CAP_MHZ = 1005.0
SAG = """\
name: feed-sag
description: The mains of this node sag and stay low.
changes:
  - {at: 2s, what: supplies.input_ratio, to: 0.71, over: 500ms}
truth:
  - {cause: input_sag, entities: [supplies], onset: 2s}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Files of a test, and the store of all nodes."""

    folder: Path
    server: Server

    @property
    def ca(self) -> Path:
        return self.folder / "ca"

    def issue(self) -> None:
        authority, clock = Authority.begin(self.ca, SystemClock(), name="test"), SystemClock()
        for node in (LETS, FORBIDS):
            authority.issue_node(node, clock)
        authority.issue_fleet(FLEET, clock)
        authority.issue_token(FLEET, (READ, act(ActionClass.CLOCK_CAP)), clock)

    def identity(self, stem: str) -> dict[str, str]:
        return {
            "authority": str(self.ca / "authority.pem"),
            "certificate": str(self.ca / f"{stem}.pem"),
            "key": str(self.ca / f"{stem}.key"),
        }

    def write(self, name: str, settings: Fields) -> Path:
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps({"store": {"kind": "influxdb1", "url": self.server.url}} | settings))  # JSON is YAML
        return path

    @contextmanager
    def node(self, name: str, mode: str) -> Iterator[Node]:
        scenario = self.folder / "feed-sag.yaml"
        scenario.write_text(SAG)
        settings = {
            "node": {"name": name},
            "sampling": {"fast_hz": 20, "rare": "1s"},
            "recorder": {"use": "off"},
            # The guard decides nothing by itself here, so that what moves a clock is the fleet.
            "rules": {"builtin": False},
            "actions": {"clock_cap": mode},
            "control": self.identity(f"node-{name}")
            | {"use": "auto", "host": "127.0.0.1", "port": 0, "fleets": [FLEET]},
        }
        steadfast = quick_sag(self.folder)[:2]
        options = ("--config", str(self.write(name, settings)), *steadfast, "--scenario", str(scenario))
        with node_up(self.folder / name, *options) as node:
            yield node

    def policies(self) -> Path:
        """Return the built-in policy with an earlier check of its effect."""
        name = "feed-sag-clock-cap.yaml"
        text = (Path(rules.__file__).parent / "builtin_fleet" / name).read_text(encoding="utf-8")
        assert text.count("  settle: 60s\n") == 1
        folder = self.folder / "policies"
        folder.mkdir()
        (folder / name).write_text(text.replace("  settle: 60s\n", "  settle: 2s\n"), encoding="utf-8")
        return folder

    def fleet(self, agents: dict[str, str]) -> Path:
        data_dir = self.folder / "fleet"
        data_dir.mkdir()
        # It was here before: one that does not know what it did in the last ten minutes begins nothing.
        LedgerFile(data_dir, SystemClock()).save(FleetMemory.begin(SystemClock().utc_ns() - 3600 * NS_PER_S).to_json())
        act_settings = self.identity(f"fleet-{FLEET}") | {
            "use": "auto",
            "token": str(self.ca / f"fleet-{FLEET}.token"),
            "agents": agents,
            "nodes_max": 2,
            "dirs": [str(self.policies())],
        }
        fleet = {
            "name": FLEET,
            "every": "1s",
            "lateness": "3s",
            "feeds": {"pdu-a": [LETS, FORBIDS]},
            "racks": {"r1": [LETS], "r2": [FORBIDS]},
            "act": act_settings,
        }
        return self.write(
            "fleet",
            {
                "data_dir": str(data_dir),
                "sampling": {"rare": "1s"},
                "actions": {"clock_cap": "enforce"},
                "fleet": fleet,
            },
        )

    def output(self) -> str:
        return (self.folder / "fleet.log").read_text()

    def clocks_mhz(self, node: str, where: str) -> float:
        """Return the highest clock of a node in the store, 0 where there is none."""
        text = f"SELECT max(sm_clock_mhz_mean) FROM rollup.gpu WHERE node = '{node}' AND {where}"  # noqa: S608 -- names of this test
        found = self.server.query(text, db="railwatch")
        return float(found[0]["values"][0][1]) if found else 0.0

    def rows(self, measurement: str, *, policy: str = "rollup", where: str) -> list[Fields]:
        """Return rows of the store by time, tags among the fields."""
        text = f'SELECT * FROM {policy}."{measurement}" WHERE {where} GROUP BY *'  # noqa: S608 -- names of this test
        return sorted(
            (
                dict(zip(series["columns"], row, strict=True)) | series["tags"]
                for series in self.server.query(text, db="railwatch")
                for row in series["values"]
            ),
            key=lambda row: row["time"],
        )


@contextmanager
def fleet_up(config: Path) -> Iterator[subprocess.Popen[str]]:
    with (config.parent / "fleet.log").open("w") as log:
        process = subprocess.Popen(
            [COMMAND, "fleet", "--json", "--config", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            text=True,
            env=environment(),
            cwd=tempfile.gettempdir(),
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait(PATIENCE_S)


def agent_of(node: Node) -> str:
    assert node.url  # it is up
    port = node.until(lambda: read_status(node.context.control_status_path).get("port"), what="the control endpoint")
    node.until(lambda: read_status(node.context.clocks_path), what="the clocks that can be set")
    return f"127.0.0.1:{port}"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with influxd() as server:
        made = Place(folder=tmp_path, server=server)
        made.issue()
        yield made


def test_a_sag_in_the_store_becomes_a_cap_on_the_node_that_allows_it_and_a_record_of_both(place: Place) -> None:
    with ExitStack() as stack:
        lets, forbids = (stack.enter_context(place.node(*one)) for one in ((LETS, "enforce"), (FORBIDS, "observe")))
        config = place.fleet({LETS: agent_of(lets), FORBIDS: agent_of(forbids)})
        fleet = stack.enter_context(fleet_up(config))

        def reported(measurement: str, where: str, *fields: str, policy: str = "rollup") -> Fields:
            """Wait for a row with these fields; the server may show a row before all its fields are stored."""
            found: list[Fields] = lets.until(
                lambda: [
                    row
                    for row in place.rows(measurement, policy=policy, where=where)
                    if all(row.get(name) is not None for name in fields)
                ],
                what=f"{measurement} {where} {fields}\n{place.output()}",
            )
            return found[0]

        who = ("owner", "decision_id", "text")
        began = reported(
            "action", f"\"by\" = 'fleet' AND node = '{LETS}' AND state = 'applied'", "wanted", "read_back", *who
        )
        refused = reported("action", f"\"by\" = 'fleet' AND node = '{FORBIDS}' AND state = 'refused'", *who)
        decision = reported(
            "decision", "\"by\" = 'fleet' AND rule = 'feed-sag-clock-cap' AND verdict = 'execute'", "id"
        )
        outcome = reported("outcome", f"\"by\" = 'fleet' AND decision_id = '{decision['id']}'", "before", "measure")
        # Before (unset, so without a value), after, who and why; and what came of it.
        assert (began.get("found"), began["wanted"], began["read_back"]) == (None, CAP_MHZ, CAP_MHZ)
        assert (began["owner"], began["decision_id"]) == (f"fleet:{FLEET}", decision["id"])
        assert "pdu-a" in began["text"]
        assert (outcome["before"], outcome["measure"]) == (2.0, "nodes")
        assert (refused["text"], refused["decision_id"]) == (
            "begin: limits: actions.clock_cap is observe here",
            decision["id"],
        )
        # Each node reports the same by itself, and counts it.
        reported("action", f"\"by\" = '' AND node = '{LETS}' AND owner = 'fleet:{FLEET}' AND state = 'applied'")
        own = reported("decision", f"\"by\" = '' AND node = '{FORBIDS}' AND verdict = 'refuse'", "text")
        assert own["text"] == "limits: actions.clock_cap is observe here"
        reported("agent", f"node = '{LETS}' AND control_done >= 1 AND control_refused = 0", policy="raw")
        reported("agent", f"node = '{FORBIDS}' AND control_refused >= 1", policy="raw")
        reported("agent", f"node = '{FLEET}' AND fleet_asked >= 1 AND fleet_refused >= 1", policy="raw")
        # And the clocks move, on the one node alone.
        later = f"time > {began['time'] + 2 * NS_PER_S}"
        lets.until(lambda: min(place.clocks_mhz(node, later) for node in (LETS, FORBIDS)), what="clocks afterwards")
        assert place.clocks_mhz(LETS, later) <= CAP_MHZ < place.clocks_mhz(FORBIDS, later)
        fleet.send_signal(signal.SIGTERM)
        assert fleet.wait(PATIENCE_S) == 0, place.output()
        # A claim lives on by its lease; the next service finds it on disk.
        memory = read_memory(place.folder / "fleet")
        assert memory is not None
        assert [(claim.node, claim.state) for claim in memory.claims.values()] == [(LETS, ClaimState.HELD)]
        with ThreadPoolExecutor() as both:
            assert list(both.map(Node.end, (lets, forbids))) == [0, 0]
