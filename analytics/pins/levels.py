"""Sums of pin currents and voltages at two levels of load, and the fingerprint that they make of a connector.

Shares of the pins differ by design and by contact, and are that connector's fingerprint. The offsets of its sensors
weigh more the less it carries, so each level of load has a fingerprint of its own.

Disproved where shares change with the load within a level by more than the limits of `connector_pins`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.detectors.seconds import running_sum
from analytics.pins.rows import PinRows
from telemetry.catalogue.pins import PIN_COUNT
from telemetry.frames import FloatArray, MaskArray, filled, reset_where

# Amperes of a connector from which each level begins. Recordings of a RTX 5090 (github.com/ksokolowski/astral-hwmon,
# docs/measurements): shares repeat within 0.2 points from 25 A on and within 0.7 points from 10 A on; below 4 A the
# steps of the sensor make them noise.
LEVELS_A = (10.0, 25.0)
NOISE_A = 4.0
LIGHT, FULL = 0, 1
_N = len(LEVELS_A)
# heuristic: blocks of 2 s until a fingerprint is frozen: half a minute at a full load, where a single block scatters by
# 0.02 points, and two minutes at a light one, where it scatters by 0.3.
LEARN_BLOCKS = np.array([60.0, 15.0])
# heuristic: a memory of ten blocks, 20 s; then healthy shares stay within 0.2 % (full) and 2.3 % (light) of themselves.
KEEP = 0.9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LevelSums:
    """Sums over readings, by level: readings ``(n_gpus, 2)``, pins of both levels ``(n_gpus, 12)``.

    `lean_v` sums by how much each pin lies above the median of the pins of its reading.
    """

    readings: Annotated[FloatArray, 0.0, _N]
    current_a: Annotated[FloatArray, 0.0, _N * PIN_COUNT]
    lean_v: Annotated[FloatArray, 0.0, _N * PIN_COUNT]

    def add(self, rows: PinRows) -> "LevelSums":
        """Add the good readings of rows, one by one."""
        total_a = np.where(rows.good, rows.current_a.sum(axis=2), 0.0)
        bounds = (*LEVELS_A, np.inf)
        within = np.stack([(total_a >= bounds[one]) & (total_a < bounds[one + 1]) for one in range(_N)], axis=2)
        lean_v = rows.voltage_v - np.median(rows.voltage_v, axis=2, keepdims=True)
        return LevelSums(
            readings=running_sum(self.readings, within.astype(np.float64)),
            current_a=running_sum(self.current_a, _by_level(within, rows.current_a)),
            lean_v=running_sum(self.lean_v, _by_level(within, lean_v)),
        )

    def plus(self, other: "LevelSums", *, keep: float = 1.0, where: FloatArray | None = None) -> "LevelSums":
        """Return `keep` of these sums plus others, at the levels that `where` marks with 1, ``(n_gpus, 2)``."""
        level = np.ones_like(self.readings) if where is None else where
        pins = np.repeat(level, PIN_COUNT, axis=1)
        kept, kept_pins = 1.0 - (1.0 - keep) * level, 1.0 - (1.0 - keep) * pins
        return LevelSums(
            readings=kept * self.readings + level * other.readings,
            current_a=kept_pins * self.current_a + pins * other.current_a,
            lean_v=kept_pins * self.lean_v + pins * other.lean_v,
        )

    def forget(self, these: MaskArray) -> "LevelSums":
        """Return the sums with those of some connectors, ``(n_gpus,)``, at zero."""
        return reset_where(self, filled(LevelSums, len(these)), these)

    @property
    def shares(self) -> FloatArray:
        """Share of each pin, ``(n_gpus, 2, 6)``; NaN where nothing was read."""
        current_a = _pins(self.current_a)
        return _ratio(current_a, current_a.sum(axis=2, keepdims=True))

    @property
    def mean_a(self) -> FloatArray:
        """Mean current of each pin, ``(n_gpus, 2, 6)``; NaN where nothing was read."""
        return _ratio(_pins(self.current_a), self.readings[:, :, np.newaxis])

    @property
    def mean_lean_v(self) -> FloatArray:
        """Mean voltage of each pin over the median, ``(n_gpus, 2, 6)``; NaN where nothing was read."""
        return _ratio(_pins(self.lean_v), self.readings[:, :, np.newaxis])


def _by_level(within: MaskArray, values: FloatArray) -> FloatArray:
    """Return values of pins at their level, zeros at the other: ``(n_rows, n_gpus, 12)``."""
    parts: Sequence[FloatArray] = [np.where(within[:, :, one : one + 1], values, 0.0) for one in range(_N)]
    return np.concatenate(parts, axis=2)


def _pins(sums: FloatArray) -> FloatArray:
    return sums.reshape(len(sums), _N, PIN_COUNT)


def _ratio(over: FloatArray, under: FloatArray) -> FloatArray:
    return np.where(under > 0.0, over / np.where(under > 0.0, under, 1.0), np.nan)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fingerprint:
    """Sums over the first blocks of each level, frozen once there are `LEARN_BLOCKS`; `blocks` is ``(n_gpus, 2)``."""

    sums: LevelSums
    blocks: Annotated[FloatArray, 0.0, _N]

    @property
    def known(self) -> MaskArray:
        """Return a mask of levels that are frozen, ``(n_gpus, 2)``."""
        return np.asarray(self.blocks >= LEARN_BLOCKS)

    def forget(self, these: MaskArray) -> "Fingerprint":
        """Return the fingerprints with those of some connectors, ``(n_gpus,)``, not begun."""
        return reset_where(self, filled(Fingerprint, len(these)), these)

    def learn(self, block: LevelSums, permitted: MaskArray) -> "Fingerprint":
        """Return the fingerprint after a block; a frozen level, and a connector that is not `permitted`, learn nothing.

        `permitted` is ``(n_gpus,)``.
        """
        new = (block.readings > 0.0) & ~self.known & permitted[:, np.newaxis]
        if not new.any():
            return self
        return replace(self, sums=self.sums.plus(block, where=new.astype(np.float64)), blocks=self.blocks + new)
