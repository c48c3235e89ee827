"""State of a node: power and settings of each GPU, voltage and current of each supply, error band of its source.

The caller fills it from the last seconds of samples. None means unknown.
"""

import math
from dataclasses import dataclass

from physics.board_curve import BoardCurve
from physics.constants import Z_BOTH, Z_LOWER


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBand:
    """Standard errors of a fitted source: of the voltage at `centre_a`, and of the resistance that tilts the line.

    Open-circuit voltage and resistance come from one fit, so their errors are correlated: a line that is steeper than
    estimated also begins higher, and between the currents of the fit the two errors cancel. The band is narrow at the
    measured currents and wide beyond them: the error of what the line *predicts* at a current is
    ``s(I)^2 = s_mean^2 + (I - I_mean)^2 s_R^2`` (the confidence band of a regression line: Draper and Smith, Applied
    Regression Analysis, 1998, chapter 3), and a cap uses its lower end.
    """

    centre_a: float
    level_sd_v: float
    resistance_sd_ohm: float

    def below_v(self, current_a: float) -> float:
        """Return how far below the line the voltage at a current may lie, at the lower end of the 95 % bounds."""
        return Z_LOWER * math.hypot(self.level_sd_v, (current_a - self.centre_a) * self.resistance_sd_ohm)


def of_two_levels(*, low_a: float, high_a: float, level_sd_v: float) -> SourceBand:
    """Return the band of the line through two levels whose voltages have the same standard error."""
    return SourceBand(
        centre_a=(low_a + high_a) / 2.0,
        level_sd_v=level_sd_v / math.sqrt(2.0),
        resistance_sd_ohm=level_sd_v * math.sqrt(2.0) / (high_a - low_a),
    )


def of_bounds(*, centre_a: float, open_reach_v: float, resistance_reach_ohm: float) -> SourceBand:
    """Return the band of a fit about `centre_a` out of how far its 95 % bounds reach to either side.

    The bound of the open-circuit voltage is that of the line at no current, so what the tilt does not explain of it is
    the error at the centre.
    """
    tilt_v = centre_a * resistance_reach_ohm
    return SourceBand(
        centre_a=centre_a,
        level_sd_v=math.sqrt(max(open_reach_v**2 - tilt_v**2, 0.0)) / Z_BOTH,
        resistance_sd_ohm=resistance_reach_ohm / Z_BOTH,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredGpu:
    """GPU that answers; a lost one is left out.

    Parameters
    ----------
    supported_mhz
        The clocks that can be set, ascending; empty if none can.
    clock_mhz
        The clock at which it drew `power_high_w`.
    power_high_w, power_low_w
        Its power in the high and the low phase of the load, over the window of the supply's currents.
    limit_min_w, limit_default_w
        The power limits that can be set, up to the vendor's default.
    fan_min_ratio, fan_ratio
        The lowest speed that its fan can be set to, and its speed now.
    board
        Power curve of the board; None if not even its name is known.
    """

    entity_id: str
    max_clock_mhz: float
    supported_mhz: tuple[float, ...]
    clock_mhz: float | None = None
    power_high_w: float | None = None
    power_low_w: float | None = None
    temp_c: float | None = None
    limit_min_w: float | None = None
    limit_default_w: float | None = None
    fan_min_ratio: float | None = None
    fan_ratio: float | None = None
    board: BoardCurve | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSupply:
    """Supply path now, as far as it can be identified; `physics.two_level` fills it from the last seconds.

    Parameters
    ----------
    minimum_v
        The lowest voltage of the last seconds, since the last change of a clock.
    current_high_a, current_low_a
        Its current in the high and the low phase of the load, over the window of the GPUs' powers.
    band
        Error band of open-circuit voltage and source resistance; None if unknown.
    scatter_v
        Standard deviation of single voltages about the line of the source; 0 if unknown.
    limit_scale
        Limits of the rail over those at 12 V (`physics.rail_classes.limit_scale`).
    """

    entity_id: str
    minimum_v: float | None = None
    open_circuit_v: float | None = None
    source_resistance_ohm: float | None = None
    current_high_a: float | None = None
    current_low_a: float | None = None
    band: SourceBand | None = None
    scatter_v: float = 0.0
    limit_scale: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredNode:
    """All GPUs and supplies of one node at one time. `job_started_ns` is when a job last began to use its GPUs."""

    gpus: tuple[MeasuredGpu, ...]
    supplies: tuple[MeasuredSupply, ...] = ()
    job_started_ns: int | None = None

    def gpu(self, entity_id: str) -> MeasuredGpu | None:
        """Return one GPU, None if it does not answer."""
        return next((gpu for gpu in self.gpus if gpu.entity_id == entity_id), None)

    def supply(self, entity_id: str) -> MeasuredSupply | None:
        """Return one supply, None if nothing is known of it."""
        return next((supply for supply in self.supplies if supply.entity_id == entity_id), None)
