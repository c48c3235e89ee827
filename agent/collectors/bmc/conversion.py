"""Conversion of the byte of an IPMI sensor to its value: IPMI 2.0 sections 36.3 (conversion) and 43.1 (record fields).

``value = L((M raw + B 10^K1) 10^K2)``, L being one of twelve functions.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum


class Format(IntEnum):
    """Sign of a reading's byte: table 43-1, byte 21, bits 7:6."""

    UNSIGNED = 0
    ONES_COMPLEMENT = 1
    TWOS_COMPLEMENT = 2
    NONE = 3


def _inverse(value: float) -> float:
    return math.nan if value == 0.0 else 1.0 / value


def _log(value: float, base: float) -> float:
    return math.log(value, base) if value > 0.0 else math.nan


# Table 43-1, byte 24: the function applied to the linear value. 70h and up is not linear and has no function.
_LINEARIZATION: Mapping[int, Callable[[float], float]] = {
    0: lambda value: value,
    1: lambda value: _log(value, math.e),
    2: lambda value: _log(value, 10),
    3: lambda value: _log(value, 2),
    4: math.exp,
    5: lambda value: 10.0**value,
    6: lambda value: 2.0**value,
    7: _inverse,
    8: lambda value: value**2,
    9: lambda value: value**3,
    10: lambda value: math.sqrt(value) if value >= 0.0 else math.nan,
    11: math.cbrt,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """The factors of one sensor."""

    format: Format
    m: int
    b: int
    k1: int
    k2: int
    linearization: int = 0

    @property
    def supported(self) -> bool:
        """True if these factors define a value for a byte."""
        return self.format is not Format.NONE and self.linearization in _LINEARIZATION

    def value(self, raw: int) -> float:
        """Return the value of a byte; NaN where the function has no value there or there is no function."""
        if not self.supported:
            return math.nan
        linear = (self.m * self._signed(raw) + self.b * 10.0**self.k1) * 10.0**self.k2
        try:
            value = _LINEARIZATION[self.linearization](linear)
        except OverflowError:
            return math.nan
        # Removes the residue of binary fractions: no sensor of a byte has more than nine digits.
        return float(f"{value:.9g}")

    def _signed(self, raw: int) -> int:
        if raw < 0x80 or self.format is Format.UNSIGNED:
            return raw
        return raw - 0xFF if self.format is Format.ONES_COMPLEMENT else raw - 0x100


def signed(value: int, bits: int) -> int:
    """Interpret the lowest `bits` of a number as two's complement."""
    return value - (1 << bits) if value >> (bits - 1) & 1 else value
