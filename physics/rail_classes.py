"""Classes of supply rails by nominal voltage: limits, plausible readings, and the source of each.

Limits are shares of the nominal voltage, so that a rail of any voltage is judged alike. Thresholds in volts, amperes
and ohms that were measured on 12 V feeds are brought to another voltage at the same power: volts in proportion, amperes
inversely, ohms with the square.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from telemetry.entities import Entity
from telemetry.frames import FloatArray

# Voltage of the feeds on which thresholds were measured (Oxford GPU_Power_Benchmark, blbadger.github.io/gpu-server).
MEASURED_AT_V = 12.0
# Lowest voltage of a 12 V rail at the load: 5 % below (ATX12V Power Supply Design Guide 2.2, table 2, static).
LEAST_RAIL_V = 11.40
# No load that still computes pulls a rail down to half, so a lone reading below is a failed conversion. Above 4/3 of
# the nominal a supply has shut down: over-voltage trips at 15.6 V of 12 V at most (Intel, Desktop Platform Form Factors
# Power Supply Design Guide, 336521, over-voltage protection).
LEAST_PLAUSIBLE_RATIO, MOST_PLAUSIBLE_RATIO = 0.5, 4.0 / 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RailClass:
    """Class of rails of one nominal voltage.

    Parameters
    ----------
    nominal_v
        Nominal voltage.
    shown_v
        Readings that show this class where nothing names it: lowest, and the first that is too high.
    lowest_ratio
        Lowest voltage at the load over the nominal; NaN where none is known that a load depends on.
    feeds_gpus
        True if GPUs are fed from such rails.
    source
        Source of `lowest_ratio`.
    """

    nominal_v: float
    shown_v: tuple[float, float]
    lowest_ratio: float
    feeds_gpus: bool
    source: str

    @property
    def name(self) -> str:
        """Name as people write it, such as ``12 V``."""
        return f"{self.nominal_v:g} V"

    @property
    def has_limit(self) -> bool:
        """True for rails that a load depends on; False for mains."""
        return not np.isnan(self.lowest_ratio)

    @property
    def lowest_v(self) -> float:
        """Lowest voltage at the load."""
        return self.lowest_ratio * self.nominal_v

    @property
    def plausible_v(self) -> tuple[float, float]:
        """Readings outside are those of a dead or disturbed sensor, or of a supply that is off."""
        return LEAST_PLAUSIBLE_RATIO * self.nominal_v, MOST_PLAUSIBLE_RATIO * self.nominal_v


_ATX = "5 %: ATX Version 3.0 Multi Rail Desktop Platform Power Supply Design Guide (Intel 336521), table 4-2"
_MAINS = "no load hangs on mains directly: a dip is judged against what the feed showed before"

# heuristic: `shown_v` of 3.3, 5 and 12 V reaches from a rail that sags by about an eighth to a supply that is set high,
# and leaves the readings between two classes to none: 4.1 V is a fault of either, 8 V a wrong scale.
RAIL_CLASSES = (
    RailClass(nominal_v=3.3, shown_v=(2.9, 3.8), lowest_ratio=0.95, feeds_gpus=False, source=_ATX),
    RailClass(nominal_v=5.0, shown_v=(4.4, 5.7), lowest_ratio=0.95, feeds_gpus=False, source=_ATX),
    RailClass(
        nominal_v=12.0,
        shown_v=(10.0, 14.0),
        lowest_ratio=0.95,
        feeds_gpus=True,
        source="5 % at the load's end, static: ATX12V Power Supply Design Guide 2.2, table 2; Intel S2400/P4000 TPS",
    ),
    RailClass(
        nominal_v=48.0,
        # heuristic: half-way between a set point of 52 V on a meter of 2 %, and a rail of 54 V under a load that takes
        # 2 %. A rail of 54 V is known by its readings at light load; one of 52 V (OCP Open Rack V3 lets shelves be set
        # that high) judged as one of 54 V would sag all day.
        shown_v=(42.0, 53.0),
        lowest_ratio=0.95,
        feeds_gpus=True,
        source="heuristic: the share of a 12 V rail; equipment for -48 V works from 40.5 V (ETSI EN 300 132-2, 5.1)",
    ),
    RailClass(
        nominal_v=54.0,
        shown_v=(53.0, 58.0),
        lowest_ratio=0.95,
        feeds_gpus=True,
        source="heuristic: the share of a 12 V rail; no limit of the 54 V inputs of HGX boards is published",
    ),
    # IEC 60038 and the voltages of North America and Japan.
    *(
        RailClass(nominal_v=nominal_v, shown_v=shown_v, lowest_ratio=float("nan"), feeds_gpus=False, source=_MAINS)
        for nominal_v, shown_v in ((120.0, (90.0, 145.0)), (230.0, (180.0, 260.0)), (400.0, (330.0, 500.0)))
    ),
)
_BY_NOMINAL = {one.nominal_v: one for one in RAIL_CLASSES}
# Main buses of a board or rack, from which GPU modules since 2020 are fed (HGX boards, OCP Open Rack V3).
MAIN_BUSES_V = frozenset(one.nominal_v for one in RAIL_CLASSES if one.feeds_gpus and one.nominal_v > MEASURED_AT_V)
# heuristic: limits of 43 to 58 V are for -48 V equipment as for a bus of 54 V; half as far from the middle is clear.
_NEARER = 2.0
_SHOWN_V = np.array([one.shown_v for one in RAIL_CLASSES])
_NOMINALS_V = np.array([one.nominal_v for one in RAIL_CLASSES])


def rail_class_of(nominal_v: float) -> RailClass | None:
    """Return the class of a nominal voltage; None where there is none."""
    return _BY_NOMINAL.get(nominal_v)


def _class_tagged(nominal_v: float | None) -> RailClass | None:
    """Return the class of a tag; one of 50 to 52 V has the shares of the main bus that it shows.

    Shelves are set to such voltages (OCP Open Rack V3), and recordings of others name them; a configuration does not.
    """
    if nominal_v is None or nominal_v in _BY_NOMINAL:
        return None if nominal_v is None else _BY_NOMINAL[nominal_v]
    buses = (_BY_NOMINAL[one] for one in sorted(MAIN_BUSES_V))
    shown = next((one for one in buses if one.shown_v[0] <= nominal_v < one.shown_v[1]), None)
    return None if shown is None else replace(shown, nominal_v=nominal_v)


def class_of_limits(low_v: float, high_v: float, reading_v: float | None = None) -> RailClass | None:
    """Return the class that the alarm limits of a rail are meant for; None where they fit none, or two about equally.

    The nominal voltage lies within the limits, and the limits within what is plausible of the rail: limits of 0 and
    20 V, as chips start with, are those of no rail. Of several classes the highest counts where `reading_v` shows it: a
    load pulls a rail down, never up. Else it is the one nearest to the middle of the limits.
    """
    inside = [
        one for one in RAIL_CLASSES if one.plausible_v[0] <= low_v <= one.nominal_v <= high_v <= one.plausible_v[1]
    ]
    if len(inside) < 2:
        return inside[0] if inside else None
    highest = inside[-1]
    if reading_v is not None and highest.shown_v[0] <= reading_v < highest.shown_v[1]:
        return highest
    off_middle = {one.nominal_v: abs(math.log(one.nominal_v**2 / (low_v * high_v))) for one in inside}
    first, second = sorted(inside, key=lambda one: off_middle[one.nominal_v])[:2]
    return first if _NEARER * off_middle[first.nominal_v] < off_middle[second.nominal_v] else None


def may_feed_gpus(nominal_v: float | None) -> bool:
    """Return False for rails that no GPU hangs on: 3.3 and 5 V, mains; True where the nominal voltage is unknown."""
    known = _class_tagged(nominal_v)
    return known is None or known.feeds_gpus


def limit_scale(nominal_v: float | None) -> float:
    """Return the limits of a rail over those of a 12 V rail; NaN for a rail that is not judged by its voltage.

    It is exactly 1 at 12 V.
    """
    known = _class_tagged(nominal_v)
    return float("nan") if known is None else known.lowest_v / _BY_NOMINAL[MEASURED_AT_V].lowest_v


def assumed_nominal_v(entity: Entity) -> float:
    """Return the nominal voltage that a rail is tagged with; one without a tag is taken for one of 12 V."""
    return entity.nominal_v or MEASURED_AT_V


def named_nominals(entities: Sequence[Entity]) -> FloatArray:
    """Return the nominal voltage that each rail is tagged with, shape ``(n,)``; NaN for one without a tag."""
    return np.array([np.nan if one.nominal_v is None else one.nominal_v for one in entities])


def shown_nominals(voltage_v: FloatArray) -> FloatArray:
    """Return the nominal voltages that readings of shape ``(n,)`` show; NaN for those between the classes."""
    inside = (voltage_v[:, np.newaxis] >= _SHOWN_V[:, 0]) & (voltage_v[:, np.newaxis] < _SHOWN_V[:, 1])
    return np.where(inside.any(axis=1), _NOMINALS_V[inside.argmax(axis=1)], np.nan)


def times_measured(voltage_v: FloatArray | float) -> FloatArray:
    """Return voltages over the 12 V at which thresholds were measured, at least 1; NaN where the voltage is NaN.

    A threshold in volts is multiplied by it, one in amperes divided, one in ohms multiplied by its square. Rails of 3.3
    and 5 V keep the thresholds of 12 V: their meters are no finer, and they carry no more power.
    """
    return np.maximum(np.asarray(voltage_v, dtype=np.float64) / MEASURED_AT_V, 1.0)
