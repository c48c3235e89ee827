from pathlib import Path

import pytest

from simulator.files.rack import load_rack, nodes_of, rack_names
from simulator.files.rack_scenario import (
    RACK_SCENARIOS,
    load_rack_scenario,
    rack_scenario_names,
    undisturbed,
)
from telemetry.errors import ConfigError

RACK = load_rack("rack4-v100")
AIR = "air: {crac_c: 20, recirculation_k_per_w: 0, noise_k: 0, noise_memory: 1m, diurnal_k: 0}\n"
FEED = "feed: {swing: 0.01, drop_at_rating: 0.02, breaker_w: 8000, breaker_after: 10s}\n"


def found(error: ConfigError) -> list[tuple[str, int | None, str]]:
    return [(Path(problem.where.partition(":")[0]).name, problem.line, problem.key) for problem in error.problems]


def test_every_rack_and_rack_scenario_that_comes_with_railwatch_loads() -> None:
    assert "rack4-v100" in rack_names()
    for name in rack_names():
        rack = load_rack(name)
        assert (rack.name, len(nodes_of(rack))) == (name, len(rack.nodes))
    assert rack_scenario_names() == ("breaker-open", "job-across-nodes", "lost-gpu-across-nodes", "pdu-sag")
    for name in rack_scenario_names():
        scenario = load_rack_scenario(name, RACK)
        assert scenario.file.name == name
        assert len(scenario.nodes) == 4
        assert bool(scenario.file.truth) == (scenario.file.kind == "fault")


@pytest.mark.parametrize("path", sorted(RACK_SCENARIOS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_number_of_a_rack_scenario_carries_its_source(path: Path) -> None:
    for line in path.read_text(encoding="utf-8").splitlines():
        if "to:" in line:
            assert "# assumption:" in line or "# source:" in line, line


def test_nodes_named_by_a_path_stand_beside_the_racks_file(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("extends: v100x4\nname: mine\n", encoding="utf-8")
    path = tmp_path / "rack.yaml"
    path.write_text(f"name: r\ndescription: d\nnodes: [v100x4, mine.yaml]\n{AIR}{FEED}", encoding="utf-8")
    assert [node.name for node in nodes_of(load_rack(str(path)))] == ["v100x4", "mine"]


def test_an_unknown_rack_says_which_there_are() -> None:
    with pytest.raises(ConfigError, match="rack4-v100"):
        load_rack("rack0")


def test_every_unknown_node_of_a_rack_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "rack.yaml"
    nodes = "nodes:\n  - abacus\n  - v100x4\n  - sundial\n"
    path.write_text(f"name: r\ndescription: d\n{nodes}{AIR}{FEED}", encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        load_rack(str(path))
    assert [problem.where for problem in raised.value.problems] == [f"{path}:4", f"{path}:6"]


def test_everything_that_the_rack_does_not_have_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(
        "name: odd\n"
        "description: wrong on purpose\n"
        "jobs:\n"
        "  - {at: 0s, workload: ddp, nodes: [0, 4]}\n"
        "  - {at: 0s, workload: ddp, nodes: [1, 1]}\n"
        "  - {at: 0s, workload: mining, nodes: [2]}\n"
        "nodes:\n"
        "  - {node: 9, scenario: healthy}\n"
        "  - {node: 1, scenario: healthy}\n"
        "  - {node: 1, scenario: healthy}\n"
        "  - {node: 2, scenario: earthquake}\n"
        "truth:\n"
        "  - {cause: input_sag, entities: [pdu, node7, node0.psu1, node0.psu9], onset: 1s}\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError) as raised:
        load_rack_scenario(str(path), RACK)
    assert found(raised.value) == [
        ("odd.yaml", 4, "jobs[0].nodes[1]"),
        ("odd.yaml", 5, "jobs[1].nodes[1]"),
        ("odd.yaml", None, "workload"),
        ("odd.yaml", 13, "truth[0].entities[1]"),
        ("odd.yaml", 13, "truth[0].entities[3]"),
        ("odd.yaml", 8, "nodes[0].node"),
        ("odd.yaml", 10, "nodes[2].node"),
        ("odd.yaml", None, "scenario"),
    ]


def test_a_change_of_something_else_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text("name: odd\ndescription: odd\nchanges:\n  - {at: 1s, what: weather, to: 0}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        load_rack_scenario(str(path), RACK)
    assert found(raised.value) == [("odd.yaml", 4, "changes[0].what")]


def test_undisturbed_is_a_quiet_scenario_for_every_node() -> None:
    scenario = undisturbed(RACK)
    assert [of_node.changes for of_node in scenario.nodes] == [()] * 4
    assert scenario.file.kind == "quiet"
