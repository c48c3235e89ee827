import re
from pathlib import Path

import pytest

from simulator.files.loading import names_in
from simulator.files.node import GPUS, NODES, load_node
from simulator.files.rack import RACKS
from simulator.files.scenario import SCENARIOS
from simulator.files.workload import WORKLOADS
from telemetry.errors import ConfigError


def test_the_node_that_comes_with_railwatch_is_four_gpus_on_two_supplies() -> None:
    assert "v100x4" in names_in(NODES)
    node = load_node("v100x4")
    assert node.gpu_count == 4
    assert [unit.name for unit in node.supply.units] == ["psu0", "psu1"]
    assert all(unit.rated_w == 1100 for unit in node.supply.units)


def test_uuids_and_serials_are_unique_and_the_same_in_every_run() -> None:
    node = load_node("v100x4")
    uuids = [node.gpu_uuid(index) for index in range(4)]
    assert len(set(uuids)) == 4
    assert all(re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid) for uuid in uuids)
    assert uuids == [load_node("v100x4").gpu_uuid(index) for index in range(4)]
    assert len({node.gpu_serial(index) for index in range(4)}) == 4


def test_the_clocks_are_those_that_nvidia_smi_lists() -> None:
    clocks = load_node("v100x4").gpu.clocks.supported_mhz
    assert (clocks[0], clocks[1], clocks[-2], clocks[-1], len(clocks)) == (135, 142, 1522, 1530, 187)
    assert {1005, 1057, 1290} <= set(clocks)


@pytest.mark.parametrize(
    "path",
    [path for folder in (NODES, GPUS, SCENARIOS, WORKLOADS, RACKS) for path in sorted(folder.glob("*.yaml"))],
    ids=lambda path: path.name,
)
def test_every_number_carries_its_source_or_states_that_it_is_assumed(path: Path) -> None:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        value, _, remark = line.partition(" #")
        has_number = re.search(r"[:\[ ]\s*-?(0x[0-9A-F]+|\d[\d.]*(ms|s)?)\s*([,\]}]|$)", value)
        if has_number and not line.startswith("#"):
            assert re.match(r" (source:|assumption:|by construction)", remark), f"{path.name}:{number}: {line}"


def test_an_unknown_name_states_which_there_are() -> None:
    with pytest.raises(ConfigError, match=r"v100x4, .*or the path of a YAML file"):
        load_node("v100x5")


def write_node(folder: Path, *changes: tuple[str, str], part: tuple[str, str] = ("", "")) -> Path:
    """Write the node and its part into a folder of their own, with some of the text replaced."""
    (folder / "gpu.yaml").write_text((GPUS / "v100-sxm2-16gb.yaml").read_text(encoding="utf-8").replace(*part))
    text = (NODES / "v100x4.yaml").read_text(encoding="utf-8").replace("gpu: v100-sxm2-16gb", "gpu: gpu.yaml")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "node.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_problem_of_all_files_is_reported_with_file_line_and_key(tmp_path: Path) -> None:
    path = write_node(tmp_path, ("bus_mohm: 0.3", "bus_ohm: 0.3"), part=("idle_w: 42", "idle_w: -42"))
    with pytest.raises(ConfigError) as raised:
        load_node(str(path))
    found = {(Path(problem.where).name, problem.key, problem.line is not None) for problem in raised.value.problems}
    assert found == {
        ("gpu.yaml", "power.idle_w", True),
        ("node.yaml", "supply.bus_mohm", True),
        ("node.yaml", "supply.bus_ohm", True),
    }


def test_a_node_that_extends_another_holds_only_what_differs(tmp_path: Path) -> None:
    write_node(tmp_path)
    path = tmp_path / "warm.yaml"
    path.write_text("extends: node.yaml\nname: warm\ninlet_c: 35\nsupply: {bus_mohm: 0.5}\n", encoding="utf-8")
    node, base = load_node(str(path)), load_node("v100x4")
    assert (node.name, node.inlet_c, node.supply.bus_mohm) == ("warm", 35.0, 0.5)
    assert (node.gpu, node.slots, node.supply.units) == (base.gpu, base.slots, base.supply.units)


def test_a_problem_stands_at_the_file_that_holds_the_key(tmp_path: Path) -> None:
    write_node(tmp_path, ("inlet_c: 22.2", "inlet_c: warm"))
    path = tmp_path / "other.yaml"
    path.write_text("extends: node.yaml\nname: Other Node\n", encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        load_node(str(path))
    found = {(Path(problem.where).name, problem.line, problem.key) for problem in raised.value.problems}
    assert ("other.yaml", 2, "name") in found
    assert {(name, key) for name, _, key in found} == {("other.yaml", "name"), ("node.yaml", "inlet_c")}


def test_files_that_extend_each_other_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("extends: b.yaml\n", encoding="utf-8")
    (tmp_path / "b.yaml").write_text("extends: a.yaml\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="goes in a circle"):
        load_node(str(tmp_path / "a.yaml"))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("name: psu1", "name: psu0", "a name of its own for each supply"),
        ('pci: "0000:1c:00.0"', 'pci: "0000:1a:00.0"', "a PCI address of its own for each slot"),
        ("preheat_k: 1.5", "preheat_k: 1.5, front: 1", "front of slot 1 as the number of another slot, 0 to 3"),
        ("preheat_k: 1.5", "preheat_k: 1.5, front: 4", "front of slot 1 as the number of another slot, 0 to 3"),
    ],
)
def test_a_node_that_cannot_be_is_refused(tmp_path: Path, old: str, new: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        load_node(str(write_node(tmp_path, (old, new))))


def test_one_reading_reports_shape_names_and_doubles_in_the_order_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: mine\n"
        "inlet_c: warm\n"
        "slots:\n"
        '  - {pci: "0000:1a:00.0", preheat_k: 0}\n'
        '  - {pci: "0000:1a:00.0", preheat_k: 0}\n'
        "workload: nosuch\n"
        "sensors: {rail: ina2288, bmc: null, inlet: null}\n"
        "supply:\n"
        "  units:\n"
        "    - {name: psu0, rated_w: 0, joint_mohm: -1}\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError) as raised:
        load_node(str(path))
    problems = {problem.key: problem for problem in raised.value.problems}
    assert {"gpu", "inlet_c", "slots", "workload", "sensors.rail", "supply.units[0].rated_w"} <= set(problems)
    assert "supply.units" not in problems
    assert problems["slots"].expected == "a PCI address of its own for each slot; 0000:1a:00.0 stands twice"
    assert problems["workload"].expected.startswith("a workload: burn, ddp")
    assert problems["sensors.rail"].expected.endswith("perhaps ina228")
    assert {problem.where for problem in problems.values()} == {str(path)}
    lines = [problem.line or 0 for problem in raised.value.problems]
    assert lines == sorted(lines)


def test_a_form_that_does_not_fit_is_reported_in_one_line(tmp_path: Path) -> None:
    path = write_node(tmp_path, ("0000:1a:00.0", "1A"), ("name: psu1", "name: left"))
    with pytest.raises(ConfigError) as raised:
        load_node(str(path))
    reported = {problem.key: problem.expected for problem in raised.value.problems}
    assert reported["slots[0].pci"] == "a PCI address such as 0000:1a:00.0"
    assert reported["supply.units[1].name"] == "small letters and a number, such as psu0"


def test_a_workload_named_by_a_path_stands_beside_the_node(tmp_path: Path) -> None:
    (tmp_path / "calm.yaml").write_text(
        "{kind: idle, name: calm, description: d, memory_share: 0, clock_bound_share: 0}", encoding="utf-8"
    )
    path = tmp_path / "mine.yaml"
    path.write_text("extends: v100x4\nname: mine\nworkload: calm.yaml\n", encoding="utf-8")
    assert load_node(str(path)).workload == str(tmp_path / "calm.yaml")


def test_a_part_or_a_base_of_an_unknown_name_is_reported_at_its_key(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: v100x4\nname: mine\ngpu: v100\ninlet_c: warm\n", encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        load_node(str(path))
    assert [(problem.line, problem.key) for problem in raised.value.problems] == [(3, "gpu"), (4, "inlet_c")]
    path.write_text("extends: v100x5\nname: mine\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"mine\.yaml:1: extends: got 'v100x5'; expected .*perhaps v100x4"):
        load_node(str(path))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("default_mhz: 1290", "default_mhz: 1291", "default_mhz among the clocks"),
        ("window_ms: 10 #", "window_ms: 30 #", "window_ms no longer than period_ms"),
        ("{min: 150,", "{min: 350,", "min no higher than default"),
    ],
)
def test_a_part_that_cannot_be_is_refused(tmp_path: Path, old: str, new: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        load_node(str(write_node(tmp_path, part=(old, new))))


def test_a_rail_is_called_after_the_voltage_it_is_meant_to_have() -> None:
    assert load_node("v100x4").supply.nominal_rail_v == 12.0
    assert round(load_node("h100x8").supply.nominal_rail_v) == 54
