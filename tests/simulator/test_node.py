import re
from pathlib import Path

import pytest

from simulator.node import NODES, load_node, node_names
from simulator.scenario import SCENARIOS
from telemetry.errors import ConfigError


def test_the_node_that_comes_with_railwatch_is_four_gpus_on_two_supplies() -> None:
    assert node_names() == ("v100x4",)
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


@pytest.mark.parametrize("path", [*NODES.glob("*.yaml"), *SCENARIOS.glob("*.yaml")], ids=lambda path: path.name)
def test_every_number_carries_its_source_or_says_that_it_is_assumed(path: Path) -> None:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        value, _, remark = line.partition(" #")
        has_number = re.search(r"[:\[ ]\s*-?(0x[0-9A-F]+|\d[\d.]*(ms|s)?)\s*([,\]}]|$)", value)
        if has_number and not line.startswith("#"):
            assert re.match(r" (source:|assumption:|by construction)", remark), f"{path.name}:{number}: {line}"


def test_an_unknown_name_says_which_there_are() -> None:
    with pytest.raises(ConfigError, match="expected v100x4, or the path of a YAML file"):
        load_node("a100x8")


def test_every_problem_of_a_file_is_told_with_line_and_key(tmp_path: Path) -> None:
    text = (NODES / "v100x4.yaml").read_text(encoding="utf-8")
    text = text.replace("idle_w: 42", "idle_w: -42").replace("bus_mohm: 0.3", "bus_ohm: 0.3")
    path = tmp_path / "node.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        load_node(str(path))
    found = {(problem.key, problem.line is not None) for problem in raised.value.problems}
    assert found == {("gpu.power.idle_w", True), ("supply.bus_mohm", True), ("supply.bus_ohm", True)}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("default_mhz: 1290", "default_mhz: 1291", "default_mhz among the clocks"),
        ("name: psu1", "name: psu0", "a name of its own for each supply"),
        ('pci: "0000:1c:00.0"', 'pci: "0000:1a:00.0"', "a PCI address of its own for each slot"),
        ("window_ms: 10 #", "window_ms: 30 #", "window_ms no longer than period_ms"),
    ],
)
def test_a_node_that_cannot_be_is_refused(tmp_path: Path, old: str, new: str, expected: str) -> None:
    text = (NODES / "v100x4.yaml").read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "node.yaml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(ConfigError, match=expected):
        load_node(str(path))
