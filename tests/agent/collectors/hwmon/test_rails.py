"""Rails found by label or by reading, and read through descriptors that stay open."""

from pathlib import Path

import numpy as np
import pytest

from agent.collectors.host.host import Host
from agent.collectors.hwmon.rails import RailTable
from agent.collectors.hwmon.tree import find_inlet, survey_rails
from agent.collectors.registry.settings import FastSettings
from agent.collectors.registry.sources import build_collectors
from agent.collectors.sysfs.attribute_file import REOPEN_AFTER_READS, AttributeFile
from agent.sampler.counters import SamplerCounters
from analytics.supply.sampling import SAMPLED_TAG
from simulator.files.node import load_node
from simulator.served.sysfs_tree import HwmonTree
from telemetry.entities import INPUT_NOMINAL_TAG, NOMINAL_SOURCE_TAG
from tests.agent.collectors.node_files import two_supplies, write
from tests.agent.fakes import FakeClock

HWMON = "class/hwmon/hwmon0"
OTHERS = {"5v": (5.01, 30.0), "3-3v": (3.31, 40.0)}


def _keys(root: Path) -> list[str]:
    return [rail.key for rail in survey_rails(root).rails]


def test_labelled_rails_have_volts_and_amperes_of_each_supply(tmp_path: Path) -> None:
    two_supplies(tmp_path)
    collector = RailTable(survey_rails(tmp_path).rails)
    values = np.empty(collector.spec.shape)
    collector.read(values)
    assert [entity.key for entity in collector.spec.entities] == ["psu0", "psu1"]
    assert values == pytest.approx(np.array([[12.000, 45.500] * 2, [12.001, 45.501] * 2]))


def test_a_new_value_in_the_same_file_is_seen_at_the_next_read(tmp_path: Path) -> None:
    two_supplies(tmp_path)
    collector = RailTable(survey_rails(tmp_path).rails)
    values = np.empty(collector.spec.shape)
    collector.read(values)
    write(tmp_path, {f"{HWMON}/in0_input": "11310"})
    collector.read(values)
    assert values[0, 0] == pytest.approx(11.31)


def test_a_server_supply_over_pmbus_is_its_output_not_its_input(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            f"{HWMON}/name": "ibmcffps",
            f"{HWMON}/in1_input": "230000",
            f"{HWMON}/in1_label": "vin",
            f"{HWMON}/in2_input": "12250",
            f"{HWMON}/in2_label": "vout1",
            f"{HWMON}/curr1_input": "4100",
            f"{HWMON}/curr1_label": "iin",
            f"{HWMON}/curr2_input": "77000",
            f"{HWMON}/curr2_label": "iout1",
        },
    )
    collector = RailTable(survey_rails(tmp_path).rails)
    values = np.empty(collector.spec.shape)
    collector.read(values)
    assert values == pytest.approx(np.array([[12.25, 77.0] * 2]))


@pytest.mark.parametrize(
    ("chip", "interval_ms", "sampled"),
    [("ina226", "35", "means"), ("ina226", "2", None), ("ina226", None, None), ("ina219", "35", None)],
)
def test_a_monitor_that_averages_is_tagged_as_one_of_means(
    tmp_path: Path, chip: str, interval_ms: str | None, sampled: str | None
) -> None:
    files = {f"{HWMON}/name": chip, f"{HWMON}/in1_input": "12050", f"{HWMON}/curr1_input": "40000"}
    write(tmp_path, files | ({f"{HWMON}/update_interval": interval_ms} if interval_ms else {}))
    (entity,) = RailTable(survey_rails(tmp_path).rails).spec.entities
    assert entity.tag(SAMPLED_TAG) == sampled


@pytest.mark.parametrize(("input_mv", "input_v"), [(53_800, "54"), (230_000, None), (12_100, None), (0, None)])
def test_a_converter_is_tagged_with_the_rail_that_it_draws_from(
    tmp_path: Path, input_mv: int, input_v: str | None
) -> None:
    labels = {"in1": ("vin", input_mv), "in2": ("vout1", 12_050), "curr1": ("iout1", 40_000)}
    files = {f"{HWMON}/name": "bmr492"}
    for stem, (label, reading) in labels.items():
        files |= {f"{HWMON}/{stem}_label": label, f"{HWMON}/{stem}_input": str(reading)}
    write(tmp_path, files)
    (entity,) = RailTable(survey_rails(tmp_path).rails).spec.entities
    assert (entity.nominal_v, entity.tag(INPUT_NOMINAL_TAG)) == (12.0, input_v)


def test_an_ina_without_labels_is_found_by_its_reading(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            f"{HWMON}/name": "ina226",
            f"{HWMON}/in0_input": "3",
            f"{HWMON}/in1_input": "12104",
            f"{HWMON}/curr1_input": "30500",
        },
    )
    (rail,) = survey_rails(tmp_path).rails
    assert rail.key == "ina226"
    assert rail.voltage.name == "in1_input"
    assert rail.current is not None


def test_three_channels_of_one_chip_are_three_rails(tmp_path: Path) -> None:
    files = {f"{HWMON}/name": "ina3221"}
    for channel in (1, 2, 3):
        files |= {
            f"{HWMON}/in{channel}_input": "12000",
            f"{HWMON}/in{channel}_label": f"feed{channel} +12V",
            f"{HWMON}/curr{channel}_input": str(channel * 1000),
        }
    write(tmp_path, files)
    collector = RailTable(survey_rails(tmp_path).rails)
    values = np.empty(collector.spec.shape)
    collector.read(values)
    assert _keys(tmp_path) == ["feed1", "feed2", "feed3"]
    assert list(values[:, 1]) == pytest.approx([1.0, 2.0, 3.0])


def test_a_mainboard_chip_returns_only_the_voltages_that_are_labelled_as_rails(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            f"{HWMON}/name": "nct6798",
            f"{HWMON}/in0_input": "12096",
            f"{HWMON}/in1_input": "11980",
            f"{HWMON}/in1_label": "+12V",
            f"{HWMON}/in2_input": "5040",
            f"{HWMON}/in2_label": "+5V",
        },
    )
    rails = survey_rails(tmp_path).rails
    assert [(rail.key, rail.voltage.name, rail.current) for rail in rails] == [
        ("5v", "in2_input", None),
        ("nct6798", "in1_input", None),
    ]


def _corsair(root: Path) -> None:
    """A consumer supply as the kernel's corsair-psu driver shows it (Documentation/hwmon/corsair-psu.rst)."""
    labels = ("v_in", "v_out +12v", "v_out +5v", "v_out +3.3v")
    files = {f"{HWMON}/name": "corsairpsu", f"{HWMON}/curr1_label": "curr in", f"{HWMON}/curr1_input": "2100"}
    for number, (label, reading_mv) in enumerate(zip(labels, (230_000, 12_050, 5_010, 3_310), strict=True)):
        files |= {f"{HWMON}/in{number}_label": label, f"{HWMON}/in{number}_input": str(reading_mv)}
    for number, label in enumerate(("curr +12v", "curr +5v", "curr +3.3v"), start=2):
        files |= {f"{HWMON}/curr{number}_label": label, f"{HWMON}/curr{number}_input": str(number * 10_000)}
    write(root, files)


def test_a_supply_that_names_volts_and_amperes_by_rail_has_pairs(tmp_path: Path) -> None:
    _corsair(tmp_path)
    collector = RailTable(survey_rails(tmp_path).rails)
    values = np.empty(collector.spec.shape)
    collector.read(values)
    collector.close()
    keys = [entity.key for entity in collector.spec.entities]
    assert {key: tuple(row[:2]) for key, row in zip(keys, values, strict=True)} == {
        key: pytest.approx(pair) for key, pair in {"corsairpsu": (12.05, 20.0), **OTHERS}.items()
    }


def _nominals(root: Path) -> dict[str, tuple[float | None, str | None]]:
    entities = RailTable(survey_rails(root).rails).spec.entities
    return {one.key: (one.nominal_v, one.tag(NOMINAL_SOURCE_TAG)) for one in entities}


def test_a_label_names_the_nominal_voltage(tmp_path: Path) -> None:
    _corsair(tmp_path)
    assert _nominals(tmp_path) == {"corsairpsu": (12.0, "label"), "5v": (5.0, "label"), "3-3v": (3.3, "label")}


@pytest.mark.parametrize(
    ("files", "nominal"),
    [
        ({"in1_input": "50600"}, (48.0, "reading")),
        ({"in1_input": "50600", "in1_min": "51000", "in1_max": "57000"}, (54.0, "sensor limits")),
        ({"in1_input": "50600", "in1_lcrit": "51000", "in1_crit": "57000"}, (54.0, "sensor limits")),
        ({"in1_input": "50600", "in1_min": "0", "in1_max": "65535"}, (48.0, "reading")),  # they bound nothing
        ({"in1_input": "50600", "in1_rated_min": "51000", "in1_rated_max": "57000"}, (54.0, "sensor limits")),
        (
            {"in1_input": "53900", "in1_min": "43000", "in1_max": "58000"},
            (54.0, "sensor limits"),
        ),  # the higher
        ({"in1_input": "50600", "in1_min": "43000", "in1_max": "58000"}, (48.0, "reading")),  # they name both
        ({"in1_input": "50600", "in1_min": "43000", "in1_max": "58000", "in1_label": "54V"}, (54.0, "label")),
        ({"in1_input": "50600", "in1_min": "51000", "in1_max": "57000", "in1_label": "48V"}, (54.0, "sensor limits")),
        # Limits that the reading contradicts do not count.
        ({"in1_input": "12100", "in1_min": "51000", "in1_max": "57000", "in1_label": "12V"}, (12.0, "label")),
        ({"in1_input": "54100", "in1_label": "48V"}, (54.0, "reading")),  # as -48 V equipment is often labelled
    ],
)
def test_its_limits_name_a_rail_else_its_label_and_else_its_reading(
    tmp_path: Path, files: dict[str, str], nominal: tuple[float, str]
) -> None:
    shunt = {"name": "ina238", "in0_input": "3", "curr1_input": "122000"}
    write(tmp_path, {f"{HWMON}/{name}": text for name, text in (shunt | files).items()})
    assert list(_nominals(tmp_path).values()) == [nominal]


def test_two_sources_that_name_different_voltages_are_one_warning_that_names_both(tmp_path: Path) -> None:
    two_supplies(tmp_path)
    write(tmp_path, {f"{HWMON}/in0_min": "4500", f"{HWMON}/in0_max": "5500"})
    settings = FastSettings(
        node="node0", clock=FakeClock(), counters=SamplerCounters(), reader=None, sysfs_root=tmp_path
    )
    (status,) = (part.status for part in build_collectors(settings) if part.status.name == "supply")
    conflict = "psu0: 5 V by limits of 4.5 to 5.5 V, 12 V by label 'psu0 12V'; taken for 12 V"
    assert status.warnings == (f"nominal voltage of rail {conflict}",)
    assert status.detail == f"psu0, psu1 (12 V by label); contradictory: {conflict}"


def test_limits_and_label_that_agree_are_no_warning(tmp_path: Path) -> None:
    two_supplies(tmp_path)
    write(tmp_path, {f"{HWMON}/in0_min": "11400", f"{HWMON}/in0_max": "12600"})
    survey = survey_rails(tmp_path)
    assert survey.contradictory == ()
    assert [rail.nominal_from for rail in survey.rails] == ["sensor limits", "label"]


def test_a_negative_rail_is_neither_a_12_v_rail_nor_an_odd_one(tmp_path: Path) -> None:
    write(tmp_path, {f"{HWMON}/name": "w83627", f"{HWMON}/in1_label": "-12V", f"{HWMON}/in1_input": "-11900"})
    write(tmp_path, {f"{HWMON}/in2_label": "-5V", f"{HWMON}/in2_input": "-5010"})
    survey = survey_rails(tmp_path)
    assert (survey.rails, survey.implausible) == ((), ())


def test_two_chips_with_one_label_get_two_keys_that_do_not_depend_on_hwmon_numbers(tmp_path: Path) -> None:
    for number, place in ((5, "1-0040"), (4, "1-0041")):
        device = f"class/hwmon/hwmon{number}"
        write(tmp_path, {f"{device}/name": "ina228", f"{device}/in0_input": "12000", f"{device}/in0_label": "12V"})
        (tmp_path / "devices" / place).mkdir(parents=True)
        (tmp_path / device / "device").symlink_to(tmp_path / "devices" / place)
    assert _keys(tmp_path) == ["ina228", "ina228-1-0041-0"]
    write(tmp_path, {"class/hwmon/hwmon5/in0_input": "0"})
    assert _keys(tmp_path) == ["ina228-1-0041-0"], "one that is off leaves the other its name"


@pytest.mark.parametrize("reading_mv", ["9400", "0", "1012", "14100"])
def test_a_labelled_rail_that_does_not_read_as_one_is_reported_and_ignored(tmp_path: Path, reading_mv: str) -> None:
    two_supplies(tmp_path)
    write(tmp_path, {f"{HWMON}/in0_input": reading_mv})
    assert _keys(tmp_path) == ["psu1"]
    settings = FastSettings(
        node="node0", clock=FakeClock(), counters=SamplerCounters(), reader=None, sysfs_root=tmp_path
    )
    (status,) = (part.status for part in build_collectors(settings) if part.status.name == "supply")
    assert status.detail == f"psu1 (12 V by label); implausible, ignored: psu0 reads {int(reading_mv) / 1000:g} V"


def test_doctor_shows_the_nominal_voltage_of_each_rail_and_what_named_it(tmp_path: Path) -> None:
    node = load_node("h100x8")
    HwmonTree(tmp_path, node).close()
    for place in range(6):
        write(tmp_path / "class/hwmon" / f"hwmon{place}", {"in2_input": "53900", "curr1_input": "60000"})
    for limit in ("min", "max"):
        (tmp_path / f"class/hwmon/hwmon5/in2_{limit}").unlink()
    settings = FastSettings(
        node="node0", clock=FakeClock(), counters=SamplerCounters(), reader=None, sysfs_root=tmp_path
    )
    (status,) = (part.status for part in build_collectors(settings) if part.status.name == "supply")
    others = ", ".join(f"pmbus-hwmon{place}" for place in range(5))
    assert status.detail == f"{others} (54 V by sensor limits), pmbus-hwmon5 (54 V by reading)"


def test_a_labelled_rail_that_cannot_be_read_at_start_may_come_back(tmp_path: Path) -> None:
    two_supplies(tmp_path)
    write(tmp_path, {f"{HWMON}/in0_input": ""})
    assert _keys(tmp_path) == ["psu0", "psu1"]


@pytest.mark.parametrize(
    ("reading_mv", "voltage_v"),
    [("0", None), ("5999", None), ("6000", 6.0), ("9400", 9.4), ("16000", 16.0), ("16001", None), ("65535", None)],
)
def test_an_implausible_voltage_is_absent(tmp_path: Path, reading_mv: str, voltage_v: float | None) -> None:
    two_supplies(tmp_path)
    collector = RailTable(survey_rails(tmp_path).rails)
    values = np.empty(collector.spec.shape)
    write(tmp_path, {f"{HWMON}/in0_input": reading_mv})
    collector.read(values)
    collector.close()
    assert values[0, 0] == pytest.approx(np.nan if voltage_v is None else voltage_v, nan_ok=True)


def test_the_inlet_is_read_by_the_host_collector(tmp_path: Path) -> None:
    two_supplies(tmp_path)
    assert find_inlet(tmp_path) is not None
    host = Host("node0", tmp_path)
    values = np.empty(host.spec.shape)
    host.open()
    host.read(values)
    assert values[0, host.spec.signals.index("inlet_temp_c")] == pytest.approx(22.25)
    assert np.isnan(values[0, host.spec.signals.index("cpu_util_ratio")]), "the first read has no interval"
    host.close()


def test_no_hwmon_at_all_is_no_rails(tmp_path: Path) -> None:
    assert survey_rails(tmp_path).rails == ()
    assert find_inlet(tmp_path) is None


@pytest.mark.parametrize("content", ["", "n/a\n", "\0\0\0"])
def test_what_is_not_a_number_is_absent(tmp_path: Path, content: str) -> None:
    (tmp_path / "in0_input").write_text(content)
    assert np.isnan(AttributeFile(tmp_path / "in0_input").read())


def test_a_file_that_cannot_be_opened_is_absent_counted_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "in0_input"
    path.symlink_to(path)  # cannot be opened, not even by root
    attribute = AttributeFile(path, reopen_after_reads=0)
    assert all(np.isnan(attribute.read()) for _ in range(3))
    assert attribute.failed == 3
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_shorter_number_over_a_longer_one_is_not_misread(tmp_path: Path) -> None:
    (tmp_path / "curr1_input").write_bytes(b"998\n10\n")
    assert AttributeFile(tmp_path / "curr1_input").read() == 998


def test_a_file_that_was_replaced_is_found_again_after_a_while(tmp_path: Path) -> None:
    path = tmp_path / "in0_input"
    path.write_text("12000\n")
    attribute = AttributeFile(path)
    assert attribute.read() == 12000
    path.unlink()
    assert np.isnan([attribute.read() for _ in range(REOPEN_AFTER_READS)][-1])
    path.write_text("11000\n")
    readings = [attribute.read() for _ in range(REOPEN_AFTER_READS + 10)]
    assert readings[-1] == 11000
    attribute.close()
    attribute.close()


def test_descriptors_do_not_leak(tmp_path: Path) -> None:
    two_supplies(tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    collector = RailTable(survey_rails(tmp_path).rails)
    for _ in range(3):
        collector.read(np.empty(collector.spec.shape))
        collector.close()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
