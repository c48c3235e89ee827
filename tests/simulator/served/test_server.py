import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.driver.state import StateFile
from simulator.files.node import load_node
from simulator.files.scenario import load_scenario
from simulator.served.description import describe, library_for
from simulator.served.pci_tree import root_ports
from simulator.served.server import BATCH_MS, MAX_LAG_MS, PlantServer
from telemetry.entities import EntityKind
from telemetry.errors import EnvironmentLacksError
from tests.simulator.hand_clock import HandClock
from tests.simulator.served_plant import served_plant

NODE = load_node("v100x4")


def test_the_rail_stands_in_the_hwmon_tree_in_millivolts_and_milliamperes(tmp_path: Path) -> None:
    with served_plant(tmp_path) as plant:
        plant.advance(500)
        hwmon = plant.served.sysfs_root / "class/hwmon"
        for index, name in enumerate(("psu0", "psu1")):
            device = hwmon / f"hwmon{index}"
            assert (device / "name").read_text(encoding="utf-8") == "ina228\n"
            assert (device / "in0_label").read_text(encoding="utf-8") == f"{name} 12V\n"
            assert (device / "curr1_label").read_text(encoding="utf-8") == f"{name} 12V\n"
            bank = plant.bank
            assert int((device / "in0_input").read_text(encoding="utf-8")) == round(bank.rail.voltage_v[index] * 1000)
            assert int((device / "curr1_input").read_text(encoding="utf-8")) == round(bank.rail.current_a[index] * 1000)
        assert int((hwmon / "hwmon2/temp1_input").read_text(encoding="utf-8")) == round(plant.bank.inlet_c * 1000)
        assert (hwmon / "hwmon2/temp1_label").read_text(encoding="utf-8") == "inlet\n"


def test_a_value_keeps_its_width_so_that_no_reader_sees_two_values_in_one(tmp_path: Path) -> None:
    with served_plant(tmp_path, scenario="psu-sag") as plant:
        path = plant.served.sysfs_root / "class/hwmon/hwmon0/curr1_input"
        sizes = set()
        for _ in range(200):
            plant.advance(10)
            sizes.add(len(path.read_bytes()))
        assert len(sizes) == 1


def test_a_dropped_gpu_leaves_the_bus_and_the_kernel_log_states_so(tmp_path: Path) -> None:
    with served_plant(tmp_path, scenario="bus-drop") as plant:
        devices = plant.served.sysfs_root / "bus/pci/devices"
        plant.advance(11_000)
        ports = [port for port in root_ports(NODE) if port is not None]
        assert sorted(path.name for path in devices.iterdir()) == [*ports, *(slot.pci for slot in NODE.slots)]
        assert "TOTAL_ERR_COR 0" in (devices / "0000:1e:00.0/aer_dev_correctable").read_text(encoding="utf-8")
        assert "TOTAL_ERR_FATAL 0" in (devices / "0000:1e:00.0/aer_dev_fatal").read_text(encoding="utf-8")
        plant.advance(4000)
        left = [slot.pci for slot in NODE.slots[:3]]
        assert sorted(path.name for path in devices.iterdir()) == [*ports, *left]
        records = plant.served.kernel_log.read_text(encoding="utf-8").splitlines()
    heads = [record.partition(";")[0].split(",") for record in records]
    assert all(int(priority) >> 3 == 0 for priority, *_ in heads)
    assert [int(sequence) for _, sequence, *_ in heads] == list(range(len(records)))
    texts = [record.partition(";")[2] for record in records]
    names = (":1e:00", f"Serial Number: {NODE.gpu_serial(3)}")  # a sibling may report its link beside it
    driver = [text for text in texts if text.startswith("NVRM: ") and any(name in text for name in names)]
    assert driver == [
        f"NVRM: GPU at PCI:0000:1e:00: {NODE.gpu_uuid(3)}",
        f"NVRM: GPU Board Serial Number: {NODE.gpu_serial(3)}",
        "NVRM: Xid (PCI:0000:1e:00): 79, pid=5000003, name=python3, GPU has fallen off the bus.",
        "NVRM: GPU 0000:1e:00.0: GPU has fallen off the bus.",
        f"NVRM: GPU 0000:1e:00.0: GPU serial number is {NODE.gpu_serial(3)}.",
    ]


def test_time_stamps_are_those_of_the_wall_clock(tmp_path: Path) -> None:
    clock = HandClock()
    with served_plant(tmp_path, clock=clock) as plant:
        plant.run(lambda: clock.sleeps >= 50)
        state = StateFile(plant.served.state, mode="read")
        readings, time_us = state.readings()
        assert abs(time_us - clock.utc_ns() // 1000) <= 10_000
        assert (abs(readings["sensor_time_us"] - time_us) <= 20_000).all()


def test_it_sleeps_between_blocks_and_keeps_step(tmp_path: Path) -> None:
    clock = HandClock()
    with served_plant(tmp_path, clock=clock) as plant:
        before_ms, begin_s = plant.plant.state.now_ms, clock.now_s
        plant.run(lambda: clock.sleeps >= 100)
        assert plant.plant.state.now_ms - before_ms == pytest.approx((clock.now_s - begin_s) * 1000.0, abs=10)
        assert plant.skipped_ms == 0


class BusyClock:
    """A machine that stood still once, long after the plant had begun."""

    def __init__(self, stall_s: float) -> None:
        self._clock = HandClock()
        self._stall_s = stall_s

    def monotonic_s(self) -> float:
        return self._clock.monotonic_s()

    def utc_ns(self) -> int:
        return self._clock.utc_ns()

    def sleep_until(self, monotonic_s: float) -> None:
        self._clock.sleep_until(monotonic_s)
        if self._clock.sleeps == 5:
            self._clock.now_s += self._stall_s
        elif self._clock.sleeps > 5:
            raise StopIteration


@pytest.mark.parametrize(("stall_s", "skipped_ms"), [(0.5, 0), (60.0, 60_000 - MAX_LAG_MS)])
def test_a_short_stall_is_caught_up_with_and_a_long_one_is_skipped_and_counted(
    tmp_path: Path, stall_s: float, skipped_ms: int
) -> None:
    server = PlantServer(NODE, load_scenario("healthy", NODE), seed=1, run_dir=tmp_path, clock=BusyClock(stall_s))
    with pytest.raises(StopIteration):
        server.run(lambda: False)
    assert server.skipped_ms == pytest.approx(skipped_ms, abs=2 * BATCH_MS)
    caught_up_ms = min(stall_s * 1000.0, MAX_LAG_MS)
    assert server.plant.state.now_ms == pytest.approx(50 + caught_up_ms, abs=2 * BATCH_MS)
    server.close()


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(EnvironmentLacksError, match="cannot serve a plant in"):
        PlantServer(NODE, load_scenario("healthy", NODE), seed=1, run_dir=tmp_path / "file" / "run", clock=HandClock())


def test_a_folder_that_cannot_be_filled_leaves_no_file_open(tmp_path: Path) -> None:
    (tmp_path / "plant.state").mkdir()  # the last file that is made
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(EnvironmentLacksError, match="cannot serve a plant in"):
        PlantServer(NODE, load_scenario("healthy", NODE), seed=1, run_dir=tmp_path, clock=HandClock())
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_the_description_states_where_everything_is_and_who_feeds_whom(tmp_path: Path, library_dir: Path) -> None:
    served = describe(NODE, load_scenario("healthy", NODE), seed=3, run_dir=tmp_path, library_dir=library_dir)
    assert served.environment == {"RAILWATCH_PLANT": str(served.state), "LD_LIBRARY_PATH": str(library_dir)}
    supply, gpu = served.topology.of_kind(EntityKind.SUPPLY)[0], served.topology.of_kind(EntityKind.GPU)[0]
    assert len(served.topology.children(supply.id)) == 4
    assert [parent.name for parent in served.topology.parents(gpu.id)] == ["psu0", "psu1"]
    assert gpu.tag("pci") == "0000:1a:00.0"


def test_a_served_node_of_two_buses_states_its_wiring_and_shows_each_bus(tmp_path: Path) -> None:
    node = load_node("v100x4-lone-gpu")
    topology = describe(node, load_scenario("healthy", node), seed=3, run_dir=tmp_path).topology
    fed = {unit.name: [gpu.name for gpu in topology.children(unit.id)] for unit in topology.of_kind(EntityKind.SUPPLY)}
    assert fed == {"psu0": ["gpu0", "gpu1", "gpu2"], "psu1": ["gpu0", "gpu1", "gpu2"], "psu2": ["gpu3"]}
    with served_plant(tmp_path, node=node) as plant:
        plant.advance(2000)
        shown = [
            int((tmp_path / f"sys/class/hwmon/hwmon{unit}/in0_input").read_text(encoding="utf-8")) for unit in range(3)
        ]
    assert abs(shown[0] - shown[1]) < 30
    assert shown[2] - shown[0] > 50  # one GPU alone, without the rest of the node


def test_without_a_compiler_the_plant_is_described_without_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    library_dir, reason = library_for(tmp_path / "cache")
    assert library_dir is None
    assert "no C compiler" in reason


PROGRAM = """
import sys
from pathlib import Path
from simulator.files.node import load_node
from simulator.files.scenario import load_scenario
from simulator.served.server import serve
from telemetry.clock import SystemClock

node = load_node("v100x4")
serve(
    node,
    load_scenario("healthy", node),
    seed=1,
    run_dir=Path(sys.argv[1]),
    clock=SystemClock(),
    ready=lambda: print("ready", flush=True),
)
print("ended", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_serves_until_it_is_ordered_to_stop_and_then_ends_cleanly(
    tmp_path: Path, number: signal.Signals
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        state = StateFile(tmp_path / "plant.state", mode="read")
        first_us = state.readings()[1]
        while state.readings()[1] == first_us:  # it moves by itself
            assert process.poll() is None
        process.send_signal(number)
        assert process.stdout.readline() == "ended\n"
        assert process.wait(timeout=10) == 0
