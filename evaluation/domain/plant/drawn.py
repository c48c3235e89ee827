"""Random machines: every choice varies with the seed and none is shared with `simulator` or `physics`.

Ranges are those of published parts where one is named, and assumptions about what a data sheet leaves open elsewhere.
"""

from dataclasses import dataclass

import numpy as np
from pydantic import ConfigDict, with_config

from evaluation.domain.plant.chance import PlaceArray
from evaluation.domain.plant.machines import BusTraits, GpuTraits, Machines, NodeTraits, SupplyTraits
from evaluation.domain.plant.meters import MeterKind, Rng, drawn_meters, spread
from telemetry.frames import FloatArray

# Server supplies of 12 V regulate to 12.0 to 12.3 V without load; shelves are set to 48 to 54.5 V (OCP Open Rack V3).
_SET_V = {
    12.0: (12.0, 12.1, 12.2, 12.25, 12.3),
    48.0: (47.8, 48.0, 48.5, 50.0, 51.0, 52.0),
    54.0: (53.5, 54.0, 54.0, 54.5),
}
_MAINS_V = (115.0, 208.0, 230.0, 240.0)


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Choices that are fixed, by a scene of the plan for instance; None where they are drawn."""

    nominal_v: float | None = None
    meter: MeterKind | None = None
    at_output: bool | None = None
    shared: bool | None = None
    stiff: bool | None = None
    buses: int | None = None
    sleeps: bool | None = None
    rated: bool | None = None
    mains: bool | None = None
    two_feeds: bool | None = None
    links: bool | None = None


@dataclass(frozen=True, kw_only=True)
class _Frame:
    """Size of a node: what the other draws follow from."""

    nominal_v: float
    n_gpus: int
    limit_w: float
    base_w: float
    n_supplies: int
    n_buses: int

    @property
    def full_w(self) -> float:
        return self.n_gpus * self.limit_w + self.base_w


def drawn_machine(seed: int, *, rate_hz: float, wanted: Wanted | None = None) -> Machines:
    """Return the machine of a seed, of those whose meters are read at a rate; what is wanted is fixed."""
    wanted, rng = wanted or Wanted(), np.random.default_rng([seed, 1401])
    size = _size(rng, wanted)
    bus_of = np.sort(np.arange(size.n_supplies) % size.n_buses)
    gpu_bus = np.sort(np.arange(size.n_gpus) % size.n_buses)
    nodes = _node(rng, seed, size, wanted, bus_of)
    supplies = _supplies(rng, size, wanted, nodes, bus_of)
    buses = _buses(rng, size)
    meters = drawn_meters(
        rng,
        size.n_supplies,
        nominal_v=size.nominal_v,
        rate_hz=rate_hz,
        kind=wanted.meter,
        at_output=wanted.at_output,
    )
    return Machines(nodes=nodes, buses=buses, supplies=supplies, meters=meters, gpus=_gpus(rng, size, gpu_bus))


def _either(fixed: bool | None, rng: Rng, chance: float) -> bool:  # noqa: FBT001 -- one of three values
    drawn = bool(rng.random() < chance)
    return drawn if fixed is None else fixed


def _size(rng: Rng, wanted: Wanted) -> _Frame:
    drawn_v = float(rng.choice([12.0, 12.0, 48.0, 54.0, 54.0]))
    nominal_v = drawn_v if wanted.nominal_v is None else wanted.nominal_v
    low = nominal_v == 12.0
    n_gpus = int(rng.choice([2, 4, 4, 8] if low else [4, 8, 8, 8, 16]))
    limit_w = float(rng.choice([250.0, 300.0, 350.0, 450.0] if low else [300.0, 400.0, 500.0, 700.0, 1000.0]))
    base_w = rng.uniform(80.0, 600.0) if low else rng.uniform(300.0, 2500.0)
    # At most 90 A a supply at full load at 12 V, 75 A at 48 and 54 V.
    least = int(np.ceil((n_gpus * limit_w + base_w) / ((90.0 if low else 75.0) * nominal_v)))
    n_supplies = max(int(rng.integers(2, 5 if low else 7)), least)
    drawn_buses = 2 if n_supplies >= 4 and rng.random() < 0.45 else 1
    n_buses = drawn_buses if wanted.buses is None else wanted.buses
    n_supplies = max(n_supplies, 2 * n_buses)
    return _Frame(
        nominal_v=nominal_v,
        n_gpus=n_gpus,
        limit_w=limit_w,
        base_w=base_w,
        n_supplies=n_supplies + n_supplies % n_buses,
        n_buses=n_buses,
    )


def _node(rng: Rng, seed: int, size: _Frame, wanted: Wanted, bus_of: PlaceArray) -> NodeTraits:
    per_bus = int(np.bincount(bus_of).min())
    drawn = {
        "seed": seed,
        "volts": float(rng.choice(_SET_V[size.nominal_v])),
        "nominal_v": size.nominal_v,
        "shared": _either(wanted.shared, rng, 0.45),
        "base_w": size.base_w,
        # Processors, network and other jobs beside the GPUs.
        "base_ratio": rng.uniform(0.02, 0.35),
        "base_s": rng.uniform(3.0, 90.0),
        "ppm_per_k": rng.uniform(-100.0, 100.0),
        "sleeps": _either(wanted.sleeps, rng, 0.15) and per_bus >= 2,
        "awake": max(per_bus - 1, 1),
        "asleep_ratio": rng.uniform(0.3, 0.42),
        "awake_ratio": rng.uniform(0.45, 0.6),
        "falls_asleep_s": rng.uniform(2.0, 20.0),
        "lower_v": rng.uniform(0.004, 0.025) * size.nominal_v,
        "mains_v": float(rng.choice(_MAINS_V)) * rng.uniform(0.98, 1.02),
        "mains_ratio": rng.uniform(0.002, 0.012),
        "mains_s": rng.uniform(200.0, 3000.0),
        "inlet_c": rng.uniform(18.0, 30.0),
        "inlet_swing_c": rng.uniform(0.0, 4.0),
        "inlet_s": rng.uniform(900.0, 14_400.0),
        "controlled": rng.random() < 0.6,
        "duty": rng.uniform(0.45, 0.8),
        "target_c": rng.uniform(58.0, 72.0),
        # Boards renew power as the mean of 10 to 100 ms, some as that of a second (arXiv 2312.02741).
        "power_window_s": float(rng.choice([0.01, 0.025, 0.1, 1.0])),
        "power_noise": rng.uniform(0.002, 0.012),
    }
    shows = {
        "nominal": 0.5, "rating": 0.4, "mains": 0.35, "inlet": 0.6, "duty": 0.4, "rpm": 0.3, "util": 0.9,
        "memory": 0.85, "memory_use": 0.7, "steps": 0.35, "threads": 0.3, "links": 0.45,
    }  # fmt: skip
    fixed = {"rating": wanted.rated, "mains": wanted.mains, "links": wanted.links}
    drawn |= {f"shows_{name}": _either(fixed.get(name), rng, chance) for name, chance in shows.items()}
    return NodeTraits(**{name: np.array([value]) for name, value in drawn.items()})


def _buses(rng: Rng, size: _Frame) -> BusTraits:
    n = size.n_buses
    full_a = size.full_w / size.nominal_v
    shown = rng.random() < 0.3
    step = float(rng.choice([0.03125, 0.063] if size.nominal_v == 12.0 else [0.0625, 0.25]))
    return BusTraits(
        node=np.zeros(n, dtype=np.int64),
        board_ohm=rng.uniform(0.0, 0.003, n) * size.nominal_v / full_a * n,
        full_w=np.full(n, size.full_w / n),
        rail_v_step=np.full(n, step if shown else np.nan),
        rail_gain=1.0 + spread(rng, n, 0.004),
    )


def _supplies(rng: Rng, size: _Frame, wanted: Wanted, node: NodeTraits, bus_of: PlaceArray) -> SupplyTraits:
    n, volts = size.n_supplies, float(node.volts[0])
    full_a = size.full_w / volts / n
    stiff = _either(wanted.stiff, rng, 0.3)
    # A stiff rail moves by 0.1 to 0.4 % in all; else droop of 0.3 to 1.5 % at full load (an Open Rack V3 shelf: 0.5 V
    # of 51 V), paths of 0.2 to 1.5 %.
    droop, path = rng.uniform(0.0005, 0.002, 2) if stiff else (rng.uniform(0.003, 0.015), rng.uniform(0.002, 0.015))
    # What a supply carries alone, with a margin: the others may sleep, or be lost.
    alone, others = n / max(n - size.n_buses, 1), rng.random() < 0.6
    times = 2.0 if wanted.two_feeds else alone if node.sleeps[0] or others else 1.0
    rated_w = full_a * volts * times * rng.uniform(1.15, 1.5)
    return SupplyTraits(
        node=np.zeros(n, dtype=np.int64),
        bus=bus_of,
        number=np.arange(n),
        feed=np.arange(n) % 2,
        # Without a loop that shares the current, supplies are set alike within a fifth of what a full load takes.
        off_v=spread(rng, n, 0.15) * (droop + path) * volts,
        # A hundredth of a per cent a kelvin (data sheets state 0.01 to 0.02 %), over some kelvin.
        wander_ratio=rng.uniform(0.5e-4, 3e-4, n),
        wander_s=rng.uniform(300.0, 2400.0, n),
        droop_ohm=droop * volts / full_a * (1.0 + spread(rng, n, 0.03)),
        path_ohm=path * volts / full_a * (1.0 + spread(rng, n, 0.10)),
        share=1.0 + spread(rng, n, 0.015),
        rated_w=np.full(n, np.ceil(rated_w / 50.0) * 50.0),
        limited=np.ones(n, dtype=np.bool_),
    )


def _gpus(rng: Rng, size: _Frame, bus_of: PlaceArray) -> GpuTraits:
    n = size.n_gpus
    return GpuTraits(
        node=np.zeros(n, dtype=np.int64),
        bus=bus_of,
        number=np.arange(n),
        limit_w=np.full(n, size.limit_w),
        idle_w=size.limit_w * rng.uniform(0.08, 0.16) * (1.0 + spread(rng, n, 0.05)),
        rise_k=rng.uniform(26.0, 42.0) * (1.0 + spread(rng, n, 0.05)),
        quick_ratio=np.full(n, rng.uniform(0.2, 0.45)),
        quick_s=np.full(n, rng.uniform(2.0, 6.0)),
        slow_s=rng.uniform(40.0, 150.0) * (1.0 + spread(rng, n, 0.05)),
        slot_k=_slots_k(rng, n),
        power_gain=1.0 + spread(rng, n, 0.02),
    )


def _slots_k(rng: Rng, n: int) -> FloatArray:
    """Return by how much the air of each slot is warmer than the inlet at full load: up to 10 K behind others."""
    most_k = rng.uniform(2.0, 10.0)
    patterns = {
        "alike": np.zeros(n),
        "rows": np.repeat([0.0, 1.0], [n - n // 2, n // 2]),
        "every other": (np.arange(n) + int(rng.integers(2))) % 2 * 1.0,
        # As two recorded nodes of eight modules have it: 0, 3, 4 and 7 behind the others.
        "outer": np.isin(np.arange(n) % 8, (0, 3, 4, 7)) * 1.0,
        "along": np.linspace(0.0, 1.0, n),
    }
    behind = patterns[str(rng.choice(list(patterns)))]
    return np.asarray(most_k * behind + rng.uniform(0.0, 2.0, n) + rng.uniform(0.0, 2.0), dtype=np.float64)
