"""Circuit breakers of mains feeds: what they hold, and when they trip."""

from dataclasses import dataclass
from enum import StrEnum


class BreakerCurve(StrEnum):
    """Trip characteristic of a breaker."""

    B = "B"
    C = "C"
    D = "D"
    K = "K"
    Z = "Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class TripCurve:
    """Currents of a breaker over its rating.

    Parameters
    ----------
    holds_ratio
        Current that it holds for an hour without tripping.
    trips_ratio
        Current at which it trips within an hour.
    instant_ratio
        Currents of the magnetic release: below the first it does not trip within 0.1 s, from the second on it does.
    source
        Standard.
    """

    holds_ratio: float
    trips_ratio: float
    instant_ratio: tuple[float, float]
    source: str


_HOUSEHOLD = "IEC 60898-1, table 7: conventional currents of 1.13 and 1.45 times the rating, magnetic release by type"
_INDUSTRIAL = "IEC 60947-2 for the thermal release, 1.05 and 1.30 times the rating; magnetic release as makers state it"

TRIP_CURVES = {
    BreakerCurve.B: TripCurve(holds_ratio=1.13, trips_ratio=1.45, instant_ratio=(3.0, 5.0), source=_HOUSEHOLD),
    BreakerCurve.C: TripCurve(holds_ratio=1.13, trips_ratio=1.45, instant_ratio=(5.0, 10.0), source=_HOUSEHOLD),
    BreakerCurve.D: TripCurve(holds_ratio=1.13, trips_ratio=1.45, instant_ratio=(10.0, 20.0), source=_HOUSEHOLD),
    BreakerCurve.K: TripCurve(holds_ratio=1.05, trips_ratio=1.30, instant_ratio=(8.0, 14.0), source=_INDUSTRIAL),
    BreakerCurve.Z: TripCurve(holds_ratio=1.05, trips_ratio=1.30, instant_ratio=(2.0, 3.0), source=_INDUSTRIAL),
}
