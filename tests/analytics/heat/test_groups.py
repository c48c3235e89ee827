import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.heat.groups import group_median, group_most, others_mean, others_most, others_variance

NAN = float("nan")
values = st.lists(st.one_of(st.just(NAN), st.floats(-50.0, 50.0)), min_size=1, max_size=24)


@given(values, st.integers(1, 4))
def test_figures_of_groups_are_those_of_each_group_by_itself(column: list[float], n_groups: int) -> None:
    known = np.array(column)
    groups = np.arange(len(known)) % n_groups
    median = group_median(known, groups, min_siblings=2)
    hottest, most = others_most(known, groups), group_most(known, groups)
    for place, group in enumerate(groups.tolist()):
        own = known[groups == group]
        others = np.delete(known, place)[np.delete(groups, place) == group]
        seen = np.sort(others[~np.isnan(others)])
        expected = np.median(own[~np.isnan(own)]) if len(seen) >= 2 else NAN
        assert median[place] == pytest.approx(expected, nan_ok=True)
        assert hottest[place] == pytest.approx(seen[-1] if len(seen) >= 2 else NAN, nan_ok=True)
        assert most[place] == pytest.approx(np.nanmax([0.0, *own]))


def test_the_others_have_a_mean_and_a_spread_and_one_alone_has_none() -> None:
    groups = np.array([0, 0, 0, 1])
    assert others_mean(np.array([1.0, 2.0, 4.0, 9.0]), groups)[:3] == pytest.approx([3.0, 2.5, 1.5])
    assert np.isnan(others_mean(np.ones(4), groups)[3])
    assert others_variance(np.array([1.0, 2.0, 4.0, 9.0]), groups) == pytest.approx([1.0, 2.25, 0.25, 0.0])
