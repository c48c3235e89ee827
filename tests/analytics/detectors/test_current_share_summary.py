"""What a summary of a joint is about: what shows it most clearly."""

from dataclasses import replace

import numpy as np
import pytest

from analytics.detectors.current_share_summary import describe_share
from analytics.supply.current_share import ShareTest
from analytics.supply.usual_share import UsualShare
from telemetry.frames import filled
from telemetry.records import FindingStatus
from tests.analytics.scenes import supply


def test_a_share_that_fell_in_the_steps_of_the_load_alone_is_named_by_it() -> None:
    usual, test = filled(UsualShare, 1), filled(ShareTest, 1)
    test = replace(
        test, swing=replace(test.swing, fall=np.log([0.81])), rise=np.array([1e-6]), current_a=np.array([11.0]),
        voltage_v=np.array([54.0]), bus_a=np.array([33.0]),
    )  # fmt: skip
    statement = describe_share(usual, test, (supply(0),))(0, FindingStatus.RAISED)
    assert (
        statement.summary == "PSU 0 takes 81 % of its usual share of the load's steps at 11 A: ageing joint suspected"
    )
    assert {one.name: one.value for one in statement.evidence}["steps_share_ratio"] == pytest.approx(0.81)


def test_a_path_that_drops_more_is_named_by_its_drop_though_the_voltage_lies_lower() -> None:
    usual, test = filled(UsualShare, 1), filled(ShareTest, 1)
    path = replace(test.path, rise=np.array([5e-4]))
    test = replace(
        test, path=path, rise=np.array([-4e-4]), current_a=np.array([17.0]), voltage_v=np.array([50.0]),
        bus_a=np.array([34.0]),
    )  # fmt: skip
    text = describe_share(usual, test, (supply(0),))(0, FindingStatus.RAISED).summary
    assert text == "PSU 0 path drops 25 mV more in the load's steps than usual at 17 A: ageing joint suspected"
