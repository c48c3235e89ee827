"""Tests of the wiring that a node sends for the fleet."""

import logging
from collections.abc import Mapping

import pytest

from config.topology import TopologySection
from config.topology_document import wiring_of_document
from railwatch.wiring.wiring_report import WiringReport
from telemetry.line_protocol import encode_text
from telemetry.node_wiring import REPORT_EVERY_S
from tests.agent.fakes import FakeClock
from tests.fleet import described_node
from tests.telemetry.line_protocol_reader import read_lines

DESCRIBED = TopologySection.model_validate(described_node.TOPOLOGY)


class Written:
    """Store that keeps what describes the node."""

    def __init__(self) -> None:
        self.points: list[tuple[str, dict[str, float | str]]] = []

    def describe(self, measurement: str, fields: Mapping[str, float | str]) -> None:
        self.points.append((measurement, dict(fields)))


def report(topology: TopologySection) -> tuple[WiringReport, Written, FakeClock]:
    written, clock = Written(), FakeClock()
    return WiringReport(topology, written, clock), written, clock


def test_the_wiring_is_sent_at_start_and_every_ten_minutes() -> None:
    sending, written, clock = report(DESCRIBED)
    for _ in range(round(2 * REPORT_EVERY_S) + 1):
        sending.publish()
        clock.advance(1.0)
    assert len(written.points) == 3
    assert {measurement for measurement, _ in written.points} == {"wiring"}


def test_the_fleet_reads_the_line_that_is_sent() -> None:
    sending, written, _ = report(DESCRIBED)
    sending.publish()
    ((measurement, fields),) = written.points
    (line,) = read_lines(encode_text(measurement, fields, time_ns=1, tags={"node": "node 1", "simulated": "false"}))
    assert (line.measurement, line.tags["node"]) == ("wiring", "node 1")
    document, schema = line.fields["document"], line.fields["schema"]
    assert isinstance(document, str)
    assert isinstance(schema, float)
    assert wiring_of_document(document, schema=schema) == described_node.wiring()


def test_a_node_that_describes_no_wiring_sends_that() -> None:
    sending, written, _ = report(TopologySection())
    sending.publish()
    assert written.points == [("wiring", {"schema": 1.0, "document": ""})]


def test_a_wiring_that_is_too_long_for_the_store_is_logged_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    sensors = [f"sensor {n} of a very long row of sensors" for n in range(2000)]
    first, *others = described_node.TOPOLOGY["supplies"]
    supplies = [first | {"sensors": sensors}, *others]
    long = TopologySection.model_validate(described_node.TOPOLOGY | {"supplies": supplies})
    with caplog.at_level(logging.WARNING):
        sending, written, _ = report(long)
    sending.publish()
    assert written.points == [("wiring", {"schema": 1.0, "document": ""})]
    assert "described wiring is not sent to the fleet" in caplog.text
