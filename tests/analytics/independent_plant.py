"""Recordings of 48 and 54 V nodes from circuit equations alone, for judging detectors that were tuned on another plant.

Sources of open-circuit voltage `E` with droop feed one bus over a path each; GPUs draw constant power from the bus. It
shares no equation, constant or random draw with `simulator/` and `physics/`: what it knows of supplies is in the
comments here. Every choice varies with the seed.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from telemetry.frames import FloatArray, MaskArray

IntArray = npt.NDArray[np.int64]
SET_POINTS_V = (48.0, 50.0, 51.0, 52.0, 54.0, 54.5)
# A supply bridges a lost input for a cycle of the mains at full load, and takes seconds to start.
HOLD_UP_S, RESTART_S = 0.02, 2.0
Rng = np.random.Generator


class MeterKind(StrEnum):
    """Kinds of meters at a supply."""

    SHUNT = "shunt"
    PMBUS = "pmbus"
    BMC = "bmc"
    HWMON = "hwmon"
    COARSE = "coarse"


@dataclass(frozen=True, kw_only=True)
class Meter:
    """Meters of all supplies; arrays are of shape ``(n_supplies,)``.

    `late_s` is how much later the current is taken than the voltage, `window_s` how long either is averaged. `milli`
    marks readings that are rounded to whole mV and mA on top of their steps, as hwmon files are. With `turns` of 1 the
    supplies are read one after the other, with 2 the voltage and the current of each are.
    """

    kind: MeterKind
    rate_hz: float
    v_step: float
    a_step: float
    noise_v: float
    noise_a: float
    late_s: float
    window_s: float
    gain_v: FloatArray
    offset_v: FloatArray
    gain_a: FloatArray
    offset_a: FloatArray
    at_output: bool = False
    dropped_ratio: float = 0.002
    jitter_ratio: float = 0.1
    extremes: bool = False
    milli: bool = False
    turns: int = 0
    power_gain: FloatArray | None = None


@dataclass(frozen=True, kw_only=True)
class Sleep:
    """Cold redundancy: all but `awake` supplies of a bus sleep from a load below `below_w` to one above `above_w`.

    A supply that sleeps keeps its own output `lower_v` below the bus and carries nothing.
    """

    awake: int
    below_w: float
    above_w: float
    after_s: float
    lower_v: float


@dataclass(frozen=True, kw_only=True)
class Plant:
    """A node: voltages and resistances of its sources, of shape ``(n_supplies,)``, and its load.

    `bus` has the bus of each supply, `gpu_bus` that of each GPU, `feed` the mains feed of each supply; empty, there is
    one. `mains_v` is the voltage of the feeds where it is measured.
    """

    set_v: float
    tagged: bool
    rated_w: float | None
    shared: bool
    off_v: FloatArray
    droop_ohm: FloatArray
    path_ohm: FloatArray
    bus_ohm: float
    share: FloatArray
    ppm_per_k: float
    gpu_w: FloatArray
    base_w: float
    meter: Meter
    bus: tuple[int, ...] = ()
    gpu_bus: tuple[int, ...] = ()
    feed: tuple[int, ...] = ()
    sleep: Sleep | None = None
    mains_v: float | None = None

    @property
    def n_supplies(self) -> int:
        """Number of supplies."""
        return len(self.path_ohm)

    @property
    def n_gpus(self) -> int:
        """Number of GPUs."""
        return len(self.gpu_w)

    @property
    def nominal_v(self) -> float:
        """Nominal voltage as a description of the node would name it."""
        if self.set_v < 20.0:
            return 12.0
        return 48.0 if self.set_v < 52.5 else 54.0

    @property
    def bus_of(self) -> IntArray:
        """Bus of each supply."""
        return np.array(self.bus or (0,) * self.n_supplies)

    @property
    def gpu_bus_of(self) -> IntArray:
        """Bus of each GPU."""
        return np.array(self.gpu_bus or (0,) * self.n_gpus)

    @property
    def feed_of(self) -> IntArray:
        """Mains feed of each supply."""
        return np.array(self.feed or (0,) * self.n_supplies)

    @property
    def n_buses(self) -> int:
        """Number of buses."""
        return int(self.bus_of.max()) + 1


def spread(rng: Rng, n: int, sd: float) -> FloatArray:
    return np.asarray(np.clip(rng.normal(0.0, sd, n), -2.5 * sd, 2.5 * sd))


def meter_of(rng: Rng, kind: MeterKind, n: int, *, at_output: bool = False, rate_hz: float | None = None) -> Meter:
    """Return meters of a kind with the errors of their data sheets' classes."""
    drawn = {
        # Shunt monitors of 85 V: 195.3 microvolt (TI INA228) or 3.125 mV (TI INA237/238) a step; both at once.
        MeterKind.SHUNT: {
            "rate_hz": float(rng.choice([20.0, 25.0, 50.0])),
            "v_step": float(rng.choice([195.3125e-6, 3.125e-3])),
            "a_step": float(rng.choice([0.002, 0.01])),
            "noise_v": rng.uniform(0.001, 0.004),
            "noise_a": rng.uniform(0.02, 0.1),
            "late_s": 0.0,
            "window_s": float(rng.choice([0.001, 0.004, 0.02])),
        },
        # LINEAR16 has one exponent of a supply, LINEAR11 eleven bits of mantissa; converted in turn.
        MeterKind.PMBUS: {
            "rate_hz": float(rng.choice([5.0, 8.0, 10.0, 20.0])),
            "v_step": 2.0 ** float(rng.integers(-9, -4)),
            "a_step": 2.0 ** float(rng.integers(-4, 0)),
            "noise_v": rng.uniform(0.002, 0.01),
            "noise_a": rng.uniform(0.02, 0.2),
            "late_s": rng.uniform(0.01, 0.1),
            "window_s": float(rng.choice([0.01, 0.05, 0.1])),
        },
        MeterKind.BMC: {
            "rate_hz": 1.0,
            "v_step": 0.25,
            "a_step": float(rng.choice([0.25, 0.5, 1.0])),
            "noise_v": 0.01,
            "noise_a": 0.1,
            "late_s": rng.uniform(0.0, 0.5),
            "window_s": float(rng.choice([0.05, 0.5])),
        },
    }[kind]
    return Meter(
        kind=kind,
        gain_v=1.0 + spread(rng, n, 0.003),
        offset_v=spread(rng, n, 0.01),
        gain_a=1.0 + spread(rng, n, 0.01),
        offset_a=spread(rng, n, 0.15),
        at_output=at_output,
        dropped_ratio=rng.choice([0.0, 0.002, 0.01]),
        jitter_ratio=rng.uniform(0.0, 0.3),
        extremes=kind is MeterKind.SHUNT and bool(rng.random() < 0.4),
        **(drawn | ({} if rate_hz is None else {"rate_hz": rate_hz})),
    )


def plant_of(
    seed: int,
    *,
    kind: MeterKind | None = None,
    at_output: bool | None = None,
    shared: bool | None = None,
    tagged: bool | None = None,
    set_v: float | None = None,
    rate_hz: float | None = None,
) -> Plant:
    """Return the node of a seed; what is given is fixed, the rest drawn."""
    rng = np.random.default_rng([seed, 1])
    n, n_gpus = int(rng.integers(2, 9)), int(rng.choice([4, 6, 8, 8, 8, 12, 16]))
    drawn_v = float(rng.choice(SET_POINTS_V))
    volts = drawn_v if set_v is None else set_v
    gpu_w = float(rng.choice([300.0, 400.0, 500.0, 700.0, 700.0, 1000.0]))
    base_w = rng.uniform(300.0, 1500.0)
    # Modules of a shelf of 3 to 5.5 kW: no more than 120 A each at full load.
    n = max(n, int(np.ceil((n_gpus * gpu_w * 1.1 + base_w) / (110.0 * volts))))
    full_a = (n_gpus * gpu_w + base_w) / volts / n
    drawn_shared, drawn_output, drawn_tag = (
        bool(rng.random() < 0.4),
        bool(rng.random() < 0.35),
        bool(rng.random() < 0.5),
    )
    # Droop of 0.3 to 1.5 % at full load (an Open Rack V3 shelf: 0.5 V of 51 V), path of 0.1 to 0.8 % of it.
    droop_ohm = rng.uniform(0.003, 0.010) * volts / full_a * (1.0 + spread(rng, n, 0.03))
    path_ohm = rng.uniform(0.001, 0.006) * volts / full_a * (1.0 + spread(rng, n, 0.10))
    drawn_kind = MeterKind(rng.choice([MeterKind.SHUNT, MeterKind.PMBUS, MeterKind.PMBUS, MeterKind.BMC]))
    where = drawn_output if at_output is None else at_output
    return Plant(
        set_v=volts,
        tagged=drawn_tag if tagged is None else tagged,
        rated_w=float(np.ceil(full_a * volts * rng.uniform(1.25, 1.6) / 100.0) * 100.0) if rng.random() < 0.4 else None,
        shared=drawn_shared if shared is None else shared,
        off_v=spread(rng, n, 0.0004) * volts,
        droop_ohm=droop_ohm,
        path_ohm=path_ohm,
        bus_ohm=rng.uniform(0.0, 0.0006) * volts / full_a / n,
        share=1.0 + spread(rng, n, 0.015),
        ppm_per_k=rng.uniform(-100.0, 100.0),
        gpu_w=np.full(n_gpus, gpu_w) * (1.0 + spread(rng, n_gpus, 0.02)),
        base_w=base_w,
        meter=meter_of(rng, kind or drawn_kind, n, at_output=where, rate_hz=rate_hz),
    )


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Changes of the circuit or of the meters from `at_s` on; shares of 1 where nothing changes.

    `path_ratio` multiplies droop and path of supply 0 together, over `ramp_s`. `open_ratio` multiplies the open-circuit
    voltage of all supplies, `first_open_ratio` that of supply 0, both for `lasts_s`. `mains_ratio` is the voltage of
    the feeds over the usual one; with `dead_feed` the supplies of that feed are off, from `HOLD_UP_S` after the fall
    of the feed until `RESTART_S` after it is back.
    """

    at_s: float = 0.0
    lasts_s: float = float("inf")
    ramp_s: float = 0.0
    path_ratio: float = 1.0
    open_ratio: float = 1.0
    first_open_ratio: float = 1.0
    load_ratio: float = 1.0
    lost: bool = False
    stuck_v: bool = False
    stuck_a: bool = False
    skew_s: float = 0.0
    silent: bool = False
    mains_ratio: float = 1.0
    dead_feed: int | None = None

    def over(self, time_s: FloatArray, ratio: float) -> FloatArray:
        """Return a ratio as it grows, ``(n_times,)``."""
        grown = np.clip((time_s - self.at_s) / self.ramp_s, 0.0, 1.0) if self.ramp_s else (time_s >= self.at_s) * 1.0
        return np.asarray(1.0 + (ratio - 1.0) * grown * (time_s < self.at_s + self.lasts_s))


HEALTHY = Fault()


@dataclass(frozen=True, kw_only=True)
class Circuit:
    """Voltages at the supplies' outputs and at their bus, and currents, each ``(n_times, n_supplies)``."""

    output_v: FloatArray
    bus_v: FloatArray
    current_a: FloatArray


def solve(plant: Plant, time_s: FloatArray, load_w: FloatArray, inlet_c: FloatArray, fault: Fault) -> Circuit:
    """Solve the circuit for a load of constant power per bus, ``(n_times, n_buses)`` or ``(n_times,)``."""
    load_w = load_w.reshape(len(time_s), -1)
    n = plant.n_supplies
    warm = (inlet_c - inlet_c[0])[:, np.newaxis]
    open_v = plant.set_v * (1.0 + plant.ppm_per_k * 1e-6 * warm) + plant.off_v
    open_v = open_v * fault.over(time_s, fault.open_ratio)[:, np.newaxis]
    first = np.arange(n) == 0
    open_v = np.where(first, open_v * fault.over(time_s, fault.first_open_ratio)[:, np.newaxis], open_v)
    droop = np.broadcast_to(plant.droop_ohm, open_v.shape)
    path = plant.path_ohm * (1.0 + 0.0039 * warm)
    aged = (fault.over(time_s, fault.path_ratio) - 1.0)[:, np.newaxis] * (droop + path)
    path = path + np.where(first, aged, 0.0)
    dead = _dead(plant, time_s, fault)
    asleep = _asleep(plant, time_s, load_w, dead)
    on = np.where(dead | asleep, 0.0, 1.0)
    bus_v, amps = np.empty_like(open_v), np.empty_like(open_v)
    for bus in range(plant.n_buses):
        own = plant.bus_of == bus
        shares = plant.share[own] if plant.shared else None
        sources = _Sources(open_v=open_v[:, own], ohm=(droop + path)[:, own], on=on[:, own], share=shares)
        bus_v[:, own], amps[:, own] = _bus(plant, sources, load_w[:, bus])
    output_v = bus_v + path * amps
    if plant.sleep is not None:
        output_v = np.where(asleep, bus_v - plant.sleep.lower_v, output_v)
    return Circuit(output_v=np.where(dead, 0.05, output_v), bus_v=bus_v, current_a=amps)


@dataclass(frozen=True, kw_only=True)
class _Sources:
    """Sources of one bus, ``(n_times, n_own)``; `share` of shape ``(n_own,)``, None without a loop that shares."""

    open_v: FloatArray
    ohm: FloatArray
    on: FloatArray
    share: FloatArray | None


def _bus(plant: Plant, sources: _Sources, load_w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the voltage of one bus and the currents of its supplies, ``(n_times, n_own)``."""
    open_v, ohm, on = sources.open_v, sources.ohm, sources.on
    bus_v, amps = np.full(len(load_w), plant.set_v), np.empty_like(open_v)
    for _ in range(4):
        total_a = load_w / np.maximum(bus_v - plant.bus_ohm * load_w / plant.set_v, 1.0)
        if sources.share is not None:  # a slow loop trims every output until each carries its share
            weight = sources.share * on
            amps = weight / weight.sum(axis=1, keepdims=True) * total_a[:, np.newaxis]
            behind = open_v - ohm * amps
            bus_v = (behind * on).sum(axis=1) / on.sum(axis=1)
        else:
            lead = on / ohm
            for _ in range(3):  # no current flows back into a supply
                bus_v = ((lead * open_v).sum(axis=1) - total_a) / lead.sum(axis=1)
                lead = np.where(open_v < bus_v[:, np.newaxis], 0.0, lead)
            amps = lead * (open_v - bus_v[:, np.newaxis])
    return np.repeat(bus_v[:, np.newaxis], open_v.shape[1], axis=1), amps


def _dead(plant: Plant, time_s: FloatArray, fault: Fault) -> MaskArray:
    """Return where supplies are off, ``(n_times, n_supplies)``."""
    dead: MaskArray = np.zeros((len(time_s), plant.n_supplies), dtype=np.bool_)
    if fault.lost:
        dead[(time_s >= fault.at_s) & (time_s < fault.at_s + fault.lasts_s), 0] = True
    if fault.dead_feed is not None:
        off = (time_s >= fault.at_s + HOLD_UP_S) & (time_s < fault.at_s + fault.lasts_s + RESTART_S)
        dead |= off[:, np.newaxis] & (plant.feed_of == fault.dead_feed)
    return dead


def _asleep(plant: Plant, time_s: FloatArray, load_w: FloatArray, dead: MaskArray) -> MaskArray:
    """Return where supplies sleep, ``(n_times, n_supplies)``; none does while another of its bus is dead."""
    asleep: MaskArray = np.zeros(dead.shape, dtype=np.bool_)
    sleep = plant.sleep
    if sleep is None:
        return asleep
    for bus in range(plant.n_buses):
        own = np.flatnonzero(plant.bus_of == bus)
        needed: MaskArray = np.any(dead[:, own], axis=1)
        sleeping, low_since = False, float("inf")
        states = np.zeros(len(time_s), dtype=np.bool_)
        for at, (now_s, watts) in enumerate(zip(time_s.tolist(), load_w[:, bus].tolist(), strict=True)):
            low_since = min(low_since, now_s) if watts < sleep.below_w else float("inf")
            sleeping = not needed[at] and ((sleeping and watts < sleep.above_w) or now_s - low_since > sleep.after_s)
            states[at] = sleeping
        asleep[:, own[sleep.awake :]] = states[:, np.newaxis]
    return asleep
