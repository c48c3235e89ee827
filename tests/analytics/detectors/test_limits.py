import pytest
from pydantic import TypeAdapter, ValidationError

from analytics.detectors.limits import DetectorLimits

READER = TypeAdapter(DetectorLimits)


def test_limits_are_read_from_plain_data_with_durations() -> None:
    limits = READER.validate_python({"rail_sag": {"minimum_v": 11.3, "at_once_below_v": 11.2, "hold_s": "200ms"}})
    assert limits.rail_sag.minimum_v == 11.3
    assert limits.rail_sag.hold_s == 0.2
    assert limits.thermal_margin == DetectorLimits().thermal_margin


@pytest.mark.parametrize(
    "data",
    [
        {"rail_sagg": {}},
        {"rail_sag": {"minimum": 11.3}},
        {"rail_sag": {"hold_s": 0.2}},
        {"rail_sag": {"minimum_v": 11.6}},
        {"thermal_margin": {"set_below_c": 20.0}},
    ],
)
def test_unknown_keys_bare_numbers_for_durations_and_levels_in_the_wrong_order_are_refused(data: object) -> None:
    with pytest.raises(ValidationError):
        READER.validate_python(data)


def test_the_defaults_agree_with_what_they_are_read_as() -> None:
    assert READER.validate_python({}) == DetectorLimits()
    assert READER.validate_python(READER.dump_python(DetectorLimits())) == DetectorLimits()
