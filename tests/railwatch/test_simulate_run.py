import json
from pathlib import Path

import pytest

from simulator.files.node import NODES
from simulator.files.rack import RACKS
from simulator.files.scenario import SCENARIOS
from simulator.files.workload import WORKLOADS
from tests.railwatch.command_line import Run, command_line
from tests.simulator.early import early_drop


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    return command_line(monkeypatch, capsys)


def test_a_run_is_recorded_and_reported_in_one_object(run: Run, tmp_path: Path) -> None:
    arguments = ("--node", "v100x4", "--workload", "ddp", "--clock-mhz", "1005", "--duration", "1s")
    status, out, err = run("simulate", "run", *arguments, "--out", "a.parquet", "--truth", "a.json", "--json")
    assert (status, err) == (0, "")
    (result,) = [json.loads(line) for line in out.splitlines()]
    assert result["simulated_s"] == 1.0
    assert result["times_real_time"] > 0
    assert result["gpu_power_peak_w"] < 230.0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "a.parquet"]


def test_files_that_exist_are_replaced_only_when_asked(run: Run, tmp_path: Path) -> None:
    arguments = ("simulate", "run", "healthy", "--duration", "100ms", "--out", "a.csv", "--truth", "a.json")
    for name in ("a.csv", "a.json"):
        (tmp_path / name).write_text("measured on a real node")
    status, _, err = run(*arguments)
    assert status == 2
    assert err.splitlines() == [
        "railwatch: --out: a.csv: exists; expected a new file name, or --force",
        "railwatch: --truth: a.json: exists; expected a new file name, or --force",
    ]
    assert (tmp_path / "a.csv").read_text() == "measured on a real node"
    assert run(*arguments, "--force")[0] == 0
    assert (tmp_path / "a.csv").read_text().startswith("time_ns,")


def test_a_run_prints_its_result_as_text(run: Run) -> None:
    status, out, _ = run("simulate", "run", "bus-drop", "--duration", "1s", "--out", "a.csv", "--seed", "4")
    assert status == 0
    assert out.startswith("a.csv: ")
    for expected in ("1s simulated", "times real time", "0 drops", "V lowest", "W peak"):
        assert expected in out


def test_a_recorded_drop_is_found_by_a_replay(run: Run, tmp_path: Path) -> None:
    assert run("simulate", "run", early_drop(tmp_path, at_s=2), "--duration", "5s", "--out", "a.parquet")[0] == 0
    status, out, _ = run("replay", "a.parquet", "--json")
    assert status == 0
    records = [json.loads(line) for line in out.splitlines()]
    causes = {record["cause"] for record in records if record["type"] == "incident"}
    assert "gpu_lost" in causes
    assert all(record["simulated"] for record in records)


def test_a_rack_scenario_runs_on_the_rack_it_was_written_for_and_every_recording_replays(
    run: Run, tmp_path: Path
) -> None:
    arguments = ("pdu-sag", "--duration", "500ms", "--out", "r.parquet", "--truth", "r.json")
    status, out, err = run("simulate", "run", *arguments)
    assert (status, err) == (0, "")
    *nodes, rack = out.splitlines()
    assert [line.partition(":")[0] for line in nodes] == [f"r.node{number}.parquet" for number in range(4)]
    for expected in ("rack4-v100: 500ms simulated", "0 drops", "% of nominal", "breaker closed throughout", "inlet"):
        assert expected in rack
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"r.json", *(f"r.node{number}.parquet" for number in range(4))}
    for line in nodes:
        assert run("replay", line.partition(":")[0])[0] == 0


def test_an_undisturbed_rack_is_reported_in_one_object(run: Run, tmp_path: Path) -> None:
    rack = tmp_path / "two.yaml"
    rack.write_text(
        "name: two\ndescription: Two nodes.\nnodes: [v100x4, v100x4-aged]\n"
        "air: {crac_c: 20, recirculation_k_per_w: 0, noise_k: 0, noise_memory: 1m, diurnal_k: 0}\n"
        "feed: {swing: 0.01, drop_at_rating: 0.02, breaker_w: 8000, breaker_after: 10s}\n",
        encoding="utf-8",
    )
    arguments = ("--rack", "two.yaml", "--duration", "200ms", "--clock-mhz", "1005", "--out", "r.csv", "--json")
    status, out, _ = run("simulate", "run", *arguments)
    assert status == 0
    (result,) = [json.loads(line) for line in out.splitlines()]
    assert (result["rack"], result["scenario"], result["drops"]) == ("two", "undisturbed", 0)
    assert [node["file"] for node in result["nodes"]] == ["r.node0.csv", "r.node1.csv"]
    assert result["shared"]["inlet_max_c"] == 20.0


@pytest.fixture
def replayed(tmp_path: Path) -> str:
    """Return the name of a workload that plays a recording back."""
    (tmp_path / "level.csv").write_text("t_s,level\n0,0.5\n1,0.7\n2,0.6\n", encoding="utf-8")
    keys = "kind: trace\nfile: level.csv\nunit: level\nmemory_share: 0.5\nclock_bound_share: 1\n"
    (tmp_path / "played.yaml").write_text(f"name: played\ndescription: Played.\n{keys}", encoding="utf-8")
    return "played.yaml"


def test_a_recorded_load_over_hours_is_refused_in_one_line(run: Run, replayed: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        f"name: s\ndescription: s\njobs: [{{at: 1h, workload: {replayed}}}]\n", encoding="utf-8"
    )
    for arguments in (("--workload", replayed), ("s.yaml",)):
        status, out, err = run("simulate", "run", *arguments, "--duration", "2h", "--out", "a.csv")
        assert (status, out) == (2, "")
        assert err.startswith("railwatch: --tier b: played: a recorded trace has no closed form; expected --tier a")
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("psu-sga", "--out", "a.csv"), "or the path of a YAML file; perhaps psu-sag"),
        (("pdu-sga", "--out", "a.csv"), "; perhaps pdu-sag"),
        (("--node", "v100x5", "--out", "a.csv"), "; perhaps v100x4"),
        (("--rack", "rack4-h10", "--out", "a.csv"), "--rack: got 'rack4-h10'; expected a rack: rack4-h100, rack"),
        (("pdu-sag", "--node", "v100x4", "--out", "a.csv"), "SCENARIO: 'pdu-sag' is a scenario of a rack"),
        (("psu-sag", "--rack", "rack4-v100", "--out", "a.csv"), "'psu-sag' is a scenario of a node; expected a rack's"),
        (("--node", "v100x4", "--rack", "rack4-v100", "--out", "a.csv"), "--rack: got 'rack4-v100' beside --node"),
        (("no.yaml", "--rack", "rack4-v100", "--out", "a.csv"), "SCENARIO: got 'no.yaml'; expected"),
        (("pdu-sag", "--duration", "2h", "--out", "a.csv"), "expected 10ms to 1h: a rack is simulated in tier a only"),
        (("pdu-sag", "--tier", "b", "--out", "a.csv"), "--tier: got 'b'; expected a: a rack is simulated in tier"),
        (("pdu-sag", "--out", "a.csv", "--truth", "a.node2.csv"), "--truth: a.node2.csv: the file of --out"),
        (("--rack", "rack4-h100", "--clock-mhz", "1001", "--out", "a.csv"), "MHz is the nearest"),
        (("nonsense", "--out", "a.csv"), "SCENARIO: got 'nonsense'; expected"),
        (("--node", "nonsense", "--out", "a.csv"), "--node: got 'nonsense'; expected"),
        (("--workload", "nonsense", "--out", "a.csv"), "--workload: got 'nonsense'; expected"),
        (("--node", "v100x4", "--clock-mhz", "1001", "--out", "a.csv"), "997 MHz is the nearest"),
        (("--node", "v100x4", "--power-limit-w", "20", "--out", "a.csv"), "expected 150 to 300 W"),
        (("healthy", "--out", "a.txt"), "--out: a.txt: ends in '.txt'; expected .parquet or .csv"),
        (("healthy", "--out", "a.csv", "--truth", "a"), "--truth: a: has no suffix; expected .json"),
        (("healthy", "--out", "a.csv", "--truth", "a.csv"), "expected another file"),
        (("healthy", "--duration", "0s", "--out", "a.csv"), "expected 10ms to 7d"),
        (("healthy", "--duration", "90000d", "--out", "a.csv"), "got 90000d; expected 10ms to 3650d"),
        (("healthy", "--duration", "300d", "--tier", "a", "--out", "a.csv"), "--duration: got 300d; expected 10ms to"),
        (("pdu-sag", "--duration", "300d", "--out", "a.csv"), "--duration: got 300d; expected 10ms to 1h"),
        (("healthy", "--seed", "-1", "--out", "a.csv"), "--seed: got '-1'; expected a whole number, 0 or more"),
        (("healthy", "--seed", "x", "--out", "a.csv"), "--seed: got 'x'; expected a whole number, 0 or more"),
        ((str(NODES), "--out", "a.csv"), "nodes' is a folder; expected a name, or the path of a YAML file"),
        (
            (str(NODES / "v100x4.yaml"), "--out", "a.csv"),
            "v100x4.yaml: this is a node; expected a scenario; use --node",
        ),
        ((str(RACKS / "rack4-v100.yaml"), "--out", "a.csv"), "this is a rack; expected a scenario; use --rack"),
        ((str(WORKLOADS / "ddp.yaml"), "--out", "a.csv"), "this is a workload; expected a scenario; use --workload"),
        (("--node", str(SCENARIOS / "psu-sag.yaml"), "--out", "a.csv"), "this is a scenario; expected a node; a scen"),
        (("--rack", str(NODES / "v100x4.yaml"), "--out", "a.csv"), "this is a node; expected a rack; use --node"),
        (("--node", str(RACKS / "rack4-v100.yaml"), "--out", "a.csv"), "this is a rack; expected a node; use --rack"),
        (("--workload", str(NODES / "v100x4.yaml"), "--out", "a.csv"), "this is a node; expected a workload; use --n"),
        (("healthy", "--duration", "5", "--out", "a.csv"), "expected a duration with its unit"),
        (("healthy", "--tier", "c", "--out", "a.csv"), "--tier: got 'c'; expected a or b"),
        (("--out", "a.csv"), "expected a scenario, or --node and --workload"),
        (("healthy",), "--out"),
    ],
)
def test_bad_input_is_reported_in_one_line_and_nothing_is_written(
    run: Run, arguments: tuple[str, ...], expected: str, tmp_path: Path
) -> None:
    status, out, err = run("simulate", "run", *arguments)
    assert (status, out) == (2, "")
    assert expected in err
    assert err.startswith("railwatch: ")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


WEAK = """\
extends: v100x4
name: weak
description: A supply that cannot carry the node.
supply:
  units:
    - {name: psu0, rated_w: 500, open_circuit_v: 5, psu_mohm: 0, cable_mohm: 0, connector_mohm: 0, joint_mohm: 50}
"""


def test_a_node_that_cannot_carry_its_load_runs_with_a_warning_in_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "weak.yaml").write_text(WEAK, encoding="utf-8")
    status, out, err = run("simulate", "run", "--node", "weak.yaml", "--duration", "100ms", "--out", "a.csv")
    assert status == 0
    assert out.startswith("a.csv: ")
    assert err == "railwatch: weak cannot carry its load at rest: the rail collapses under 518 W\n"


def test_a_node_is_warned_of_at_full_load_where_nothing_caps_it_alone(run: Run, tmp_path: Path) -> None:
    strong = WEAK.replace("rated_w: 500, open_circuit_v: 5", "rated_w: 900, open_circuit_v: 12.3")
    (tmp_path / "weak.yaml").write_text(strong.replace("joint_mohm: 50", "joint_mohm: 3"), encoding="utf-8")
    arguments = ("simulate", "run", "--node", "weak.yaml", "--duration", "100ms", "--out", "a.csv", "--force")
    assert "all GPUs at their power limit: a supply is loaded to " in run(*arguments)[2]
    for quiet in (("--workload", "idle"), ("--clock-mhz", "1005")):
        assert run(*arguments, *quiet)[2] == ""


@pytest.mark.parametrize(("scenario", "file"), [("healthy", "a.parquet"), ("pdu-sag", "a.node0.parquet")])
def test_a_folder_that_is_not_there_is_named(run: Run, tmp_path: Path, scenario: str, file: str) -> None:
    status, _, err = run("simulate", "run", scenario, "--duration", "1s", "--out", "nowhere/a.parquet")
    assert status == 3
    assert err == f"railwatch: nowhere/{file}: cannot be written: No such file or directory\n"
    assert list(tmp_path.iterdir()) == []
