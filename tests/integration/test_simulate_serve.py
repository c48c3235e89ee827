"""Served node as programs without knowledge of railwatch see it, all at the same time."""

import contextlib
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import redfish
import urllib3

from simulator.driver.build import find_compiler
from simulator.served.board.ipmi import CIPHER_SUITE
from telemetry.clock import SystemClock
from tests.integration.running import COMMAND, PATIENCE_S, Done, Fields, environment, railwatch
from tests.services import require

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
# A node of whole degrees and volts on every way, under a load that does not move: readers that do not ask at the same
# moment see the same values.
NODE = """\
extends: v100x4
name: served
sensors:
  rail: ina228
  bmc: ipmi
  inlet: tmp102
"""
WATTS = """
import json, pynvml
pynvml.nvmlInit()
handles = [pynvml.nvmlDeviceGetHandleByIndex(n) for n in range(pynvml.nvmlDeviceGetCount())]
print(json.dumps([[pynvml.nvmlDeviceGetPowerUsage(h) / 1000, pynvml.nvmlDeviceGetTemperature(h, 0),
                   pynvml.nvmlDeviceGetUUID(h)] for h in handles]))
"""


@dataclass(slots=True)
class ServedNode:
    """Running ``railwatch simulate serve --json``; `place` is its first line."""

    process: subprocess.Popen[str]
    place: Fields = field(default_factory=dict)
    _lines: queue.Queue[Fields] = field(default_factory=queue.Queue)

    def listen(self) -> None:
        threading.Thread(target=self._read, daemon=True).start()
        self.place = self._lines.get(timeout=PATIENCE_S)

    def next(self, **wanted: Any) -> Fields:
        """Wait for the next line with these fields."""
        while True:
            line = self._lines.get(timeout=PATIENCE_S)
            if all(line.get(key) == value for key, value in wanted.items()):
                return line

    @property
    def env(self) -> dict[str, str]:
        return environment(**self.place["environment"])

    def run(self, *command: str) -> str:
        path = Path(sys.executable).parent
        env = self.env | {"PATH": f"{path}:{os.environ['PATH']}", "COLUMNS": "120", "LC_ALL": "C.UTF-8"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ipmitool(self, *arguments: str) -> str:
        ipmi = self.place["ipmi"]
        login = ("-I", "lanplus", "-C", str(CIPHER_SUITE), "-H", "127.0.0.1", "-p", str(ipmi["port"]))
        return self.run("ipmitool", *login, "-U", ipmi["user"], "-P", ipmi["password"], *arguments)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            self._lines.put(json.loads(text))


@contextlib.contextmanager
def served(node: str, *options: str) -> Iterator[ServedNode]:
    with subprocess.Popen(
        [COMMAND, "simulate", "serve", node, "--json", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=tempfile.gettempdir(),
        start_new_session=True,
    ) as process:
        made = ServedNode(process)
        try:
            made.listen()
            yield made
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_S)


def need_compiler() -> None:
    if find_compiler() is None:
        pytest.skip("no C compiler: there is no driver library for other programs to load")


@pytest.fixture
def node_file(tmp_path: Path) -> str:
    path = tmp_path / "served.yaml"
    path.write_text(NODE, encoding="utf-8")
    return str(path)


def numbers_of_ipmi(text: str) -> dict[str, float]:
    rows = [line.split("|") for line in text.splitlines()]
    return {
        row[0].strip(): float(row[1].split()[0]) for row in rows if row[1].strip()[0].isdigit() and "0x" not in row[1]
    }


def test_every_program_reads_the_same_node_at_the_same_time_as_the_agent(node_file: str) -> None:
    need_compiler()
    for program in ("ipmi_sim", "ipmitool"):
        require(program)
    with served(node_file, "--workload", "idle") as node:
        address = node.place["redfish"].removesuffix("/redfish/v1/")
        agent: list[Done] = []
        doctor = threading.Thread(
            target=lambda: agent.append(railwatch("doctor", "--measure", "2s", "--json", env=node.env))
        )
        doctor.start()
        nvml = json.loads(node.run(sys.executable, "-c", WATTS))
        gpustat = json.loads(node.run("gpustat", "--json"))["gpus"]
        nvitop = node.run("nvitop", "-1")
        ipmi = numbers_of_ipmi(node.ipmitool("sdr", "list"))
        client = redfish.redfish_client(base_url=address, timeout=60, max_retry=2)
        power = client.get("/redfish/v1/Chassis/1/Power").dict
        rail = client.get("/redfish/v1/Chassis/1/Sensors/P12V").dict
        again = numbers_of_ipmi(node.ipmitool("sdr", "list"))
        monitors = [
            int((Path(node.place["sysfs"]) / f"class/hwmon/hwmon{n}/in0_input").read_text(encoding="ascii")) / 1000
            for n in (0, 1)
        ]
        doctor.join()
    watts = [row[0] for row in nvml]
    assert [gpu["uuid"] for gpu in gpustat] == [row[2] for row in nvml]
    # Whole watts, and the noise of a sensor that is read twice.
    assert [gpu["power.draw"] for gpu in gpustat] == pytest.approx(watts, abs=3.0)
    assert [gpu["temperature.gpu"] for gpu in gpustat] == pytest.approx([row[1] for row in nvml], abs=1)
    assert nvitop.count("/ 300W") == 4
    # The controller renews its values every few seconds; Redfish was asked between the two looks of ipmitool.
    assert rail["Reading"] in (ipmi["P12V"], again["P12V"], pytest.approx(ipmi["P12V"], abs=0.07))
    assert rail["Reading"] == pytest.approx(sum(monitors) / 2, rel=0.015)  # 63 mV a count; 1 % and less of own gain
    consumed = power["PowerControl"][0]["PowerConsumedWatts"]
    assert consumed == pytest.approx(ipmi["Node Power"], abs=21)
    assert consumed == pytest.approx(sum(watts) + 350.0, rel=0.2)  # the rest of the node, fans and wiring
    (done,) = agent
    assert done.status == 0, done.err
    sources = {row["name"]: row["state"] for row in done.rows if row["kind"] == "source"}
    for name in ("gpu_fast", "gpu_slow", "gpu_bus", "supply", "node", "kernel_log"):
        assert sources[name] == "working"
    assert len([row for row in done.rows if row["kind"] == "gpu"]) == 4


def test_a_drop_is_reported_and_seen_on_every_way(node_file: str) -> None:
    need_compiler()
    with served(node_file, "--scenario", "bus-drop") as node:
        lost = node.next(event="gpu_lost")
        assert lost["gpu"] == 3
        reported = node.next(event="xid", gpu=3)
        assert reported["code"] == 79
        assert "Xid (PCI:0000:1e:00): 79" in Path(node.place["kmsg"]).read_text(encoding="utf-8")
        devices = Path(node.place["sysfs"]) / "bus/pci/devices"
        assert "0000:1e:00.0" not in {path.name for path in devices.iterdir()}
        assert "GPU is lost" in node.run("gpustat", "--no-color")


def test_a_clean_end_leaves_no_process_no_port_and_no_file(node_file: str, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with served(node_file, "--run-dir", str(run_dir)) as node:
        child = None if node.place["ipmi"] is None else node.place["ipmi"]["pid"]
        assert run_dir.is_dir()
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(PATIENCE_S) == 0
    assert not run_dir.exists()
    assert child is None or not psutil.pid_exists(child)
    with pytest.raises(urllib3.exceptions.HTTPError):
        urllib3.request("GET", node.place["redfish"], timeout=1, retries=False)


def test_a_terminal_that_is_closed_ends_it_too(node_file: str, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with served(node_file, "--run-dir", str(run_dir), "--no-bmc") as node:
        node.process.send_signal(signal.SIGHUP)
        assert node.process.wait(PATIENCE_S) == 0
    assert not run_dir.exists()


def test_what_a_killed_one_left_is_gone_with_the_next(node_file: str) -> None:
    with served(node_file, "--no-bmc") as node:
        node.process.kill()
        node.process.wait(PATIENCE_S)
        left = Path(node.place["environment"]["RAILWATCH_PLANT"]).parent
        assert left.is_dir()
    assert railwatch("simulate", "serve", "v100x4", "--no-bmc", "--for", "1s").status == 0
    assert not left.exists()


def test_the_printed_environment_keeps_what_the_terminal_looked_for_before(tmp_path: Path) -> None:
    need_compiler()
    done = railwatch("simulate", "serve", "v100x4", "--for", "1s")
    exports = "\n".join(line for line in done.out.splitlines() if line.startswith("export "))
    shell = ("sh", "-c", f'{exports}\nprintf %s "$LD_LIBRARY_PATH"')
    env = environment(LD_LIBRARY_PATH=str(tmp_path))
    shown = subprocess.run(shell, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
    assert shown.endswith(f":{tmp_path}")
    assert len(shown.split(":")) == 2


@pytest.mark.parametrize(("option", "kind"), [("--redfish-port", "STREAM"), ("--ipmi-port", "DGRAM")])
def test_a_port_that_is_taken_is_one_line_and_exit_3(node_file: str, option: str, kind: str) -> None:
    if option == "--ipmi-port":
        require("ipmi_sim")
    with socket.socket(socket.AF_INET, socket.SocketKind[f"SOCK_{kind}"]) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        done = railwatch("simulate", "serve", node_file, option, str(port), "--for", "1s")
    assert done.status == 3
    assert done.err.endswith(f"port {port} of 127.0.0.1: Address already in use\n")
    assert done.err.count("\n") == 1


def test_it_ends_by_itself_after_the_time_it_was_given(node_file: str) -> None:
    clock = SystemClock()
    began_s = clock.monotonic_s()
    done = railwatch("simulate", "serve", node_file, "--for", "1s", "--no-bmc")
    assert done.status == 0, done.err
    assert clock.monotonic_s() - began_s >= 1.0
    assert "export RAILWATCH_PLANT=" in done.out
    assert "ipmitool" not in done.out
    assert not Path(done.out.split("RAILWATCH_PLANT=")[1].split()[0]).parent.exists()


@pytest.mark.parametrize(
    ("script", "status"), [("exit 7", 7), ("kill -TERM $$", 128 + signal.SIGTERM), ('test -d "$HOST_PROC/812"', 0)]
)
def test_a_command_runs_on_the_node_and_its_status_is_given_back(script: str, status: int) -> None:
    done = railwatch("simulate", "serve", "v100x4", "--", "sh", "-c", script)
    assert (done.status, done.out) == (status, "")


def test_a_plain_program_finds_the_gpus_with_what_comes_after_the_dashes() -> None:
    need_compiler()
    done = railwatch("simulate", "serve", "v100x4", "--", sys.executable, "-c", WATTS)
    assert done.status == 0, done.err
    assert len(json.loads(done.out)) == 4


def test_a_command_that_is_not_there_is_one_line_and_127() -> None:
    done = railwatch("simulate", "serve", "v100x4", "--", "no-such-program")
    assert done.status == 127
    assert done.err == "railwatch: no-such-program: No such file or directory\n"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("nowhere",), "expected"),
        (("v100x4", "--scenario", "nothing"), "expected"),
        (("v100x4", "--workload", "nothing"), "expected"),
        (("v100x4", "--bmc"), "v100x4 has none; expected a node with sensors.bmc"),
        (("v100x4", "--run-dir", "/etc"), "/etc holds files; expected a new or empty folder"),
        (("v100x4", "--ipmi-port", "70000"), "65535"),
    ],
)
def test_what_cannot_be_is_stated_before_anything_starts(options: tuple[str, ...], expected: str) -> None:
    done = railwatch("simulate", "serve", *options)
    assert done.status == 2
    assert expected in done.err
    assert done.out == ""


def test_a_controller_that_was_asked_for_and_cannot_be_had_is_exit_3(node_file: str, tmp_path: Path) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()
    for program in ("gcc", "cc", "as", "ld"):
        if (path := shutil.which(program)) is not None:
            (bare / program).symlink_to(path)
    done = railwatch("simulate", "serve", node_file, "--bmc", "--for", "1s", env=environment(PATH=str(bare)))
    assert done.status == 3
    assert done.err == "railwatch: ipmi_sim is not installed; apt-get install openipmi\n"
