"""Error band of a fitted source: narrow at the measured currents, wide beyond them.

Open-circuit voltage and resistance come from one fit, so their errors are correlated: a line that is steeper than
estimated also begins higher, and between the currents of the fit the two errors cancel. The lowest voltage and the
highest resistance of their bounds together form a line that no fit of these samples allows. The error of what the
line *predicts* at a current is ``s(I)^2 = s_mean^2 + (I - I_mean)^2 s_R^2`` (the confidence band of a regression line:
Draper and Smith, Applied Regression Analysis, 1998, chapter 3), and a cap uses its lower end.
"""

import math
from dataclasses import dataclass

from physics.constants import Z_BOTH, Z_LOWER


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBand:
    """Standard errors of a fitted source: of the voltage at `centre_a`, and of the resistance that tilts the line."""

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
