"""Rows of boards with a known curve, without a simulator: each load a level and a pattern of pauses."""

from collections.abc import Iterator, Sequence

import numpy as np

from physics.power_curve import PowerCurve
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind
from telemetry.frames import Frame, TableSpec
from telemetry.gpu import REASON_APPLICATION_CLOCKS

MAX_MHZ, IDLE_W, ROWS_PER_S = 1410.0, 60.0, 20
GPUS = tuple(
    Entity(kind=EntityKind.GPU, key=f"GPU-{number}", name=f"gpu{number}", tags=(("model", "NVIDIA A100-SXM4-80GB"),))
    for number in range(2)
)
SPEC = TableSpec(
    name="gpu_fast",
    kind=EntityKind.GPU,
    entities=GPUS,
    signals=("power_w", "sm_clock_mhz", "gpu_util_ratio", "mem_util_ratio", "throttle_reasons"),
)
TRUTH = PowerCurve(idle=0.12, static=0.33, voltage_floor=0.75, knee=0.62)


def height(ratio: float) -> float:
    return (TRUTH.share(ratio) - TRUTH.idle) / (1.0 - TRUTH.idle)


class Rows:
    """Rows that follow one another; `noise` is relative to the power."""

    def __init__(self, *, seed: int = 0, noise: float = 0.01) -> None:
        self._chance = np.random.default_rng(seed)
        self._noise = noise
        self._next_ns = 1_000 * NS_PER_S

    def load(
        self,
        seconds: float,
        *,
        ratio: float = 1.0,
        level_w: float = 330.0,
        memory: float = 0.4,
        reasons: int = REASON_APPLICATION_CLOCKS,
        pauses: bool = True,
    ) -> Iterator[Frame]:
        """Yield a load whose plateau is `level_w` above idle at the highest clock, pausing as a training step does."""
        count = round(seconds * ROWS_PER_S)
        high_w = IDLE_W + level_w * height(ratio)
        power_w = np.full(count, high_w)
        if pauses:
            power_w[np.arange(count) % ROWS_PER_S >= 14] = IDLE_W + 0.35 * level_w * height(ratio)
        yield from self._rows(power_w, ratio * MAX_MHZ, (1.0, memory, float(reasons)))

    def idle(self, seconds: float, *, power_w: float = IDLE_W) -> Iterator[Frame]:
        """Yield rows without a load."""
        yield from self._rows(np.full(round(seconds * ROWS_PER_S), power_w), 210.0, (0.0, 0.0, 1.0))

    def rest(self, seconds: float) -> None:
        """Advance time without rows."""
        self._next_ns += round(seconds * NS_PER_S)

    def _rows(self, power_w: np.ndarray, clock_mhz: float, others: Sequence[float]) -> Iterator[Frame]:
        for start in range(0, len(power_w), 7):  # blocks as a guard reads them, whose ends mean nothing
            part = power_w[start : start + 7]
            values = np.empty((len(part), len(GPUS), len(SPEC.signals)))
            values[:, :, 0] = part[:, None] * (1.0 + self._noise * self._chance.standard_normal((len(part), len(GPUS))))
            values[:, :, 1] = clock_mhz
            values[:, :, 2:] = others
            time_ns = self._next_ns + np.arange(len(part)) * (NS_PER_S // ROWS_PER_S)
            self._next_ns = int(time_ns[-1]) + NS_PER_S // ROWS_PER_S
            yield Frame(spec=SPEC, time_ns=time_ns, values=values, fresh=np.ones(values.shape, dtype=np.bool_))
