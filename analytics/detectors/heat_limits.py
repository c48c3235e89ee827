"""Limits of the detectors of heat and air, with the source of each default."""

from dataclasses import dataclass

from pydantic import ConfigDict, with_config

from telemetry.durations import DurationS

_strict = with_config(ConfigDict(extra="forbid"))


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class ThermalResistanceLimits:
    """Limits of thermal resistance: excess over the siblings beyond the normal offset of the slot.

    Ratios are excess over the rise above the inlet that is normal for the GPU at its power.

    Parameters
    ----------
    ratio, clear_ratio
        Excess ratio, smoothed, from which it is reported. heuristic: simulated healthy GPUs stay within 0.05, a
        mis-torqued V100 cold plate (+0.055 K/W on 0.115 K/W, assumption) gives 0.48.
    warn_ratio
        From here on it is a warning. heuristic: an operator should look at it while there is time.
    severe_ratio
        heuristic: three tenths: half of what is left between a healthy V100 at 300 W and its slowdown temperature.
    slow_ratio, clear_slow_ratio
        heuristic: the same over hours, for an interface that dries out: reported as information.
    alone_ratio
        heuristic: over its own past at a like power and inlet, where there are not two siblings; fans may differ.
    floor_c, slow_floor_c
        Kelvin below which no ratio counts. heuristic: two GPUs whose temperatures are rounded to whole kelvin can
        differ by one for as long as the load stays; over hours that averages out.
    fresh_excess_c
        Kelvin over the GPUs in the same air from which a GPU beyond the range of these is reported, whatever was
        learnt. heuristic: six steps of the sensor; the range itself is what healthy GPUs of a node differ by.
    min_power_ratio, min_power_w
        Power above which a GPU works: a fifth of the limit in force, or 60 W (a fifth of a V100's 300 W) where the
        limit is unknown. heuristic: idle parts take 10 to 16 %. Below it, it shows the air temperature.
    inlet_c
        Assumed air temperature where neither a sensor nor an idle GPU shows it; 25 °C lies in the range that ASHRAE TC
        9.9 recommends (18 to 27 °C).
    window_s
        Length of a window. heuristic: two minutes hold a hundred training steps, and seven fit into a quarter of an
        hour. Where rows are rare it is as long as sixteen of them take.
    smoothing, slow_smoothing
        Share that a new window has in the smoothed excess; the slow one remembers fifty windows.
    learn_windows
        Windows under load after which a slot is frozen: an hour.
    windows
        Windows of a slot that must have been seen before anything is reported.
    slow_windows
        The same for the slow excess.
    """

    ratio: float = 0.08
    clear_ratio: float = 0.05
    warn_ratio: float = 0.12
    severe_ratio: float = 0.30
    slow_ratio: float = 0.05
    clear_slow_ratio: float = 0.03
    alone_ratio: float = 0.20
    floor_c: float = 1.5
    slow_floor_c: float = 1.0
    fresh_excess_c: float = 6.0
    min_power_ratio: float = 0.2
    min_power_w: float = 60.0
    inlet_c: float = 25.0
    window_s: DurationS = 120.0
    smoothing: float = 0.4
    slow_smoothing: float = 0.02
    learn_windows: int = 30
    windows: int = 2
    slow_windows: int = 60

    def __post_init__(self) -> None:
        """Refuse levels in the wrong order."""
        if not 0.0 <= self.clear_ratio <= self.ratio <= self.warn_ratio <= self.severe_ratio:
            raise ValueError("0 <= clear_ratio <= ratio <= warn_ratio <= severe_ratio")
        if not 0.0 <= self.clear_slow_ratio <= self.slow_ratio:
            raise ValueError("0 <= clear_slow_ratio <= slow_ratio")
        if not (0.0 < self.smoothing <= 1.0 and 0.0 < self.slow_smoothing <= 1.0):
            raise ValueError("smoothing and slow_smoothing above 0 and at most 1")
        if not (self.window_s >= 1.0 and self.learn_windows >= 1):
            raise ValueError("window_s at least 1 s and learn_windows at least 1")


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class WarmInletLimits:
    """Limits of the inlet temperature of a node.

    Parameters
    ----------
    set_c, clear_c
        35 °C is the highest that ASHRAE class A2 allows. Clears 3 K below, heuristic.
    critical_c
        45 °C, the highest that ASHRAE class A4 allows.
    hold_s
        Time that it must last: a probe in moving air follows within ten seconds.
    clear_after_s
        Time that it must be cooler again.
    """

    set_c: float = 35.0
    clear_c: float = 32.0
    critical_c: float = 45.0
    hold_s: DurationS = 30.0
    clear_after_s: DurationS = 60.0

    def __post_init__(self) -> None:
        """Refuse levels in the wrong order."""
        if not self.clear_c <= self.set_c <= self.critical_c:
            raise ValueError("clear_c <= set_c <= critical_c")


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowLimits:
    """Limits of airflow: heat removal compared with the past at a similar load and inlet.

    Parameters
    ----------
    ratio, clear_ratio
        Rise of the GPUs over their past, normalised to one fan duty where it is known, smoothed. heuristic: a fifth;
        half of the fans lost make two fifths on a simulated V100 node.
    floor_c
        Kelvin below which no ratio counts. heuristic: four steps of the sensor.
    min_rise_c
        heuristic: rise of the GPUs above the inlet from which it shows the air temperature.
    window_s
        As for the thermal resistance.
    smoothing, windows
        Share of a new window, and windows that must have been judged: fans swing for minutes after a change of load.
    learn_windows
        Windows after which a cell of like conditions is frozen: twenty minutes.
    """

    ratio: float = 0.20
    clear_ratio: float = 0.10
    floor_c: float = 4.0
    min_rise_c: float = 10.0
    window_s: DurationS = 120.0
    smoothing: float = 0.4
    windows: int = 3
    learn_windows: int = 10

    def __post_init__(self) -> None:
        """Refuse levels in the wrong order."""
        if not 0.0 <= self.clear_ratio <= self.ratio:
            raise ValueError("0 <= clear_ratio <= ratio")
        if not (0.0 < self.smoothing <= 1.0 and self.window_s >= 1.0 and self.learn_windows >= 1):
            raise ValueError("0 < smoothing <= 1, window_s at least 1 s, learn_windows at least 1")


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowLostLimits:
    """Limits of a sudden loss of airflow within minutes at the same load.

    Parameters
    ----------
    ratio, clear_ratio
        Thermal resistance now over what it was under this load. heuristic: a fifth; half of the fans lost gives two
        fifths within a minute on a simulated V100 node, sensor steps of 1 K a twentieth.
    floor_c
        Kelvin below which no ratio counts. heuristic: five steps of the sensor.
    blind_floor_c, blind_s
        Where the fan duty is not known: kelvin above the highest that the GPUs had before, and time under load for
        which that must have been watched, so that a controller that slows its fans is not taken for a fault.
        heuristic: twice the overshoot of a simulated controller, and the five minutes in which one settles.
    min_rise_c
        heuristic: rise of the GPUs above the inlet from which it shows the air temperature.
    hold_s
        Time that it must last: more than ten training steps.
    clear_after_s
        Time that it must be over.
    """

    ratio: float = 0.20
    clear_ratio: float = 0.10
    floor_c: float = 5.0
    blind_floor_c: float = 4.0
    blind_s: DurationS = 300.0
    min_rise_c: float = 10.0
    hold_s: DurationS = 15.0
    clear_after_s: DurationS = 120.0

    def __post_init__(self) -> None:
        """Refuse levels in the wrong order."""
        if not 0.0 <= self.clear_ratio <= self.ratio:
            raise ValueError("0 <= clear_ratio <= ratio")


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWarmingLimits:
    """Limits of all GPUs of a node without an inlet sensor that get hotter together at the same load.

    Parameters
    ----------
    rise_c, clear_c
        Kelvin over what they were under this load, the hottest left out. ASHRAE TC 9.9 allows the air in front of IT
        equipment a change of 5 K in 15 minutes; heuristic: three steps of the sensor more, and half of it to clear.
    peak_c, watched_s
        heuristic: kelvin above the highest that they had before, and time under load for which that must have been
        watched: as where the fan duty is not known, see `airflow_lost`.
    min_rise_c
        heuristic: rise of the GPUs above the inlet from which it shows the air temperature.
    inlet_c
        Inlet assumed. Assumption: the middle of a data hall; it moves what another load explains, not the excess.
    hold_s
        Time that it must last: more than ten training steps.
    clear_after_s
        Time that it must be over.
    """

    rise_c: float = 8.0
    clear_c: float = 4.0
    peak_c: float = 4.0
    watched_s: DurationS = 300.0
    min_rise_c: float = 10.0
    inlet_c: float = 25.0
    hold_s: DurationS = 15.0
    clear_after_s: DurationS = 120.0

    def __post_init__(self) -> None:
        """Refuse levels in the wrong order."""
        if not 0.0 <= self.clear_c <= self.rise_c:
            raise ValueError("0 <= clear_c <= rise_c")


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class FanStoppedLimits:
    """Limits of a stopped fan.

    Parameters
    ----------
    turning_rpm
        heuristic: speed below which a fan counts as stopped; one turn a second, no controller sets less.
    min_duty_ratio
        heuristic: duty from which a fan must turn although no other of its node does.
    hold_s
        Time that it must last: three readings of a board's controller at 5 s.
    clear_after_s
        Time that it must turn again.
    """

    turning_rpm: float = 60.0
    min_duty_ratio: float = 0.1
    hold_s: DurationS = 15.0
    clear_after_s: DurationS = 15.0
