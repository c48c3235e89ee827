from pathlib import Path

import pytest

from simulator.files.loading import names_in
from simulator.files.node import GPUS, NODES, load_node
from simulator.files.rack import RACKS, load_rack, nodes_of
from simulator.files.rack_scenario import RACK_SCENARIOS, is_rack_scenario, load_rack_scenario, undisturbed
from simulator.files.scenario import SCENARIOS
from simulator.files.workload import WORKLOADS
from telemetry.errors import ConfigError

RACK = load_rack("rack4-v100")
AIR = "air: {crac_c: 20, recirculation_k_per_w: 0, noise_k: 0, noise_memory: 1m, diurnal_k: 0}\n"
FEED = "feed: {swing: 0.01, drop_at_rating: 0.02, breaker_w: 8000, breaker_after: 10s}\n"


def found(error: ConfigError) -> list[tuple[str, int | None, str]]:
    return [(Path(problem.where.partition(":")[0]).name, problem.line, problem.key) for problem in error.problems]


def test_every_rack_and_rack_scenario_that_comes_with_railwatch_loads() -> None:
    assert "rack4-v100" in names_in(RACKS)
    for name in names_in(RACKS):
        rack = load_rack(name)
        assert (rack.name, len(nodes_of(rack))) == (name, len(rack.nodes))
    assert names_in(RACK_SCENARIOS) == ("breaker-open", "job-across-nodes", "lost-gpu-across-nodes", "pdu-sag")
    for name in names_in(RACK_SCENARIOS):
        scenario = load_rack_scenario(name)
        assert scenario.file.name == name
        assert scenario.rack.name == scenario.file.rack
        assert len(scenario.nodes) == len(scenario.rack.nodes)
        assert is_rack_scenario(name)
        assert bool(scenario.file.truth) == (scenario.file.kind == "fault")


@pytest.mark.parametrize("path", sorted(RACK_SCENARIOS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_number_of_a_rack_scenario_carries_its_source(path: Path) -> None:
    for line in path.read_text(encoding="utf-8").splitlines():
        if "to:" in line:
            assert "# assumption:" in line or "# source:" in line, line


def test_nodes_named_by_a_path_stand_beside_the_racks_file(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("extends: v100x4\nname: mine\ninlet_c: 31\n", encoding="utf-8")
    path = tmp_path / "rack.yaml"
    path.write_text(f"name: r\ndescription: d\nnodes: [v100x4, mine.yaml]\n{AIR}{FEED}", encoding="utf-8")
    nodes = nodes_of(load_rack(str(path)))
    assert [node.inlet_c for node in nodes] == [load_node("v100x4").inlet_c, 31.0]


def test_alike_nodes_of_a_rack_have_names_and_gpus_of_their_own() -> None:
    nodes = nodes_of(RACK)
    assert [node.name for node in nodes] == ["node0", "node1", "node2", "node3"]
    assert len({node.gpu_uuid(gpu) for node in nodes for gpu in range(node.gpu_count)}) == 16


def test_an_unknown_rack_states_which_there_are() -> None:
    with pytest.raises(ConfigError, match="rack4-v100"):
        load_rack("rack0")


def test_every_unknown_node_of_a_rack_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "rack.yaml"
    nodes = "nodes:\n  - abacus\n  - v100x4\n  - sundial\n"
    path.write_text(f"name: r\ndescription: d\n{nodes}{AIR}{FEED}", encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        load_rack(str(path))
    assert found(raised.value) == [("rack.yaml", 4, "nodes[0]"), ("rack.yaml", 6, "nodes[2]")]


def test_everything_that_the_rack_does_not_have_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(
        "name: odd\n"
        "description: wrong on purpose\n"
        "rack: rack4-v100\n"
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
        "  - {cause: input_sag, entities: [pdu, node7, node0.psu1, node0.psu9], onset: 1s}\n"
        "  - {cause: input_sag, entities: [pdu], onset: 61s}\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError) as raised:
        load_rack_scenario(str(path), RACK)
    assert found(raised.value) == [
        ("odd.yaml", 5, "jobs[0].nodes[1]"),
        ("odd.yaml", 6, "jobs[1].nodes[1]"),
        ("odd.yaml", 7, "jobs[2].workload"),
        ("odd.yaml", 9, "nodes[0].node"),
        ("odd.yaml", 11, "nodes[2].node"),
        ("odd.yaml", 12, "nodes[3].scenario"),
        ("odd.yaml", 14, "truth[0].entities[1]"),
        ("odd.yaml", 14, "truth[0].entities[3]"),
        ("odd.yaml", 15, "truth[1].onset"),
    ]


def test_one_reading_reports_the_shape_of_a_rack_scenario_and_what_its_rack_has_not(tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(
        "name: odd\n"
        "description: wrong on purpose\n"
        "rack: rack4-v100\n"
        "jobs:\n"
        "  - {at: 0, workload: mining, nodes: [4]}\n"
        "nodes:\n"
        "  - {node: 9, scenario: earthquake}\n"
        "  - {node: 1, scenario: earthquake, at: 1s}\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError) as raised:
        load_rack_scenario(str(path))
    assert found(raised.value) == [
        ("odd.yaml", 5, "jobs[0].at"),
        ("odd.yaml", 5, "jobs[0].workload"),
        ("odd.yaml", 5, "jobs[0].nodes[0]"),
        ("odd.yaml", 7, "nodes[0].node"),
        ("odd.yaml", 8, "nodes[1].at"),
        ("odd.yaml", 8, "nodes[1].scenario"),
    ]
    path.write_text("name: odd\nrack: rack9\njobs: [{at: 0s, workload: mining, nodes: [4]}]\n", encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        load_rack_scenario(str(path))
    assert [key for _, _, key in found(raised.value)] == ["description", "rack", "jobs[0].workload"]


def test_a_change_of_something_else_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(
        "name: odd\ndescription: odd\nrack: rack4-v100\nchanges:\n  - {at: 1s, what: weather, to: 0}\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError) as raised:
        load_rack_scenario(str(path), RACK)
    assert found(raised.value) == [("odd.yaml", 5, "changes[0].what")]


def test_undisturbed_is_a_quiet_scenario_for_every_node() -> None:
    scenario = undisturbed(RACK)
    assert [of_node.changes for of_node in scenario.nodes] == [()] * 4
    assert scenario.file.kind == "quiet"


def test_no_two_things_that_come_with_railwatch_have_one_name() -> None:
    folders = [NODES, WORKLOADS, SCENARIOS, RACKS, RACK_SCENARIOS, GPUS]
    names = [name for folder in folders for name in names_in(folder)]
    assert sorted(names) == sorted(set(names))


def test_a_file_with_the_key_rack_is_a_scenario_of_a_rack(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\ndescription: d\nrack: rack4-h100\n", encoding="utf-8")
    assert is_rack_scenario(str(path))
    assert load_rack_scenario(str(path)).rack.name == "rack4-h100"
    path.write_text("name: mine\ndescription: d\n", encoding="utf-8")
    assert not is_rack_scenario(str(path))
    with pytest.raises(ConfigError, match="rack: missing"):
        load_rack_scenario(str(path))


def test_rack_nodes_and_jobs_named_by_a_path_stand_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(f"name: r\ndescription: d\nnodes: [v100x4]\n{AIR}{FEED}", encoding="utf-8")
    workload = "name: calm\ndescription: d\nkind: steady\nlevel: 0.2\nmemory_share: 0.1\nclock_bound_share: 1\n"
    (tmp_path / "calm.yaml").write_text(workload, encoding="utf-8")
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: mine\ndescription: d\nrack: r.yaml\njobs: [{at: 0s, workload: calm.yaml, nodes: [0]}]\n",
        encoding="utf-8",
    )
    scenario = load_rack_scenario(str(path))
    assert scenario.rack.name == "r"
    assert scenario.file.jobs[0].workload == str(tmp_path / "calm.yaml")


def test_what_is_true_of_a_node_is_true_in_its_rack() -> None:
    (truth,) = load_rack_scenario("lost-gpu-across-nodes").file.truth
    assert truth.entities == ("node2.gpu3",)
