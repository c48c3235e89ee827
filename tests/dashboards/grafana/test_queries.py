"""Every query of every dashboard against a real InfluxDB that holds what railwatch writes."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3

from dashboards.grafana import build_dashboards
from telemetry.clock import NS_PER_S, SystemClock
from telemetry.line_protocol import encode_records, encode_rollups
from telemetry.rollup import Rollup
from tests.dashboards.fakes import NODE, FakeSource, xid_event
from tests.servers import Server, influxd

pytestmark = pytest.mark.integration

DATABASE = "railwatch"
TAGS = {"node": NODE.key, "simulated": "true"}
UP_S = 120
DASHBOARDS = build_dashboards()
TARGETS = [
    pytest.param(target["query"], id=f"{panel['title']} {target['refId']}")
    for built in DASHBOARDS.values()
    for panel in built["panels"]
    for target in panel["targets"]
]
ANNOTATIONS = [
    pytest.param(item["target"], id=item["name"])
    for built in DASHBOARDS.values()
    for item in built["annotations"]["list"]
]
VARIABLES = [
    pytest.param(item["query"], id=item["name"])
    for built in DASHBOARDS.values()
    for item in built["templating"]["list"]
    if item["type"] == "query"
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with influxd() as server:
        server.query(f'CREATE DATABASE "{DATABASE}"')
        server.query(f'CREATE RETENTION POLICY "rollup" ON "{DATABASE}" DURATION INF REPLICATION 1 DEFAULT')
        clock = SystemClock()
        source = FakeSource(clock=clock, started_ns=clock.utc_ns() - UP_S * NS_PER_S)
        source.extra_events.append(xid_event(clock.utc_ns() - 10 * NS_PER_S))
        records = source.records()
        frames = [Rollup(frame.spec).feed(frame) for frame in source.history(UP_S)]
        kinds = (records.incidents, records.decisions, records.actions, records.outcomes, records.events)
        for body in (encode_rollups(frames, tags=TAGS), *(encode_records(kind, tags=TAGS) for kind in kinds)):
            reply = urllib3.request("POST", f"{server.url}/write?db={DATABASE}&rp=rollup", body=body)
            assert reply.status == 204, reply.data
        yield server


def resolved(query: str) -> str:
    """Put in what Grafana would: the range, the step, and the variables' own values."""
    for name, value in (
        ("$timeFilter", "time >= now() - 5m and time <= now() + 1m"),
        ("$__interval", "5s"),
        ("$node", NODE.key),
        ("$simulated", "true"),
    ):
        query = query.replace(name, value)
    assert not re.search(r"\$[A-Za-z_{]", query), query
    return query


def values(series: list[dict[str, Any]]) -> list[Any]:
    return [value for one in series for row in one["values"] for value in row[1:] if value is not None]


@pytest.mark.parametrize("query", TARGETS)
def test_every_panel_finds_values(server: Server, query: str) -> None:
    assert values(server.query(resolved(query), db=DATABASE))


@pytest.mark.parametrize("target", ANNOTATIONS)
def test_every_annotation_finds_title_and_text(server: Server, target: dict[str, str]) -> None:
    (series,) = server.query(resolved(target["query"]), db=DATABASE)
    assert series["columns"] == ["time", target["titleColumn"], target["textColumn"], target["tagsColumn"]]
    assert all(series["values"][0])


@pytest.mark.parametrize("query", VARIABLES)
def test_every_variable_finds_its_choices(server: Server, query: str) -> None:
    assert set(values(server.query(resolved(query), db=DATABASE))) & {NODE.key, "true"}


def test_the_figures_state_what_happened(server: Server) -> None:
    panels = {
        panel["title"]: panel for panel in DASHBOARDS["power-cooling-balance"]["panels"] if panel["type"] == "stat"
    }

    def figure(title: str) -> float:
        (value,) = values(server.query(resolved(panels[title]["targets"][0]["query"]), db=DATABASE))[-1:]
        return float(value)

    assert 11.2 < figure("Lowest 12 V") < 11.4
    assert figure("Lowest SM clock") == 1057
    assert 300 < figure("GPU power") < 1300
    assert 10_000 < figure("GPU energy") < 4 * 300 * UP_S


def test_another_node_finds_nothing(server: Server) -> None:
    query = DASHBOARDS["power-cooling-balance"]["panels"][0]["targets"][0]["query"]
    assert server.query(resolved(query.replace("$node", "another")), db=DATABASE) == []
