import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboards.grafana import build_dashboards, generated_files
from dashboards.grafana.influxql import column
from physics.rail_classes import RAIL_CLASSES
from telemetry.entities import EntityKind

ROOT = Path(__file__).resolve().parents[3]
DASHBOARDS = build_dashboards()
PANELS = [(name, panel) for name, built in DASHBOARDS.items() for panel in built["panels"]]


def everything(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from everything(item)
    elif isinstance(value, list):
        for item in value:
            yield from everything(item)


def test_the_committed_json_is_in_step_with_the_code() -> None:
    for path, text in generated_files().items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, f"{path}: run make generate"
        assert not path.is_absolute()


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panel_ids_are_unique_and_nothing_overlaps(name: str) -> None:
    panels = DASHBOARDS[name]["panels"]
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    cells: Counter[tuple[int, int]] = Counter()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells.update(
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        )
    assert set(cells.values()) == {1}


@pytest.mark.parametrize(("name", "panel"), PANELS, ids=[panel["title"] for _, panel in PANELS])
def test_every_panel_has_title_description_unit_and_queries_of_their_own_name(name: str, panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["fieldConfig"]["defaults"]["noValue"] == "unknown"
    refs = [target["refId"] for target in panel["targets"]]
    assert refs
    assert len(refs) == len(set(refs))


@pytest.mark.parametrize("name", DASHBOARDS)
def test_the_data_source_is_always_the_variable(name: str) -> None:
    sources = [item["datasource"] for item in everything(DASHBOARDS[name]) if "datasource" in item]
    assert len(sources) > 40
    assert {json.dumps(source, sort_keys=True) for source in sources} == {
        '{"type": "influxdb", "uid": "${datasource}"}'
    }


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_query_is_held_to_the_node_the_range_and_one_kind_of_truth(name: str) -> None:
    queries = [item["query"] for item in everything(DASHBOARDS[name]) if item.get("rawQuery")]
    assert len(queries) > 20
    for query in queries:
        assert "$timeFilter" in query
        assert '"node" =~ /^$node$/' in query
        assert '"simulated" =~ /^$simulated$/' in query


FEEDING = {one.nominal_v: one for one in RAIL_CLASSES if one.feeds_gpus}


def test_the_lowest_rail_of_each_class_is_judged_by_the_limit_of_its_class() -> None:
    (lowest,) = [panel for _, panel in PANELS if panel["title"] == "Lowest rail"]
    limits = {
        override["matcher"]["options"]: override["properties"][0]["value"]["steps"][1]["value"]
        for override in lowest["fieldConfig"]["overrides"]
    }
    assert limits == {"12 V": 11.4, "48 V": 45.6, "54 V": 51.3}
    assert [target["alias"] for target in lowest["targets"]] == list(limits)
    assert lowest["targets"][2]["query"].endswith("\"nominal_v\" = '54'")


def test_the_chart_of_the_rails_is_repeated_by_nominal_voltage_with_the_limit_of_each() -> None:
    (chart,) = [panel for _, panel in PANELS if panel["title"] == "$rail V rails, lowest"]
    assert chart["repeat"] == "rail"
    rails, *limits = chart["targets"]
    assert rails["alias"] == "$tag_name"
    assert {target["alias"] for target in limits} == {"limit"}
    drawn = [re.search(r"\* 0 \+ (\S+) .* = '(\S+)'", target["query"]) for target in limits]
    assert {float(one[2]): float(one[1]) for one in drawn if one} == {
        nominal_v: pytest.approx(one.lowest_v) for nominal_v, one in FEEDING.items()
    }
    (override,) = chart["fieldConfig"]["overrides"]
    assert override["matcher"]["options"] == "limit"
    assert {item["id"] for item in override["properties"]} == {"color", "custom.lineStyle"}


def test_a_field_that_no_rollup_has_is_refused_when_the_dashboard_is_built() -> None:
    with pytest.raises(ValueError, match="last"):
        column(EntityKind.GPU, "energy_j", "mean")
