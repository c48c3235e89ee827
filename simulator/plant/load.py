"""A synchronous training job: all GPUs compute, the slowest sets the pace, then they exchange gradients."""

from dataclasses import dataclass

import numpy as np

from telemetry.frames import FloatArray, MaskArray


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingModel:
    """How a step is made up.

    Parameters
    ----------
    exchange_share
        Share of a step at full clock that goes into the exchange of gradients.
    jitter
        Relative standard deviation of the work per step and GPU.
    skew_ms
        Standard deviation of when GPUs begin a step.
    clock_bound_share
        Share of the work whose duration follows the clock; the rest waits for memory.
    """

    step_ms: float
    exchange_share: float
    jitter: float
    skew_ms: float
    exchange_level: float
    stall_level: float
    clock_bound_share: float
    reference_mhz: float


class TrainingLoad:
    """The job over time; its state is where in the step each GPU is.

    `steps` counts the steps that ended.
    """

    def __init__(self, model: TrainingModel, n_gpus: int, chance: np.random.Generator) -> None:
        self._model = model
        self._chance = chance
        self._n_gpus = n_gpus
        self._work_ms = np.zeros(n_gpus)
        self._wait_ms = np.zeros(n_gpus)
        self._exchange_left_ms = 0.0
        self._computing = False
        self.steps = 0

    def advance(self, n_ms: int, clock_mhz: FloatArray, present: MaskArray) -> FloatArray:
        """Give the load of each GPU per millisecond, shape ``(n_ms, n_gpus)``.

        A job that lost a GPU never ends its step: the others spin.
        """
        if not present.all():
            return np.broadcast_to(np.where(present, self._model.stall_level, 0.0), (n_ms, self._n_gpus)).copy()
        level = np.full((n_ms, self._n_gpus), self._model.exchange_level)
        share = self._model.clock_bound_share
        rate = 1.0 / (share * self._model.reference_mhz / clock_mhz + 1.0 - share)
        now_ms = 0.0
        while now_ms < n_ms:
            now_ms = self._compute(now_ms, n_ms, rate, level) if self._computing else self._exchange(now_ms, n_ms)
        return level

    def _exchange(self, now_ms: float, n_ms: int) -> float:
        spent_ms = min(self._exchange_left_ms, n_ms - now_ms)
        self._exchange_left_ms -= spent_ms
        if self._exchange_left_ms <= 0.0:
            model = self._model
            work_ms = model.step_ms * (1.0 - model.exchange_share)
            self._work_ms = work_ms * np.maximum(1.0 + model.jitter * self._chance.standard_normal(self._n_gpus), 0.1)
            self._wait_ms = model.skew_ms * np.abs(self._chance.standard_normal(self._n_gpus))
            self._computing = True
        return now_ms + spent_ms

    def _compute(self, now_ms: float, n_ms: int, rate: FloatArray, level: FloatArray) -> float:
        begin_ms = now_ms + self._wait_ms
        end_ms = begin_ms + self._work_ms / rate
        clock_ms = np.arange(n_ms)[:, None]
        level[(clock_ms >= np.floor(begin_ms)) & (clock_ms < end_ms) & (self._work_ms > 0.0)] = 1.0
        last_ms = float(end_ms.max())
        until_ms = min(last_ms, float(n_ms))
        worked_ms = np.clip(until_ms - begin_ms, 0.0, self._work_ms / rate)
        self._work_ms = np.maximum(self._work_ms - worked_ms * rate, 0.0)
        self._wait_ms = np.maximum(self._wait_ms - (until_ms - now_ms), 0.0)
        if last_ms <= n_ms:
            self._computing = False
            self._exchange_left_ms = self._model.step_ms * self._model.exchange_share
            self.steps += 1
        return until_ms
