"""Sensors that update on a clock of their own, and a loop that polls them as a worker does."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from agent.sampler.pacing.pacer import PaceMode, Pacer


@dataclass(slots=True, kw_only=True)
class SimulatedSensor:
    """Updates at ``phase_s + n * period_s``, late by up to `jitter_s`; one in `repeats` shows the same value again.

    `resting` is when it shows one value all the time.
    """

    period_s: float
    phase_s: float
    jitter_s: float = 0.0
    repeats: float = 0.0
    resting: Callable[[float], bool] = lambda _: False
    seed: int = 1
    _values: dict[int, float] = field(default_factory=dict)

    def number_at(self, time_s: float) -> int:
        """Return which update is shown at a time."""
        number = math.floor((time_s - self.phase_s) / self.period_s)
        late_s = self.jitter_s * random.Random(f"{self.seed} {number}").random()  # noqa: S311 -- a test's chance
        return number if time_s - self.phase_s - number * self.period_s >= late_s else number - 1

    def value(self, number: int) -> float:
        """Return what one update shows."""
        if self.resting(self.phase_s + number * self.period_s):
            return 0.0
        chance = random.Random(f"{self.seed} value {number}")  # noqa: S311 -- a test's chance
        if chance.random() < self.repeats:
            return self.value(number - 1)
        return float(number)


@dataclass(slots=True, kw_only=True)
class Polled:
    """Result of a run of polls: by sensor the numbers of the updates, and the times and modes of all polls."""

    times_s: list[float]
    seen: list[list[int]]
    modes: list[PaceMode]


def poll(
    pacer: Pacer,
    sensors: list[SimulatedSensor],
    *,
    start_s: float,
    end_s: float,
    late_s: float = 0.0,
    busy: Callable[[float], float] = lambda _: 1.0,
    read_s: float = 0.0002,
) -> Polled:
    """Poll until the end; each tick comes late by up to `late_s`. The cells are the sensors', then one for the load."""
    chance = random.Random(7)  # noqa: S311 -- a test's chance
    polled = Polled(times_s=[], seen=[[] for _ in sensors], modes=[])
    held = [math.nan] * len(sensors)
    now_s = start_s
    while True:
        now_s = max(now_s, pacer.deadline_s) + late_s * chance.random()
        if now_s >= end_s:
            return polled
        numbers = [sensor.number_at(now_s) for sensor in sensors]
        values = [sensor.value(number) for sensor, number in zip(sensors, numbers, strict=True)]
        fresh = bytes(value != before for value, before in zip(values, held, strict=True)) + b"\0"
        for seen, number, is_new in zip(polled.seen, numbers, fresh, strict=False):
            if is_new:
                seen.append(number)
        held = values
        polled.times_s.append(now_s)
        row = np.array([*values, busy(now_s)]).reshape(1, -1)
        began_s, now_s = now_s, now_s + read_s
        pacer.saw(began_s, now_s, fresh, row)
        pacer.advance(now_s)
        polled.modes.append(pacer.report().mode)
