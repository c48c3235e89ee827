"""What is measured of what is true: the board's power sensor and the rail's shunt monitors."""

from dataclasses import dataclass

import numpy as np

from telemetry.frames import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerSensorModel:
    """A sensor that shows, once per period, the mean over the window before."""

    period_ms: int
    window_ms: int
    gain_error: float
    quantum_w: float


class PowerSensor:
    """The power sensors of all boards; each has its own gain and its own place in the period.

    Attributes
    ----------
    power_w, time_ms
        The value shown and the end of the window it stands for; shape ``(n_gpus,)``.
    """

    def __init__(self, model: PowerSensorModel, *, power_w: FloatArray, chance: np.random.Generator) -> None:
        n_gpus = len(power_w)
        limit = 2.0 * model.gain_error  # no board is off by more, arXiv 2312.02741
        self._model = model
        self.gain = 1.0 + np.clip(model.gain_error * chance.standard_normal(n_gpus), -limit, limit)
        self._phase_ms = chance.integers(1, model.period_ms + 1, n_gpus)
        self._history_w = np.tile(power_w, (model.window_ms, 1))
        self.power_w = self._shown(power_w * self.gain)
        self.time_ms = np.zeros(n_gpus, dtype=np.int64)

    def advance(self, start_ms: int, power_w: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        """Take a block of true power, shape ``(n_ms, n_gpus)``; give the boards whose value was renewed in it.

        The block must not be longer than the period.
        """
        n_ms, window_ms = len(power_w), self._model.window_ms
        history_w = np.concatenate([self._history_w, power_w])
        self._history_w = history_w[-window_ms:]
        due_ms = (self._phase_ms - start_ms - 1) % self._model.period_ms + 1  # after the block's start
        renewed: np.ndarray[tuple[int], np.dtype[np.intp]] = np.flatnonzero(due_ms <= n_ms)
        for gpu in renewed:
            end = due_ms[gpu] + window_ms
            mean_w = history_w[end - window_ms : end, gpu].mean() * self.gain[gpu]
            self.power_w[gpu] = self._shown(mean_w)
            self.time_ms[gpu] = start_ms + due_ms[gpu]
        return renewed

    def _shown(self, power_w: FloatArray) -> FloatArray:
        shown: FloatArray = np.round(power_w / self._model.quantum_w) * self._model.quantum_w
        return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuntMonitorModel:
    """A shunt monitor at the load's end: voltage and current from the same conversion."""

    window_ms: int
    noise_v: float
    noise_a: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RailReading:
    """What the monitors of all branches show, shape ``(n_branches,)``."""

    voltage_v: FloatArray
    current_a: FloatArray


def read_rail(
    model: ShuntMonitorModel, *, voltage_v: FloatArray, current_a: FloatArray, chance: np.random.Generator
) -> RailReading:
    """Give the newest conversion from a block of true values, ``(n_ms,)`` and ``(n_ms, n_branches)``."""
    n_branches = current_a.shape[1]
    noise = chance.standard_normal((2, n_branches))
    return RailReading(
        voltage_v=voltage_v[-model.window_ms :].mean() + model.noise_v * noise[0],
        current_a=np.maximum(current_a[-model.window_ms :].mean(axis=0) + model.noise_a * noise[1], 0.0),
    )
