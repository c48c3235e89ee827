"""Heat that a heat sink passes to the air while the load changes: power, delayed by the sink's time constant.

A die on its paste follows its power within seconds, the heat sink under it within a minute. With ``s`` the share of the
resistance that lies between heat sink and air, ``T - T_air = theta [(1 - s) P + s F]``, where `F` is the power delayed
by a first-order lag. So the resistance can be determined also while the load changes within a window, if the
time before is known. Errors of `s` and of the time constant are the same for all siblings.
"""

import math

import numpy as np

from telemetry.frames import FloatArray

# Duty at which resistances are compared.
HALF_DUTY = 0.5
# Turbulent flow over fins: Nusselt number with Re**0.8 (Dittus and Boelter, 1930).
EXPONENT = 0.8
# Share of a healthy GPU's resistance that lies between heat sink and air, at half duty. Assumption: 0.060 of
# 0.115 K/W on a V100 SXM2; die, lid and paste do not depend on the fans.
AIR_SHARE = 0.52
# heuristic: below this a duty is an idle reading of the board, not a speed at which anything cools.
LEAST_DUTY = 0.05


def resistance_factor(duty_ratio: FloatArray) -> FloatArray:
    """Return the whole resistance at a duty, in units of that at half duty; NaN if the duty is unknown."""
    factor: FloatArray = 1.0 - AIR_SHARE + AIR_SHARE * (HALF_DUTY / duty_ratio.clip(min=LEAST_DUTY)) ** EXPONENT
    return factor


def power_factor(duty_factor: float) -> float:
    """Return the factor of fan power for a factor of speed: its cube, by the affinity laws."""
    return duty_factor**3


# Time constant of a heat sink: 800 J/K on 0.06 K/W (V100 SXM2 of about 0.9 kg, assumption).
SINK_S = 48.0
# Below this share of a window's mean it does not matter what the sink held at its beginning. Heuristic: a window of
# ten time constants, over which a load that doubles is a twentieth off.
_FORGOTTEN_SHARE = 0.1


def carried_w(
    *, before_w: FloatArray, mean_w: FloatArray, older_w: FloatArray, recent_w: FloatArray, length_s: float
) -> tuple[FloatArray, FloatArray]:
    """Return the mean heat that the sink passed on over a window, and the heat at its end.

    Parameters
    ----------
    before_w
        Heat when the window began; NaN if unknown, which only a long window makes up for.
    mean_w, older_w, recent_w
        Power in the window: its mean, and the means weighted by ``1 - g`` and by ``g``, where ``g = exp(-age / tau)``
        with the age at the window's end.
    """
    left = math.exp(-length_s / SINK_S)
    share = SINK_S / length_s * (1.0 - left)
    known_w = np.where(np.isnan(before_w), mean_w, before_w) if share <= _FORGOTTEN_SHARE else before_w
    carried: FloatArray = share * known_w + (1.0 - share) * older_w
    # Whatever the window began with is nearly gone at its end.
    after: FloatArray = left * np.where(np.isnan(before_w), mean_w, before_w) + (1.0 - left) * recent_w
    return carried, after


def felt_w(power_w: FloatArray, sink_w: FloatArray) -> FloatArray:
    """Return the power that determines a GPU's temperature: part of it present, part delayed by the sink."""
    felt: FloatArray = (1.0 - AIR_SHARE) * power_w + AIR_SHARE * sink_w
    return felt
