"""Every detector's state can be kept, cut and put together again, over the visible tuple."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from analytics.detectors.build import EVENT_DETECTORS, AnyDetector
from analytics.detectors.limits import DetectorLimits
from analytics.shards.packing import pack, unpack
from analytics.shards.shard import Shard, arranged, leaves_of
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import Frame
from telemetry.records import Event, EventKind, Finding
from tests.analytics.detectors.test_conformance import ALL, TOPOLOGY, by_name, scene
from tests.analytics.scenes import event_of

ROWS, CUT = 400, 173
Reported = list[Finding]
# Nodes are compared with all others of their table: where those are others, so is the answer.
apart = pytest.mark.parametrize(
    "detector", [one for one in ALL if one.name != "node_siblings"], ids=lambda detector: detector.name
)


def ids(frame: Frame) -> tuple[str, ...]:
    return tuple(entity.id for entity in frame.spec.entities)


def stepped(detector: AnyDetector, state: Any, frame: Frame, topology: Topology = TOPOLOGY) -> tuple[Any, Reported]:
    after, found = detector.step(state, frame, topology)
    return after, list(found)


def ordered(findings: Reported) -> list[str]:
    return sorted(map(repr, findings))


def twice(detector: AnyDetector, seed: int) -> tuple[Frame, Topology]:
    """Return the detector's scene on two nodes that are alike but stand apart, the second one a little later in it."""
    one = scene(detector, seed=seed)
    entities, topology = one.spec.entities, TOPOLOGY
    twins = tuple(_twin(entity) for entity in entities)
    known = {entity.id: entity for entity in (*topology.entities, *entities)}
    every = (*known.values(), *(_twin(entity) for entity in known.values()))
    edges = (*topology.edges, *((_twin_id(above), _twin_id(below)) for above, below in topology.edges))
    rolled = np.roll(one.values, 31, axis=0)
    frame = Frame(
        spec=replace(one.spec, entities=(*entities, *twins)),
        time_ns=one.time_ns,
        values=np.concatenate([one.values, rolled], axis=1),
        fresh=np.concatenate([one.fresh, one.fresh], axis=1),
    )
    return frame, Topology(entities=every, edges=edges)


def _twin(entity: Entity) -> Entity:
    return replace(entity, key=f"{entity.key}-twin", name=f"{entity.name}-twin")


def _twin_id(entity_id: str) -> str:
    return f"{entity_id}-twin"


def part_of(frame: Frame, places: list[int]) -> Frame:
    spec = replace(frame.spec, entities=tuple(frame.spec.entities[place] for place in places))
    return Frame(spec=spec, time_ns=frame.time_ns, values=frame.values[:, places], fresh=frame.fresh[:, places])


@by_name
def test_every_array_has_one_row_an_entity(detector: AnyDetector) -> None:
    frame = scene(detector)
    state, _ = stepped(detector, detector.start(frame.spec), frame)
    for place, leaf in leaves_of(state).items():
        if isinstance(leaf, np.ndarray):
            assert len(leaf) == len(frame.spec.entities), place


@by_name
@pytest.mark.parametrize("cut", [0, CUT])
def test_a_state_that_was_kept_goes_on_as_if_nothing_had_been(detector: AnyDetector, cut: int) -> None:
    for seed in range(3):
        frame = scene(detector, seed=seed)
        state, _ = stepped(detector, detector.start(frame.spec), frame.rows(0, cut))
        kept = unpack(detector, frame.spec, pack(detector, Shard(entities=ids(frame), state=state)))
        assert kept.entities == ids(frame)
        rest = frame.rows(cut, ROWS)
        assert stepped(detector, kept.state, rest)[1] == stepped(detector, state, rest)[1]


@apart
def test_two_nodes_apart_and_together_again_state_what_they_state_as_one(detector: AnyDetector) -> None:
    for seed in range(3):
        frame, topology = twice(detector, seed)
        half = len(frame.spec.entities) // 2
        halves = [part_of(frame, list(range(half))), part_of(frame, list(range(half, 2 * half)))]
        state, begun = stepped(detector, detector.start(frame.spec), frame.rows(0, CUT), topology)
        whole = Shard(entities=ids(frame), state=state)
        parts, reported = [], list(begun)
        for one in halves:
            shard = arranged(Shard(entities=ids(one), state=detector.start(one.spec)), [whole])
            after, found = stepped(detector, shard.state, one.rows(CUT, CUT + 100), topology)
            parts.append(Shard(entities=ids(one), state=after))
            reported += found
        merged = arranged(Shard(entities=ids(frame), state=detector.start(frame.spec)), parts[::-1])
        _, rest = stepped(detector, merged.state, frame.rows(CUT + 100, ROWS), topology)
        _, straight = stepped(detector, detector.start(frame.spec), frame, topology)
        assert ordered(reported + rest) == ordered(straight)


@apart
def test_entities_that_come_and_go_leave_the_others_as_they_were(detector: AnyDetector) -> None:
    frame, topology = twice(detector, 1)
    half = len(frame.spec.entities) // 2
    first = part_of(frame, list(range(half)))
    state, begun = stepped(detector, detector.start(first.spec), first.rows(0, CUT), topology)
    joined = arranged(
        Shard(entities=ids(frame), state=detector.start(frame.spec)), [Shard(entities=ids(first), state=state)]
    )
    both, found = stepped(detector, joined.state, frame.rows(CUT, 300), topology)
    left = arranged(
        Shard(entities=ids(first), state=detector.start(first.spec)), [Shard(entities=ids(frame), state=both)]
    )
    _, last = stepped(detector, left.state, first.rows(300, ROWS), topology)
    _, straight = stepped(detector, detector.start(first.spec), first, topology)
    ours = [one for one in [*begun, *found, *last] if not one.entity_id.endswith("-twin")]
    assert ordered(ours) == ordered(straight)


@by_name
def test_a_state_is_as_large_after_a_long_time(detector: AnyDetector) -> None:
    frame = scene(detector)
    state, _ = stepped(detector, detector.start(frame.spec), frame)
    early = len(pack(detector, Shard(entities=ids(frame), state=state)))
    for lap in range(1, 4):
        state, _ = stepped(detector, state, replace(frame, time_ns=frame.time_ns + lap * 80 * 10**9))
    assert len(pack(detector, Shard(entities=ids(frame), state=state))) <= early * 1.02


def test_what_events_reported_goes_with_the_entity_that_it_is_about() -> None:
    lost: Any = next(one for one in ALL if one.name == "gpu_lost")
    frame = scene(lost)
    reported = [event_of(at_s=1.0, code=None, entity_id=one, kind=EventKind.DRIVER_UNBOUND) for one in ids(frame)]
    node = next(entity.id for entity in TOPOLOGY.of_kind(EntityKind.NODE))
    above: Event = event_of(at_s=1.0, code=None, entity_id=node, kind=EventKind.DRIVER_UNBOUND)
    answered = lost.take_events(lost.start(frame.spec), [*reported, above])
    one = part_of(frame, [2])
    shard = arranged(Shard(entities=ids(one), state=lost.start(one.spec)), [Shard(entities=ids(frame), state=answered)])
    assert {entity_id for entity_id, _ in shard.state.orderly.released} == {ids(frame)[2], node}


def test_detectors_of_events_go_on_from_what_was_kept_of_them() -> None:
    events = [
        event_of(at_s=number * 0.5, code=31 + number % 3, entity_id=f"gpu:GPU-{number % 4}") for number in range(40)
    ]
    for build in EVENT_DETECTORS:
        detector = build(DetectorLimits())
        state, found = detector.step(detector.start(), events[:25], events[24].time_ns, TOPOLOGY)
        assert found
        form = TypeAdapter(type(detector.start()))
        kept = form.validate_json(form.dump_json(state))
        rest = events[25:], events[-1].time_ns + 10**12, TOPOLOGY
        assert detector.step(kept, *rest) == detector.step(state, *rest)
        with pytest.raises(ValueError, match="validation error"):
            form.validate_json(b'{"streaks": 3}')
