import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from influxdb_client import Point

from telemetry.entities import Entity, EntityKind
from telemetry.frames import Frame, TableSpec
from telemetry.gpu import KnobKind
from telemetry.line_protocol import MIN_ARRAY_LINES, count_lines, encode_frame, encode_records, encode_rollups
from telemetry.records import (
    Action,
    ActionState,
    Cause,
    Event,
    EventKind,
    Evidence,
    Incident,
    IncidentState,
    Mode,
    Outcome,
    Severity,
)
from telemetry.rollup import Rollup, decimals_of
from tests import record_samples
from tests.telemetry.line_protocol_reader import Line, read_lines

TAGS = {"node": "node one", "simulated": "true"}
NOW_NS = 1_700_000_000_123_456_789
SIGNALS = ("power_w", "sm_clock_mhz", "gpu_util_ratio", "energy_j", "power_violation_s")


def gpu(index: int, **tags: str) -> Entity:
    return Entity(kind=EntityKind.GPU, key=f"GPU-{index:04d}", name=f"gpu{index}", tags=tuple(tags.items()))


def make_frame(values: np.ndarray, fresh: np.ndarray | None = None, entities: tuple[Entity, ...] = ()) -> Frame:
    n_times, n_entities, n_signals = values.shape
    entities = entities or tuple(gpu(i) for i in range(n_entities))
    return Frame(
        spec=TableSpec(name="gpu_fast", kind=EntityKind.GPU, entities=entities, signals=SIGNALS[:n_signals]),
        time_ns=NOW_NS + np.arange(n_times, dtype=np.int64) * 10_000_000,
        values=values,
        fresh=np.ones(values.shape, dtype=bool) if fresh is None else fresh,
    )


def by_point(frame: Frame) -> dict[tuple[str, int], Line]:
    """The same lines, written by the official client."""
    lines = {}
    for row, time_ns in enumerate(frame.time_ns.tolist()):
        for i, entity in enumerate(frame.spec.entities):
            point = Point(str(frame.spec.kind)).time(time_ns)
            for key, value in {**dict(entity.tags), **TAGS, "entity": entity.key, "name": entity.name}.items():
                point.tag(key, value)
            for j, name in enumerate(frame.spec.signals):
                if frame.fresh[row, i, j]:
                    point.field(name, float(frame.values[row, i, j]))
            text = point.to_line_protocol()
            if text:
                (line,) = read_lines(text.encode() + b"\n")
                lines[line.head, line.time_ns] = line
    return lines


def assert_same_as_point(frame: Frame) -> None:
    ours = {(line.head, line.time_ns): line for line in read_lines(encode_frame(frame, tags=TAGS))}
    theirs = by_point(frame)
    assert ours.keys() == theirs.keys()
    for key, line in ours.items():
        assert line.tags == theirs[key].tags
        assert line.fields.keys() == theirs[key].fields.keys()
        for name, value in line.fields.items():
            wanted = theirs[key].fields[name]
            assert isinstance(value, float)
            assert isinstance(wanted, float)
            quantum = 10.0 ** -decimals_of(EntityKind.GPU, name)
            assert abs(value - wanted) <= 0.5 * quantum * (1 + 1e-6) + abs(wanted) * 1e-12


numbers = st.one_of(
    st.floats(0, 1e7),
    st.floats(-1e4, 1e4),
    st.sampled_from([0.0, -0.0, 9999.9995, 99_999.0, 1e15, 1e17, math.nan, math.inf, -math.inf]),
)


@settings(max_examples=60)
@given(data=st.data(), n_times=st.integers(0, 5), n_entities=st.integers(1, 4), n_signals=st.integers(1, 5))
def test_short_frames_read_the_same_as_points(
    data: st.DataObject, n_times: int, n_entities: int, n_signals: int
) -> None:
    shape = (n_times, n_entities, n_signals)
    size = n_times * n_entities * n_signals
    values = np.array(data.draw(st.lists(numbers, min_size=size, max_size=size))).reshape(shape)
    fresh = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=bool).reshape(shape)
    assert_same_as_point(make_frame(values, fresh))


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1.0, 500.0, 9999.6, 1e6, 1e12]), gaps=st.booleans())
def test_long_frames_read_the_same_as_points(seed: int, scale: float, *, gaps: bool) -> None:
    random = np.random.default_rng(seed)
    values = random.uniform(0, scale, (60, 3, 5))
    fresh = np.ones(values.shape, dtype=bool)
    if gaps:
        # Few kinds of line, many of each: the array path with columns left out.
        fresh = random.random((4, 5))[random.integers(0, 4, (60, 3))] < 0.6
        values[random.random(values.shape) < 0.02] = math.nan
    assert_same_as_point(make_frame(values, fresh))


def test_entities_with_names_of_different_length_share_a_frame() -> None:
    entities = tuple(gpu(i, pci=f"0000:{i:02x}:00.0", slot="1" * i) for i in (0, 1, 12))
    assert_same_as_point(make_frame(np.full((100, 3, 2), 12.5), entities=entities))


def test_more_lines_than_one_chunk_all_come_out() -> None:
    values = np.arange(5000 * 2, dtype=float).reshape(5000, 2, 1)
    lines = read_lines(encode_frame(make_frame(values), tags=TAGS))
    assert sorted(line.fields["power_w"] for line in lines) == list(range(10_000))


def test_a_negative_value_takes_the_template_and_keeps_its_sign() -> None:
    values = np.full((MIN_ARRAY_LINES, 1, 1), 3.25)
    values[7] = -3.25
    assert [line.fields["power_w"] for line in read_lines(encode_frame(make_frame(values), tags=TAGS))].count(
        -3.25
    ) == 1


def test_what_is_held_or_not_finite_is_not_written() -> None:
    values = np.array([[[1.0, 2.0]], [[1.0, math.nan]], [[math.inf, 2.0]]])
    fresh = np.array([[[True, True]], [[False, True]], [[True, False]]])
    (line,) = read_lines(encode_frame(make_frame(values, fresh), tags=TAGS))
    assert line.fields == {"power_w": 1.0, "sm_clock_mhz": 2.0}


def test_tags_are_escaped_and_empty_ones_left_out() -> None:
    entity = Entity(
        kind=EntityKind.SUPPLY, key="psu 0,a=b\\", name="left\nPSU", tags=(("slot", ""), ("rack row", "r=1"))
    )
    spec = TableSpec(name="supply", kind=EntityKind.SUPPLY, entities=(entity,), signals=("voltage_v",))
    frame = Frame(
        spec=spec, time_ns=np.array([NOW_NS]), values=np.full((1, 1, 1), 12.0), fresh=np.ones((1, 1, 1), dtype=bool)
    )
    (line,) = read_lines(encode_frame(frame, tags=TAGS))
    assert line.tags == {
        "entity": "psu 0,a=b/",
        "name": "left PSU",
        "node": "node one",
        "rack row": "r=1",
        "simulated": "true",
    }


def test_a_line_without_node_or_simulated_is_refused() -> None:
    with pytest.raises(ValueError, match="simulated"):
        encode_frame(make_frame(np.ones((1, 1, 1))), tags={"node": "n"})


def test_rollups_go_under_their_kind_with_the_statistic_in_the_field() -> None:
    frame = make_frame(np.array([[[100.0]], [[200.0]]]))
    rollup = Rollup(frame.spec)
    rollup.feed(frame)
    (line,) = read_lines(encode_rollups([rollup.flush(NOW_NS + 2_000_000_000)], tags=TAGS))
    assert line.measurement == "gpu"
    assert line.fields == {
        "power_w_mean": 150.0,
        "power_w_min": 100.0,
        "power_w_max": 200.0,
        "power_w_last": 200.0,
    }
    assert line.time_ns == NOW_NS - NOW_NS % 1_000_000_000


def test_records_carry_what_an_annotation_needs() -> None:
    finding = replace(
        record_samples.FINDING,
        time_ns=NOW_NS,
        since_ns=NOW_NS - 3_000_000_000,
        severity=Severity.CRITICAL,
        score=0.9,
        summary='12 V fell to "11.2" V\nsee evidence',
        evidence=(Evidence(name="minimum_v", value=11.2, unit="V"), Evidence(name="depth_v", value=math.nan, unit="V")),
    )
    (line,) = read_lines(encode_records([finding], tags=TAGS))
    assert line.measurement == "finding"
    assert line.tags["entity"] == "psu0"
    assert line.tags["severity"] == "critical"
    assert line.fields["title"] == "supply_sag raised"
    assert line.fields["text"] == '12 V fell to "11.2" V see evidence'
    assert line.fields["minimum_v"] == 11.2
    assert "depth_v" not in line.fields
    assert line.fields["lasted_s"] == 3.0


def test_every_type_of_record_is_written() -> None:
    event = Event(
        id="e", time_ns=NOW_NS, kind=EventKind.XID, entity_id=None, code=79, severity=Severity.CRITICAL,
        message="GPU has fallen off the bus", sources=("driver", "kernel"),
    )  # fmt: skip
    incident = Incident(
        id="i", time_ns=NOW_NS, opened_ns=NOW_NS - 5, closed_ns=None, cause=Cause.GPU_LOST, entity_id="gpu:GPU-1",
        affected=("gpu:GPU-1",), state=IncidentState.OPEN, severity=Severity.CRITICAL, impact_gpu_hours=4.0,
        summary="GPU-1 is gone", findings=(),
    )  # fmt: skip
    action = Action(
        id="a", time_ns=NOW_NS, decision_id="d", incident_id="i", knob="app_clock", entity_id="gpu:GPU-1",
        unit="MHz", knob_kind=KnobKind.CLOCK,
        found=None, wanted=1057.0, read_back=1057.0, state=ActionState.APPLIED, mode=Mode.ENFORCE, lease_until_ns=None,
        owner="railwatch", reason="hold the rail",
    )  # fmt: skip
    outcome = Outcome(
        id="o", time_ns=NOW_NS, incident_id="i", decision_id="d", measure="minimum_v", unit="V", before=11.2,
        after=11.6, helped=True, summary="back above the limit",
    )  # fmt: skip
    lines = read_lines(encode_records([event, incident, action, outcome], tags=TAGS))
    assert [line.measurement for line in lines] == ["event", "incident", "action", "outcome"]
    assert all({"id", "title", "text", "tags"} <= line.fields.keys() for line in lines)
    assert lines[0].fields["code_number"] == 79.0
    assert "found" not in lines[2].fields
    assert lines[3].fields["helped"] == 1.0


def test_records_that_would_overwrite_each_other_are_set_apart() -> None:
    event = Event(
        id="e1", time_ns=NOW_NS, kind=EventKind.XID, entity_id="gpu:a", code=13, severity=Severity.WARNING,
        message="one", sources=("kernel",),
    )  # fmt: skip
    lines = read_lines(encode_records([event, event], tags=TAGS))
    assert [line.time_ns for line in lines] == [NOW_NS, NOW_NS + 1]
    assert count_lines(encode_records([event, event], tags=TAGS)) == 2
