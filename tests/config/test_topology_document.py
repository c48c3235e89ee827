"""Tests of the document by which a node sends its wiring to the fleet."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.topology import TopologySection
from config.topology_document import MAX_BYTES, SCHEMA, document_of, wiring_of_document
from physics.wiring import Wiring
from railwatch.wiring.simulated_wiring import described_topology
from simulator.files.node import load_node
from telemetry.errors import ConfigError

WHOLE: dict[str, Any] = {
    "gpu_count": 4,
    "feeds": [{"name": "A", "nominal_v": 230, "breaker_a": 16, "curve": "C"}],
    "shelves": [{"name": "shelf0", "feed": "A", "rated_w": 6600}],
    "supplies": [
        {"name": "psu0", "rated_w": 3300, "shelf": "shelf0", "inlet": "C19", "plugs": [{"plug": "XT60", "count": 2}]},
        {"name": "psu1", "rated_w": 3300, "shelf": "shelf0", "sensors": ["pmbus-psu1", "Netzteil 1 (ü)"]},
        {"name": "ibc0", "from_bus": "main", "nominal_v": 12},
    ],
    "buses": [
        {
            "name": "main",
            "nominal_v": 54,
            "supplies": ["psu0", "psu1"],
            "redundancy": "N+1",
            "branches": [{"gpus": [0, "gpu1", "0000:43:00.0"], "plugs_each": [{"plug": "other", "rating_a": 9}]}],
        },
        {"name": "aux", "supplies": ["ibc0"], "branches": [{"gpus": [3], "board": "host", "fans": True}]},
    ],
}


def refused(text: str, *, schema: float = SCHEMA) -> str:
    with pytest.raises(ConfigError) as raised:
        wiring_of_document(text, schema=schema)
    return str(raised.value)


def test_the_fleet_reads_the_wiring_that_the_node_describes() -> None:
    section = TopologySection.model_validate(WHOLE)
    assert wiring_of_document(document_of(section), schema=SCHEMA) == section.wiring()


@pytest.mark.parametrize("name", sorted(path.stem for path in Path("simulator/nodes").glob("*.yaml")))
def test_the_fleet_reads_the_wiring_of_every_simulated_node(name: str) -> None:
    section = described_topology(load_node(name))
    assert wiring_of_document(document_of(section), schema=SCHEMA) == section.wiring()


def test_a_node_that_describes_no_wiring_sends_an_empty_document() -> None:
    assert document_of(TopologySection()) == ""
    assert wiring_of_document("", schema=SCHEMA) is None


def test_a_document_of_another_schema_is_refused() -> None:
    assert refused("{}", schema=SCHEMA + 1) == "wiring: schema 2; expected schema 1"
    assert refused("", schema=float("nan")) == "wiring: schema nan; expected schema 1"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"buses": 3}, "wiring: topology.buses: got 3; expected a list"),
        ({"supplies": [{"name": "psu0"}] * 300}, "got 300 items; expected at most 256 items"),
        ({"supplies": [*WHOLE["supplies"], {"name": "psu0"}]}, "duplicate name 'psu0'"),
        ({"supplies": WHOLE["supplies"][:2]}, "unknown name 'ibc0'; expected a supply of topology"),
        ({"gpu_count": 1e9}, "expected at most 1024"),
        ({"vendor": "x"}, "topology.vendor: unknown key"),
    ],
)
def test_a_wiring_that_cannot_be_is_refused_with_its_key(change: dict[str, object], reason: str) -> None:
    assert reason in refused(json.dumps(WHOLE | change))


@pytest.mark.parametrize("gpu", ["gpu999999999", "999999999", 999_999_999, "9" * 5000])
def test_an_index_that_no_node_has_is_refused_and_those_below_it_are_not_counted(gpu: object) -> None:
    bus = {"name": "main", "supplies": ["psu0"], "branches": [{"gpus": [gpu]}]}
    reason = refused(json.dumps({"supplies": [{"name": "psu0"}], "buses": [bus]}))
    assert "topology.buses[0].branches[0].gpus[0]" in reason
    assert "expected an index" in reason


def test_a_document_without_a_bus_is_refused() -> None:
    assert refused("{}") == "wiring: topology.buses: no buses; expected at least one bus"


def test_a_document_longer_than_a_store_keeps_is_neither_sent_nor_read() -> None:
    sensors = [f"sensor {n} of a very long row of sensors" for n in range(2000)]
    long = WHOLE | {"supplies": [{"name": "psu0", "sensors": sensors}, *WHOLE["supplies"][1:]]}
    section = TopologySection.model_validate(long)
    with pytest.raises(ConfigError, match=f"bytes of JSON; expected at most {MAX_BYTES}"):
        document_of(section)
    assert "bytes of JSON" in refused(json.dumps(long))


@pytest.mark.parametrize(
    "text", ["{", "null", "[" * 40_000, "9" * 5000, '"\\ud800"', '{"feeds": [NaN]}', "\x00\x1b[31m"]
)
def test_text_that_is_no_document_is_refused_in_one_printable_line(text: str) -> None:
    reason = refused(text)
    assert reason.isprintable()
    assert len(reason) < 1000


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8) | st.sampled_from(["psu0", "main"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([*WHOLE, "name", "gpus"]), inner),
    max_leaves=12,
)


@given(st.sampled_from(sorted(WHOLE)), _JSON)
def test_whatever_a_key_holds_the_document_is_a_wiring_or_refused_in_one_line(key: str, value: object) -> None:
    try:
        found: object = wiring_of_document(json.dumps(WHOLE | {key: value}), schema=SCHEMA)
    except ConfigError as err:
        found = str(err).splitlines()
    assert isinstance(found, Wiring) or (isinstance(found, list) and len(found) == 1)
