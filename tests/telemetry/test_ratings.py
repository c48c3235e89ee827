import numpy as np
import pytest

from telemetry.entities import Entity, EntityKind
from telemetry.ratings import RATED_TAG, RatingSource, rated_power_w, rating_tags


def psu(*tags: tuple[str, str]) -> Entity:
    return Entity(kind=EntityKind.SUPPLY, key="psu0", name="psu0", tags=tags)


def test_each_supply_has_the_rating_that_it_reports() -> None:
    supplies = [psu(*rating_tags(1100.0, RatingSource.SUPPLY)), psu(), psu(*rating_tags(3300.0, RatingSource.SUPPLY))]
    assert rated_power_w(supplies) == pytest.approx(np.array([1100.0, np.nan, 3300.0]), nan_ok=True)


def test_one_configured_rating_goes_before_what_supplies_report_and_a_configured_one_of_its_own_before_both() -> None:
    supplies = [
        psu(),
        psu(*rating_tags(1100.0, RatingSource.SUPPLY)),
        psu(*rating_tags(900.0, RatingSource.CONFIGURATION)),
    ]
    assert rated_power_w(supplies, configured_w=800.0) == pytest.approx(np.array([800.0, 800.0, 900.0]))


@pytest.mark.parametrize("text", ["", "0", "-5", "nan", "inf", "1100 W"])
def test_a_tag_that_names_no_power_is_an_unknown_rating(text: str) -> None:
    assert np.isnan(rated_power_w([psu((RATED_TAG, text))])).all()


@pytest.mark.parametrize("rated_w", [None, 0.0, -1.0, float("nan"), float("inf")])
def test_a_rating_that_is_none_is_not_tagged(rated_w: float | None) -> None:
    assert rating_tags(rated_w, RatingSource.SUPPLY) == ()
