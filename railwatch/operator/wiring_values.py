"""Volts, amperes and watts of the parts of a wiring, now and at the worst moment of a stretch of samples."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame
from telemetry.series import series_of

# What a supply shows, the most direct signal first: at the load, as the supply reports it, under earlier names.
_VOLTAGES = ("voltage_v", "output_voltage_v", "rail_voltage_v")
_CURRENTS = ("current_a", "output_current_a", "rail_current_a")
_LOWEST = ("voltage_min_v", "rail_voltage_min_v", *_VOLTAGES)
_HIGHEST = ("current_max_a", "rail_current_max_a", *_CURRENTS)
_INPUTS = ("input_power_w",)
# heuristic: ratings of plugs and supplies are for continuous current; peaks of a step are shorter than this.
LOAD_S = 5.0
# heuristic: a phase of a training step lasts some tenths of a second. NVML updates power every 20 to 100 ms
# (arXiv 2312.02741).
_STEP_HZ = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyValues:
    """Values of a supply; None where it was not measured.

    `lowest_v` and `highest_a` are single values of the whole stretch, `load_a` is the highest mean over `LOAD_S`,
    `input_w` the power that it draws now.
    """

    voltage_v: float | None = None
    lowest_v: float | None = None
    current_a: float | None = None
    highest_a: float | None = None
    load_a: float | None = None
    input_w: float | None = None

    @property
    def power_w(self) -> float | None:
        """Output power now."""
        return None if self.voltage_v is None or self.current_a is None else self.voltage_v * self.current_a


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuValues:
    """Power of a GPU now, its highest mean over `LOAD_S`, and its power limits; None where it was not measured.

    `step_w` is its highest reading, None where its power is not read often enough to show a load step.
    """

    power_w: float | None = None
    load_w: float | None = None
    step_w: float | None = None
    limit_w: float | None = None
    default_limit_w: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WiringValues:
    """Values by entity id; `span_s` is the length of the stretch, 0 without values."""

    span_s: float = 0.0
    supplies: Mapping[str, SupplyValues] = field(default_factory=dict)
    gpus: Mapping[str, GpuValues] = field(default_factory=dict)


def values_of(frames: Sequence[Frame]) -> WiringValues:
    """Return the values that the samples show; now is the mean over the last second."""
    times_ns = [int(frame.time_ns[place]) for frame in frames if len(frame) for place in (0, -1)]
    if not times_ns:
        return WiringValues()
    supplies = _columns(frames, EntityKind.SUPPLY, (*_LOWEST, *_HIGHEST, *_INPUTS))
    gpus = _columns(frames, EntityKind.GPU, ("power_w", "power_limit_w", "power_limit_default_w"))
    return WiringValues(
        span_s=(max(times_ns) - min(times_ns)) / NS_PER_S,
        supplies={
            name: SupplyValues(
                voltage_v=_first(signals, _VOLTAGES, _now),
                lowest_v=_first(signals, _LOWEST, _lowest),
                current_a=_first(signals, _CURRENTS, _now),
                highest_a=_first(signals, _HIGHEST, _highest),
                load_a=_first(signals, _CURRENTS, _load),
                input_w=_first(signals, _INPUTS, _now),
            )
            for name, signals in supplies.items()
            if signals
        },
        gpus={
            name: GpuValues(
                power_w=_first(signals, ("power_w",), _now),
                load_w=_first(signals, ("power_w",), _load),
                step_w=_first(signals, ("power_w",), _step),
                limit_w=_first(signals, ("power_limit_w",), _now),
                default_limit_w=_first(signals, ("power_limit_default_w",), _now),
            )
            for name, signals in gpus.items()
        },
    )


def _columns(
    frames: Sequence[Frame], kind: EntityKind, signals: tuple[str, ...]
) -> dict[str, dict[str, tuple[FloatArray, FloatArray]]]:
    """Return by entity id and signal the times in ns and the values of the rows that have one."""
    names = tuple(dict.fromkeys(signals))
    merged = series_of(frames, kind, names)
    found: dict[str, dict[str, tuple[FloatArray, FloatArray]]] = {}
    for row, entity in enumerate(merged.spec.entities):
        columns = found.setdefault(entity.id, {})
        for column, name in enumerate(merged.spec.signals):
            values = merged.values[:, row, column]
            known = np.isfinite(values)
            if known.any():
                columns[name] = (merged.time_ns[known].astype(np.float64), values[known])
    return found


def _now(series: tuple[FloatArray, FloatArray]) -> float:
    times_ns, values = series
    return float(values[times_ns > times_ns[-1] - NS_PER_S].mean())


def _lowest(series: tuple[FloatArray, FloatArray]) -> float:
    return float(series[1].min())


def _highest(series: tuple[FloatArray, FloatArray]) -> float:
    return float(series[1].max())


def _load(series: tuple[FloatArray, FloatArray]) -> float:
    times_ns, values = series
    place = ((times_ns - times_ns[0]) / (LOAD_S * NS_PER_S)).astype(np.intp)
    counts = np.bincount(place)
    used = counts > 0
    # The last stretch is shorter, so that a peak in it would pass for a load.
    used[-1] &= times_ns[-1] - times_ns[0] >= (len(counts) - 0.5) * LOAD_S * NS_PER_S or len(counts) == 1
    return float(np.max(np.bincount(place, values)[used] / counts[used]))


def _step(series: tuple[FloatArray, FloatArray]) -> float | None:
    """Return the highest value that two readings reached, None where there are fewer than `_STEP_HZ` a second."""
    times_ns, values = series
    if len(values) < max(_STEP_HZ * (times_ns[-1] - times_ns[0]) / NS_PER_S, 2.0):
        return None
    return float(np.partition(values, -2)[-2])


def _first(
    columns: Mapping[str, tuple[FloatArray, FloatArray]],
    signals: Iterable[str],
    value_of: Callable[[tuple[FloatArray, FloatArray]], float | None],
) -> float | None:
    """Return the value of the first signal that was measured; None where none was."""
    series = next((columns[name] for name in signals if name in columns), None)
    return None if series is None else value_of(series)
