"""Limits of all detectors, with the source of each default.

The classes are plain frozen dataclasses for the detectors; as fields of a configuration model pydantic reads them with
durations such as ``10s`` and refuses unknown keys.
"""

from dataclasses import dataclass, field

from pydantic import ConfigDict, with_config

from analytics.detectors.bus_limits import HangLimits, LinkHealthLimits, StragglerLimits
from analytics.detectors.heat_limits import (
    AirflowLimits,
    AirflowLostLimits,
    FanStoppedLimits,
    NodeWarmingLimits,
    ThermalResistanceLimits,
    WarmInletLimits,
)
from analytics.detectors.pin_limits import ConnectorPinsLimits
from analytics.detectors.supply_limits import (
    BoardRailLimits,
    CoarseRailLimits,
    CurrentShareLimits,
    PowerBrakeLimits,
    RailSagLimits,
    SourceResistanceLimits,
    SupplyHeadroomLimits,
    SupplyPlausibilityLimits,
)
from analytics.detectors.supply_margins_limits import SupplyMarginsLimits
from telemetry.durations import DurationS

_strict = with_config(ConfigDict(extra="forbid"))


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class NoveltyLimits:
    """Limits of novelty: distance from the learnt behaviour, and how often a healthy GPU may exceed it.

    Parameters
    ----------
    distance
        How far a window must lie from what was learnt, in deviations, smoothed. The own healthy windows of a GPU may
        set it higher, never lower. heuristic: the smallest deviation of a signal is a step of its sensor (1 K, 2 % of
        the power, 1 % of the clock), so that five are 5 K, or 10 % of the power.
    clear_ratio
        heuristic: share of that distance below which it may clear.
    notes_per_gpu_month
        heuristic: rate of notes allowed for a healthy GPU, from which its threshold is computed. Notes are no pages.
    window_s
        Length of a window. heuristic: half a minute holds some tens of training steps.
    learn_windows
        Windows from which it is learnt what is usual. heuristic: an hour, ten for each feature and more.
    blocks, block_windows
        Blocks of windows behind them, whose largest distances set the own threshold. heuristic: an hour in blocks of
        five minutes.
    smoothing
        Share of the newest window in the smoothed distance. heuristic: half.
    hold_s
        Time that it must last before it is reported.
    clear_after_s
        Time that all must be usual again before it clears.
    settle_s
        Time left out after whatever explains a change: a job that begins or ends, a driver that is bound, another
        finding that ended. heuristic: five minutes, more than twice the slowest time constant of a heat sink here.
    relearn_after_s
        A GPU that was unusual for this long has changed for good: its note clears, and it is learnt anew. heuristic: a
        day, in which an operator sees the note; loads and rooms repeat within it.
    """

    distance: float = 5.0
    clear_ratio: float = 0.6
    notes_per_gpu_month: float = 0.1
    window_s: DurationS = 30.0
    learn_windows: int = 120
    blocks: int = 12
    block_windows: int = 10
    smoothing: float = 0.5
    hold_s: DurationS = 60.0
    clear_after_s: DurationS = 120.0
    settle_s: DurationS = 300.0
    relearn_after_s: DurationS = 86_400.0

    def __post_init__(self) -> None:
        """Refuse shares that are none, and what cannot be learnt from."""
        if not (self.distance > 0 and 0 < self.clear_ratio <= 1 and 0 < self.smoothing <= 1):
            raise ValueError("distance above 0, clear_ratio and smoothing above 0 and at most 1")
        if not (self.learn_windows >= 30 and self.blocks >= 3 and self.block_windows >= 1):
            raise ValueError("learn_windows at least 30, blocks at least 3, block_windows at least 1")
        if not (self.window_s >= 1 and self.notes_per_gpu_month > 0):
            raise ValueError("window_s at least 1s, notes_per_gpu_month above 0")


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class HwSlowdownLimits:
    """Limits of a hardware slowdown without power brake or heat.

    `hold_s` spans several sensor periods, because the bits that explain it (0x40, 0x80) may follow one update later:
    sensors update every 20 ms on V100 and every 100 ms on A100 (Yang et al., SC'24, arXiv 2312.02741).

    Parameters
    ----------
    hold_s
        Time that it must last before it is reported.
    clear_after_s
        Quiet time before it counts as over.
    """

    hold_s: DurationS = 0.3
    clear_after_s: DurationS = 10.0


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class ThermalMarginLimits:
    """Limits of the margin to the slowdown temperature.

    V100 SXM2 reports 83 °C as its highest operating and 87 °C as its slowdown temperature (``nvidia-smi -q``): 4 K.
    `set_below_c` warns one sensor step (1 K) before that, `clear_above_c` lies another 4 K off.

    Parameters
    ----------
    set_below_c, critical_below_c
        Kelvin left to the slowdown temperature at which it is reported, and at which it is critical.
    clear_above_c
        Kelvin left at which it may clear.
    hold_s
        Time that it must last before it is reported.
    clear_after_s
        Quiet time before it counts as over.
    """

    set_below_c: float = 5.0
    clear_above_c: float = 9.0
    critical_below_c: float = 1.0
    hold_s: DurationS = 5.0
    clear_after_s: DurationS = 10.0

    def __post_init__(self) -> None:
        """Refuse levels in the wrong order."""
        if not self.critical_below_c <= self.set_below_c <= self.clear_above_c:
            raise ValueError("critical_below_c <= set_below_c <= clear_above_c")


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class HotterThanSiblingsLimits:
    """Limits of a GPU hotter than its siblings at the same power.

    Parameters
    ----------
    ratio, clear_ratio
        Thermal resistance over what is normal for the slot: the median of the siblings and the learnt excess over it.
        Assumption, tuned on simulated thermal interfaces: a mis-torqued V100 cold plate (+0.055 K/W on 0.115 K/W) gives
        1.48; one in a thousand healthy ones is above 1.15 even where slots are not learnt.
    excess_c, clear_excess_c
        Floor in kelvin to be reported, and what a ratio at its limit must make at the load of the moment for a lower
        one to clear it: an excess falls with the power, so that it alone would come and go with the load. heuristic:
        an excess over a learnt slot that lasts stays below 1.5 K on simulated healthy GPUs while jobs and fans change,
        and scatters by 1 K. A load that was not learnt yet has a higher limit, by what slots may differ.
    steady_ratio, steady_excess_c
        The same for an excess that lasts for half a minute and longer. heuristic: slots that follow a room that swings
        by 7 K an hour differ by up to 8 % and 3.2 K over a minute on simulated chassis with 12 K between their slots.
    min_power_ratio, min_power_w
        Power from which heat depends on the interface and not on the slot: 40 % of the limit in force, or 120 W (40 %
        of a V100's 300 W) where the limit is unknown.
    inlet_c
        Assumed air temperature; 25 °C lies in the range that ASHRAE TC 9.9 recommends (18 to 27 °C). An error of 10 K
        moves the ratio of a healthy GPU not at all and that of a bad one by a tenth.
    smoothing_s, settle_s
        Time constant of the means, about ten training steps, and the data needed before the first judgement.
    hold_s
        Time that it must last before it is reported.
    clear_after_s
        Quiet time before it counts as over.
    """

    ratio: float = 1.15
    clear_ratio: float = 1.05
    excess_c: float = 4.0
    clear_excess_c: float = 3.0
    steady_ratio: float = 1.09
    steady_excess_c: float = 3.0
    min_power_ratio: float = 0.4
    min_power_w: float = 120.0
    inlet_c: float = 25.0
    smoothing_s: DurationS = 10.0
    settle_s: DurationS = 12.0
    hold_s: DurationS = 6.0
    clear_after_s: DurationS = 30.0

    def __post_init__(self) -> None:
        """Refuse levels in the wrong order."""
        if not (1.0 <= self.clear_ratio <= self.ratio and 0.0 <= self.clear_excess_c <= self.excess_c):
            raise ValueError("1 <= clear_ratio <= ratio and 0 <= clear_excess_c <= excess_c")


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLostLimits:
    """Limits of a lost GPU: silence while a sibling answers, 1 s of the 2 s promised from loss to incident.

    Structural collapse is the signal of a detached GPU, not drift (GWDG study, arXiv 2603.28781).

    Parameters
    ----------
    hold_s
        Silence before it is reported.
    clear_after_s
        Time that the GPU must answer again before it counts as back.
    """

    hold_s: DurationS = 1.0
    clear_after_s: DurationS = 5.0


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class SensorLostLimits:
    """Limits of an absent signal before the health of its entity is unknown: five periods at 1 Hz.

    At least three samples in any case, because lone ones go missing in healthy telemetry (0.1 to 1 % assumed).

    Parameters
    ----------
    hold_s
        Absence before it is reported.
    clear_after_s
        Time that the signal must be there again before it counts as back.
    rest_s
        Time without work on all GPUs of a node before they fell silent together, for their silence to be no more than
        noted. heuristic: longer than any pause between steps, shorter than it takes to end jobs and change a driver.
    away_s
        Time after which such silence is a warning all the same. heuristic: a driver is changed in minutes, a node
        that restarts takes up to ten.
    """

    hold_s: DurationS = 5.0
    clear_after_s: DurationS = 5.0
    rest_s: DurationS = 5.0
    away_s: DurationS = 900.0


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class GpuErrorLimits:
    """Limit of GPU errors: time without a report until an error clears.

    Ten minutes: the span before a failure in which Meta's cluster study attributes a cause (arXiv 2410.21680).

    Parameters
    ----------
    clear_after_s
        Time without the same error before it counts as over.
    """

    clear_after_s: DurationS = 600.0


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorLimits:
    """Limits of all detectors."""

    rail_sag: RailSagLimits = field(default_factory=RailSagLimits)
    power_brake: PowerBrakeLimits = field(default_factory=PowerBrakeLimits)
    hw_slowdown: HwSlowdownLimits = field(default_factory=HwSlowdownLimits)
    thermal_margin: ThermalMarginLimits = field(default_factory=ThermalMarginLimits)
    hotter_than_siblings: HotterThanSiblingsLimits = field(default_factory=HotterThanSiblingsLimits)
    thermal_resistance: ThermalResistanceLimits = field(default_factory=ThermalResistanceLimits)
    warm_inlet: WarmInletLimits = field(default_factory=WarmInletLimits)
    airflow: AirflowLimits = field(default_factory=AirflowLimits)
    airflow_lost: AirflowLostLimits = field(default_factory=AirflowLostLimits)
    node_warming: NodeWarmingLimits = field(default_factory=NodeWarmingLimits)
    fan_stopped: FanStoppedLimits = field(default_factory=FanStoppedLimits)
    gpu_lost: GpuLostLimits = field(default_factory=GpuLostLimits)
    sensor_lost: SensorLostLimits = field(default_factory=SensorLostLimits)
    gpu_errors: GpuErrorLimits = field(default_factory=GpuErrorLimits)
    hang: HangLimits = field(default_factory=HangLimits)
    straggler: StragglerLimits = field(default_factory=StragglerLimits)
    link_health: LinkHealthLimits = field(default_factory=LinkHealthLimits)
    source_resistance: SourceResistanceLimits = field(default_factory=SourceResistanceLimits)
    current_share: CurrentShareLimits = field(default_factory=CurrentShareLimits)
    board_rail: BoardRailLimits = field(default_factory=BoardRailLimits)
    converter_rail: CoarseRailLimits = field(default_factory=CoarseRailLimits)
    supply_headroom: SupplyHeadroomLimits = field(default_factory=SupplyHeadroomLimits)
    supply_plausibility: SupplyPlausibilityLimits = field(default_factory=SupplyPlausibilityLimits)
    supply_margins: SupplyMarginsLimits = field(default_factory=SupplyMarginsLimits)
    connector_pins: ConnectorPinsLimits = field(default_factory=ConnectorPinsLimits)
    novelty: NoveltyLimits = field(default_factory=NoveltyLimits)
