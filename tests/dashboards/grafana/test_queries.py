"""Every query of every dashboard against a real InfluxDB that holds what railwatch writes."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3

from dashboards.grafana import build_dashboards
from telemetry.clock import NS_PER_S, SystemClock
from telemetry.entities import EntityKind
from telemetry.line_protocol import encode_records, encode_rollups
from telemetry.rollup import Rollup
from tests.dashboards.fakes import NODE, FakeSource, xid_event
from tests.dashboards.many_rails import ManyRails, Rails
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
        others = (Rails(nominal_v=48.0, count=1), Rails(nominal_v=54.0, count=2))
        of_others = ManyRails(clock=clock, started_ns=source.started_ns, rails=others).history(UP_S)
        supplies = [frame for frame in of_others if frame.spec.kind is EntityKind.SUPPLY]
        frames = [Rollup(frame.spec).feed(frame) for frame in (*source.history(UP_S), *supplies)]
        kinds = (records.incidents, records.decisions, records.actions, records.outcomes, records.events)
        for body in (encode_rollups(frames, tags=TAGS), *(encode_records(kind, tags=TAGS) for kind in kinds)):
            reply = urllib3.request("POST", f"{server.url}/write?db={DATABASE}&rp=rollup", body=body)
            assert reply.status == 204, reply.data
        yield server


def rail_of(query: str) -> str:
    """Return the value of the variable `rail` for which a query finds something."""
    only = re.search(r"\"nominal_v\" = '(\S+)'", query)
    return only[1] if only else "12"


def resolved(query: str) -> str:
    """Put in what Grafana would: the range, the step, and the variables' own values."""
    for name, value in (
        ("$timeFilter", "time >= now() - 5m and time <= now() + 1m"),
        ("$__interval", "5s"),
        ("$node", NODE.key),
        ("$simulated", "true"),
        ("$rail", rail_of(query)),
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
    assert set(values(server.query(resolved(query), db=DATABASE))) & {NODE.key, "true", "12"}


def test_the_figures_state_what_happened(server: Server) -> None:
    panels = {
        panel["title"]: panel for panel in DASHBOARDS["power-cooling-balance"]["panels"] if panel["type"] == "stat"
    }

    def figure(title: str, place: int = 0) -> float:
        (value,) = values(server.query(resolved(panels[title]["targets"][place]["query"]), db=DATABASE))[-1:]
        return float(value)

    assert 11.2 < figure("Lowest rail") < 11.4
    assert 45.6 < figure("Lowest rail", 1) < 48.0
    assert 51.3 < figure("Lowest rail", 2) < 54.0
    assert figure("Lowest SM clock") == 1057
    assert 300 < figure("GPU power") < 1300
    assert 10_000 < figure("GPU energy") < 4 * 300 * UP_S


def test_the_limit_of_a_class_is_drawn_only_among_rails_of_that_class(server: Server) -> None:
    (chart,) = [one for one in DASHBOARDS["power-cooling-balance"]["panels"] if one.get("repeat") == "rail"]
    for limit, nominal in ((11.4, "12"), (45.6, "48"), (51.3, "54")):
        found = [
            value
            for target in chart["targets"]
            if target["alias"] == "limit"
            for value in values(server.query(resolved(target["query"].replace("$rail", nominal)), db=DATABASE))
        ]
        assert found
        assert all(value == pytest.approx(limit) for value in found)


def test_another_node_finds_nothing(server: Server) -> None:
    query = DASHBOARDS["power-cooling-balance"]["panels"][0]["targets"][0]["query"]
    assert server.query(resolved(query.replace("$node", "another")), db=DATABASE) == []
