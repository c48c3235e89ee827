"""Plausibility of the readings of one supply: their units, a stuck value, and the step size of a sensor.

A coarse sensor repeats values by nature, so a stuck value is judged by what it did before: blocks in which it moved by
more than its own step while the partner moved as little as now. Where some of these are known, a whole block of one
value has no chance left.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.supply.pair_rows import values_before
from telemetry.frames import FloatArray, MaskArray

# heuristic: below 20 W the offsets of the meters count for more than their gains, unless the two have agreed before.
MIN_POWER_W = 20.0
MIN_AGREED_W = 2.0
# A rail or bus of a server lies between a core's 1 V and a 400 V distribution; 1000 V is no such rail but millivolts.
LOWEST_V, HIGHEST_V = 1.0, 1000.0
# heuristic: one path of 5 kA would need a bus bar as thick as an arm; such numbers are milliamperes.
HIGHEST_A = 5000.0
# heuristic: real paths lie between some ten microohm (a bus bar) and ten ohm (a house's mains); beyond, a unit is off.
LOWEST_OHM, HIGHEST_OHM = 2e-5, 10.0


def power_mismatch(
    power_w: FloatArray, product_w: FloatArray, *, least_w: FloatArray | float = MIN_POWER_W
) -> FloatArray:
    """Return (P - V I) over the larger of the two; NaN where a value is absent or both are below `least_w`."""
    larger_w = np.maximum(power_w, product_w)
    return np.asarray((power_w - product_w) / np.where(larger_w > least_w, larger_w, np.nan), dtype=np.float64)


def rounding_ratio(voltage_v: FloatArray, current_a: FloatArray, steps: FloatArray) -> FloatArray:
    """Return by how much rounding to the steps of both meters, ``(n_supplies, 2)``, may move V times I, as a share.

    Half a step each: a current that lies still rounds the same way for hours. No step is known before the first change.
    """
    halves = np.where(np.isfinite(steps), steps, 0.0) / 2.0
    moved_w = halves[:, 1] * np.abs(voltage_v) + halves[:, 0] * np.abs(current_a)
    product_w = np.abs(voltage_v * current_a)
    return np.asarray(moved_w / np.where(product_w > 0.0, product_w, np.inf), dtype=np.float64)


def is_stuck(spread: FloatArray, other_spread: FloatArray, usual_spread: FloatArray, samples: FloatArray) -> MaskArray:
    """Return a mask of values that repeat exactly while the other value changes as usual.

    `usual_spread` is that of the value when it last moved: a coarse sensor that is often flat is not stuck.
    """
    return np.asarray((spread == 0.0) & (usual_spread > 0.0) & (other_spread > 0.0) & (samples > 0), dtype=np.bool_)


def unit_problem(voltage_v: FloatArray, current_a: FloatArray) -> tuple[str, str, str] | None:
    """Return the wrong quantity (voltage or current), what was found and expected; None if the units are plausible."""
    volts, amps = voltage_v[np.isfinite(voltage_v)], np.abs(current_a[np.isfinite(current_a)])
    if volts.size:
        middle_v = float(np.median(np.abs(volts)))
        if not LOWEST_V <= middle_v <= HIGHEST_V:
            hint = ", as if in millivolts" if middle_v > HIGHEST_V else ""
            return "voltage", f"a median of {middle_v:g}{hint}", f"volts between {LOWEST_V:g} and {HIGHEST_V:g}"
    if amps.size and float(amps.max()) > HIGHEST_A:
        return "current", f"a maximum of {amps.max():g}, as if in milliamperes", f"amperes up to {HIGHEST_A:g}"
    return None


def resistance_problem(resistance_ohm: float) -> tuple[str, str] | None:
    """Return what was found and expected if a resistance is implausible for a supply path, else None."""
    if LOWEST_OHM <= resistance_ohm <= HIGHEST_OHM:
        return None
    return (
        f"a source resistance of {resistance_ohm:.3g} ohm, as if a unit were off by a thousand",
        f"voltage in V and current in A, {LOWEST_OHM:g} to {HIGHEST_OHM:g} ohm",
    )


# heuristic: so many blocks must have moved, two hundred samples and more.
_MIN_LIVELY = 8.0
# A value that toggles between two neighbouring steps spreads by half a step at most, so more takes three levels, and
# what lies on three levels moves by more than a step. heuristic: a tenth of a step more, as a row of noise spreads too.
_MIN_STEPS = 0.6
# heuristic: a spread of three steps takes levels six steps apart, which noise of a sound meter does not.
_LOAD_STEPS = 3.0
# heuristic: one block in five may move by less, as one in which the value became constant does.
_WEAK_BLOCKS = 4.0
# A value that spreads by so many steps moves by twice as many at least, so that a load that moves this part as much
# still takes it over one step. heuristic: never less than half as much.
_CALM_PART = 0.5
# heuristic: a spread below is a float's rounding and no step.
_SAME_RATIO = 1e-9


# What moves, of voltage and current, and what it should move with: the voltage with its own current, the current with
# its own voltage, and the current with those of its bus.
_MOVED = [0, 1, 1]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stillness:
    """History of voltage and current of every supply.

    `step` is the smallest change ever, inf before one, and `last` the newest value, shape ``(n_supplies, 2)``. The
    others are of voltage and current each beside the other, and of the current beside those of its bus, shape
    ``(n_supplies, 3)``: `lively` counts the blocks since the value was last constant in which it moved by more than a
    step, less those in which it did not; `calm` is the smallest spread of the partner that moved it by a step, by
    these. `still` marks a constant last block.
    """

    step: Annotated[FloatArray, np.inf, 2]
    lively: Annotated[FloatArray, 0.0, 3]
    calm: Annotated[FloatArray, np.inf, 3]
    last: Annotated[FloatArray, np.nan, 2]
    still: Annotated[MaskArray, False, 3]

    def after_rows(self, pairs: FloatArray, used: MaskArray) -> "Stillness":
        """Add rows of shape ``(n_rows, n_supplies, 2)``, `used` of shape ``(n_rows, n_supplies, 1)`` where new."""
        before, last = values_before(pairs, np.broadcast_to(used, pairs.shape), self.last)
        change = np.abs(pairs - before)
        moves = used & (change > _SAME_RATIO * np.abs(pairs))
        step = np.fmin.reduce(np.where(moves, change, np.inf), axis=0)
        return replace(self, step=np.fmin(self.step, step), last=last)

    def after_block(self, spreads: FloatArray, bus_a: FloatArray, seen: MaskArray) -> "Stillness":
        """Add the spreads of a block.

        `spreads` ``(n_supplies, 2)`` are those of voltage and current, `bus_a` ``(n_supplies,)`` that of the currents
        of the siblings on its bus, NaN without any; `seen` ``(n_supplies, 1)`` marks those with samples enough.
        """
        own, others, own_step = spreads[:, _MOVED], _partners(spreads, bus_a), self.step[:, _MOVED]
        lively = seen & (own >= _MIN_STEPS * own_step) & (others > 0.0)
        # A value that moves again after it was constant does so by nature: what it did before counts no more.
        begins = lively & self.still
        # The partner moved enough, and the value by too little: it takes three levels by chance.
        weak = seen & ~lively & (own > 0.0) & (others >= self.calm)
        steps = own / np.where(np.isfinite(own_step), own_step, np.nan)
        needed = others * np.fmax(_CALM_PART, 0.5 / np.where(lively, steps, 1.0))
        return replace(
            self,
            lively=np.fmax(np.where(begins, 0.0, self.lively) + lively - _WEAK_BLOCKS * weak, 0.0),
            calm=np.where(lively, np.fmin(np.where(begins, np.inf, self.calm), needed), self.calm),
            still=np.where(seen, own == 0.0, self.still),
        )

    def broken(self, spreads: FloatArray, bus_a: FloatArray) -> MaskArray:
        """Return a mask of constant voltages and currents of a block that cannot be natural; see `after_block`.

        A partner that toggles between two of its steps may do so by noise, and is no witness. Nor are currents of
        siblings by their noise, which is none of this one's: the load must have moved them.
        """
        least = np.stack((_MIN_STEPS * self.step[:, 1], _MIN_STEPS * self.step[:, 0], _LOAD_STEPS * self.step[:, 1]))
        moved = np.fmax(self.calm, least.T)
        known = (self.lively >= _MIN_LIVELY) & (_partners(spreads, bus_a) >= moved)
        found = known & (spreads[:, _MOVED] == 0.0)
        return np.stack((found[:, 0], found[:, 1] | found[:, 2]), axis=1)


def _partners(spreads: FloatArray, bus_a: FloatArray) -> FloatArray:
    return np.concatenate((spreads[:, ::-1], bus_a[:, np.newaxis]), axis=1)


# heuristic: values that differ by less are one value with rounding noise of a float.
_SAME = 1e-5
# heuristic: this share of the differences must be whole steps, and a step has at least this many of them to show.
_WHOLE_SHARE = 0.95
_MIN_LEVELS = 3
# heuristic: so many values on two levels only are those of a meter with a step between them.
_ENOUGH_VALUES = 16
# heuristic: a difference counts as whole within a tenth of a step.
_WHOLE_WITHIN = 0.1
# A step counts as coarse where it moves the resistance by more than the drift that is looked for: 63 mV is the common
# record of a 12 V rail on server boards, a shunt monitor has 1.25 mV (TI INA226) and a PMBus register about 4 mV.
COARSE_V = 0.02


def quantum_of(values: FloatArray) -> float:
    """Return the step between the values of a sensor, 0.0 where they lie on no grid.

    Values of shape ``(n,)``; NaN is left out. A constant series has no step to see.
    """
    levels = np.unique(values[np.isfinite(values)])
    if len(levels) == _MIN_LEVELS - 1 and len(values) >= _ENOUGH_VALUES:
        return float(levels[1] - levels[0])
    if len(levels) < _MIN_LEVELS:
        return 0.0
    steps = np.diff(levels)
    steps = steps[steps > _SAME]
    if len(steps) < _MIN_LEVELS - 1:
        return 0.0
    step = float(steps.min())
    whole = np.abs(steps / step - np.round(steps / step)) < _WHOLE_WITHIN
    return step if float(whole.mean()) >= _WHOLE_SHARE else 0.0
