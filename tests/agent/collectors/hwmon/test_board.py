"""Survey of the hwmon tree without 12 V rails: other rails, power supplies, fans and temperatures."""

from pathlib import Path

import numpy as np
import pytest

from agent.collectors.hwmon.rails import RailTable
from agent.collectors.hwmon.slow import AttributeTable, fan_table, supply_table, temperature_table
from agent.collectors.hwmon.tree import survey_rails
from tests.agent.collectors.node_files import two_supplies, write

HWMON = "class/hwmon/hwmon0"


def _crps(root: Path) -> None:
    """A redundant supply as the kernel's crps driver shows it (Documentation/hwmon/crps.rst)."""
    write(
        root,
        {
            f"{HWMON}/name": "crps185",
            f"{HWMON}/in1_label": "vin",
            f"{HWMON}/in1_input": "229500",
            f"{HWMON}/in1_crit_alarm": "0",
            f"{HWMON}/in1_max_alarm": "0",
            f"{HWMON}/in2_label": "vout1",
            f"{HWMON}/in2_input": "12240",
            f"{HWMON}/in2_lcrit_alarm": "0",
            f"{HWMON}/curr1_label": "iin",
            f"{HWMON}/curr1_input": "4150",
            f"{HWMON}/curr2_label": "iout1",
            f"{HWMON}/curr2_input": "71000",
            f"{HWMON}/curr2_crit_alarm": "0",
            f"{HWMON}/power1_label": "pin",
            f"{HWMON}/power1_input": "941000000",
            f"{HWMON}/power2_label": "pout1",
            f"{HWMON}/power2_input": "869000000",
            f"{HWMON}/temp1_input": "41000",
            f"{HWMON}/temp2_input": "58500",
            f"{HWMON}/temp1_max_alarm": "0",
            f"{HWMON}/fan1_input": "11800",
            f"{HWMON}/fan1_alarm": "0",
            f"{HWMON}/fan1_fault": "0",
        },
    )


def _read(collector: AttributeTable | RailTable | None) -> dict[str, dict[str, float]]:
    """Read once; return the values by entity and signal."""
    assert collector is not None
    values = np.full(collector.spec.shape, -1.0)
    collector.read(values)
    names = [entity.key for entity in collector.spec.entities]
    return {
        name: dict(zip(collector.spec.signals, row.tolist(), strict=True))
        for name, row in zip(names, values, strict=True)
    }


def test_a_redundant_supply_reports_its_input_output_heat_and_fan(tmp_path: Path) -> None:
    _crps(tmp_path)
    collector = supply_table(tmp_path)
    assert _read(collector) == {
        "crps185-hwmon0": pytest.approx(
            {
                "input_voltage_v": 229.5,
                "input_current_a": 4.15,
                "input_power_w": 941.0,
                "output_voltage_v": 12.24,
                "output_current_a": 71.0,
                "power_w": 869.0,
                "supply_temp_c": 58.5,
                "fan_rpm": 11800.0,
                "supply_alarms": 0.0,
            }
        )
    }


@pytest.mark.parametrize(
    ("alarm", "bit"),
    [
        ("in1_crit_alarm", 1),
        ("in2_lcrit_alarm", 2),
        ("curr2_crit_alarm", 4),
        ("temp1_max_alarm", 8),
        ("fan1_fault", 16),
    ],
)
def test_each_alarm_of_a_supply_sets_its_bit(tmp_path: Path, alarm: str, bit: int) -> None:
    _crps(tmp_path)
    collector = supply_table(tmp_path)
    write(tmp_path, {f"{HWMON}/{alarm}": "1"})
    assert _read(collector)["crps185-hwmon0"]["supply_alarms"] == bit


def test_a_supply_that_is_pulled_is_absent_and_no_all_clear(tmp_path: Path) -> None:
    _crps(tmp_path)
    collector = supply_table(tmp_path)
    _read(collector)
    for path in (tmp_path / HWMON).iterdir():
        path.unlink()
    gone = _read(collector)["crps185-hwmon0"]
    assert all(np.isnan(value) for value in gone.values())
    _crps(tmp_path)
    assert _read(collector)["crps185-hwmon0"]["output_voltage_v"] == pytest.approx(12.24), "back at the next read"


def test_the_rail_of_a_supply_and_the_supply_itself_are_one_entity(tmp_path: Path) -> None:
    _crps(tmp_path)
    assert [entity.key for entity in RailTable(survey_rails(tmp_path).rails).spec.entities] == list(
        _read(supply_table(tmp_path))
    )


def test_a_skewed_pair_is_tagged_and_one_of_one_conversion_is_not(tmp_path: Path) -> None:
    _crps(tmp_path)
    write(tmp_path, {"class/hwmon/hwmon1/name": "ina228", "class/hwmon/hwmon1/in0_label": "12V"})
    write(tmp_path, {"class/hwmon/hwmon1/in0_input": "12000", "class/hwmon/hwmon1/curr1_input": "1000"})
    tags = {entity.key: entity.tag("pair") for entity in RailTable(survey_rails(tmp_path).rails).spec.entities}
    assert tags == {"crps185-hwmon0": "skewed", "ina228": None}


def test_rails_of_the_board_are_found_by_label(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            f"{HWMON}/name": "nct6798",
            f"{HWMON}/in0_label": "Vcore",
            f"{HWMON}/in0_input": "1020",
            f"{HWMON}/in1_label": "+5V",
            f"{HWMON}/in1_input": "5040",
            f"{HWMON}/in2_label": "3VSB",
            f"{HWMON}/in2_input": "3360",
            f"{HWMON}/in3_label": "+3.3V",
            f"{HWMON}/in3_input": "3328",
            f"{HWMON}/in4_label": "+12V",
            f"{HWMON}/in4_input": "11980",
            f"{HWMON}/in5_label": "1.5V",
            f"{HWMON}/in5_input": "1500",
        },
    )
    rails = _read(RailTable(survey_rails(tmp_path).rails))
    assert {key: row["voltage_v"] for key, row in rails.items()} == pytest.approx(
        {"nct6798": 11.98, "5v": 5.04, "3-3v": 3.328}
    )


def test_a_shunt_on_54_v_is_found_by_its_reading_with_its_current(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            f"{HWMON}/name": "ina238",
            f"{HWMON}/in0_input": "3",
            f"{HWMON}/in1_input": "53800",
            f"{HWMON}/curr1_input": "122000",
        },
    )
    collector = RailTable(survey_rails(tmp_path).rails)
    assert _read(collector)["ina238"] == pytest.approx(
        {"voltage_v": 53.8, "current_a": 122.0, "voltage_min_v": 53.8, "current_max_a": 122.0}
    )
    write(tmp_path, {f"{HWMON}/in1_input": "12"})
    assert np.isnan(_read(collector)["ina238"]["voltage_v"]), "no rail of 54 V reads 12 mV"


def test_fans_have_their_label_or_their_chip_as_key_and_those_of_supplies_are_theirs(tmp_path: Path) -> None:
    _crps(tmp_path)
    write(
        tmp_path,
        {
            "class/hwmon/hwmon1/name": "nct6798",
            "class/hwmon/hwmon1/fan1_input": "1200",
            "class/hwmon/hwmon1/fan2_input": "0",
            "class/hwmon/hwmon1/fan2_label": "CPU Fan",
        },
    )
    assert _read(fan_table(tmp_path)) == {"nct6798-fan1": {"fan_rpm": 1200.0}, "cpu-fan": {"fan_rpm": 0.0}}


def test_temperatures_are_the_hottest_of_their_kind_and_unwired_inputs_do_not_count(tmp_path: Path) -> None:
    two_supplies(tmp_path)
    for number, (chip, readings) in enumerate(
        {
            "coretemp": {"temp1": "61000", "temp2": "66000"},
            "nct6798": {"temp1": "38000", "temp2": "-128000", "temp3": "127000"},
            "nvme": {"temp1": "44850"},
            "amdgpu": {"temp1": "90000"},
        }.items()
    ):
        device = f"class/hwmon/hwmon{10 + number}"
        write(tmp_path, {f"{device}/name": chip} | {f"{device}/{name}_input": text for name, text in readings.items()})
    assert _read(temperature_table(tmp_path, "node0"))["node0"] == pytest.approx(
        {"cpu_temp_c": 66.0, "drive_temp_c": 44.85, "board_temp_c": 38.0}
    )


def test_a_tree_without_any_of_it_has_no_collectors(tmp_path: Path) -> None:
    assert survey_rails(tmp_path).rails == ()
    assert supply_table(tmp_path) is None
    assert fan_table(tmp_path) is None
    assert temperature_table(tmp_path, "node0") is None
