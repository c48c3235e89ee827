"""Comparison of a described wiring with the GPUs and supplies that a node has."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from config.topology_checks import problems_of_wiring
from physics.wiring import Bus, Wiring, names_gpu
from telemetry.entities import Entity, label_list
from telemetry.key_problems import KeyProblemError


def mismatches(wiring: Wiring, gpus: Sequence[Entity]) -> Iterator[KeyProblemError]:
    """Yield references to GPUs that the node lacks, GPUs on buses that do not join, and GPUs that no bus feeds."""
    strangers = [*_strangers(wiring, gpus)]
    yield from strangers
    if not strangers:
        by_name = replace(wiring, buses=tuple(_by_name(bus, gpus) for bus in wiring.buses))
        yield from problems_of_wiring(by_name, gpu_count=len(gpus) or None)


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
