"""Sags and interruptions of a supply's input, from the meters of its voltage, judged once a second.

The reference is what the meter usually shows, not a table of mains: 200, 208, 220, 230 and 240 V lie closer together
than a sag is deep. It rises within a minute (sliding reference of IEC 61000-4-30, 5.4.4) and falls within an hour, so
that mains which drift over the day are followed, and a feed that fails over minutes is not.

A meter that never showed mains is not connected, and is not judged. Inputs of less than 90 V are buses of direct
current, which have detectors of their own.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.connectivity import GroupArray
from analytics.supply.branches import DEAD_RATIO, group_sum
from analytics.supply.input_fall import BACK_RATIO, DIP_RATIO, LEAST_RATIO, MAINS_V
from physics.rail_classes import MOST_PLAUSIBLE_RATIO
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, FromZero, MaskArray, TimeArray, filled, reset_where

# ITI (CBEMA) curve application note, 2000: a sag to this share of the nominal voltage or more is ridden through for so
# many seconds. Above 90 % for ever.
ITIC_CURVE = ((0.9, float("inf")), (0.8, 10.0), (0.7, 0.5), (0.0, 0.02))
# heuristic: what a meter is off by at the corners of the curve, and the cycles of the mains that its reading takes.
_METER_RATIO, _SHOWN_S = 0.005, 0.1
# Time constant of the sliding reference (IEC 61000-4-30, 5.4.4), and heuristic: an hour downwards.
_RISES_S, _FALLS_S = 60.0, 3600.0
# heuristic: seconds with a reading before a meter is judged, and seconds far above after which the mains are others.
LEARNT_S, _OTHER_MAINS_S = 5.0, 10.0
# heuristic: one meter alone needs two new readings, or lasts longer than a controller's round of ten seconds: a failed
# conversion is shown until the next one.
_ALONE_READINGS, _ALONE_NS = 2, 11 * NS_PER_S
# heuristic: what a supply without input carries after a second or more comes from no hold-up, which lasts 20 ms.
_OFF_NS = NS_PER_S
# heuristic: what current meters of outputs are off by at nothing.
OFFSET_A = 0.5
# Sags of 6 % are to be found; mains that drift, and loads of their own, took 388 recorded feeds to 97.9 % of the usual
# voltage at the lowest (MLPerf Inference power logs, 120 hours).
FEED_DIP_RATIO, FEED_BACK_RATIO = 0.95, 0.96
# heuristic: volts, amperes and watts of one row that agree this well with their usual power factor are three witnesses.
_AGREED_RATIO = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class InputMeter:
    """What is known of a kind of meter.

    A sag begins below `dip_ratio` of the usual voltage and ends above `back_ratio`; `offset_a` is what the current
    shows of a supply that carries nothing. `paired` is true where watts and amperes are those of the same input.
    """

    dip_ratio: float = DIP_RATIO
    back_ratio: float = BACK_RATIO
    offset_a: float = OFFSET_A
    paired: bool = False


PLAIN_METER = InputMeter()
# Amperes of a feed have no level of their own: a feed of 206 V carries less than the offset of a 12 V output.
FEED_METER = InputMeter(dip_ratio=FEED_DIP_RATIO, back_ratio=FEED_BACK_RATIO, offset_a=0.0, paired=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InputReadings:
    """Newest readings of one second, shape ``(n_supplies,)``.

    `voltage_v` is NaN where nothing was read, `is_new` marks new readings. `current_a` is the highest output current of
    the supply in that second, NaN where it is unknown; `factor` is the newest power over voltage times current.
    """

    voltage_v: FloatArray
    is_new: MaskArray
    current_a: FloatArray
    factor: FloatArray

    @staticmethod
    def start(shape: int) -> "InputReadings":
        """Return a second without a reading."""
        unknown = np.full(shape, np.nan)
        return InputReadings(
            voltage_v=unknown, is_new=np.zeros(shape, dtype=np.bool_), current_a=unknown, factor=unknown
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InputLevels:
    """Usual voltage of each input, and since when it is low; shape ``(n_supplies,)``.

    `usual_a` is the highest output current of usual seconds. `since_ns` is 0 where the input is not low; `until_ns` is
    the newest second in which it was, `readings` counts new readings since, `now_v` and `lowest_v` are the newest and
    the lowest of them. `carries` marks supplies whose output carries current all the same. `usual_factor` is the usual
    power over voltage times current, `agreed` marks low inputs of which a row showed that factor.
    """

    usual_v: FloatArray
    usual_a: FloatArray
    learnt_s: FromZero
    above_s: FromZero
    since_ns: TimeArray
    until_ns: TimeArray
    readings: FromZero
    now_v: FloatArray
    lowest_v: Annotated[FloatArray, np.inf]
    carries: MaskArray
    usual_factor: FloatArray
    agreed: MaskArray

    @property
    def low(self) -> MaskArray:
        """Return a mask of inputs that are low."""
        return self.since_ns > 0

    @property
    def ratio(self) -> FloatArray:
        """Return the newest voltage over the usual one."""
        return self.now_v / self.usual_v

    @property
    def lasted_s(self) -> FloatArray:
        """Return for how long readings have been low."""
        return np.where(self.low, (self.until_ns - self.since_ns) / NS_PER_S, 0.0)


def rides_s(ratio: float) -> float:
    """Return for how long a load of the ITIC curve rides through a sag to this share of the nominal voltage."""
    return next((seconds for least, seconds in ITIC_CURVE if ratio > least - _METER_RATIO), ITIC_CURVE[-1][1])


def outlasts(ratio: float, lasted_s: float) -> bool:
    """Return True if a sag lasts longer than the ITIC curve is ridden through."""
    return lasted_s + _SHOWN_S > rides_s(ratio)


def after_second(
    levels: InputLevels, now_ns: int, readings: InputReadings, *, passed_s: float, meter: InputMeter
) -> InputLevels:
    """Add the readings of a second that ended; `passed_s` is the time since the one before. A gap changes nothing."""
    voltage_v = readings.voltage_v
    known = np.isfinite(voltage_v)
    limit_v = np.where(levels.low, meter.back_ratio, meter.dip_ratio) * levels.usual_v
    low = known & (levels.learnt_s >= LEARNT_S) & (voltage_v < limit_v)
    begins = low & ~levels.low
    carried = readings.current_a > np.fmax(DEAD_RATIO * levels.usual_a, meter.offset_a)
    agrees = meter.paired & (np.abs(readings.factor / levels.usual_factor - 1.0) < _AGREED_RATIO)
    after = replace(
        levels,
        # A clock that was set back leaves no sag that begins in the future.
        since_ns=np.minimum(
            np.where(known, np.where(low, np.where(begins, now_ns, levels.since_ns), 0), levels.since_ns), now_ns
        ),
        until_ns=np.minimum(np.where(low, now_ns, levels.until_ns), now_ns),
        readings=np.where(begins, 0.0, levels.readings) + (low & (readings.is_new | begins)),
        now_v=np.where(known, voltage_v, levels.now_v),
        lowest_v=np.where(low, np.fmin(voltage_v, np.where(begins, np.inf, levels.lowest_v)), levels.lowest_v),
        carries=carried,
        agreed=np.where(known, low & (agrees | (levels.agreed & ~begins)), levels.agreed),
    )
    return _learnt(after, readings, known & ~low, passed_s=max(passed_s, 1.0))


def _learnt(levels: InputLevels, readings: InputReadings, usual: MaskArray, *, passed_s: float) -> InputLevels:
    """Learn the usual voltage and current from `usual` seconds; mains that are others for long are learnt afresh."""
    voltage_v = readings.voltage_v
    usual = usual & (voltage_v > MAINS_V)
    far = usual & (voltage_v > MOST_PLAUSIBLE_RATIO * levels.usual_v)
    above_s = np.where(far, levels.above_s + passed_s, np.where(usual, 0.0, levels.above_s))
    first = usual & (np.isnan(levels.usual_v) | (above_s >= _OTHER_MAINS_S))
    usual = usual & (~far | first)
    learnt_s = np.where(first, 0.0, levels.learnt_s)
    slow_s = np.where(voltage_v > levels.usual_v, _RISES_S, _FALLS_S)
    share = np.where(first, 1.0, passed_s / np.where(learnt_s < _RISES_S, learnt_s + passed_s, slow_s))
    before_v = np.where(first, voltage_v, levels.usual_v)
    amps = readings.current_a
    known_a = np.where(np.isnan(levels.usual_a), amps, levels.usual_a)
    factor = np.where(np.isfinite(readings.factor) & usual, readings.factor, levels.usual_factor)
    known_factor = np.where(np.isnan(levels.usual_factor), factor, levels.usual_factor)
    return replace(
        levels,
        usual_v=np.where(usual, before_v + np.minimum(share, 1.0) * (voltage_v - before_v), levels.usual_v),
        usual_a=np.where(usual & np.isfinite(amps), known_a + (amps - known_a) / _RISES_S, levels.usual_a),
        usual_factor=known_factor + (factor - known_factor) / LEARNT_S,
        learnt_s=np.where(usual, learnt_s + passed_s, learnt_s),
        above_s=np.where(first, 0.0, above_s),
    )


def shown(levels: InputLevels, groups: GroupArray) -> MaskArray:
    """Return a mask of inputs that are low beyond doubt.

    On two meters of a group, for long enough on one, or where watts and amperes of one row agree with its volts.
    """
    low = levels.low
    together = group_sum(low.astype(np.float64), groups) > 1
    alone = (levels.readings >= _ALONE_READINGS) | (levels.until_ns - levels.since_ns >= _ALONE_NS)
    return np.asarray(low & (together | alone | levels.agreed), dtype=np.bool_)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Starved:
    """Supplies whose input is too low for any supply: `off` those that carry nothing, `undecided` within a second."""

    off: MaskArray
    undecided: MaskArray


def starved(levels: InputLevels) -> Starved:
    """Return which supplies are without input, shape ``(n_supplies,)`` each."""
    low = levels.low & (levels.ratio < LEAST_RATIO)
    late = levels.until_ns - levels.since_ns >= _OFF_NS
    return Starved(off=low & late & ~levels.carries, undecided=low & ~late)


def forget(levels: InputLevels, accepted: MaskArray) -> InputLevels:
    """Reset the usual voltage of the accepted inputs, as after a move to other mains."""
    return reset_where(levels, filled(InputLevels, len(accepted)), accepted)
