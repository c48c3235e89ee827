"""Worlds of a few machines for tests."""

from evaluation.domain.plant.drawn import Wanted, drawn_machine
from evaluation.domain.plant.faults import NO_FAULT, Fault
from evaluation.domain.plant.machines import Machines, together
from evaluation.domain.plant.world import World, WorldPlan


def machines_of(seeds: tuple[int, ...], *, rate_hz: float = 5.0, wanted: Wanted | None = None) -> Machines:
    """Return the machines of some seeds."""
    return together([drawn_machine(seed, rate_hz=rate_hz, wanted=wanted) for seed in seeds])


def world_of(
    machines: Machines,
    *faults: Fault,
    seconds: int = 40,
    work: str = "training",
    rate_hz: float = 5.0,
    gpu_hz: float = 1.0,
) -> World:
    """Return a world in which each machine has its fault, the last ones none, and all do the same work."""
    n = len(machines)
    plan = WorldPlan(
        machines=machines,
        faults=(*faults, *(NO_FAULT,) * (n - len(faults))),
        works=(work,) * n,
        seconds=seconds,
        supply_hz=rate_hz,
        gpu_hz=gpu_hz,
    )
    return World(plan)
