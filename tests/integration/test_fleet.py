"""Fleet loop over a real server: three nodes that stored as live nodes do, the loop killed and started again.

node1 and node3 are on one feed. Their joints age, and their own guards report it. On node2 a GPU falls off its bus
while its guard is dead: only the fleet can report that.
"""

import json
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from analytics.fleet.window import FleetWindow
from config.destination import server_store_of
from config.fleet import FleetStore
from config.guard_pipeline import pipeline_settings
from config.models import Config
from config.store import Store
from evaluation.judgement.runs import JudgedRun, order_of
from evaluation.replay import replayed
from fleet.reader import ServerFleetReader
from simulator.runs.node_run import record_run
from telemetry.clock import NS_PER_S, SystemClock, iso_utc
from telemetry.recording import Recording, read_recording
from telemetry.rollup import Resolution
from telemetry.store.records import RecordFile
from telemetry.uplink.influx_v1 import InfluxV1, InfluxV1Settings
from telemetry.uplink.port import WriteStatus
from tests.fleet.stored import StoredNode, second_of
from tests.integration.running import COMMAND, PATIENCE_S, environment
from tests.servers import Server, influxd, victoria_metrics

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
DURATION_S = 30
# The windows go on behind the end of the recordings, so that the nodes fall silent all at once.
WATCHED_S = DURATION_S + 10
Point = tuple[str, str, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Nodes in a server, from `start_ns` on."""

    server: Server
    start_ns: int
    nodes: tuple[StoredNode, ...]

    def config(self, folder: Path, **fleet: object) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        wanted = {"every": "2s", "keep_every": "2s", "feeds": {"pdu-a": ["node1", "node3"], "pdu-b": ["node2"]}}
        path = folder / "fleet.yaml"
        settings = {
            "data_dir": str(folder / "data"),
            "store": {"kind": "influxdb1", "url": self.server.url},
            "fleet": wanted | fleet,
        }
        path.write_text(json.dumps(settings))  # JSON is YAML
        return path

    @property
    def span(self) -> tuple[str, ...]:
        until_ns = self.start_ns + WATCHED_S * NS_PER_S
        return ("--since", iso_utc(self.start_ns), "--until", iso_utc(until_ns))


def recorded(scenario: str, folder: Path) -> Recording:
    out = folder / f"{scenario}.parquet"
    record_run(order_of(JudgedRun(scenario=scenario, node="v100x4", seed=3, duration_s=DURATION_S)), out)
    return read_recording(out)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    folder = tmp_path_factory.mktemp("nodes")
    sag, drop = recorded("psu-sag", folder), recorded("bus-drop", folder)
    assert sag.span_ns is not None
    # A retention policy drops what is old, so the nodes were recorded just now.
    start_ns = second_of(SystemClock().utc_ns()) // (2 * NS_PER_S) * 2 * NS_PER_S - (WATCHED_S + 20) * NS_PER_S
    shift_ns = start_ns - second_of(sag.span_ns[0])
    reported = tuple(replayed(sag, pipeline_settings(Config(), simulated=True)))
    nodes = (
        StoredNode(name="node1", recording=sag, shift_ns=shift_ns, published=reported),
        StoredNode(name="node2", recording=drop, shift_ns=shift_ns),
        StoredNode(name="node3", recording=sag, shift_ns=shift_ns + NS_PER_S // 4, published=reported),
    )
    with influxd() as server:
        uplink = InfluxV1(InfluxV1Settings(url=server.url))
        assert uplink.prepare().status is WriteStatus.STORED
        for node in nodes:
            assert uplink.write(Resolution.ROLLUP, node.lines()).status is WriteStatus.STORED
        uplink.close()
        yield Stored(server=server, start_ns=start_ns, nodes=nodes)


def run(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [COMMAND, "fleet", "--json", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=tempfile.gettempdir(),
    )


def straight(stored: Stored, folder: Path) -> list[Mapping[str, object]]:
    """Return the output of one uninterrupted run."""
    process = run("--config", str(stored.config(folder)), *stored.span, "--once")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    return [json.loads(line) for line in out.splitlines()]


def in_store(server: Server) -> Counter[tuple[str, str, int]]:
    """Return how often each record of the fleet is in the store: measurement, id and time."""
    found: Counter[tuple[str, str, int]] = Counter()
    for measurement in ("finding", "incident"):
        for series in server.query(
            f"SELECT id FROM rollup.{measurement} WHERE \"by\" = 'fleet' GROUP BY *",  # noqa: S608 -- names of this test
            db="railwatch",
        ):
            found.update((measurement, row[1], row[0]) for row in series["values"])
    return found


def keys(records: list[Mapping[str, object]]) -> list[tuple[object, object, object]]:
    return [(one["type"], one["id"], one["time_ns"]) for one in records]


def test_the_fleet_reports_what_only_it_can_report_and_goes_on_where_it_was_killed(
    stored: Stored, tmp_path: Path
) -> None:
    wanted = straight(stored, tmp_path / "straight")
    reported = {(one["cause"], one["entity_id"]) for one in wanted if one["type"] == "incident"}
    lost = next(entity for entity in stored.nodes[1].recording.topology.entities if entity.name == "gpu3")
    assert ("gpu_lost", f"gpu:{lost.key}-node2") in reported  # its own guard is dead
    assert ("input_sag", "supply:feed/pdu-a") in reported  # two guards see a sag each, only the fleet sees both
    own = {one["cause"] for one in wanted if one["type"] == "incident" and "node1" in str(one["entity_id"])}
    assert not own & {"supply_sag", "joint_ageing", "gpu_lost"}  # the fleet does not repeat what a guard reported

    # A window or two a look, so that there is a middle to be killed in.
    slow = stored.config(tmp_path / "killed", every="2s", deadline="200ms", keep_every="1s")
    lines: list[Mapping[str, object]] = []
    first = run("--config", str(slow), *stored.span)
    assert first.stdout is not None
    for line in first.stdout:
        lines.append(json.loads(line))
        if len(lines) >= len(wanted) // 3:
            break
    first.send_signal(signal.SIGKILL)
    # What was read ahead is with the same reader; the last line may be torn.
    lines += [json.loads(line) for line in first.stdout if line.endswith("}\n")]
    first.communicate(timeout=PATIENCE_S)
    assert len(lines) < len(wanted)
    second = run("--config", str(stored.config(tmp_path / "killed")), *stored.span)
    _, err = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 0, err
    records = RecordFile(tmp_path / "killed" / "data" / "records", read_only=True)
    _, kept = records.after(0)
    records.close()
    assert [(type(one).__name__.lower(), one.id, one.time_ns) for one in kept] == keys(wanted)
    # In the store are the records of both runs, the straight one and the one that was killed: the same points, once.
    in_both = in_store(stored.server)
    assert sorted((kind, one) for kind, one, _ in in_both) == sorted((kind, one) for kind, one, _ in keys(wanted))
    assert set(in_both.values()) == {1}


def test_victoriametrics_returns_the_same_windows(stored: Stored) -> None:
    span = stored.start_ns, stored.start_ns + 20 * NS_PER_S
    store = Store.model_validate({"kind": "influxdb1", "url": stored.server.url})
    influx = ServerFleetReader(server_store_of(store, FleetStore.INFLUXQL, timeout_s=10))
    with victoria_metrics() as server:
        for node in stored.nodes:
            server_write(server, node.lines())
        store = Store.model_validate({"kind": "influxdb1", "url": server.url})
        other = ServerFleetReader(server_store_of(store, FleetStore.VICTORIAMETRICS, timeout_s=10))
        server.export('{__name__="gpu_power_w_mean"}', samples=3 * 4 * DURATION_S - 40)
        assert described(other.window(*span, ahead_ns=NS_PER_S)) == described(influx.window(*span, ahead_ns=NS_PER_S))
        assert other.values_by_node(*span) == influx.values_by_node(*span) != {}
        other.close()
    influx.close()


def server_write(server: Server, body: bytes) -> None:
    server_url = InfluxV1(InfluxV1Settings(url=server.url))
    assert server_url.write(Resolution.ROLLUP, body).status is WriteStatus.STORED
    server_url.close()


def described(window: FleetWindow) -> dict[str, object]:
    """Return the content of both stores: values by entity, and records with their senders."""
    return {
        **{
            f"{kind}": {entity.id: repr(table.values[:, place].tolist()) for place, entity in enumerate(table.entities)}
            for kind, table in window.tables.items()
        },
        "findings": [(one.entity_id, one.cause, one.status) for one in window.findings],
        "incidents": [(one.node, one.entity_id, one.cause, one.state) for one in window.incidents],
        "simulated": window.simulated,
    }
