"""The fleet reads the signals that detectors use, and the statistic of each."""

import re
from pathlib import Path

import pytest

import analytics
from analytics.detectors.build import DETECTORS
from analytics.detectors.limits import DetectorLimits
from analytics.fleet.window import JUDGED, column_of, hold_ns
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.rollup import decimals_of, statistics_of
from telemetry.signals import signal

SOURCES = ("detectors", "heat", "supply", "novelty")


def test_every_signal_that_a_detector_needs_or_borrows_is_read() -> None:
    for build in DETECTORS:
        detector = build(DetectorLimits())
        assert set(detector.signals) <= set(JUDGED[detector.kind]), detector.name
        for terms in getattr(detector, "joined_columns", ()):
            assert terms.signal in JUDGED[terms.kind], (detector.name, terms)


def test_every_gpu_and_supply_signal_that_a_detector_names_is_read() -> None:
    folder = Path(analytics.__file__).parent
    text = "".join(path.read_text() for source in SOURCES for path in (folder / source).glob("*.py"))
    named = set(re.findall(r'"([a-z0-9_]+)"', text))
    for kind in (EntityKind.GPU, EntityKind.SUPPLY):
        # A node may have a signal of that name too.
        known = {name for name in named if _is_known(kind, name)} - set(JUDGED[EntityKind.NODE])
        assert known - set(JUDGED[kind]) == set()


def _is_known(kind: EntityKind, name: str) -> bool:
    try:
        signal(kind, name)
    except KeyError:
        return False
    return True


def test_every_signal_has_a_column_that_rollups_have_and_a_time_to_stand() -> None:
    for kind, names in JUDGED.items():
        for name in names:
            base, _, statistic = column_of(kind, name).rpartition("_")
            assert base == name
            assert statistic in statistics_of(kind, name)
            assert decimals_of(kind, column_of(kind, name)) >= 0
            assert hold_ns(kind, name) >= NS_PER_S


@pytest.mark.parametrize(
    ("kind", "name", "column"),
    [
        (EntityKind.SUPPLY, "voltage_v", "voltage_v_mean"),
        (EntityKind.SUPPLY, "current_a", "current_a_mean"),
        (EntityKind.SUPPLY, "voltage_min_v", "voltage_min_v_min"),
        (EntityKind.GPU, "throttle_reasons", "throttle_reasons_last"),
        (EntityKind.GPU, "power_brake_s", "power_brake_s_last"),
        (EntityKind.GPU, "gpu_temp_c", "gpu_temp_c_last"),
    ],
)
def test_voltage_and_current_are_means_of_the_same_second_and_flags_and_counters_their_last(
    kind: EntityKind, name: str, column: str
) -> None:
    assert column_of(kind, name) == column
