"""Meters of feeds that stick."""

import numpy as np
import pytest

from telemetry.records import Cause, FindingStatus
from tests.analytics.detectors.feed_scenes import feeds_frame, load_of, panel_findings, server_of, volts_of


@pytest.mark.parametrize("sticks", ["voltage", "all"])
def test_a_meter_that_sticks_is_a_faulty_sensor_within_thirty_seconds(sticks: str) -> None:
    power_w, voltage_v = load_of(600)[:, np.newaxis], volts_of(600, 1, volts=206.0)
    current_a = power_w / voltage_v
    voltage_v[300:400] = voltage_v[299]
    if sticks == "all":
        power_w[300:400], current_a[300:400] = power_w[299], current_a[299]
    found = panel_findings(feeds_frame(power_w, voltage_v, current_a), topology=server_of(1))
    start_ns = feeds_frame(power_w, voltage_v).time_ns[300]
    assert {one.cause for one in found} == {Cause.SENSOR_FAULT}
    assert (found[0].time_ns - start_ns) / 1e9 <= 30.0
    assert found[-1].status is FindingStatus.CLEARED


def test_a_feed_as_it_is_has_no_finding() -> None:
    power_w, voltage_v = load_of(3000)[:, np.newaxis], volts_of(3000, 1, volts=120.0)
    assert not panel_findings(feeds_frame(power_w, voltage_v), topology=server_of(1))
