"""Last seconds of a node for the rules: power and clock of each GPU, voltage and current of each supply."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from analytics.board_curve.windows import CAPPED_REASONS, HIGH_PERCENTILE, TOP_PERCENTILE
from analytics.detectors.columns import bits_set, optional
from analytics.supply.rail_levels import RailLevels
from physics.board_curve import BoardCurve
from physics.node_state import MeasuredGpu, MeasuredNode, MeasuredSupply
from physics.two_level import supply_state
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame, MaskArray, filled
from telemetry.gpu import KnobKind

# Three training steps of about a second: both phases of the load are in it, and a path that changes within seconds is
# seen as it is now.
WINDOW_S = 3.0
# The low phase of a load that alternates, without its single spikes.
LOW_PERCENTILE = 10.0
# Signals of which the newest value counts, from any table.
_NEWEST = ("gpu_temp_c", "fan_ratio")
# Range of settings, by kind of knob and GPU UUID; the maximum of a power limit is the vendor's default.
Ranges = Mapping[str, Mapping[str, Sequence[float]]]
NO_RANGES: Ranges = MappingProxyType({})
NO_BOARDS: Mapping[str, BoardCurve] = MappingProxyType({})


@dataclass(slots=True)
class NodeWindow:
    """Newest rows of the tables with GPU power and with supply voltage.

    `supported_mhz` gives the clocks that can be set, by GPU UUID; a GPU with neither those nor a power limit that can
    be set is left out of the state. `ranges` has what else can be set: the driver is queried once, for the rare
    signals are read by another process. The newest temperature and fan speed are kept of any table of GPUs.
    Nothing from before the last change of a clock counts. `boards` has the power curves by entity id; it is read at
    each state.
    """

    supported_mhz: Mapping[str, tuple[float, ...]]
    ranges: Ranges = field(default_factory=lambda: NO_RANGES)
    boards: Mapping[str, BoardCurve] = field(default_factory=lambda: NO_BOARDS)
    _frames: dict[str, list[Frame]] = field(default_factory=dict)
    _levels: dict[str, RailLevels] = field(default_factory=dict)
    _clock_changed_ns: int = 0
    _newest: dict[tuple[str, str], float] = field(default_factory=dict)

    def feed(self, frame: Frame) -> None:
        """Take in new rows; tables with neither power nor voltage are ignored."""
        if len(frame) and frame.spec.kind is EntityKind.GPU:
            self._keep_newest(frame)
        if not len(frame) or not {"power_w", "voltage_v"} & set(frame.spec.signals):
            return
        kept = self._frames.setdefault(frame.spec.name, [])
        first_ns = int(frame.time_ns[0])
        if kept and first_ns < int(kept[-1].time_ns[-1]):  # the wall clock was set back: what was is not comparable
            kept.clear()
            self._clock_changed_ns = min(self._clock_changed_ns, first_ns)
        kept.append(frame)
        if frame.spec.kind is EntityKind.SUPPLY and "voltage_v" in frame.spec.signals:
            levels = self._levels.get(frame.spec.name) or filled(RailLevels, len(frame.spec.entities))
            newest_v = frame.signal("voltage_v")[-1]
            self._levels[frame.spec.name] = levels.after_row(frame.spec.entities, newest_v)
        oldest_ns = max(int(frame.time_ns[-1]) - int(WINDOW_S * NS_PER_S), self._clock_changed_ns)
        while kept and int(kept[0].time_ns[-1]) < oldest_ns:
            kept.pop(0)

    def note_clock_change(self, now_ns: int) -> None:
        """Note a change of clocks; earlier rows no longer count."""
        self._clock_changed_ns = now_ns

    def state(self) -> MeasuredNode:
        """Return the node over the last seconds."""
        gpus: list[MeasuredGpu] = []
        supplies: list[MeasuredSupply] = []
        for frames in self._frames.values():
            if not frames:
                continue
            if frames[0].spec.kind is EntityKind.GPU:
                gpus += self._gpus(frames)
            elif frames[0].spec.kind is EntityKind.SUPPLY:
                supplies += self._supplies(frames)
        return MeasuredNode(gpus=tuple(gpus), supplies=tuple(supplies))

    def _gpus(self, frames: Sequence[Frame]) -> list[MeasuredGpu]:
        power_w, clock_mhz = self._column(frames, "power_w"), self._column(frames, "sm_clock_mhz")
        held = bits_set(self._column(frames, "throttle_reasons"), CAPPED_REASONS)
        found = []
        for index, entity in enumerate(frames[0].spec.entities):
            supported = self.supported_mhz.get(entity.key, ())
            known = np.isfinite(power_w[:, index]) & np.isfinite(clock_mhz[:, index])
            limits_w, fan_ratios = self._range(KnobKind.POWER, entity.key), self._range(KnobKind.FAN, entity.key)
            if not (supported or limits_w) or np.isnan(frames[-1].signal("power_w")[-1, index]):
                continue
            own_w = np.sort(power_w[known, index])
            found.append(
                MeasuredGpu(
                    entity_id=entity.id,
                    max_clock_mhz=supported[-1] if supported else float(np.nanmax(clock_mhz, initial=0.0)),
                    supported_mhz=supported,
                    clock_mhz=_clock_mhz(power_w[known, index], clock_mhz[known, index], held[known, index]),
                    power_high_w=_percentile(own_w, HIGH_PERCENTILE) if own_w.size else None,
                    power_low_w=_percentile(own_w, LOW_PERCENTILE) if own_w.size else None,
                    temp_c=self._newest.get((entity.id, "gpu_temp_c")),
                    limit_min_w=limits_w[0] if limits_w else None,
                    limit_default_w=limits_w[1] if limits_w else None,
                    fan_min_ratio=fan_ratios[0] if fan_ratios else None,
                    fan_ratio=self._newest.get((entity.id, "fan_ratio")),
                    board=self.boards.get(entity.id),
                )
            )
        return found

    def _range(self, kind: KnobKind, uuid: str) -> Sequence[float]:
        return self.ranges.get(kind.value, {}).get(uuid, ())

    def _keep_newest(self, frame: Frame) -> None:
        for name in _NEWEST:
            if name not in frame.spec.signals:
                continue
            for entity, value in zip(frame.spec.entities, frame.signal(name)[-1].tolist(), strict=True):
                if value == value:  # noqa: PLR0124 -- NaN is what does not equal itself
                    self._newest[entity.id, name] = value

    def _supplies(self, frames: Sequence[Frame]) -> list[MeasuredSupply]:
        voltage_v = self._column(frames, "voltage_v")
        current_a = self._column(frames, "current_a")
        spec = frames[0].spec
        levels = self._levels.get(spec.name)
        scales = np.where(np.isnan(levels.nominal_v), 1.0, levels.scale) if levels else np.ones(len(spec.entities))
        return [
            replace(
                supply_state(entity.id, voltage_v[:, index].tolist(), current_a[:, index].tolist()),
                limit_scale=float(scales[index]),
            )
            for index, entity in enumerate(spec.entities)
        ]

    def _column(self, frames: Sequence[Frame], name: str) -> FloatArray:
        """Return a signal since the last change of a clock; NaN where the table does not have it."""
        values = np.concatenate([optional(frame, name) for frame in frames])
        time_ns = np.concatenate([frame.time_ns for frame in frames])
        return values[time_ns >= self._clock_changed_ns]


def _clock_mhz(power_w: FloatArray, clock_mhz: FloatArray, held: MaskArray) -> float | None:
    """Return the clock at which a GPU drew its high phase: the highest one, unless power or heat held it down then.

    A board at its power limit recovers its clock in each pause, so its highest clock is not that of its high phase.
    """
    if not power_w.size:
        return None
    if not held.any():
        return float(clock_mhz.max())
    top = power_w >= np.sort(power_w)[int(TOP_PERCENTILE / 100.0 * (len(power_w) - 1))]
    return float(clock_mhz[top].mean() if held[top].any() else clock_mhz.max())


def _percentile(ascending: FloatArray, percent: float) -> float:
    """Return what `numpy.percentile` returns, of sorted values and in a tenth of its time."""
    at = percent / 100.0 * (len(ascending) - 1)
    below = int(at)
    low, high = float(ascending[below]), float(ascending[min(below + 1, len(ascending) - 1)])
    share = at - below
    return low + (high - low) * share if share < 0.5 else high - (high - low) * (1.0 - share)
