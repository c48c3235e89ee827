"""Nodes of 12 V for the independent plant: supplies in parallel on one or two buses, with coarse meters read in turn.

As in the rest of the plant, every choice varies with the seed and none is shared with `simulator/` or `physics/`.
"""

from dataclasses import dataclass

import numpy as np

from tests.analytics.independent_plant import Meter, MeterKind, Plant, Rng, Sleep, spread

# Server supplies of 12 V regulate to 12.0 to 12.3 V without load.
SET_POINTS_V = (12.0, 12.1, 12.2, 12.25)
MAINS_V = (115.0, 208.0, 230.0)


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Choices of a 12 V node that a test fixes; None where they are drawn."""

    kind: MeterKind | None = None
    at_output: bool | None = None
    shared: bool | None = None
    stiff: bool | None = None
    buses: int | None = None
    sleeps: bool | None = None
    rated: bool | None = None
    mains: bool | None = None
    rate_hz: float | None = None


def _either(fixed: bool | None, rng: Rng, chance: float) -> bool:  # noqa: FBT001 -- one of three values
    drawn = bool(rng.random() < chance)
    return drawn if fixed is None else fixed


def node_of(seed: int, drawn: Drawn | None = None) -> Plant:
    """Return the 12 V node of a seed; what is given is fixed, the rest drawn."""
    given, rng = drawn or Drawn(), np.random.default_rng([seed, 12])
    volts = float(rng.choice(SET_POINTS_V))
    n, n_gpus = int(rng.integers(2, 5)), int(rng.choice([2, 4, 4, 4, 8]))
    gpu_w, base_w = float(rng.choice([250.0, 300.0, 350.0])), rng.uniform(80.0, 400.0)
    n = max(n, int(np.ceil((n_gpus * gpu_w * 1.1 + base_w) / (100.0 * volts))))
    drawn_buses = 2 if n >= 4 and rng.random() < 0.6 else 1
    buses = drawn_buses if given.buses is None else given.buses
    n += n % buses
    full_a = (n_gpus * gpu_w + base_w) / volts / n
    stiff, shared = _either(given.stiff, rng, 0.4), _either(given.shared, rng, 0.4)
    # Droop of 0.05 to 1.2 %, path of 0.05 to 1.5 % at full load; a stiff rail moves by 5 to 40 mV in all.
    droop, path = (rng.uniform(0.0005, 0.0015, 2)) if stiff else (rng.uniform(0.003, 0.012), rng.uniform(0.002, 0.015))
    sleeps = _either(given.sleeps, rng, 0.25) and n // buses >= 2
    full_w = (n_gpus * gpu_w + base_w) / buses
    rated = _either(given.rated, rng, 0.5)
    mains = _either(given.mains, rng, 0.4)
    where = _either(given.at_output, rng, 0.35)
    drawn_kind = MeterKind(rng.choice([MeterKind.HWMON, MeterKind.HWMON, MeterKind.COARSE, MeterKind.SHUNT]))
    bus = tuple(int(one) for one in np.sort(np.arange(n) % buses))
    # What a supply carries alone, with a margin: the others may sleep, or be lost.
    most_w = full_w * buses / n * (2.0 if sleeps else rng.uniform(1.25, 1.6))
    return Plant(
        set_v=volts,
        tagged=bool(rng.random() < 0.5),
        rated_w=float(np.ceil(most_w / 50.0) * 50.0) if rated else None,
        shared=shared,
        # Without a loop that shares the current, supplies are set alike within a tenth of what a full load takes.
        off_v=spread(rng, n, 0.1) * (droop + path) * volts,
        droop_ohm=droop * volts / full_a * (1.0 + spread(rng, n, 0.03)),
        path_ohm=path * volts / full_a * (1.0 + spread(rng, n, 0.10)),
        bus_ohm=rng.uniform(0.0, 0.0006) * volts / full_a / n,
        share=1.0 + spread(rng, n, 0.015),
        ppm_per_k=rng.uniform(-100.0, 100.0),
        gpu_w=np.full(n_gpus, gpu_w) * (1.0 + spread(rng, n_gpus, 0.02)),
        base_w=base_w,
        meter=_meter(rng, given.kind or drawn_kind, n, at_output=where, rate_hz=given.rate_hz),
        bus=bus,
        gpu_bus=tuple(int(one) for one in np.sort(np.arange(n_gpus) % buses)),
        feed=tuple(one % 2 for one in range(n)),
        sleep=Sleep(
            awake=max(n // buses - 1, 1),
            below_w=0.40 * full_w,
            above_w=0.55 * full_w,
            after_s=rng.uniform(2.0, 20.0),
            lower_v=rng.uniform(0.05, 0.3),
        )
        if sleeps
        else None,
        mains_v=float(rng.choice(MAINS_V)) if mains else None,
    )


def _meter(rng: Rng, kind: MeterKind, n: int, *, at_output: bool, rate_hz: float | None) -> Meter:
    rates = {
        MeterKind.HWMON: [2.0, 4.0, 5.0, 10.0, 20.0],
        MeterKind.COARSE: [1.0, 2.0, 4.0, 10.0, 20.0],
        MeterKind.SHUNT: [20.0, 50.0, 100.0],
    }[kind]
    # PMBus in steps of LINEAR16 and LINEAR11, rounded to mV and mA by hwmon; converters of 10 and 8 bits over 16 V and
    # 100 to 150 A; shunt monitors with 1.25 mV (TI INA226).
    v_step, a_step = {
        MeterKind.HWMON: (2.0 ** float(rng.integers(-9, -5)), 2.0 ** float(rng.integers(-4, 0))),
        MeterKind.COARSE: (
            float(rng.choice([16.0 / 1024, 20.0 / 1024, 16.0 / 256])),
            float(rng.choice([0.1, 0.146, 0.5])),
        ),
        MeterKind.SHUNT: (0.00125, float(rng.choice([0.005, 0.02]))),
    }[kind]
    noise_v = {MeterKind.HWMON: rng.uniform(0.001, 0.006), MeterKind.COARSE: rng.uniform(0.0, 0.003)}.get(kind, 0.002)
    # Two supplies of one kind in turn, or voltage and current of each: as a bus with one master reads them.
    turns = int(rng.choice([0, 1, 2])) if kind is not MeterKind.SHUNT else 0
    return Meter(
        kind=kind,
        rate_hz=float(rng.choice(rates)) if rate_hz is None else rate_hz,
        v_step=v_step,
        a_step=a_step,
        noise_v=noise_v,
        noise_a=rng.uniform(0.02, 0.2),
        late_s=0.0 if kind is MeterKind.SHUNT else rng.uniform(0.0, 0.06),
        window_s=float(rng.choice([0.001, 0.01, 0.05, 0.1])),
        gain_v=1.0 + spread(rng, n, 0.0025),
        offset_v=spread(rng, n, 0.004),
        gain_a=1.0 + spread(rng, n, 0.01),
        offset_a=spread(rng, n, 0.15),
        at_output=at_output,
        dropped_ratio=float(rng.choice([0.0, 0.002, 0.01])),
        jitter_ratio=rng.uniform(0.0, 0.3),
        extremes=kind is MeterKind.SHUNT and bool(rng.random() < 0.4),
        milli=kind is MeterKind.HWMON,
        turns=turns,
        power_gain=1.0 + spread(rng, n, 0.008) if kind is not MeterKind.COARSE and rng.random() < 0.4 else None,
    )
