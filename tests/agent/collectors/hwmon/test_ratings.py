"""Ratings of supplies: what their chip reports of its output, and nothing else."""

from pathlib import Path

import numpy as np
import pytest

from agent.collectors.hwmon.rails import rail_entities
from agent.collectors.hwmon.tree import survey_rails
from telemetry.ratings import RATED_SOURCE_TAG, rated_power_w
from tests.agent.collectors.node_files import two_supplies, write

HWMON = "class/hwmon/hwmon0"
SUPPLY = {
    "name": "crps185",
    "in1_label": "vin",
    "in1_input": "229500",
    "in2_label": "vout1",
    "in2_input": "12240",
    "curr1_label": "iin",
    "curr1_input": "4150",
    "curr2_label": "iout1",
    "curr2_input": "71000",
    "power1_label": "pin",
    "power1_input": "941000000",
    "power2_label": "pout1",
    "power2_input": "869000000",
}


def rated_w(root: Path, **more: str) -> float:
    write(root, {f"{HWMON}/{name}": text for name, text in (SUPPLY | more).items()})
    (entity,) = rail_entities(survey_rails(root).rails)
    (rated_w,) = rated_power_w([entity])
    assert (entity.tag(RATED_SOURCE_TAG) is None) == np.isnan(rated_w)
    return float(rated_w)


def test_the_rated_power_of_an_output_is_that_of_its_own_channel(tmp_path: Path) -> None:
    rating = rated_w(tmp_path, power1_rated_max="2200000000", power2_rated_max="1850000000", curr2_rated_max="152000")
    assert rating == pytest.approx(1850.0)


def test_a_rated_current_counts_at_the_nominal_voltage_where_no_power_is_rated(tmp_path: Path) -> None:
    assert rated_w(tmp_path, curr2_rated_max="152000") == pytest.approx(152.0 * 12.0)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"power1_rated_max": "2200000000", "curr1_rated_max": "12000"},
        {"power2_rated_max": "0", "curr2_rated_max": "-1"},
        {"power2_rated_max": "", "curr2_rated_max": "n/a"},
        {"power2_max": "1850000000", "curr2_max": "152000"},
    ],
    ids=["none", "of the input", "zero", "no number", "an alarm limit"],
)
def test_anything_else_is_no_rating(tmp_path: Path, attributes: dict[str, str]) -> None:
    assert np.isnan(rated_w(tmp_path, **attributes))


def test_a_shunt_monitor_knows_no_rating(tmp_path: Path) -> None:
    two_supplies(tmp_path)
    assert np.isnan(rated_power_w(rail_entities(survey_rails(tmp_path).rails))).all()
