"""Same run into real servers: each sample is read back once, with its value, unit and tags."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.kept import Kept, RingWatch
from tests.integration.running import Fields, Node, environment, node_up, quick_sag
from tests.servers import Server, influxd, victoria_metrics

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
BOX = "box-17"
MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Data that a run kept, and the server that it sent them to."""

    node: Node
    server: Server
    kept: Kept


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stored, Stored]]:
    """Run two nodes side by side, one into InfluxDB 1.x, one into VictoriaMetrics through the v2 write API."""
    with ExitStack() as stack:
        influx = stack.enter_context(influxd())
        victoria = stack.enter_context(victoria_metrics(basic_auth=("writer", "of-samples")))
        config = _config(tmp_path_factory.mktemp("influx"), "kind: influxdb1", influx)
        first = stack.enter_context(_node(config))
        config = _config(
            tmp_path_factory.mktemp("victoria"),
            "kind: influxdb2\n  basic_auth: true",
            victoria,
        )
        second = stack.enter_context(_node(config, RAILWATCH_STORE__TOKEN="writer:of-samples"))
        watches = []
        for node in (first, second):
            node.line(type="incident", state="mitigated")
            watches.append(RingWatch(node.context))
        for node in (first, second):
            assert node.end() == 0, node.story()
        yield (
            Stored(node=first, server=influx, kept=watches[0].kept()),
            Stored(node=second, server=victoria, kept=watches[1].kept()),
        )


def _config(folder: Path, kind: str, server: Server) -> Path:
    path = folder / "railwatch.yaml"
    path.write_text(f"node:\n  name: {BOX}\nstore:\n  {kind}\n  url: {server.url}\nsampling:\n  fast_hz: 20\n")
    return path


def _node(config: Path, **variables: str) -> Any:
    options = ("--config", str(config), *quick_sag(config.parent))
    return node_up(config.parent / "data", *options, env=environment(**variables))


@pytest.fixture
def influx(stored: tuple[Stored, Stored]) -> Stored:
    return stored[0]


@pytest.fixture
def victoria(stored: tuple[Stored, Stored]) -> Stored:
    return stored[1]


def counts_in_influx(server: Server) -> dict[tuple[str, str, str], int]:
    found = {}
    for kind in ("gpu", "supply", "node", "link", "fan", "agent"):
        for series in server.query(f"SELECT count(*) FROM raw.{kind} GROUP BY entity", db="railwatch"):  # noqa: S608 -- names of this test
            for column, count in zip(series["columns"][1:], series["values"][0][1:], strict=True):
                if count:
                    found[kind, series["tags"]["entity"], column.removeprefix("count_")] = count
    return found


def test_every_update_that_was_kept_is_in_influxdb_once(influx: Stored) -> None:
    wanted = influx.kept.counts
    assert sum(wanted.values()) > 2000  # four GPUs and two supplies over a dozen seconds
    found = counts_in_influx(influx.server)
    assert {point: found.get(point) for point in wanted} == wanted
    # Beyond the ring there are only the service's rows about itself.
    assert {point[0] for point in found.keys() - wanted.keys()} == {"agent"}


@pytest.mark.parametrize(
    ("kind", "signal"),
    [
        ("supply", "voltage_v"),
        ("supply", "current_a"),
        ("gpu", "power_w"),
        ("gpu", "sm_clock_mhz"),
        ("gpu", "energy_j"),
    ],
)
def test_samples_come_back_with_their_values_and_tags(influx: Stored, kind: str, signal: str) -> None:
    found = influx.server.query(f'SELECT "{signal}" FROM raw.{kind} GROUP BY *', db="railwatch")  # noqa: S608 -- names of this test
    wanted = {point[1]: values for point, values in influx.kept.updates.items() if point[::2] == (kind, signal)}
    assert {series["tags"]["entity"]: dict(series["values"]) for series in found} == wanted
    for series in found:
        assert series["tags"]["node"] == BOX
        assert series["tags"]["simulated"] == "true"
        assert series["tags"]["name"] in ("psu0", "psu1", "gpu0", "gpu1", "gpu2", "gpu3")
        if kind == "gpu":
            assert series["tags"]["pci"].startswith("0000:")


def test_rollups_are_kept_for_long_and_agree_with_the_samples(influx: Stored) -> None:
    policies = influx.server.query("SHOW RETENTION POLICIES ON railwatch")[0]
    rows = {row[0]: dict(zip(policies["columns"], row, strict=True)) for row in policies["values"]}
    assert rows["raw"]["duration"] == "168h0m0s"
    assert rows["rollup"]["duration"] == "8760h0m0s"
    raw = influx.server.query("SELECT min(voltage_v), max(voltage_v) FROM raw.supply GROUP BY entity", db="railwatch")
    rolled = influx.server.query(
        "SELECT min(voltage_v_min), max(voltage_v_max) FROM rollup.supply GROUP BY entity", db="railwatch"
    )
    assert [series["values"][0][1:] for series in rolled] == [series["values"][0][1:] for series in raw]


def records_in_influx(server: Server, measurement: str) -> list[Fields]:
    rows = []
    for series in server.query(f"SELECT * FROM rollup.{measurement} GROUP BY *", db="railwatch"):  # noqa: S608 -- names of this test
        rows += [dict(zip(series["columns"], row, strict=True)) | series["tags"] for row in series["values"]]
    return sorted(rows, key=lambda row: row["time"])


def test_the_incident_and_its_actions_come_back_from_influxdb(influx: Stored) -> None:
    node = influx.node
    incidents = records_in_influx(influx.server, "incident")
    # What is still open when the simulated node ends is closed with it, after the last line of the run.
    *reported_live, last = incidents
    assert [row["id"] for row in reported_live] == [line["id"] for line in node.of(type="incident")]
    assert [row["state"] for row in reported_live] == [line["state"] for line in node.of(type="incident")]
    assert (last["id"], last["state"]) == (reported_live[0]["id"], "closed")
    actions = records_in_influx(influx.server, "action")
    reported = node.of(type="action")
    assert len(actions) == len(reported)
    keys = ("entity_id", "wanted", "read_back", "state", "unit", "incident_id")
    found = [{**row, "entity_id": f"{row['entity_kind']}:{row['entity']}"} for row in actions]
    assert sorted((_only(row, keys) for row in found), key=str) == sorted(
        (_only(row, keys) for row in reported), key=str
    )
    for row in (*incidents, *actions):
        assert (row["node"], row["simulated"]) == (BOX, "true")
        assert row["title"]
        assert row["text"]
    assert {row["unit"] for row in actions} == {"MHz"}
    for measurement in ("finding", "decision"):
        assert len(records_in_influx(influx.server, measurement)) == len(node.of(type=measurement))


def _only(row: Fields, keys: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(row.get(key) for key in keys)


def test_every_update_that_was_kept_is_in_victoria_metrics_once(victoria: Stored) -> None:
    # It keeps milliseconds: two updates within one, by a read and by the driver's own samples, are two points still.
    wanted = {
        point: sorted((time_ns // MS, value) for time_ns, value in values.items())
        for point, values in victoria.kept.updates.items()
        if point[0] in ("gpu", "supply")
    }
    total = sum(len(values) for values in wanted.values())
    auth = "writer:of-samples"
    found: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    for _ in range(240):
        found = {}
        for series in victoria.server.export('{__name__=~"(gpu|supply)_.+",simulated="true"}', auth=auth):
            metric = series["metric"]
            kind, _, signal = metric["__name__"].partition("_")
            if metric.get("db") in (None, "railwatch"):
                points = zip(series["timestamps"], series["values"], strict=True)
                found[kind, metric["entity"], signal] = sorted(points)
                assert metric["node"] == BOX
        if sum(len(found.get(point, [])) for point in wanted) >= total:
            break
        threading.Event().wait(0.25)
    assert {point: found.get(point) for point in wanted} == wanted


def test_the_incident_and_its_actions_come_back_from_victoria_metrics(victoria: Stored) -> None:
    auth = "writer:of-samples"
    reported = [line for line in victoria.node.of(type="action") if line["wanted"] is not None]
    series = victoria.server.export('{__name__="action_wanted"}', auth=auth, samples=len(reported))
    found = sorted((item["metric"]["entity"], value) for item in series for value in item["values"])
    assert found == sorted((line["entity_id"].removeprefix("gpu:"), line["wanted"]) for line in reported)
    incidents = victoria.server.export('{__name__="incident_severity_rank"}', auth=auth)
    assert {item["metric"]["state"] for item in incidents} >= {"open", "mitigated"}
    assert {item["metric"]["cause"] for item in incidents} == {"supply_sag"}


def test_nothing_of_either_run_is_left(influx: Stored, victoria: Stored) -> None:
    assert influx.node.leftovers() == []
    assert victoria.node.leftovers() == []
