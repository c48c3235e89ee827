"""Intervals: what each way of writing one contains, and what two of them share."""

import operator
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.conditions.condition import Interval, parse_interval

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}
ENDS = (-2.0, 10.5, 11.4, 12.0)
VALUES = st.sampled_from((*ENDS, 11.0, -1.0, 1e9))


def intervals() -> st.SearchStrategy[Interval]:
    ends = st.sampled_from(ENDS)
    return st.builds(Interval, low=ends, high=ends, low_open=st.booleans(), high_open=st.booleans())


@given(sign=st.sampled_from(tuple(OPERATORS)), constant=st.sampled_from(ENDS), value=VALUES)
def test_a_comparison_contains_the_numbers_for_which_it_is_true(sign: str, constant: float, value: float) -> None:
    assert (value in parse_interval(f"{sign} {constant}")) is OPERATORS[sign](value, constant)


@given(one=intervals(), other=intervals(), value=VALUES)
def test_an_intersection_contains_what_both_contain(one: Interval, other: Interval, value: float) -> None:
    assert (value in (one & other)) is (value in one and value in other)


@given(interval=intervals())
def test_an_interval_is_empty_if_and_only_if_it_contains_no_number_between_its_ends(interval: Interval) -> None:
    middle = (interval.low + interval.high) / 2
    assert interval.is_empty(whole=False) is (middle not in interval)
    whole = any(number in interval for number in range(-3, 14))
    assert interval.is_empty(whole=True) is not whole


@pytest.mark.parametrize(
    ("written", "interval", "text"),
    [
        (8, Interval(low=8, high=8), "is 8"),
        ("8", Interval(low=8, high=8), "is 8"),
        ("== 0.5", Interval(low=0.5, high=0.5), "is 0.5"),
        (">=8", Interval(low=8), "at least 8"),
        ("> -.5", Interval(low=-0.5, low_open=True), "above -0.5"),
        (" < 1e3 ", Interval(high=1000, high_open=True), "below 1000"),
        ("8..12", Interval(low=8, high=12), "at least 8 and at most 12"),
        ("0.5 .. 1.5", Interval(low=0.5, high=1.5), "at least 0.5 and at most 1.5"),
        ([8, 12.5], Interval(low=8, high=12.5), "at least 8 and at most 12.5"),
    ],
)
def test_each_way_of_writing_an_interval(written: object, interval: Interval, text: str) -> None:
    assert parse_interval(written) == interval
    assert str(interval) == text


NO_INTERVALS: tuple[object, ...] = (
    None,
    True,
    "",
    ">=",
    "high",
    "8 to 12",
    "!= 3",
    "> 1 < 2",
    "1.5x",
    "\u0661",
    "12..8",
    {},
)


@pytest.mark.parametrize("written", [*NO_INTERVALS, [8], [8, 9, 10], [12, 8], ["> 1", 2], float("nan"), float("inf")])
def test_anything_else_is_refused_with_examples(written: object) -> None:
    with pytest.raises(ValueError, match=r"a comparison such as '>= 8', a range such as '8\.\.12'"):
        parse_interval(written)
