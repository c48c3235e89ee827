"""Tests of the wirings that the fleet reads from the store: the newest of each node, one refusal for a bad one."""

import json
import logging
from collections.abc import Iterator, Sequence

import pytest

from config.topology_document import SCHEMA, wiring_of_document
from fleet.reader import ServerFleetReader
from fleet.wirings import ReadWirings, WiringReader
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.node_wiring import REPORT_EVERY_S
from telemetry.rollup import Resolution
from telemetry.store.servers import StoredRecord, TaggedColumns
from tests.fleet import described_node

START_NS = 1_790_000_000 * NS_PER_S
DOCUMENT = json.dumps(described_node.TOPOLOGY)


def sent(node: str, at_s: float, document: object = DOCUMENT, schema: object = float(SCHEMA)) -> StoredRecord:
    return {"node": node}, START_NS + round(at_s * NS_PER_S), {"schema": schema, "document": document}


class Store:
    """Store that has these wirings and nothing else."""

    def __init__(self, *wirings: StoredRecord) -> None:
        self.wirings = list(wirings)

    def columns(
        self,
        resolution: Resolution,
        kind: EntityKind,
        columns: Sequence[str],
        start_ns: int,
        stop_ns: int,
        *,
        node: str | None = None,
        step_ns: int = NS_PER_S,
    ) -> Iterator[TaggedColumns]:
        del resolution, kind, columns, start_ns, stop_ns, node, step_ns
        return iter(())

    def records(self, measurement: str, start_ns: int, stop_ns: int) -> Iterator[StoredRecord]:
        if measurement == "wiring":
            yield from (one for one in sorted(self.wirings, key=lambda one: one[1]) if start_ns <= one[1] < stop_ns)

    def counts(self, kind: EntityKind, columns: Sequence[str], start_ns: int, stop_ns: int) -> dict[str, int]:
        del kind, columns, start_ns, stop_ns
        return {}

    def close(self) -> None:
        pass


def read(reader: WiringReader, first_s: float, last_s: float) -> ReadWirings:
    return reader.read(START_NS + round(first_s * NS_PER_S), START_NS + round(last_s * NS_PER_S))


def test_the_first_window_has_the_last_wiring_that_each_node_sent() -> None:
    store = Store(sent("node1", -REPORT_EVERY_S), sent("node2", 3.0, ""), sent("node3", -2 * REPORT_EVERY_S))
    reader = WiringReader(store)
    assert read(reader, 0, 5).found == {"node1": described_node.wiring(), "node2": None}
    assert read(reader, 5, 10).found == {}, "later windows hold what was sent in them"


def test_the_newest_of_several_wirings_counts() -> None:
    store = Store(sent("node1", 1.0), sent("node1", 2.0, ""), sent("node2", 1.0, ""), sent("node2", 2.0))
    assert read(WiringReader(store), 0, 5).found == {"node1": None, "node2": described_node.wiring()}


BAD = {
    "no JSON": "{",
    "wrong types": '{"buses": {"a": 1}}',
    "contradictory": json.dumps(described_node.TOPOLOGY | {"supplies": [{"name": "psu0"}]}),
    "endless": json.dumps({"supplies": [{"name": f"psu{n}"} for n in range(20_000)]}),
    "no text": 12.0,
}


@pytest.mark.parametrize("document", BAD.values(), ids=BAD.keys())
def test_a_bad_wiring_is_one_counted_and_logged_refusal(document: object, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(sent("node1", 1.0, document), sent("node2", 1.0))
    reader = WiringReader(store)
    with caplog.at_level(logging.WARNING):
        first = read(reader, 0, 5)
        store.wirings.append(sent("node1", 601.0, document))
        again = read(reader, 600, 605)
    assert first.found == {"node1": None, "node2": described_node.wiring()}, "the other node is not concerned"
    assert (first.refused, again.refused, again.found) == (1, 0, {"node1": None})
    (line,) = caplog.messages
    assert line.startswith("wiring of node 'node1' refused, judging the node without it: wiring: ")
    assert line.isprintable()


def test_a_wiring_of_a_later_version_is_refused_and_the_next_good_one_taken() -> None:
    store = Store(sent("node1", 1.0, schema=2.0), sent("node1", 6.0))
    reader = WiringReader(store)
    assert read(reader, 0, 5) == ReadWirings(found={"node1": None}, refused=1)
    assert read(reader, 5, 10) == ReadWirings(found={"node1": described_node.wiring()})


def test_refusals_of_ever_new_nodes_do_not_grow_without_end() -> None:
    store = Store(*(sent(f"node{n}", n / 10_000, "{") for n in range(5000)))
    reader = WiringReader(store)
    assert read(reader, 0, 5).refused == 5000
    assert len(reader._refused) <= 1024


def test_the_windows_of_the_fleet_have_the_wirings() -> None:
    reader = ServerFleetReader(Store(sent("node1", 1.0), sent("node2", 1.0, "{")))
    window = reader.window(START_NS, START_NS + 5 * NS_PER_S, ahead_ns=0)
    assert window.wirings == {"node1": wiring_of_document(DOCUMENT, schema=SCHEMA), "node2": None}
    assert window.wirings_refused == 1
