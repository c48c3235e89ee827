"""Quantities are written as people write them."""

import pytest

from telemetry.quantities import (
    SUMMARY_LENGTH,
    duration,
    elapsed,
    evidence_label,
    ohms,
    percent,
    quantity,
    rate,
    shortened,
)
from telemetry.records import Evidence


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.05, "under 0.1 s"),
        (0.4, "0.4 s"),
        (12.3, "12 s"),
        (119.0, "119 s"),
        (210.0, "3.5 min"),
        (7200.0, "2 h"),
        (2.5 * 86_400, "2.5 d"),
    ],
)
def test_a_duration_has_its_largest_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (45, "45 s"), (427.3, "7 min 7 s"), (3600, "1 h"), (11_130, "3 h 5 min"), (187_200, "2 d 4 h")],
)
def test_a_measured_time_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert elapsed(seconds) == text


@pytest.mark.parametrize(
    ("per_month", "text"),
    [(0.0, "none"), (2.5, "1 in 12 days"), (91.3, "3 per day"), (89_000.0, "122 per hour")],
)
def test_a_rate_is_a_number_of_events_in_a_time(per_month: float, text: str) -> None:
    assert rate(per_month) == text


@pytest.mark.parametrize(
    ("value", "unit", "name", "text"),
    [
        (0.0151, "ohm", "", "15.1 mΩ"),
        (0.0004, "ohm", "", "0.40 mΩ"),
        (12.309, "V", "", "12.31 V"),
        (230.2, "V", "", "230 V"),
        (17.7, "W", "", "18 W"),
        (4.26, "K", "", "4.3 K"),
        (1417.4, "MHz", "", "1417 MHz"),
        (2.93, "ratio", "rise_ratio", "2.9x"),
        (1.08, "ratio", "rise_ratio", "1.08x"),
        (0.97, "ratio", "gpu_util_ratio", "97 %"),
        (3.0, "", "dips", "3"),
        (7.25, "s", "", "7.2 s"),
        (600.0, "s", "", "10 min"),
    ],
)
def test_a_quantity_carries_its_unit(value: float, unit: str, name: str, text: str) -> None:
    assert quantity(value, unit, name) == text


def test_evidence_reads_as_a_name_and_a_quantity() -> None:
    item = Evidence(name="source_resistance_ohm", value=ohms_of(15.1), unit="ohm")
    assert f"{evidence_label(item.name)} {quantity(item.value, item.unit, item.name)}" == "source resistance 15.1 mΩ"
    assert evidence_label("excess_c_per_w") == "excess"
    assert evidence_label("dips") == "dips"


def ohms_of(milliohms: float) -> float:
    assert ohms(milliohms * 1e-3).endswith(" mΩ")
    return milliohms * 1e-3


def test_a_text_that_is_too_long_is_cut_at_a_space_and_marked() -> None:
    assert shortened("short") == "short"
    cut = shortened("word " * 40)
    assert len(cut) <= SUMMARY_LENGTH
    assert cut.endswith("word…")
    assert len(shortened("x" * 300)) == SUMMARY_LENGTH
    assert percent(0.5) == "50 %"
