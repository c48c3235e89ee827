"""Differences between two versions of a policy."""

from hypothesis import given
from hypothesis import strategies as st

from rules.policy.explanation import Difference, differences

JSON = st.recursive(
    st.one_of(st.none(), st.integers(0, 3), st.sampled_from(("a", "b"))),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=6,
)


def test_keys_are_reported_with_what_they_were_and_are() -> None:
    below = {"id": "a", "then": {"action": "notify", "cooldown": "1m"}, "source": ["x"]}
    above = {"id": "a", "then": {"action": "notify", "cooldown": "2m", "hold": "1s"}, "source": ["y"]}
    assert list(differences(below, above)) == [
        Difference(key="then.cooldown", below="1m", above="2m"),
        Difference(key="then.hold", below=None, above="1s"),
        Difference(key="source", below=["x"], above=["y"]),
    ]


def test_cases_are_the_same_by_their_name_wherever_they_stand() -> None:
    below = {"cases": [{"name": "a", "x": 1}, {"name": "b", "x": 2}]}
    above = {"cases": [{"name": "b", "x": 3}, {"name": "a", "x": 1}]}
    assert list(differences(below, above)) == [Difference(key="cases['b'].x", below=2, above=3)]


@given(value=JSON)
def test_nothing_differs_from_itself(value: object) -> None:
    assert list(differences(value, value)) == []


@given(one=JSON, other=JSON)
def test_what_differs_is_reported_from_both_sides(one: object, other: object) -> None:
    there = {(item.key, repr(item.below), repr(item.above)) for item in differences(one, other)}
    back = {(item.key, repr(item.above), repr(item.below)) for item in differences(other, one)}
    assert there == back
