"""The 8-bit numbers of an IPMI sensor: ``value = M raw 10**exponent``, IPMI 2.0 section 36.3 with B = 0."""

import math
from dataclasses import dataclass
from decimal import Decimal

RAW_MAX = 255
_M_MAX, _EXPONENT_MIN = 511, -8  # ten and four signed bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Scale from a byte to a value; `m` fits ten signed bits, `exponent` four."""

    m: int
    exponent: int

    @property
    def step(self) -> float:
        """Return what one count is worth."""
        return self.m * 10.0**self.exponent

    @property
    def digits(self) -> int:
        """Return how many decimals a value of this scale has."""
        return max(0, -self.exponent)

    def raw(self, value: float) -> int | None:
        """Return the byte nearest to a value, held within 0 and 255; None for NaN."""
        return None if math.isnan(value) else min(RAW_MAX, max(0, round(value / self.step)))

    def value(self, raw: int) -> float:
        """Return what a byte stands for, without the dust of binary fractions."""
        return round(raw * self.step, self.digits)


def scale_of(step: float, highest: float) -> Scale:
    """Return the scale whose count is worth `step`; where 255 of those do not reach `highest`, the finest that does."""
    if step > 0.0 and RAW_MAX * step >= highest:
        number = Decimal(repr(step)).normalize().as_tuple()
        m = int("".join(map(str, number.digits)))
        if m <= _M_MAX and isinstance(number.exponent, int) and number.exponent >= _EXPONENT_MIN:
            return Scale(m=m, exponent=number.exponent)
    return scale_up_to(highest)


def scale_up_to(highest: float) -> Scale:
    """Return the finest scale with two digits that reaches `highest`.

    Raises
    ------
    ValueError
        `highest` is not above zero.
    """
    if not highest > 0.0:
        raise ValueError(f"a highest value above 0, not {highest}")
    exponent = math.floor(math.log10(highest / RAW_MAX)) - 1
    return Scale(m=math.ceil(highest / RAW_MAX / 10.0**exponent - 1e-9), exponent=exponent)
