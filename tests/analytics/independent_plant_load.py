"""Load of the independent plant: jobs on its GPUs that come and go."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from telemetry.frames import FloatArray
from tests.analytics.independent_plant import Fault, Plant, Rng


def _training(rng: Rng, time_s: FloatArray, n_gpus: int) -> FloatArray:
    """Return the use of each GPU, 0 to 1, by one synchronous job, ``(n_times, n_gpus)``: steps, and checkpoints."""
    length_s = time_s[-1] - time_s[0] + 10.0
    period_s, duty = rng.uniform(0.3, 3.0), rng.uniform(0.5, 0.85)
    steps_s = period_s * (1.0 + 0.03 * rng.standard_normal(int(length_s / period_s / 0.8) + 10))
    starts_s = time_s[0] - rng.uniform(0.0, period_s) + np.concatenate(([0.0], np.cumsum(np.maximum(steps_s, 0.1))))
    place = np.searchsorted(starts_s, time_s, side="right") - 1
    phase = (time_s - starts_s[place]) / np.diff(starts_s)[place]
    low = rng.uniform(0.25, 0.7)
    use = np.where(phase < duty, 1.0, low)
    if rng.random() < 0.6:  # a checkpoint every some minutes
        every_s, lasts_s = rng.uniform(60.0, 600.0), rng.uniform(3.0, 20.0)
        use = np.where((time_s - time_s[0] + rng.uniform(0.0, every_s)) % every_s < lasts_s, 0.15, use)
    return np.asarray(use[:, np.newaxis] * rng.uniform(0.95, 1.0, n_gpus))


def _bursts(rng: Rng, time_s: FloatArray, n_gpus: int) -> FloatArray:
    """Return the use by requests that come at random, each GPU for itself."""
    use = np.empty((len(time_s), n_gpus))
    per_s, long_s = rng.uniform(0.2, 4.0), rng.uniform(0.05, 1.0)
    for gpu in range(n_gpus):
        count = rng.poisson(per_s * (time_s[-1] - time_s[0] + 2.0)) + 1
        starts_s = np.sort(rng.uniform(time_s[0] - 2.0, time_s[-1], count))
        ends_s = np.sort(starts_s + rng.exponential(long_s, count))
        busy = np.searchsorted(starts_s, time_s, side="right") - np.searchsorted(ends_s, time_s, side="right")
        use[:, gpu] = np.where(busy > 0, 0.75, 0.15)
    return use


def _steady(rng: Rng, time_s: FloatArray, n_gpus: int) -> FloatArray:
    """Return the use by a job without steps, as one bound by memory."""
    return np.broadcast_to(rng.uniform(0.5, 0.95) * rng.uniform(0.97, 1.0, n_gpus), (len(time_s), n_gpus))


def _idle(rng: Rng, time_s: FloatArray, n_gpus: int) -> FloatArray:
    del rng
    return np.full((len(time_s), n_gpus), 0.0)


def _mixed(rng: Rng, time_s: FloatArray, n_gpus: int) -> FloatArray:
    """Return the use by two jobs on half of the GPUs each."""
    half = n_gpus // 2
    one, two = (JOBS[name] for name in rng.choice(["training", "bursts", "steady", "idle"], 2))
    return np.concatenate((one(rng, time_s, half), two(rng, time_s, n_gpus - half)), axis=1)


JOBS: dict[str, Callable[[Rng, FloatArray, int], FloatArray]] = {
    "training": _training,
    "bursts": _bursts,
    "steady": _steady,
    "idle": _idle,
    "mixed": _mixed,
}


def _late(values: FloatArray, grid_s: float, tau_s: float) -> FloatArray:
    """Return values of shape ``(n_times, n)`` behind a low-pass of first order."""
    taps = np.exp(-np.arange(max(int(6 * tau_s / grid_s), 1)) * grid_s / tau_s)
    taps /= taps.sum()
    lead = np.repeat(values[:1], len(taps) - 1, axis=0)
    padded = np.concatenate((lead, values))
    return np.stack([np.convolve(column, taps, mode="valid") for column in padded.T], axis=1)


def power_w(plant: Plant, seed: int, time_s: FloatArray, jobs: tuple[str, ...] = ()) -> FloatArray:
    """Return the power of each GPU, ``(n_times, n_gpus)``; without `jobs`, jobs of 4 to 40 minutes come and go."""
    rng = np.random.default_rng([seed, 2])
    grid_s = time_s[1] - time_s[0]
    use = np.empty((len(time_s), plant.n_gpus))
    start = 0
    while start < len(time_s):
        name = jobs[0] if jobs else str(rng.choice(["training", "training", "mixed", "bursts", "steady", "idle"]))
        stop = len(time_s) if jobs else min(start + int(rng.uniform(240.0, 2400.0) / grid_s), len(time_s))
        if stop - start < 10:
            stop = len(time_s)
        use[start:stop] = JOBS[name](rng, time_s[start:stop], plant.n_gpus)
        start = stop
    watts = plant.gpu_w * (0.12 + 0.88 * use) * (1.0 + 0.01 * rng.standard_normal(use.shape))
    return _late(watts, grid_s, rng.uniform(0.005, 0.03))


@dataclass(frozen=True, kw_only=True)
class Load:
    """Power of a node and temperature of its air.

    `gpu_w` has shape ``(n_times, n_gpus)``, `bus_w` ``(n_times, n_buses)``, the rest ``(n_times,)``.
    """

    time_s: FloatArray
    gpu_w: FloatArray
    node_w: FloatArray
    bus_w: FloatArray
    inlet_c: FloatArray

    @property
    def grid_s(self) -> float:
        """Time between two points of the circuit."""
        return float(self.time_s[1] - self.time_s[0])


def load_of(plant: Plant, seed: int, *, seconds: float, jobs: tuple[str, ...], fault: Fault) -> Load:
    """Return the load of so many seconds, on a grid that is finer than the meters."""
    rng = np.random.default_rng([seed, 5])
    time_s = np.arange(0.0, seconds + 0.5, min(0.01, 0.5 / plant.meter.rate_hz))
    warmth_c, hours = rng.uniform(0.0, 10.0), rng.uniform(1.0, 6.0)
    inlet_c = 24.0 + warmth_c * np.sin(2 * np.pi * time_s / (4 * 3600.0 * hours))
    more = fault.over(time_s, fault.load_ratio)
    gpu_w = power_w(plant, seed, time_s, jobs)
    other_w = plant.base_w * (1.0 + 0.01 * rng.standard_normal(len(time_s)))
    node_w = (gpu_w.sum(axis=1) + other_w) * more
    gpu_w = gpu_w * more[:, np.newaxis]
    on_bus = [gpu_w[:, plant.gpu_bus_of == bus].sum(axis=1) for bus in range(plant.n_buses)]
    bus_w = np.stack(on_bus, axis=1) + (other_w * more / plant.n_buses)[:, np.newaxis]
    return Load(time_s=time_s, gpu_w=gpu_w, node_w=node_w, bus_w=bus_w, inlet_c=inlet_c)
