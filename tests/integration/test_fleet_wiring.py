"""Fleet loop over a real server whose nodes sent their wiring: it judges with it, and without one that cannot be."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from config.destination import server_store_of
from config.fleet import FleetStore
from config.store import Store
from config.topology import TopologySection
from fleet.reader import ServerFleetReader
from railwatch.wiring.wiring_report import WiringReport
from telemetry.clock import NS_PER_S, SystemClock, iso_utc
from telemetry.line_protocol import encode_text
from telemetry.rollup import Resolution
from telemetry.uplink.influx_v1 import InfluxV1, InfluxV1Settings
from telemetry.uplink.port import WriteStatus
from tests.fleet import described_node
from tests.fleet.stored import StoredNode, second_of
from tests.integration.running import PATIENCE_S
from tests.integration.test_fleet import run, server_write
from tests.servers import Server, influxd, victoria_metrics

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


class Sending:
    """Store that takes what describes a node as lines."""

    def __init__(self, node: StoredNode, time_ns: int) -> None:
        self._node, self._time_ns = node, time_ns
        self.lines = b""

    def describe(self, measurement: str, fields: Mapping[str, float | str]) -> None:
        self.lines += encode_text(measurement, fields, time_ns=self._time_ns, tags=self._node.tags)


@pytest.fixture(scope="module")
def start_ns() -> int:
    """Return a time so that the recording ended just now: a retention policy drops what is old."""
    return second_of(SystemClock().utc_ns()) // (5 * NS_PER_S) * 5 * NS_PER_S - (described_node.SECONDS + 30) * NS_PER_S


@pytest.fixture(scope="module")
def lines(start_ns: int, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return what two nodes with the same readings sent: node1 its wiring, node2 one that cannot be."""
    recording = described_node.record(tmp_path_factory.mktemp("node") / "run.parquet")
    nodes = [
        StoredNode(name=name, recording=recording, shift_ns=start_ns - described_node.START_NS)
        for name in ("node1", "node2")
    ]
    good, bad = Sending(nodes[0], start_ns), Sending(nodes[1], start_ns)
    WiringReport(TopologySection.model_validate(described_node.TOPOLOGY), good, SystemClock()).publish()
    bad.describe("wiring", {"schema": 1.0, "document": json.dumps(described_node.TOPOLOGY | {"supplies": []})})
    return b"".join(node.lines() for node in nodes) + good.lines + bad.lines


@pytest.fixture
def server(lines: bytes) -> Iterator[Server]:
    with influxd() as found:
        uplink = InfluxV1(InfluxV1Settings(url=found.url))
        assert uplink.prepare().status is WriteStatus.STORED
        assert uplink.write(Resolution.ROLLUP, lines).status is WriteStatus.STORED
        uplink.close()
        yield found


def test_a_node_is_judged_with_the_wiring_that_it_sent_and_another_without_a_bad_one(
    server: Server, start_ns: int, tmp_path: Path
) -> None:
    config = tmp_path / "fleet.yaml"
    store = {"kind": "influxdb1", "url": server.url}
    config.write_text(json.dumps({"data_dir": str(tmp_path / "data"), "store": store}))
    until_ns = start_ns + described_node.SECONDS * NS_PER_S
    process = run("--config", str(config), "--since", iso_utc(start_ns), "--until", iso_utc(until_ns), "--once")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    records: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    found = {(one["cause"], one["entity_id"]): one["summary"] for one in records if one["type"] == "finding"}
    own = {(cause, place) for cause, place in found if "node1" in place}
    assert {cause for cause, _ in own} == {str(cause) for cause, _ in described_node.CAUSES}
    assert "54 V bus within limits: converter or its load" in found["supply_sag", "supply:node1/ibc"]
    assert "path unknown" in found["supply_sag", "supply:node2/ibc"]
    assert {cause for cause, place in found if "node2" in place} == {"supply_sag"}
    refusals = [line for line in err.splitlines() if "refused" in line]
    assert len(refusals) == 1
    assert (
        "wiring of node 'node2' refused, judging the node without it: wiring: topology.buses[0].supplies" in refusals[0]
    )


def test_victoriametrics_keeps_no_text_and_so_no_wiring(lines: bytes, start_ns: int) -> None:
    with victoria_metrics() as server:
        server_write(server, lines)
        server.export('{__name__="supply_voltage_v_mean"}', samples=2 * 5 * (described_node.SECONDS - 40))
        store = Store.model_validate({"kind": "influxdb1", "url": server.url})
        reader = ServerFleetReader(server_store_of(store, FleetStore.VICTORIAMETRICS, timeout_s=10))
        window = reader.window(start_ns, start_ns + 5 * NS_PER_S, ahead_ns=0)
        assert window.nodes == {"node1", "node2"}
        assert (window.wirings, window.wirings_refused) == ({}, 0)
        reader.close()
