"""Fan laws: thermal resistance and fan power over duty."""

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
