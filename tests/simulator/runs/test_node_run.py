import json
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from simulator.files.node import load_node
from simulator.runs.description import START_NS
from simulator.runs.node_run import record_run
from simulator.runs.order import RunOrder
from telemetry.entities import EntityKind
from telemetry.recording import Recording, read_recording
from telemetry.recording_rows import TICK
from telemetry.records import Event, EventKind
from telemetry.signals import signals_of
from tests.simulator.runs.orders import order_of, scenario_of

LOST = {"at": "1s", "what": "gpu3.present", "to": 0}


def record(path: Path, order: RunOrder | None = None) -> Recording:
    record_run(order or order_of(), path)
    return read_recording(path)


def series(recording: Recording, entity: str, signal: str) -> tuple[np.ndarray, np.ndarray]:
    """Return milliseconds since the start and values of one series."""
    (number,) = [i for i, place in enumerate(recording.samples.places) if place[1:] == (entity, signal)]
    own = recording.samples.place == number
    return (recording.samples.time_ns[own] - START_NS) / 1e6, recording.samples.value[own]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_the_same_seed_returns_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    paths = [tmp_path / f"{name}{suffix}" for name in "abc"]
    truths = [tmp_path / f"{name}.json" for name in "abc"]
    for path, truth, seed in zip(paths, truths, (1, 1, 2), strict=True):
        record_run(order_of(duration_s=1.0, seed=seed), path, truth=truth)
    first, second, other = (path.read_bytes() for path in paths)
    assert first == second != other
    assert truths[0].read_bytes() == truths[1].read_bytes()


def test_every_update_of_a_sensor_stands_in_it_once_at_the_sensors_own_time(tmp_path: Path) -> None:
    recording = record(tmp_path / "run.parquet")
    node = load_node("v100x4")
    for gpu in range(4):
        times_ms, power_w = series(recording, node.gpu_uuid(gpu), "power_w")
        steps = np.diff(times_ms[1:])
        assert (steps % 20 == 0).all()
        assert (steps == 20).mean() > 0.97
        assert 30.0 < power_w.min() < power_w.max() < 400.0
    times_ms, voltage_v = series(recording, "psu0", "voltage_v")
    assert len(times_ms) == pytest.approx(300, abs=4)
    assert 11.5 < voltage_v.min() < voltage_v.max() < 12.4


def test_a_stranger_with_a_parquet_reader_finds_the_power_of_a_gpu(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    record_run(order_of(duration_s=1.0), path)
    table = pq.read_table(path)
    assert table.column_names == ["time_ns", "kind", "entity", "signal", "value", "text"]
    power = table.filter(pc.and_(pc.equal(table["kind"], "gpu"), pc.equal(table["signal"], "power_w")))
    assert len(power) == pytest.approx(200, abs=8)
    assert (np.diff(table["time_ns"].to_numpy()) >= 0).all()


def test_all_signals_are_of_the_catalogue_and_the_topology_states_who_feeds_whom(tmp_path: Path) -> None:
    node = load_node("v100x4")
    node = node.model_copy(update={"sensors": node.sensors.model_copy(update={"bmc": "ipmi"})})
    recording = record(tmp_path / "run.parquet", order_of(node=node, duration_s=2.0))
    for spec in recording.tables:
        assert set(spec.signals) <= {signal.name for signal in signals_of(spec.kind)}
    assert {spec.name for spec in recording.tables} == {
        *("gpu_fast", "gpu_slow", "gpu_bus", "supply", "supply_slow", "node", "fan", "link", "job"),
    }
    reported = {place[2] for place in recording.samples.places}
    assert {"input_voltage_v", "joint_temp_c", "fan_rpm", "nvlink_crc_errors", "steps", "rail_voltage_v"} <= reported
    gpu = f"gpu:{node.gpu_uuid(2)}"
    feeders = {entity.name for entity in recording.topology.parents(gpu)}
    assert feeders == {"v100x4", "psu0", "psu1"}
    assert recording.topology.entity(gpu).tag("pci") == node.slots[2].pci
    assert recording.meta.simulated
    assert recording.meta.config["supported_mhz"][node.gpu_uuid(0)][-1] == 1530.0


@pytest.mark.parametrize("name", ["v100x4-lone-gpu", "a100x16"])
def test_a_recording_holds_an_edge_from_each_supply_to_the_gpus_on_its_bus(tmp_path: Path, name: str) -> None:
    node = load_node(name)
    recording = record(tmp_path / "run.parquet", order_of(node=node, duration_s=0.2))
    wiring, topology = node.wiring, recording.topology
    known = topology.of_kind(EntityKind.SUPPLY)
    supplies = [(one, bus) for one, bus in zip(known, wiring.of_supply, strict=False) if not one.is_rail_of_board]
    rails = [one for one in known if one.is_rail_of_board]
    assert len(supplies) == len(wiring.of_supply)
    assert len(rails) == (0 if node.sensors.bmc is None else len(wiring.buses))
    for supply, bus in (*supplies, *((rail, place) for place, rail in enumerate(rails))):
        fed = {gpu.name for gpu in topology.children(supply.id)}
        assert fed == {f"gpu{gpu}" for gpu in wiring.gpus_of(bus)}


def test_the_series_of_a_lost_gpu_end_and_its_xid_is_reported(tmp_path: Path) -> None:
    recording = record(tmp_path / "run.parquet", order_of(scenario_of(changes=[LOST]), duration_s=6.0))
    uuid = load_node("v100x4").gpu_uuid(3)
    for signal in ("power_w", "sm_clock_mhz", "gpu_temp_c"):
        times_ms, values = series(recording, uuid, signal)
        assert times_ms[-1] <= 2100
        assert np.isnan(values[-1])
    assert series(recording, uuid, "pci_present")[1][-1] == 0.0
    xids = [item for item in recording.records if isinstance(item, Event) and item.kind is EventKind.XID]
    assert {item.code for item in xids} >= {79}
    assert {source for item in xids for source in item.sources} == {"nvml", "kernel_log"}
    assert any("GPU has fallen off the bus" in line.text for line in recording.kernel_lines)
    others = series(recording, load_node("v100x4").gpu_uuid(0), "power_w")[0]
    assert others[-1] > 5900


def test_a_dead_exporter_ends_all_gpus_at_once_while_their_devices_stay(tmp_path: Path) -> None:
    scenario = scenario_of(sensor_faults=[{"at": "1s", "sensor": "exporter", "fault": "dead"}])
    path = tmp_path / "run.parquet"
    record_run(order_of(scenario), path)
    recording = read_recording(path)
    node = load_node("v100x4")
    ends = {series(recording, node.gpu_uuid(gpu), "power_w")[0][-1] for gpu in range(4)}
    assert len(ends) == 1
    assert all(series(recording, node.gpu_uuid(gpu), "pci_present")[1][-1] == 1.0 for gpu in range(4))
    assert not recording.records
    ticks = [place for place in recording.samples.places if place[0] == TICK]
    assert (TICK, "gpu_fast", "") in ticks


def test_slow_signals_are_read_once_a_second(tmp_path: Path) -> None:
    recording = record(tmp_path / "run.parquet")
    times_ms, energy_j = series(recording, load_node("v100x4").gpu_uuid(0), "energy_j")
    assert times_ms.tolist() == [10.0, 1010.0, 2010.0]
    assert (np.diff(energy_j) > 100.0).all()
    frames = list(recording.frames())
    assert {frame.spec.kind for frame in frames} >= {EntityKind.GPU, EntityKind.SUPPLY, EntityKind.NODE}


def test_settings_are_in_force_from_the_first_block(tmp_path: Path) -> None:
    order = order_of(clock_mhz=1005, power_limit_w=250.0, duration_s=2.0)
    recording = record(tmp_path / "run.parquet", order)
    uuid = load_node("v100x4").gpu_uuid(0)
    assert series(recording, uuid, "sm_clock_mhz")[1].max() <= 1005.0
    assert series(recording, uuid, "power_limit_w")[1].tolist() == [250.0]
    assert series(recording, uuid, "app_clock_mhz")[1].tolist() == [1005.0]
    assert series(recording, uuid, "power_w")[1].max() < 230.0
    assert recording.meta.config["settings"] == {"power_limit_w": 250.0, "clock_mhz": 1005}


def test_the_truth_states_what_is_wrong_and_who_was_lost(tmp_path: Path) -> None:
    truth = {"cause": "loose_module", "entities": ["gpu3"], "onset": "1s"}
    scenario = scenario_of(changes=[LOST], truth=[truth])
    path = tmp_path / "truth.json"
    summary = record_run(order_of(scenario, duration_s=4.0), tmp_path / "run.csv", truth=path)
    reported = json.loads(path.read_text(encoding="utf-8"))
    assert reported["labels"] == [
        {
            "cause": "loose_module",
            "entities": ["gpu3"],
            "onset_s": 1.0,
            "onset_ns": START_NS + 1_000_000_000,
            "end_s": None,
            "end_ns": None,
        }
    ]
    (drop,) = reported["drops"]
    assert (drop["gpu"], drop["time_s"], drop["xid"]) == ("gpu3", 1.0, 79)
    assert 1.1 <= drop["xid_time_s"] <= 3.0
    assert reported["events"][0]["kind"] == "gpu_lost"
    assert summary.drops == 1
    config = read_recording(tmp_path / "run.csv").meta.config
    assert config["labels"] == reported["labels"]
    assert config["drops"] == reported["drops"]


def test_the_true_series_stand_every_ten_milliseconds(tmp_path: Path) -> None:
    path = tmp_path / "truth.parquet"
    record_run(order_of(duration_s=1.0), tmp_path / "run.parquet", truth=path)
    truth = read_recording(path)
    times_ms, rail_v = series(truth, "v100x4", "rail_v")
    assert times_ms.tolist() == [10.0 * (block + 1) for block in range(100)]
    assert (series(truth, "v100x4", "rail_min_v")[1] <= rail_v).all()
    assert series(truth, "psu0", "joint_mohm")[1][0] == pytest.approx(3.4)


def test_the_summary_is_what_the_recording_shows(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    summary = record_run(order_of(duration_s=2.0), path)
    recording = read_recording(path)
    node = load_node("v100x4")
    power_w = np.concatenate([series(recording, node.gpu_uuid(gpu), "power_w")[1] for gpu in range(4)])
    rails_v = np.concatenate([series(recording, psu, "voltage_v")[1] for psu in ("psu0", "psu1")])
    assert summary.gpu_power_peak_w == pytest.approx(power_w.max(), abs=0.01)
    assert summary.gpu_power_mean_w == pytest.approx(power_w.mean(), abs=0.01)
    assert summary.rail_min_v == pytest.approx(rails_v.min(), abs=1e-4)
    assert summary.rows == pq.read_metadata(path).num_rows


def test_progress_is_reported_once_a_second_up_to_the_end(tmp_path: Path) -> None:
    reported: list[float] = []
    record_run(order_of(duration_s=2.5), tmp_path / "run.csv", progress=reported.append)
    assert reported == [0.0, 1.0, 2.0, 2.5]
