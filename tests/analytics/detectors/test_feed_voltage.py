"""Feeds of alternating current that are lost or sag, by volts, amperes and watts of one analyser."""

import numpy as np
import pytest

from telemetry.records import Cause, FindingStatus
from tests.analytics.detectors.feed_scenes import feeds_frame, load_of, panel_findings, server_of, volts_of

ROWS = 600
# Feeds as recorded: one of 206 V and 2 A, a pair of 120 V and 2.5 A each.
FEEDS = [(206.0, 1, 600.0), (120.0, 2, 300.0)]


@pytest.mark.parametrize(("volts", "n_feeds", "watts"), FEEDS)
@pytest.mark.parametrize("outage_s", [5, 60, 200])
def test_a_feed_at_nothing_is_lost_during_and_after_and_its_sensors_are_sound(
    volts: float, n_feeds: int, watts: float, outage_s: int
) -> None:
    power_w = np.repeat(load_of(ROWS, idle_w=0.5 * watts, loaded_w=watts)[:, np.newaxis], n_feeds, axis=1)
    voltage_v = volts_of(ROWS, n_feeds, volts=volts)
    gone = slice(300, 300 + outage_s)
    power_w[gone, 0] = voltage_v[gone, 0] = 0.0
    power_w[gone, 1:] *= 2.0
    found = panel_findings(feeds_frame(power_w, voltage_v), topology=server_of(n_feeds))
    own = [one for one in found if one.entity_id == "supply:feed0"]
    assert {one.cause for one in found} == {Cause.SUPPLY_LOST}
    assert [one.status for one in own if one.detector.startswith("feed_voltage")] == [
        FindingStatus.RAISED,
        FindingStatus.CLEARED,
    ]
    assert any(f"usually {volts:.0f} V" in one.summary for one in own)


@pytest.mark.parametrize(("volts", "n_feeds", "watts"), FEEDS)
@pytest.mark.parametrize("rows", [1, 20])
def test_a_sag_of_six_per_cent_is_found_in_the_first_row_whose_amperes_and_watts_agree(
    volts: float, n_feeds: int, watts: float, rows: int
) -> None:
    power_w = np.repeat(load_of(ROWS, loaded_w=watts)[:, np.newaxis], n_feeds, axis=1)
    voltage_v = volts_of(ROWS, n_feeds, volts=volts)
    voltage_v[300 : 300 + rows] *= 0.94
    found = panel_findings(feeds_frame(power_w, voltage_v), topology=server_of(n_feeds))
    assert {one.cause for one in found} == {Cause.INPUT_SAG}
    assert len({one.entity_id for one in found}) == n_feeds


def test_one_row_of_volts_that_fell_alone_is_a_failed_conversion() -> None:
    power_w, voltage_v = load_of(ROWS)[:, np.newaxis], volts_of(ROWS, 1, volts=206.0)
    current_a = power_w / voltage_v
    voltage_v[300] *= 0.9
    assert not panel_findings(feeds_frame(power_w, voltage_v, current_a), topology=server_of(1))


def test_a_sag_names_the_voltage_of_its_feed() -> None:
    power_w, voltage_v = load_of(ROWS)[:, np.newaxis], volts_of(ROWS, 1, volts=206.0)
    voltage_v[300:320] *= 0.9
    first = panel_findings(feeds_frame(power_w, voltage_v), topology=server_of(1))[0]
    assert "185 V" in first.summary
