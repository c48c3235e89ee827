"""The performance metrics of a simulated node in process: what happened between two reads, as from the library."""

import numpy as np

from simulator.driver.faults import InjectedFaults
from simulator.driver.layout import FEATURE_GPM, PIPES
from simulator.driver.state import StateArray, StateFile
from telemetry.clock import Clock
from telemetry.entities import EntityKind
from telemetry.errors import TransientError
from telemetry.frames import FloatArray
from telemetry.gpu import GpuIdentity
from telemetry.signals import Source, signals_of

SIGNALS = tuple(signal.name for signal in signals_of(EntityKind.GPU, source=Source.GPM))
# nvml.h, nvmlGpmMetricsGet: samples must be more than 100 ms apart.
SHORTEST_WINDOW_S = 0.1
_CALLS = ("nvmlGpmSampleGet", "nvmlGpmMetricsGet")  # each once a GPU and read, as the agent makes them
_NAMES = {"occupancy": "sm_occupancy_ratio", "integer": "int_active_ratio", "tensor": "tensor_active_ratio"}
_NAMES |= {pipe: f"tensor_{pipe}_ratio" for pipe in ("dfma", "hmma", "dmma", "imma")}
_NAMES |= {pipe: f"{pipe}_active_ratio" for pipe in ("fp64", "fp32", "fp16")}


class PlantPipes:
    """Activity of the pipes since the last read, for plants with performance metrics.

    Attributes
    ----------
    gpus
        The GPUs that have them, in driver order: the rows.
    """

    is_refused = False

    def __init__(self, state: StateFile, faults: InjectedFaults, gpus: tuple[GpuIdentity, ...], clock: Clock) -> None:
        self._state = state
        self._faults = faults
        self._clock = clock
        fixed = state.record["fixed"]
        self.gpus = tuple(gpu for gpu in gpus if int(fixed[gpu.index]["features"]) & FEATURE_GPM)
        self._rows = np.array([gpu.index for gpu in self.gpus], dtype=np.int64)
        self._before: StateArray | None = None
        self._before_us = 0
        self._taken_s = 0.0
        self._generation = 0
        self._values = np.full((len(self.gpus), len(SIGNALS)), np.nan)

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_signals)``; within 100 ms of the reader's time the same again.

        NaN at the first read, for a lost GPU, and where the plant stood still since the last read.
        """
        self._follow_driver()
        now_s = self._clock.monotonic_s()
        if self._before is None or now_s - self._taken_s >= SHORTEST_WINDOW_S:
            readings, now_us = self._state.readings()
            now = readings[self._rows]
            now["lost"] |= self._unanswered()
            passed_us = now_us - self._before_us
            if self._before is not None and passed_us > 0:
                self._values = self._between(self._before, now, passed_us / 1e6)
            else:
                self._values = np.full_like(self._values, np.nan)
            self._before, self._before_us, self._taken_s = now, now_us, now_s
        values[:] = self._values

    def close(self) -> None:
        """Release nothing: no resource is held."""

    def _follow_driver(self) -> None:
        """Start again with each driver that is loaded: it counts from zero. TransientError where there is none."""
        if not self._state.record["driver_loaded"]:
            raise TransientError("no driver is loaded for the simulated GPUs")
        generation = int(self._state.record["driver_generation"])
        if generation != self._generation:
            self._generation, self._before = generation, None

    def _unanswered(self) -> StateArray:
        """Return 1 for each GPU whose calls an injected fault fails now."""
        failed = [any(self._faults.answer(call, gpu.index) for call in _CALLS) for gpu in self.gpus]
        return np.array(failed, dtype=np.uint32)

    def _between(self, before: StateArray, now: StateArray, passed_s: float) -> FloatArray:
        def rate(field: str) -> FloatArray:
            grown: FloatArray = (now[field].astype(np.float64) - before[field].astype(np.float64)) / passed_s
            return grown

        busy, links = rate("busy_ns") / 1e9, rate("nvlink_bytes").sum(axis=1)
        columns = {
            "graphics_active_ratio": busy,
            "sm_active_ratio": busy,
            "dram_active_ratio": rate("dram_ns") / 1e9,
            "pcie_tx_bytes_per_s": rate("pcie_tx_bytes"),
            "pcie_rx_bytes_per_s": rate("pcie_rx_bytes"),
            "nvlink_rx_bytes_per_s": links,
            "nvlink_tx_bytes_per_s": links,
        }
        columns |= {_NAMES[pipe]: share for pipe, share in zip(PIPES, (rate("pipe_ns") / 1e9).T, strict=True)}
        values = np.stack([columns[name] for name in SIGNALS], axis=1)
        # A new driver is published before the plant publishes its counts: what fell was counted by the one before.
        fell = (values < 0.0).any(axis=1)
        values[(before["lost"] != 0) | (now["lost"] != 0) | fell] = np.nan
        return values
