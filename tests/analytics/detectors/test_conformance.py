"""Conformance of every detector of the visible tuple."""

import functools
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from analytics.detectors.build import DETECTORS, EVENT_DETECTORS, AnyDetector
from analytics.detectors.limits import DetectorLimits
from telemetry.catalogue.pins import PIN_CURRENTS, PIN_VOLTAGES
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import Frame
from telemetry.quantities import SUMMARY_LENGTH
from telemetry.records import EventKind, Finding
from telemetry.signals import signals_of
from tests.analytics.detectors import (
    board_scenes,
    bus_rail_scenes,
    bus_scenes,
    converter_scenes,
    feed_scenes,
    heat_scenes,
    input_scenes,
    novelty_scenes,
    pin_scenes,
    supply_scenes,
)
from tests.analytics.scenes import START_NS, event_of, fleet_of, frame_of, gpu, node_of, supply

ALL = tuple(build(DetectorLimits()) for build in DETECTORS)
NOT_IN_SUMMARIES = frozenset({"tells", "told", "says", "said", "hears", "heard", "disprove", "anew"})
by_name = pytest.mark.parametrize("detector", ALL, ids=lambda detector: detector.name)
TOPOLOGY = node_of(4, 2)
# Scenes of detectors that find nothing in the common table: 400 rows of the entities in `MEMBERS`.
SCENES: dict[str, Callable[[int], Frame]] = {
    **board_scenes.SCENES,
    **bus_rail_scenes.SCENES,
    **bus_scenes.SCENES,
    **converter_scenes.SCENES,
    **feed_scenes.SCENES,
    **heat_scenes.SCENES,
    **input_scenes.SCENES,
    **supply_scenes.SCENES,
    **novelty_scenes.SCENES,
    **pin_scenes.SCENES,
}
MEMBERS = {
    EntityKind.GPU: tuple(gpu(number) for number in range(4)),
    EntityKind.SUPPLY: (supply(0), supply(1)),
}
NODES = tuple(Entity(kind=EntityKind.NODE, key=f"m{number}", name=f"m{number}") for number in range(10_000))


def eventful(kind: EntityKind, *, seed: int = 1, rows: int = 400, members: tuple[Entity, ...] = ()) -> Frame:
    """Make a table in which every limit is crossed now and then, with gaps."""
    rng = np.random.default_rng(seed)
    members = members or MEMBERS[kind]
    shape = (rows, len(members))
    slow = np.repeat(rng.random((rows // 20 + 1, len(members))), 20, axis=0)[:rows]
    level = {
        "voltage_v": 11.2 + slow * 0.9,
        "current_a": 80.0 - slow * 50.0,
        "throttle_reasons": np.where(slow < 0.1, 0x88, np.where(slow < 0.2, 0x8, 0.0)),
        "power_brake_s": np.cumsum(slow < 0.1, axis=0) * 0.05,
        "gpu_temp_c": np.round(55 + 5 * slow) + np.where(np.arange(len(members)) == 0, 25.0, 0.0),
        "slowdown_temp_c": np.full(shape, 87.0),
        "power_w": np.full(shape, 250.0),
        "sm_clock_mhz": np.full(shape, 1400.0),
        "pci_present": np.ones(shape),
    }
    names = [signal.name for signal in signals_of(kind) if signal.name in level]
    gaps = np.repeat(rng.random((rows // 40 + 1, len(members))) < 0.25, 40, axis=0)[:rows]
    columns = {name: np.where(gaps & (name != "pci_present"), np.nan, level[name]) for name in names}
    return frame_of(kind, members, columns, rate_hz=5.0)


def scene(detector: AnyDetector, *, seed: int = 1) -> Frame:
    """Return a table with findings of a detector: the common one, or one of its own with as many rows."""
    own = SCENES.get(detector.name)
    return eventful(detector.kind, seed=seed) if own is None else own(seed)


def run(detector: AnyDetector, *frames: Frame, topology: Topology = TOPOLOGY) -> tuple[Any, tuple[Finding, ...]]:
    state = detector.start(frames[0].spec)
    findings: list[Finding] = []
    for frame in frames:
        state, found = detector.step(state, frame, topology)
        findings.extend(found)
    return state, tuple(findings)


@functools.cache
def findings_at_once(name: str, seed: int) -> tuple[Finding, ...]:
    """Return the findings of a detector over its whole scene in one frame; cached for several tests."""
    detector = next(one for one in ALL if one.name == name)
    return run(detector, scene(detector, seed=seed))[1]


@by_name
def test_it_has_something_to_state_about_an_eventful_table(detector: AnyDetector) -> None:
    assert any(findings_at_once(detector.name, seed) for seed in range(20))


@by_name
def test_every_summary_is_short_whole_and_plain(detector: AnyDetector) -> None:
    for seed in range(20):
        for finding in findings_at_once(detector.name, seed):
            spoken = frozenset(re.findall(r"[a-z]+", finding.summary.lower()))
            assert len(finding.summary) <= SUMMARY_LENGTH
            assert "…" not in finding.summary, f"cut: {finding.summary}"
            assert "ohm" not in finding.summary.lower()
            assert not spoken & NOT_IN_SUMMARIES, finding.summary
            assert not re.search(r"gpu\d|psu\d|nan|\binf\b", finding.summary), finding.summary


@by_name
def test_no_input_is_mutated(detector: AnyDetector) -> None:
    frame = scene(detector)
    state, _ = run(detector, frame.rows(0, 200))
    for array in (frame.values, frame.fresh, frame.time_ns):
        array.flags.writeable = False
    before = pickle.dumps(state)
    detector.step(state, frame.rows(200, 400), TOPOLOGY)
    assert pickle.dumps(state) == before


@by_name
@pytest.mark.parametrize("cut", [1, 57, 200, 399])
def test_a_frame_in_two_parts_returns_the_findings_of_one(detector: AnyDetector, cut: int) -> None:
    for seed in range(5):
        frame = scene(detector, seed=seed)
        assert run(detector, frame.rows(0, cut), frame.rows(cut, 400))[1] == findings_at_once(detector.name, seed)


@by_name
def test_the_same_input_returns_the_same_findings_from_a_copied_state(detector: AnyDetector) -> None:
    frame = scene(detector)
    state, _ = run(detector, frame.rows(0, 200))
    copied = pickle.loads(pickle.dumps(state))  # noqa: S301 -- made a line above
    rest = frame.rows(200, 400)
    assert detector.step(state, rest, TOPOLOGY)[1] == detector.step(copied, rest, TOPOLOGY)[1]


@by_name
def test_the_order_of_entities_does_not_matter(detector: AnyDetector) -> None:
    for seed in range(5):
        frame = scene(detector, seed=seed)
        turned = Frame(
            spec=replace(frame.spec, entities=frame.spec.entities[::-1]),
            time_ns=frame.time_ns,
            values=frame.values[:, ::-1],
            fresh=frame.fresh[:, ::-1],
        )
        assert sorted(map(repr, run(detector, turned)[1])) == sorted(map(repr, findings_at_once(detector.name, seed)))


@by_name
def test_nan_everywhere_is_silent(detector: AnyDetector) -> None:
    frame = scene(detector)
    empty = replace(frame, values=np.full_like(frame.values, np.nan))
    assert run(detector, empty)[1] == ()


@by_name
def test_each_finding_is_raised_before_it_is_updated_and_cleared_at_most_once(detector: AnyDetector) -> None:
    for seed in range(5):
        lives: dict[str, str] = {}
        for finding in findings_at_once(detector.name, seed):
            lives[finding.id] = lives.get(finding.id, "") + finding.status[0]
            assert 0.0 <= finding.score <= 1.0
            assert all(np.isfinite(item.value) for item in finding.evidence)
        assert all(re.fullmatch("ru*c?", life) for life in lives.values())


@by_name
def test_memory_does_not_grow_with_time(detector: AnyDetector) -> None:
    frame = scene(detector)
    state, _ = run(detector, frame)
    early = len(pickle.dumps(state))
    for lap in range(1, 6):
        later = replace(frame, time_ns=frame.time_ns + lap * 80 * NS_PER_S)
        state, _ = detector.step(state, later, TOPOLOGY)
    assert len(pickle.dumps(state)) <= early * 1.1


@by_name
def test_a_clock_that_is_set_back_does_no_harm(detector: AnyDetector) -> None:
    frame = scene(detector)
    run(detector, frame, replace(frame, time_ns=frame.time_ns - 3600 * NS_PER_S))


@by_name
def test_a_healthy_stretch_is_silent_for_ten_thousand_entities(detector: AnyDetector) -> None:
    topology = fleet_of(1250, 8)
    if detector.kind is EntityKind.GPU:
        members = topology.of_kind(EntityKind.GPU)
    else:
        members = NODES if detector.kind is EntityKind.NODE else tuple(supply(number) for number in range(10_000))
    rng = np.random.default_rng(5)
    shape = (30, 10_000)
    level = {
        "voltage_v": 12.0 + rng.normal(0, 0.01, shape),
        "current_a": 40 + rng.normal(0, 5, shape),
        "throttle_reasons": np.zeros(shape),
        "gpu_temp_c": np.round(55 + rng.normal(0, 1, shape)),
        "slowdown_temp_c": np.full(shape, 87.0),
        "power_w": 250 + rng.normal(0, 5, shape),
        "sm_clock_mhz": np.full(shape, 1400.0),
        "gpu_util_ratio": np.ones(shape),
        "pcie_width": np.full(shape, 16.0),
        "inlet_temp_c": 24 + rng.normal(0, 0.5, shape),
        "fan_rpm": np.full(shape, 9000.0),
        "input_voltage_v": 230.0 + rng.normal(0, 0.5, shape),
        "mains_voltage_v": 230.0 + rng.normal(0, 0.5, shape),
        **{name: 12.0 + rng.normal(0, 0.004, shape) for name in PIN_VOLTAGES},
        **{name: 7.0 + rng.normal(0, 0.02, shape) for name in PIN_CURRENTS},
        "input_power_w": 270 + rng.normal(0, 5, shape),
        "node_power_w": 6000 + rng.normal(0, 60, shape),
    }
    columns = {signal.name: level[signal.name] for signal in signals_of(detector.kind) if signal.name in level}
    assert run(detector, frame_of(detector.kind, members, columns, rate_hz=1.0), topology=topology)[1] == ()


def test_event_detectors_are_bounded_deterministic_and_keep_their_state() -> None:
    events = [
        event_of(at_s=number * 0.01, code=number % 300, entity_id=f"gpu:GPU-{number % 4}", kind=EventKind.XID)
        for number in range(20_000)
    ]
    for build in EVENT_DETECTORS:
        detector = build(DetectorLimits())
        state = detector.start()
        before = pickle.dumps(state)
        first = detector.step(state, events, START_NS + 200 * NS_PER_S, TOPOLOGY)
        assert pickle.dumps(state) == before
        assert first[1] == detector.step(detector.start(), events, START_NS + 200 * NS_PER_S, TOPOLOGY)[1]
        assert len(first[0].streaks) <= 4096
