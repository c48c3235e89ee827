"""From bytes to values: cases with the numbers worked out by hand, and the straight line against its definition."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.collectors.bmc.conversion import Conversion, Format, signed


def made(
    m: int, b: int = 0, k1: int = 0, k2: int = 0, *, how: Format = Format.UNSIGNED, function: int = 0
) -> Conversion:
    return Conversion(format=how, m=m, b=b, k1=k1, k2=k2, linearization=function)


@pytest.mark.parametrize(
    ("conversion", "raw", "value"),
    [
        (made(63, k2=-3), 191, 12.033),
        (made(16, 512, 0, -3), 255, 4.592),
        (made(1, -5, 1), 60, 10.0),
        (made(1, how=Format.TWOS_COMPLEMENT), 0xF6, -10.0),
        (made(1, how=Format.ONES_COMPLEMENT), 0xF5, -10.0),
        (made(-2, 100), 30, 40.0),
        (made(1, function=1), 1, 0.0),
        (made(10, function=2), 10, 2.0),
        (made(1, function=3), 8, 3.0),
        (made(1, function=6), 10, 1024.0),
        (made(1, function=7), 4, 0.25),
        (made(1, function=8), 12, 144.0),
        (made(1, function=9), 3, 27.0),
        (made(1, function=10), 81, 9.0),
        (made(1, function=11), 27, 3.0),
    ],
)
def test_a_byte_becomes_its_value(conversion: Conversion, raw: int, value: float) -> None:
    assert conversion.value(raw) == pytest.approx(value, rel=1e-8)


@pytest.mark.parametrize(
    ("conversion", "raw"),
    [
        (made(1, function=7), 0),
        (made(1, function=1), 0),
        (made(-1, function=10), 4),
        (made(1, k2=7, function=5), 255),
        (made(1, function=0x70), 10),
        (made(1, how=Format.NONE), 10),
    ],
)
def test_where_the_function_has_no_value_there_is_none(conversion: Conversion, raw: int) -> None:
    assert math.isnan(conversion.value(raw))


@given(
    raw=st.integers(0, 255),
    m=st.integers(-512, 511),
    b=st.integers(-512, 511),
    k1=st.integers(-8, 7),
    k2=st.integers(-8, 7),
)
def test_the_straight_line_is_that_of_the_standard(raw: int, m: int, b: int, k1: int, k2: int) -> None:
    exact = (m * raw + b * Fraction(10) ** k1) * Fraction(10) ** k2
    assert made(m, b, k1, k2).value(raw) == pytest.approx(float(exact), rel=1e-8, abs=1e-14)


@given(value=st.integers(-512, 511))
def test_ten_bits_are_read_with_their_sign(value: int) -> None:
    assert signed(value & 0x3FF, 10) == value
