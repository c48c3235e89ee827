"""A machine with real driver library and simulated GPUs, and ``railwatch actuatord`` on it as a process of its own."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.actuation.claims import GpuTarget
from agent.actuation.client import ActuatorClient
from simulator.driver.build import build_driver, find_compiler
from simulator.driver.layout import STATE_VARIABLE
from telemetry.clock import SystemClock
from telemetry.errors import TransientError
from telemetry.gpu import KnobKind
from tests.agent.driver.plant_file import PlantFile

ROOT = Path(__file__).resolve().parents[3]
ALL_KNOBS = "knobs: {clock_cap: {}, power_cap: {}, fan: {}}\n"


class Machine:
    """Two GPUs with fans of their own, in a folder that other users may look into."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder = folder
        self.plant = PlantFile(folder / "plant", 2, fans=2)
        self.gpus = tuple(
            GpuTarget(entity_id=f"gpu:{uuid}", uuid=uuid)
            for uuid in (f"GPU-00000000-0000-0000-0000-{index:012d}" for index in range(2))
        )
        self.environ = os.environ | {
            "LD_LIBRARY_PATH": str(build_driver(cache)),
            STATE_VARIABLE: str(folder / "plant"),
            "PYTHONPATH": str(ROOT),
        }
        self.config = folder / "etc" / "actuatord.yaml"
        self.config.parent.mkdir(mode=0o755)
        self.configure(ALL_KNOBS)

    @property
    def socket(self) -> Path:
        return self.folder / "run" / "actuator.sock"

    @property
    def state_dir(self) -> Path:
        return self.folder / "state"

    def configure(self, text: str) -> None:
        self.config.write_text(f"socket: {self.socket}\nstate_dir: {self.state_dir}\n{text}")

    def setting(self, kind: KnobKind, gpu: int = 0) -> float | None:
        """Return the setting in force, read past every library; None where it is unset."""
        request = self.plant.state.record["request"][gpu]
        if kind is KnobKind.CLOCK:
            return float(request["app_sm_clock_mhz"]) if request["app_clock_is_set"] else None
        if kind is KnobKind.POWER:
            return float(request["power_limit_mw"]) / 1000.0
        by_hand = {int(percent) for percent in request["fan_by_hand"][:2]}
        return (max(by_hand) - 1) / 100.0 if by_hand != {0} else None

    @contextlib.contextmanager
    def actuatord(self) -> Iterator[tuple[ActuatorClient, "subprocess.Popen[bytes]"]]:
        """The daemon, answering; killed at the end where it still runs. Its output is in `log`."""
        with (self.folder / "log").open("ab") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", "railwatch.cli", "actuatord", "--config", str(self.config)],
                env=self.environ,
                stderr=log,
            )
        client = ActuatorClient(self.socket, timeout_s=60.0)
        try:
            wait_until_it_answers(client, child)
            yield client, child
        finally:
            client.close()
            child.kill()
            child.wait()

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()


def wait_until_it_answers(client: ActuatorClient, child: "subprocess.Popen[bytes]") -> None:
    clock = SystemClock()
    end_s = clock.monotonic_s() + 60.0
    while True:
        with contextlib.suppress(TransientError):
            client.status()
            return
        assert child.poll() is None, "it ended"
        assert clock.monotonic_s() < end_s, "it does not answer"
        clock.sleep_until(clock.monotonic_s() + 0.02)


@contextlib.contextmanager
def a_machine(tmp_path: Path) -> Iterator[Machine]:
    """Skips without a C compiler. The folder lies outside that of the test, which no other user may enter."""
    if find_compiler() is None:
        pytest.skip("no C compiler to build the driver library with")
    folder = Path(tempfile.mkdtemp(prefix="railwatch-machine-"))
    folder.chmod(0o755)
    try:
        yield Machine(folder, tmp_path.parent / "driver-cache")
    finally:
        shutil.rmtree(folder)
