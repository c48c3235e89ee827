"""Limits of the supply detectors, with the source of each default."""

from dataclasses import dataclass, replace

from pydantic import ConfigDict, with_config

from physics.rail_classes import LEAST_RAIL_V
from telemetry.durations import DurationS

_strict = with_config(ConfigDict(extra="forbid"))


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class RailSagLimits:
    """Limits of a rail sag at 12 V; a rail of another nominal voltage has the same shares of its own.

    Parameters
    ----------
    minimum_v
        11.40 V: 12 V less 5 % at the load's end, static in the ATX12V Power Supply Design Guide 2.2 (table 2) and
        static and dynamic in Intel's server supply specifications (S2400/P4000 TPS).
    clear_above_v
        50 mV higher: five times the 9.7 mV that remain about a straight line on a real 12 V feed (A100 square wave,
        Oxford GPU_Power_Benchmark).
    at_once_below_v
        50 mV lower: too deep to be noise, raised on the first sample. Field report of a four-V100 node: GPUs fall off
        between 11.2 and 11.4 V (blbadger.github.io/gpu-server).
    hold_s
        Time below `minimum_v` in one stretch before a shallower dip counts: three samples at 20 Hz.
    clear_after_s
        Quiet time without a dip. A training step lasts about a second, so ten steps must pass without one.
    memory_s
        Memory of the source estimate: some training steps, because a sag is answered from the path as it is now.
    """

    minimum_v: float = LEAST_RAIL_V
    clear_above_v: float = 11.45
    at_once_below_v: float = 11.35
    hold_s: DurationS = 0.1
    clear_after_s: DurationS = 10.0
    memory_s: DurationS = 4.0

    def __post_init__(self) -> None:
        """Refuse levels in the wrong order."""
        if not 0 < self.at_once_below_v <= self.minimum_v <= self.clear_above_v:
            raise ValueError("at_once_below_v <= minimum_v <= clear_above_v, all above 0")

    def scaled(self, scale: float) -> "RailSagLimits":
        """Return the limits of a rail, `scale` over those at 12 V (`physics.rail_classes.limit_scale`)."""
        return replace(
            self,
            minimum_v=scale * self.minimum_v,
            clear_above_v=scale * self.clear_above_v,
            at_once_below_v=scale * self.at_once_below_v,
        )


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class PowerBrakeLimits:
    """Limit of a power brake: raised at once, cleared after this long without one.

    Ten seconds are ten training steps of about a second: a brake that comes back every step stays one finding.

    Parameters
    ----------
    clear_after_s
        Quiet time before it counts as over.
    """

    clear_after_s: DurationS = 10.0


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceResistanceLimits:
    """Limits of an aged supply path, a lost supply and an input sag.

    The gates of the slow path (8 %, or 20 % with coarse sensors, and CUSUM) are in `analytics.supply.slow_change`.

    Parameters
    ----------
    quick_ratio, clear_ratio
        Resistance over that of the first windows from which a change within minutes counts, and below which it may
        clear. heuristic: healthy simulated windows of two seconds stay within 1.08 over changes of job.
    windows
        Consecutive windows of evidence. heuristic: three, so that one in which the path changed does not count.
    clear_windows
        Consecutive windows against it. heuristic: a loose contact is good for seconds now and then.
    dead_s
        Time without current before a supply counts as lost. heuristic: a training step of a second is ridden out.
    sag_v, clear_sag_v
        Fall of the open-circuit voltage on all supplies of a node, and where it may clear, at 12 V; at a higher voltage
        as many times more. heuristic: 0.1 V is ten times the noise of a sample on real 12 V feeds (9.7 mV, Oxford
        GPU_Power_Benchmark).
    sag_windows
        Windows in a row with the fall. heuristic: the first may straddle it.
    flat_ratio
        How far the resistance may lie off for the fall to be the input's. heuristic: twice what healthy windows do.
    clear_after_s
        Time with current before a lost supply counts as back.
    """

    quick_ratio: float = 1.25
    clear_ratio: float = 1.12
    windows: int = 3
    clear_windows: int = 15
    dead_s: DurationS = 1.0
    sag_v: float = 0.10
    clear_sag_v: float = 0.05
    sag_windows: int = 2
    flat_ratio: float = 0.15
    clear_after_s: DurationS = 5.0

    def __post_init__(self) -> None:
        """Refuse levels in the wrong order."""
        if not (1.0 <= self.clear_ratio <= self.quick_ratio and 0.0 < self.clear_sag_v <= self.sag_v):
            raise ValueError("1 <= clear_ratio <= quick_ratio and 0 < clear_sag_v <= sag_v")


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentShareLimits:
    """Limits of a supply that carries less of its bus than it used to, behind its own meter.

    Parameters
    ----------
    low_ratio, clear_ratio
        Share of the bus over the usual share at a like load, below which it is reported, and above which it may clear.
        heuristic: set points that drift by half a per mille over the warmth of a room (30 mV of 54 V) move the
        share by some per cent; on a simulated bus of six supplies, a joint of a third of the path that grows by half
        takes 13 %.
    clear_blocks
        Consecutive blocks against it. heuristic: a loose contact is good for seconds now and then.
    """

    low_ratio: float = 0.93
    clear_ratio: float = 0.96
    clear_blocks: int = 15

    def __post_init__(self) -> None:
        """Refuse levels in the wrong order."""
        if not 0.0 < self.low_ratio <= self.clear_ratio < 1.0:
            raise ValueError("0 < low_ratio <= clear_ratio < 1")


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyHeadroomLimits:
    """Limits of sound supplies that carry more than their rating.

    Parameters
    ----------
    minimum_v, clear_above_v
        Voltage at the load's end at 12 V, as for a sag (`RailSagLimits`).
    rated_w
        Rated output power of each supply; unset, what the supply itself reports. Where neither is known, no finding
        comes from watts over a rating; the voltage, steps and the path are still judged.
    step_ratio
        Peaks over the rating that steps of the load reach while the mean stays below it: 5 %, within which two meters
        of 1 to 2 % each agree. It is a warning, no more: a server supply bears 70 A of 62 A rated for 20 s before it
        signals an alert (Intel S2400/P4000 TPS), and these peaks are short.
    overload_ratio
        Share of the rating at which supplies trip within milliseconds; common over-current limits lie at 1.3.
    swing_ratio
        Least fall of the current between steps for them to count as steps. heuristic.
    windows
        Consecutive blocks of evidence.
    flat_ratio
        How far the resistance may lie over its reference for the path to count as sound.
    clear_after_s
        Quiet time before it counts as over: some training steps.
    """

    minimum_v: float = LEAST_RAIL_V
    clear_above_v: float = 11.45
    rated_w: float | None = None
    step_ratio: float = 1.05
    overload_ratio: float = 1.3
    swing_ratio: float = 0.3
    windows: int = 3
    flat_ratio: float = 1.15
    clear_after_s: DurationS = 10.0


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyPlausibilityLimits:
    """Limits of readings of one supply that contradict each other.

    Parameters
    ----------
    power_ratio
        Difference between the supply's power and voltage times current; two meters of 1 to 2 % each
        (typical of PMBus) stay within 5 % of one another.
    power_hold_s
        Time that it must last: the meters average over different times, which a step of the load shows for seconds.
    blocks
        Blocks of two seconds in a row in which a value repeats or a pair does not fit. heuristic.
    clear_after_s
        Time without it before it counts as over.
    """

    power_ratio: float = 0.05
    power_hold_s: DurationS = 60.0
    blocks: int = 3
    clear_after_s: DurationS = 10.0


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class CoarseRailLimits:
    """Limits of a rail that only a board's controller measures, such as 12 V that converters make from a main bus.

    Parameters
    ----------
    minimum_v, at_once_below_v
        Voltage at the load's end at 12 V, as for a sag (`RailSagLimits`): the lowest one, and from where on the sag is
        critical. A rail of another nominal voltage has the same share of its own.
    margin_steps
        Steps of the meter by which a reading must lie below the limit. heuristic: rounding moves it by half a step.
    hold_s, least_readings
        Time and readings below the limit in one stretch. heuristic: more than a controller's round of ten seconds, so
        that one bad reading that is shown until the next does not count.
    clear_readings
        Readings above the limit in a row, a second apart.
    """

    minimum_v: float = LEAST_RAIL_V
    at_once_below_v: float = 11.35
    margin_steps: float = 1.0
    hold_s: DurationS = 11.0
    least_readings: int = 3
    clear_readings: int = 15

    def __post_init__(self) -> None:
        """Refuse levels in the wrong order."""
        if not 0 < self.at_once_below_v <= self.minimum_v:
            raise ValueError("at_once_below_v <= minimum_v, both above 0")
        if not self.margin_steps >= 0:
            raise ValueError("margin_steps at least 0")


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRailLimits(CoarseRailLimits):
    """Limits of a board's rail of 48 or 54 V that only its controller measures, every one to ten seconds.

    Parameters
    ----------
    rise_steps, rise_ratio
        Rise of the voltage lost between supplies and board over the usual loss at a like load, in steps of the meter
        and as a share of the nominal voltage; the larger one counts. heuristic: a meter keeps its offset and gain, so
        what remains is rounding, half a step each way, and drift, a part of the one per cent that PMBus meters and
        dividers may be off.
    clear_ratio, clear_blocks
        Part of that rise below which it may clear, and blocks of three seconds below it in a row.
    """

    rise_steps: float = 3.0
    rise_ratio: float = 0.01
    clear_ratio: float = 0.5
    clear_blocks: int = 10

    def __post_init__(self) -> None:
        """Refuse levels in the wrong order."""
        CoarseRailLimits.__post_init__(self)
        if not (self.rise_steps > 0 and 0 < self.rise_ratio < 1 and 0 < self.clear_ratio < 1):
            raise ValueError("rise_steps above 0, rise_ratio and clear_ratio between 0 and 1")
