"""Comparison of a described wiring with the GPUs and supplies that a node has."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from config.topology_checks import problems_of_wiring
from physics.rail_classes import may_feed_gpus
from physics.wiring import Bus, Wiring, is_shown_by, names_gpu
from telemetry.entities import MEASURED_SOURCE_TAG, NOMINAL_SOURCE_TAG, Entity, EntityKind, Topology, label_list
from telemetry.key_problems import KeyProblemError


def mismatches(wiring: Wiring, topology: Topology, *, gpu_count: int | None = None) -> Iterator[KeyProblemError]:
    """Yield what a description names and the node lacks, or has otherwise.

    These are its GPUs and their number, the sensors of its supplies and buses and their nominal voltages. A node that
    measures no supply or no rail of its board, or has no GPU at the time, is not compared with that part.
    """
    gpus = topology.of_kind(EntityKind.GPU)
    if gpus:
        yield from _gpu_mismatches(wiring, gpus, gpu_count)
    supplies = topology.of_kind(EntityKind.SUPPLY)
    if supplies:
        yield from _supply_mismatches(wiring, supplies)
    rails = [one for one in supplies if one.is_rail_of_board]
    if rails:
        yield from _rail_mismatches(wiring, rails)


def _gpu_mismatches(wiring: Wiring, gpus: Sequence[Entity], gpu_count: int | None) -> Iterator[KeyProblemError]:
    if gpu_count is not None and gpu_count != len(gpus):
        yield KeyProblemError("gpu_count", f"got {gpu_count}", f"{len(gpus)}, the GPUs of the node")
    strangers = [*_strangers(wiring, gpus)]
    yield from strangers
    if not strangers:
        by_name = replace(wiring, buses=tuple(_by_name(bus, gpus) for bus in wiring.buses))
        yield from problems_of_wiring(by_name, gpu_count=len(gpus))


def _supply_mismatches(wiring: Wiring, supplies: Sequence[Entity]) -> Iterator[KeyProblemError]:
    """Yield nominal voltages that differ, and supplies that no sensor shows while a sensor of no supply is left."""
    unnamed = [one for one in supplies if wiring.supply_of(one) is None and may_feed_gpus(one.nominal_v)]
    for place, supply in enumerate(wiring.supplies):
        shown = [one for one in supplies if wiring.supply_of(one) == supply]
        for entity in shown:
            measured_v = entity.measured_nominal_v
            if None not in (measured_v, supply.nominal_v) and measured_v != supply.nominal_v:
                source = entity.tag(MEASURED_SOURCE_TAG) or entity.tag(NOMINAL_SOURCE_TAG) or "tag"
                expected = f"{measured_v:g} V, by the {source} of {entity.name}"
                yield KeyProblemError(f"supplies[{place}].nominal_v", f"got {supply.nominal_v:g} V", expected)
        if not shown and unnamed:
            key = "name" if supply.sensors == (supply.name,) else "sensors"
            expected = f"a measured supply that no other names: {', '.join(one.name for one in unnamed)}"
            yield KeyProblemError(f"supplies[{place}].{key}", f"no sensor {', '.join(supply.sensors)!r}", expected)


def _rail_mismatches(wiring: Wiring, rails: Sequence[Entity]) -> Iterator[KeyProblemError]:
    """Yield sensors of buses that the board's controller lacks, or that have another nominal voltage."""
    for place, bus in enumerate(wiring.buses):
        for number, sensor in enumerate(bus.sensors):
            key = f"buses[{place}].sensors[{number}]"
            shown = next((one for one in rails if is_shown_by(one, sensor)), None)
            if shown is None:
                expected = f"a rail of the board: {', '.join(one.name for one in rails)}"
                yield KeyProblemError(key, f"no sensor {sensor!r}", expected)
                continue
            measured_v, nominal_v = shown.measured_nominal_v, wiring.nominal_v_of(bus)
            if None not in (measured_v, nominal_v) and measured_v != nominal_v:
                found = f"got {shown.name} of {measured_v:g} V"
                yield KeyProblemError(key, found, f"a rail of {nominal_v:g} V, as bus {bus.name}")


def _strangers(wiring: Wiring, gpus: Sequence[Entity]) -> Iterator[KeyProblemError]:
    known = label_list(gpu.label for gpu in gpus) or "the node has none"
    for place, bus in enumerate(wiring.buses):
        for number, branch in enumerate(bus.branches):
            for at, reference in enumerate(branch.gpus or ()):
                if not any(names_gpu(reference, gpu) for gpu in gpus):
                    key = f"buses[{place}].branches[{number}].gpus[{at}]"
                    yield KeyProblemError(key, f"no GPU {reference!r}", f"a GPU of the node: {known}")


def _by_name(bus: Bus, gpus: Sequence[Entity]) -> Bus:
    """Return a bus whose branches name their GPUs by name, as the checks count them."""
    branches = tuple(
        branch if branch.gpus is None else replace(branch, gpus=tuple(gpu.name for gpu in gpus if branch.feeds(gpu)))
        for branch in bus.branches
    )
    return replace(bus, branches=branches)
