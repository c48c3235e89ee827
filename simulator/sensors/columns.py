"""The sensors of one instrument as columns: source, timing, errors, faults, and which columns each block renews."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.files.node import NodeFile
from simulator.files.scenario import ScenarioFile, SensorFaultKind
from simulator.files.sensing import check_sensor
from simulator.files.sensor import Channel
from simulator.plant.plant import BLOCK_MS
from telemetry.frames import FloatArray

IndexArray = npt.NDArray[np.int64]
_FINEST = 1e-9  # step where none is given: finer than any reader resolves
_MS_PER_S = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """All arrays of shape ``(n_columns,)``; a window of 0 is a sample of one moment.

    `source` is which of the true values a column measures, `phase_ms` (1 to `period_ms`) when in the period.
    """

    labels: tuple[str, ...]
    period_ms: int
    source: IndexArray
    phase_ms: IndexArray
    window_ms: IndexArray
    keep: FloatArray  # what a probe keeps of its last value over one period
    gain: FloatArray
    offset: FloatArray
    noise: FloatArray
    quantum: FloatArray
    lowest: FloatArray
    highest: FloatArray


def columns_of(
    channels: Sequence[tuple[Channel, Sequence[str]]], *, period_s: float, together: bool, chance: np.random.Generator
) -> Columns:
    """Return the columns of some channels, each with the names of its sensors, one true value per sensor.

    The n-th sensors of all channels belong to one unit and share its phase; all units do where `together`.
    """
    period_ms = round(period_s * _MS_PER_S)
    count = max(len(labels) for _, labels in channels)
    unit_ms = chance.integers(1, period_ms + 1, count)
    parts = []
    for channel, labels in channels:
        n = len(labels)
        phase_ms = np.full(n, unit_ms[0]) if together else unit_ms[:n]
        delay_ms = round(channel.delay * _MS_PER_S)
        error = np.clip(chance.standard_normal((2, n)), -2.0, 2.0)
        parts.append(
            {
                "phase_ms": (phase_ms - 1 + delay_ms) % period_ms + 1,
                "window_ms": np.full(n, 0 if channel.window is None else round(channel.window * _MS_PER_S)),
                "keep": np.full(n, np.exp(-period_s / channel.lag) if channel.lag else 0.0),
                "gain": 1.0 + channel.gain_error * error[0],
                "offset": channel.offset_error * error[1],
                "noise": np.full(n, channel.noise),
                "quantum": np.full(n, channel.quantum or _FINEST),
                "lowest": np.full(n, channel.lowest),
                "highest": np.full(n, np.inf if channel.highest is None else channel.highest),
            }
        )
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    names = tuple(label for _, labels in channels for label in labels)
    return Columns(labels=names, period_ms=period_ms, source=np.arange(len(names)), **joined)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DueColumns:
    """The columns that are due in one block, arrays ``(n_due,)``.

    `place` is their position among all columns, in the cheapest form to index with; `bounds` is where their windows
    end and begin in the running sums, ``(2, n_due)``; `scale` makes a value of a sum, or of a sample.
    """

    column: IndexArray
    place: IndexArray | slice
    source: IndexArray
    end_ms: IndexArray
    bounds: IndexArray
    keep: FloatArray
    scale: FloatArray
    offset: FloatArray
    noise: FloatArray
    quantum: FloatArray
    lowest: FloatArray
    highest: FloatArray
    is_exact: bool  # neither offset nor noise

    def reported(self, value: FloatArray) -> FloatArray:
        """Return values in steps and within the range that the sensor can report."""
        reported: FloatArray = np.rint(value / self.quantum) * self.quantum
        return np.minimum(np.maximum(reported, self.lowest), self.highest)


def due_by_block(columns: Columns) -> list[DueColumns | None]:
    """Return one turn for each block of the period, None where nothing is due."""
    due_in = (columns.phase_ms - 1) // BLOCK_MS
    turns: list[DueColumns | None] = []
    for block in range(columns.period_ms // BLOCK_MS):
        chosen = np.flatnonzero(due_in == block)
        turns.append(due_columns_of(columns, chosen, block) if len(chosen) else None)
    return turns


def due_columns_of(columns: Columns, chosen: IndexArray, block: int) -> DueColumns:
    """Return the turn of some columns, measured in a block of the period."""
    width = int(columns.source.max()) + 1
    end_ms = columns.phase_ms[chosen] - block * BLOCK_MS
    window_ms = columns.window_ms[chosen]
    parameters = ("source", "keep", "offset", "noise", "quantum", "lowest", "highest")
    own = {name: getattr(columns, name)[chosen] for name in parameters}
    last = (end_ms - 1) * width + own["source"]
    return DueColumns(
        **own,
        column=chosen,
        place=slice(None) if len(chosen) == len(columns.labels) else chosen,
        end_ms=end_ms,
        bounds=np.stack([last, last - window_ms * width]),
        scale=columns.gain[chosen] / np.maximum(window_ms, 1),
        is_exact=not (own["offset"].any() or own["noise"].any()),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnFault:
    """Fault of some columns of an instrument, from `start_ms` until before `end_ms`."""

    start_ms: float
    end_ms: float
    kind: SensorFaultKind
    value: float
    columns: IndexArray


def faults_of(scenario: ScenarioFile, node: NodeFile, labels: Sequence[str]) -> tuple[ColumnFault, ...]:
    """Return the faults of those sensors, `columns` being their places in `labels`."""
    found = []
    for fault in scenario.sensor_faults:
        spoiled = set(check_sensor(fault.sensor, node))
        columns = [index for index, label in enumerate(labels) if label in spoiled]
        if columns:
            end_s = math.inf if fault.last is None else fault.at + fault.last
            found.append(
                ColumnFault(
                    start_ms=fault.at * 1000.0,
                    end_ms=end_s * 1000.0,
                    kind=fault.fault,
                    value=0.0 if fault.value is None else fault.value,
                    columns=np.array(columns, dtype=np.int64),
                )
            )
    return tuple(found)
