import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.files.rack import load_rack
from simulator.files.rack_scenario import RackScenario, RackScenarioFile, load_rack_scenario, undisturbed
from simulator.files.workload import load_workload
from simulator.runs.description import START_NS
from simulator.runs.order import RackOrder
from simulator.runs.output import node_paths
from simulator.runs.rack_run import record_rack
from simulator.runs.summary import RackSummary
from telemetry.entities import EntityKind
from telemetry.recording import Recording, read_recording

RACK4 = load_rack("rack4-v100")
RACK2 = RACK4.model_copy(update={"nodes": RACK4.nodes[:2]})
EVENTFUL = {
    "jobs": [{"at": "0s", "workload": "ddp", "nodes": [0, 1]}, {"at": "1500ms", "workload": "burn", "nodes": [1]}],
    "changes": [{"at": "2s", "what": "breaker", "to": 0}, {"at": "2500ms", "what": "breaker", "to": 1}],
    "truth": [
        {"cause": "supply_lost", "entities": ["pdu"], "onset": "2s", "end": "2500ms"},
        {"cause": "hang", "entities": ["node1", "node1.gpu2"], "onset": "1s"},
    ],
}


def scenario_of(parts: Mapping[str, object]) -> RackScenario:
    file = RackScenarioFile.model_validate({"name": "made-up", "description": "", "rack": RACK2.name, **parts})
    return RackScenario(rack=RACK2, file=file, nodes=undisturbed(RACK2).nodes)


def order_of(scenario: RackScenario | None = None, *, seed: int = 1, duration_s: float = 1.0) -> RackOrder:
    return RackOrder(scenario=scenario or undisturbed(RACK2), seed=seed, duration_s=duration_s)


def value_at(recording: Recording, place: tuple[str, str, str], time_s: float) -> float:
    """Return what a series held at a time."""
    samples = recording.samples
    own = samples.place == samples.places.index(place)
    times_ns = samples.time_ns[own]
    return float(samples.value[own][np.searchsorted(times_ns, START_NS + time_s * 1e9, side="right") - 1])


Eventful = tuple[RackSummary, list[Recording], Mapping[str, Any], Recording]


@pytest.fixture(scope="module")
def eventful(tmp_path_factory: pytest.TempPathFactory) -> Eventful:
    """Record three eventful seconds of two nodes: what came of it, the recordings, and the truth in both forms."""
    folder = tmp_path_factory.mktemp("rack")
    order = order_of(scenario_of(EVENTFUL), duration_s=3.0)
    summary = record_rack(order, folder / "r.parquet", truth=folder / "r.json")
    record_rack(order, folder / "r.csv", truth=folder / "truth.parquet")
    recordings = [read_recording(path) for path in node_paths(folder / "r.parquet", 2)]
    document = json.loads((folder / "r.json").read_text(encoding="utf-8"))
    return summary, recordings, document, read_recording(folder / "truth.parquet")


def test_the_same_seed_returns_the_same_bytes_of_every_node(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        record_rack(order_of(seed=seed, duration_s=0.5), tmp_path / f"{name}.csv", truth=tmp_path / f"{name}.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    for first, second, other in zip(*(node_paths(tmp_path / f"{name}.csv", 2) for name in "abc"), strict=True):
        assert first.read_bytes() == second.read_bytes() != other.read_bytes()


def test_every_node_is_recorded_beside_the_others_with_gpus_of_its_own(eventful: Eventful) -> None:
    _, recordings, _, _ = eventful
    assert [recording.path.name for recording in recordings] == ["r.node0.parquet", "r.node1.parquet"]
    assert [recording.meta.node for recording in recordings] == ["node0", "node1"]
    first, second = ({gpu.key for gpu in item.topology.of_kind(EntityKind.GPU)} for item in recordings)
    assert len(first | second) == 8
    assert all(recording.meta.config["rack"] == "rack4-v100" for recording in recordings)
    jobs = [{job.name for job in recording.topology.of_kind(EntityKind.JOB)} for recording in recordings]
    assert jobs == [{"ddp"}, {"ddp", "burn"}]


def test_a_node_gets_what_concerns_it_with_its_own_names(eventful: Eventful) -> None:
    _, recordings, _, _ = eventful
    labels = [[(label["cause"], label["entities"]) for label in item.meta.config["labels"]] for item in recordings]
    assert labels == [[("supply_lost", ["pdu"])], [("supply_lost", ["pdu"]), ("hang", ["node", "gpu2"])]]


def test_the_truth_holds_the_racks_own_and_each_nodes(eventful: Eventful) -> None:
    summary, _, truth, _ = eventful
    assert (truth["rack"], truth["scenario"], truth["seed"], truth["tier"]) == ("rack4-v100", "made-up", 1, "a")
    assert [label["entities"] for label in truth["labels"]] == [["pdu"], ["node1", "node1.gpu2"]]
    assert truth["jobs"] == [
        {"workload": "ddp", "nodes": ["node0", "node1"], "from_s": 0.0, "until_s": 1.5},
        {"workload": "burn", "nodes": ["node1"], "from_s": 1.5, "until_s": None},
    ]
    assert [(turn["time_s"], turn["closed"]) for turn in truth["breaker"]] == [(2.0, False), (2.5, True)]
    assert summary.breaker_openings == 1
    assert [node["node"] for node in truth["nodes"]] == ["node0", "node1"]
    for node in truth["nodes"]:
        kinds = [event["kind"] for event in node["events"]]
        assert "power_off" in kinds


def test_the_true_series_hold_pdu_inlet_and_every_node(eventful: Eventful) -> None:
    *_, truth = eventful
    assert [value_at(truth, ("supply", "pdu", "breaker_closed"), at_s) for at_s in (1.0, 2.2, 2.8)] == [1.0, 0.0, 1.0]
    assert value_at(truth, ("supply", "pdu", "input_ratio"), 2.2) == 0.0
    assert 0.97 < value_at(truth, ("supply", "pdu", "input_ratio"), 1.0) < 1.0
    assert 19.0 < value_at(truth, ("node", "node1", "inlet_c"), 1.0) < 25.0
    assert value_at(truth, ("supply", "node1.psu0", "joint_mohm"), 1.0) == pytest.approx(3.4)
    assert value_at(truth, ("node", "node0", "rail_v"), 2.2) == 0.0
    fed = {entity.name for entity in truth.topology.children("supply:pdu")}
    assert fed == {"psu0", "psu1"}


def test_the_summary_of_a_rack_is_what_its_nodes_show(eventful: Eventful) -> None:
    summary, recordings, truth, _ = eventful
    assert summary.rows == sum(node.rows for node in summary.nodes)
    assert summary.simulated_s == 3.0
    assert truth["shared"]["power_peak_w"] == summary.shared.power_peak_w
    for node, recording in zip(summary.nodes, recordings, strict=True):
        powers = [place[2] == "power_w" for place in recording.samples.places]
        shown = recording.samples.value[np.array(powers)[recording.samples.place]]
        assert node.gpu_power_peak_w == pytest.approx(np.nanmax(shown), abs=0.01)


def test_a_lost_gpu_is_a_drop_of_its_node_alone(tmp_path: Path) -> None:
    shipped = load_rack_scenario("lost-gpu-across-nodes", RACK4)
    early = shipped.nodes[2].changes[0].model_copy(update={"at": 0.5})
    lost = shipped.nodes[2].model_copy(update={"changes": (early,)})
    scenario = RackScenario(rack=RACK4, file=shipped.file, nodes=(*shipped.nodes[:2], lost, shipped.nodes[3]))
    summary = record_rack(order_of(scenario), tmp_path / "r.csv", truth=tmp_path / "r.json")
    reported = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert [node.drops for node in summary.nodes] == [0, 0, 1, 0]
    assert [len(node["drops"]) for node in reported["nodes"]] == [0, 0, 1, 0]
    assert reported["nodes"][2]["scenario"] == "bus-drop"
    assert (summary.drops, reported["nodes"][2]["drops"][0]["gpu"]) == (1, "gpu3")


def test_settings_and_workload_are_those_of_all_nodes(tmp_path: Path) -> None:
    order = RackOrder(
        scenario=undisturbed(RACK2), seed=1, duration_s=0.5, workload=load_workload("burn"), clock_mhz=1005
    )
    record_rack(order, tmp_path / "r.csv")
    for path in node_paths(tmp_path / "r.csv", 2):
        recording = read_recording(path)
        clocks = [place[2] == "sm_clock_mhz" for place in recording.samples.places]
        assert np.nanmax(recording.samples.value[np.array(clocks)[recording.samples.place]]) <= 1005.0
        assert recording.meta.config["workload"] == "burn"


def test_a_rack_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        record_rack(order_of(), tmp_path / "r.csv", truth=tmp_path / "r.json", progress=fail)
    assert list(tmp_path.iterdir()) == []


def fail(done_s: float) -> None:
    raise RuntimeError(done_s)
