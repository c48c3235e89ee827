"""Random circuits whose resistance is known: a supply that recovers, a load of GPUs, and the meters between them.

They share nothing with the simulator. ``V = E - R I - Z (I - I slow)`` with I slow the mean over the last milliseconds:
what a supply does after a step. Figures are those of public recordings of four 12 V feeds (Oxford GPU_Power_Benchmark):
4 to 8 milliohm, 0.7 to 2.7 milliohm more within some milliseconds of a step and gone within 20, noise of 9 to 11 mV in
a sample of 0.2 ms, means of a second that wander by 0.6 to 1.4 mV, steps of 7.57 mV and 48.8 mA.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from analytics.supply.sampling import Sampled
from telemetry.frames import FloatArray

RATE_HZ = 4800
_TAIL = 12.0  # time constants after which a memory is gone


class LoadShape(StrEnum):
    """Shape of a load over time."""

    SQUARE = "square wave"
    TRAINING = "training steps"
    BURSTS = "bursts"
    LEVELS = "levels"
    RAMP = "ramp"
    STEP = "one step"
    NOISE = "noise"
    GPUS = "four GPUs"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Circuit:
    """A recording of a circuit, shape ``(n,)``, and the same without noise and steps of the meters.

    `step_v` and `step_a` are steps that the readings get after they were sampled, 0.0 for none.
    """

    shape: LoadShape
    time_s: FloatArray
    voltage_v: FloatArray
    current_a: FloatArray
    clean_v: FloatArray
    clean_a: FloatArray
    step_v: float = 0.0
    step_a: float = 0.0

    @property
    def resistance_ohm(self) -> float:
        """What least squares makes of all of it without noise: the resistance under this load."""
        return slope_of(self.clean_v, self.clean_a)

    def sampled(self, kind: Sampled, *, step: int, phase: int, lag: int = 0) -> "Circuit":
        """Return picks or means of `step` samples from `phase` on, the voltage taken `lag` samples later."""
        stop = len(self.time_s) - abs(lag)
        late, early = slice(max(lag, 0), max(lag, 0) + stop), slice(max(-lag, 0), max(-lag, 0) + stop)
        columns = (
            self.time_s[early],
            self.voltage_v[late],
            self.current_a[early],
            self.clean_v[early],
            self.clean_a[early],
        )
        time_s, voltage_v, current_a, clean_v, clean_a = (_taken(one, kind, step, phase) for one in columns)
        return replace(
            self,
            time_s=time_s,
            voltage_v=_rounded(voltage_v, self.step_v),
            current_a=_rounded(current_a, self.step_a),
            clean_v=clean_v,
            clean_a=clean_a,
        )


def slope_of(volts: FloatArray, amps: FloatArray) -> float:
    """Return the slope of least squares, with its sign reversed."""
    about = amps - amps.mean()
    return -float(about @ (volts - volts.mean())) / float(about @ about)


def _taken(values: FloatArray, kind: Sampled, step: int, phase: int) -> FloatArray:
    if kind is Sampled.PICKS:
        return values[phase::step]
    count = (len(values) - phase) // step
    return np.asarray(values[phase : phase + count * step].reshape(count, step).mean(axis=1), dtype=np.float64)


def _rounded(values: FloatArray, step: float) -> FloatArray:
    return np.round(values / step) * step if step > 0.0 else values


def random_circuit(seed: tuple[int, ...], *, coarse: bool = False, lasts_s: float | None = None) -> Circuit:
    """Return the circuit of a seed; a `coarse` one is a rail of a board whose controller reads eight bits.

    It lasts some ten seconds, a coarse one some more, or `lasts_s`.
    """
    rng = np.random.default_rng(seed)
    usual_s = rng.uniform(*((20.0, 60.0) if coarse else (10.0, 20.0)))
    size = int((usual_s if lasts_s is None else lasts_s) * RATE_HZ)
    shape = tuple(LoadShape)[int(rng.integers(len(LoadShape)))]
    clean_a = _load(rng, shape, size)
    if coarse:
        clean_a = (clean_a - clean_a.min()) * rng.uniform(2.0, 5.0) + rng.uniform(5.0, 20.0)
    ohm = float(np.exp(rng.uniform(*np.log((2.5e-3, 8e-3) if coarse else (4e-3, 10e-3)))))
    transient_ohm = rng.uniform(1e-3, 3e-3) if rng.uniform() < 0.8 else 0.0
    slow_a = _smoothed(clean_a, rng.uniform(0.005, 0.020), start=float(clean_a[0]))
    clean_v = rng.uniform(12.0, 12.3) - ohm * clean_a - transient_ohm * (clean_a - slow_a)
    noise_v = rng.uniform(2e-3, 10e-3) if coarse else rng.uniform(6e-3, 11e-3)
    voltage_v = clean_v + rng.normal(0.0, noise_v, size) + _wander_v(rng, size)
    current_a = clean_a + rng.normal(0.0, rng.uniform(0.03, 0.12), size)
    meter_v, meter_a = ((7.568e-3, 48.8e-3), (1.25e-3, 5e-3), (0.0, 0.0))[int(rng.integers(3))]
    return Circuit(
        shape=shape,
        time_s=np.arange(size) / RATE_HZ,
        voltage_v=voltage_v if coarse else _rounded(voltage_v, meter_v),
        current_a=current_a if coarse else _rounded(current_a, meter_a),
        clean_v=clean_v,
        clean_a=clean_a,
        step_v=0.063 if coarse else 0.0,
        step_a=float(rng.choice([0.05, 0.25, 0.5])) if coarse else 0.0,
    )


def _wander_v(rng: np.random.Generator, size: int) -> FloatArray:
    """Return a voltage that wanders: within seconds, and over the whole recording."""
    within = _smoothed(rng.standard_normal(size), 0.5)
    over = np.cumsum(rng.standard_normal(size))
    return np.asarray(
        within * rng.uniform(0.5e-3, 1.5e-3) / within.std() + over * rng.uniform(0.0, 1.5e-3) / np.abs(over).max(),
        dtype=np.float64,
    )


def _smoothed(values: FloatArray, time_s: float, *, start: float = 0.0) -> FloatArray:
    """Return the exponential mean of values over a time, which was `start` before them."""
    keep = np.exp(-1.0 / (time_s * RATE_HZ))
    kernel = (1.0 - keep) * keep ** np.arange(min(int(_TAIL * time_s * RATE_HZ) + 1, len(values)))
    about = values - start
    length = 1 << (len(values) + len(kernel)).bit_length()
    spectrum = np.fft.rfft(about, length) * np.fft.rfft(kernel, length)
    return np.asarray(np.fft.irfft(spectrum, length)[: len(values)] + start, dtype=np.float64)


def _load(rng: np.random.Generator, shape: LoadShape, size: int) -> FloatArray:
    share = _SHAPES[shape](rng, size)
    if rng.uniform() < 0.5 and shape is not LoadShape.STEP:
        for idle in (slice(int(rng.uniform(0.3, 1.5) * RATE_HZ)), slice(-int(rng.uniform(0.3, 1.5) * RATE_HZ), None)):
            share[idle] = 0.0
    # A GPU takes its power within 0.2 to 0.4 ms, a board with much capacitance within 0.2 s (the recordings above).
    rise_s = 3e-4 if rng.uniform() < 0.6 else float(np.exp(rng.uniform(*np.log((1e-3, 0.15)))))
    share = _smoothed(share, rise_s / 2.2, start=float(share[0]))
    share = share * (1.0 + _smoothed(rng.standard_normal(size), 0.01) * rng.uniform(0.0, 0.2))
    return np.asarray(rng.uniform(2.0, 6.0) + rng.uniform(6.0, 20.0) * share, dtype=np.float64)


def _between(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _square(rng: np.random.Generator, size: int) -> FloatArray:
    turns = np.arange(size) / RATE_HZ / _between(rng, 0.02, 2.0) + rng.uniform()
    return np.asarray(turns % 1.0 < rng.uniform(0.3, 0.7), dtype=np.float64)


def _pieces(size: int, piece: Callable[[int], tuple[float, float]]) -> FloatArray:
    """Return levels that last: `piece` returns length in seconds and level of each."""
    share, place, number = np.zeros(size), 0, 0
    while place < size:
        lasts_s, level = piece(number)
        stop = place + max(int(lasts_s * RATE_HZ), 1)
        share[place:stop] = level
        place, number = stop, number + 1
    return share


def _training(rng: np.random.Generator, size: int) -> FloatArray:
    step_s, talks, low = _between(rng, 0.2, 1.5), rng.uniform(0.15, 0.45), rng.uniform(0.2, 0.5)
    return _pieces(
        size,
        lambda number: (
            step_s * (1.0 + 0.03 * rng.standard_normal()) * (talks if number % 2 else 1.0 - talks),
            low if number % 2 else 1.0,
        ),
    )


def _bursts(rng: np.random.Generator, size: int) -> FloatArray:
    busy_s, idle_s = _between(rng, 0.05, 1.0), _between(rng, 0.05, 1.0)
    return _pieces(
        size,
        lambda number: (
            (rng.exponential(busy_s), rng.uniform(0.7, 1.0)) if number % 2 else (rng.exponential(idle_s), 0.0)
        ),
    )


def _levels(rng: np.random.Generator, size: int) -> FloatArray:
    usual_s = _between(rng, 0.05, 1.0)
    return _pieces(size, lambda _: (rng.uniform(0.5, 1.5) * usual_s, rng.uniform()))


def _ramp(rng: np.random.Generator, size: int) -> FloatArray:
    turns = (np.arange(size) / RATE_HZ / rng.uniform(1.0, 6.0) + rng.uniform()) % 1.0
    return np.asarray(np.minimum(2.0 * turns, 2.0 - 2.0 * turns), dtype=np.float64)


def _step(rng: np.random.Generator, size: int) -> FloatArray:
    share = np.zeros(size)
    share[int(rng.uniform(0.15, 0.35) * size) : int(rng.uniform(0.6, 0.9) * size)] = 1.0
    return share


def _noise(rng: np.random.Generator, size: int) -> FloatArray:
    moves = _smoothed(rng.standard_normal(size), _between(rng, 0.03, 1.0))
    return np.asarray(np.clip(0.5 + 0.25 * moves / moves.std(), 0.0, 1.0), dtype=np.float64)


def _gpus(rng: np.random.Generator, size: int) -> FloatArray:
    """Return four GPUs that answer requests, each by itself: a prefill, and a decode at less."""
    return np.asarray(np.mean([_bursts(rng, size) * 0.7 + _bursts(rng, size) * 0.3 for _ in range(4)], axis=0))


_SHAPES: dict[LoadShape, Callable[[np.random.Generator, int], FloatArray]] = {
    LoadShape.SQUARE: _square,
    LoadShape.TRAINING: _training,
    LoadShape.BURSTS: _bursts,
    LoadShape.LEVELS: _levels,
    LoadShape.RAMP: _ramp,
    LoadShape.STEP: _step,
    LoadShape.NOISE: _noise,
    LoadShape.GPUS: _gpus,
}
