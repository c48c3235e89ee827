"""Lines that other programs send."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.collectors.readings.line import LineRefusedError, parse_line
from telemetry.entities import EntityKind


def test_a_line_with_everything_is_taken_apart() -> None:
    line = b"supply,key=plug-7,name=left\\ plug input_power_w=1210.5,input_voltage_v=229 1769860800000000001"
    reading = parse_line(line, node="node0")
    assert (reading.kind, reading.key, reading.name) == (EntityKind.SUPPLY, "plug-7", "left plug")
    assert reading.values == (("input_power_w", 1210.5), ("input_voltage_v", 229.0))
    assert reading.time_ns == 1_769_860_800_000_000_001


@pytest.mark.parametrize(
    "line", [b"job,key=17 steps=5", b"job,key=17 steps=5i", b"job,key=17 steps=5u", b"job,key=17  steps=5 \r"]
)
def test_the_heartbeat_of_a_job_needs_no_time_and_no_name(line: bytes) -> None:
    reading = parse_line(line, node="node0")
    assert (reading.key, reading.name, reading.values, reading.time_ns) == ("17", "17", (("steps", 5.0),), None)


def test_the_node_need_not_name_itself() -> None:
    assert parse_line(b"node inlet_temp_c=23.5", node="node0").key == "node0"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "expected KIND,key=KEY"),
        (b"supply", "expected KIND,key=KEY"),
        (b"<html><body>502 Bad Gateway</body></html>", "expected one of node, supply, fan, job"),
        (b"gpu,key=x power_w=1", "'gpu' is not a kind"),
        (b"supply power_w=1", "the key is missing"),
        (b"supply,key= power_w=1", "expected NAME=VALUE"),
        (b"supply,key=a,host=b power_w=1", "tag 'host' is unknown"),
        (b"supply,key=a,key=b power_w=1", "key appears twice"),
        (b"supply,key=\x1b[31mred power_w=1", "expected printable characters"),
        (b"supply,key=a watts=1", "'watts' is not a signal of a supply; docs/reference/signals.md lists them"),
        (b"supply,key=a input_powr_w=1", "perhaps input_power_w"),
        (b"supply,key=a input_voltage_v=-99999999", "expected -1500 to 1500 V"),
        (b"node inlet_temp_c=900000", "expected -100 to 250 \u00b0C"),
        (b"job,key=a steps=-5", "expected at least 0"),
        (b"supply,key=a power_w=n/a", "expected a number"),
        (b'supply,key=a power_w="1"', "expected a number"),
        (b"supply,key=a power_w=nan", "expected a number"),
        (b"supply,key=a power_w=1e999", "expected a number"),
        (b"supply,key=a power_w=1,power_w=2", "appears twice"),
        (b"supply,key=a power_w=1 yesterday", "is not a time"),
        (b"supply,key=a power_w=1 1 1", "expected KIND,key=KEY"),
        (b"node,key=other inlet_temp_c=20", "this node is node0"),
        (b"supply,key=\xff power_w=1", "not UTF-8"),
        (b"supply,key=" + b"a" * 200 + b" power_w=1", "200 characters; expected at most 128"),
        (b"x" * 5000, "5000 bytes"),
    ],
)
def test_what_is_no_line_is_refused_with_its_reason(line: bytes, reason: str) -> None:
    with pytest.raises(LineRefusedError) as caught:
        parse_line(line, node="node0")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=300))
def test_no_bytes_do_anything_but_be_read_or_refused(line: bytes) -> None:
    with contextlib.suppress(LineRefusedError):
        assert parse_line(line, node="node0").values
