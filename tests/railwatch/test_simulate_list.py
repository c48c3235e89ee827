"""``railwatch simulate list`` and ``show``."""

from pathlib import Path

import pytest

from simulator.files.loading import names_in
from simulator.files.node import NODES
from simulator.files.scenario import SCENARIOS
from tests.railwatch.command_line import Run, command_line, objects


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("COLUMNS", "80")
    return command_line(monkeypatch, capsys, "simulate")


def test_the_list_holds_every_node_and_scenario_each_on_one_line_where_it_is_not_on_a_terminal(run: Run) -> None:
    status, out, err = run("list")
    assert (status, err) == (0, "")
    for name in (*names_in(NODES), *names_in(SCENARIOS)):
        assert f"\n{name} " in out
    assert not any(line.startswith(" ") for line in out.splitlines())
    wrong, fine = out.index("scenarios in which something is wrong"), out.index("nothing may alarm")
    assert wrong < out.index("\npsu-sag ") < fine < out.index("\nnormal-day ")


def test_the_list_as_json_has_one_object_a_line_with_kind_and_name(run: Run) -> None:
    entries = objects(run("list", "--json")[1])
    kinds = {entry["kind"] for entry in entries}
    assert kinds == {"node", "workload", "scenario", "rack", "rack scenario"}
    (psu_sag,) = [entry for entry in entries if entry["name"] == "psu-sag"]
    assert (psu_sag["verdict"], psu_sag["duration_s"]) == ("fault", 60.0)
    racks = {entry["rack"] for entry in entries if entry["kind"] == "rack scenario"}
    assert racks <= {entry["name"] for entry in entries if entry["kind"] == "rack"}


def test_a_node_is_shown_with_its_branches_and_what_follows(run: Run) -> None:
    status, out, _ = run("show", "v100x4-double-ring")
    assert status == 0
    for expected in ("psu2", "4.4 mΩ", "source resistance", "1.77 mΩ", "12.04 V", "ina228", "6 x NVLink 2"):
        assert expected in out
    assert not any(line.startswith(" ") for line in out.splitlines())


def test_a_node_with_measured_pins_is_shown_with_their_paths_and_their_monitor(run: Run) -> None:
    assert "12V-2x6           13.6 to 15.3 mΩ a pin, measured by astral12vhpwr" in run("show", "rtx5090x2")[1]
    assert "12V-2x6" not in run("show", "v100x4")[1]


def test_sources_report_where_each_number_comes_from(run: Run) -> None:
    out = run("show", "v100x4-xt60", "--sources")[1]
    assert "v100x4-xt60.yaml" in out
    assert "v100-sxm2-16gb.yaml" in out
    assert "assumption: a pair of XT60" in out


def test_a_node_as_json_carries_its_figures_and_the_remarks(run: Run) -> None:
    (fields,) = objects(run("show", "v100x4-banana", "--json")[1])
    assert fields["type"] == "node"
    assert fields["figures"]["supply"]["source_mohm"] == pytest.approx(7.7)
    assert [load["name"] for load in fields["figures"]["loads"]] == ["idle", "at the power limit", "peak of a step"]
    (joint,) = [number for number in fields["numbers"] if number["key"] == "supply.units[0].connector_mohm"]
    assert joint["remark"].startswith("source: fit")
    assert joint["line"] == 12


def test_a_scenario_is_shown_as_text_and_as_a_timeline(run: Run) -> None:
    status, out, _ = run("show", "psu-lost-during-job-change", "--node", "v100x4-aged-3psu")
    assert status == 0
    for expected in ("psu1 goes off", "job hpc starts", "supply_lost", "for good", "v100x4-aged-3psu"):
        assert expected in out
    lanes = [line for line in out.splitlines() if line.startswith(("jobs", "changes", "truth"))]
    assert len(lanes) == 3
    assert len({len(lane) for lane in lanes}) == 1


def test_a_sensor_fault_and_a_driver_fault_are_shown_as_text(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "name: s\ndescription: Two faults.\n"
        "sensor_faults: [{at: 5s, sensor: psu0.current_a, fault: skew, value: 0.05, last: 10s}]\n"
        "driver_faults: [{at: 6s, call: nvmlDeviceGetPowerUsage, gpu: 1, code: 15, delay: 2s}]\n",
        encoding="utf-8",
    )
    out = " ".join(run("show", str(path))[1].split())
    assert "sensor psu0.current_a: skew 0.05, for 10s" in out
    assert "nvmlDeviceGetPowerUsage for GPU 1 answers 15 and takes 2s longer" in out


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ddp", ("workload", "step_ms", "900")),
        ("h100-sxm5-80gb", ("GPU part", "NVIDIA H100 80GB HBM3", "0x233010DE")),
        ("rack4-h100", ("rack", "node3  h100x8", "opens above 46 kW for 10s", "at the power limit", "inlet")),
        ("pdu-sag", ("rack4-v100", "input ratio goes to 0.85")),
        ("lost-gpu-across-nodes", ("starts on node0, node1", "node2 follows the scenario bus-drop", "node2.gpu3")),
        ("healthy", ("nothing is wrong", "Nothing changes.")),
    ],
)
def test_everything_else_can_be_shown_too(run: Run, name: str, expected: tuple[str, ...]) -> None:
    status, out, _ = run("show", name)
    assert status == 0
    assert all(part in out for part in expected)


@pytest.mark.parametrize("name", ["v100x4", "psu-sag", "ddp", "v100-sxm2-16gb", "rack4-v100", "pdu-sag"])
def test_everything_shows_as_one_json_object(run: Run, name: str) -> None:
    status, out, _ = run("show", name, "--json")
    (fields,) = objects(out)
    assert status == 0
    assert fields["numbers"]


def test_a_rack_scenario_may_be_looked_at_on_another_rack_but_on_no_node(run: Run) -> None:
    assert "on rack4-h100" in run("show", "pdu-sag", "--rack", "rack4-h100")[1]
    status, out, err = run("show", "pdu-sag", "--node", "v100x4")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "'pdu-sag' is a scenario of a rack" in err


def test_a_file_with_the_key_rack_is_shown_as_a_scenario_of_that_rack(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\ndescription: Mine.\nrack: rack4-h100\nkind: quiet\n", encoding="utf-8")
    (fields,) = objects(run("show", str(path), "--json")[1])
    assert (fields["type"], fields["rack"]) == ("rack scenario", "rack4-h100")


def test_a_rack_as_json_carries_what_follows_from_its_numbers(run: Run) -> None:
    (fields,) = objects(run("show", "rack4-v100", "--json")[1])
    loads = fields["figures"]["loads"]
    assert [load["name"] for load in loads] == ["idle", "at the power limit", "peak of a step"]
    assert all(0.0 < load["breaker_share"] < 1.0 for load in loads)


def test_an_unknown_name_states_which_there_are(run: Run) -> None:
    status, out, err = run("show", "v100x5")
    assert (status, out) == (2, "")
    assert "got 'v100x5'; expected one of node: a100x16, a100x8" in err
    assert "scenario: ac-sag" in err
    assert err.endswith("; perhaps v100x4\n")


def test_a_file_with_mistakes_is_reported_all_of_them_with_line_and_key(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "extends: v100x4\nname: mine\nsupply: {buss_mohm: 3}\ncooling: {fans: many}\nsuply: 1\n", encoding="utf-8"
    )
    status, out, err = run("show", str(path))
    assert (status, out) == (2, "")
    assert f"{path}:3: supply.buss_mohm: unknown key; expected one of the known keys, perhaps bus_mohm" in err
    assert f"{path}:4: cooling.fans" in err
    assert f"{path}:5: suply" in err


def test_a_file_that_is_not_there_is_reported_in_one_line(run: Run) -> None:
    status, _, err = run("show", "no.yaml")
    assert status == 2
    assert err.startswith("railwatch: no.yaml: there is no such file")


@pytest.mark.parametrize(("name", "expected"), [("box", "is a folder"), ("box.txt", "does not end in .yaml or .yml")])
def test_what_is_no_yaml_file_is_reported_in_one_line_without_the_catalogue(
    run: Run, tmp_path: Path, name: str, expected: str
) -> None:
    (tmp_path / "box").mkdir()
    (tmp_path / "box.txt").write_text("", encoding="utf-8")
    status, out, err = run("show", str(tmp_path / name))
    assert (status, out) == (2, "")
    assert err.startswith(f"railwatch: {tmp_path / name}: {expected}; expected a name")
    assert len(err) < 250


def test_a_node_that_cannot_carry_its_own_load_is_shown_to_be_so(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "weak.yaml"
    path.write_text(
        "extends: v100x4\nname: weak\ndescription: Weak.\nsupply:\n  units:\n    - {name: psu0, rated_w: 500, "
        "open_circuit_v: 5, psu_mohm: 0, cable_mohm: 0, connector_mohm: 0, joint_mohm: 50}\n",
        encoding="utf-8",
    )
    status, out, _ = run("show", str(path))
    assert status == 0
    assert "weak cannot carry its load at rest: the rail collapses under 518 W" in out
    (fields,) = objects(run("show", str(path), "--json")[1])
    assert fields["figures"]["shortfall"].startswith("cannot carry its load at rest")
