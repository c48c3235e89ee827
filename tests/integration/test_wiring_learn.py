"""``railwatch wiring learn`` on a live node whose GPUs run in step: by its own experiment, and led by a person."""

import contextlib
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from railwatch.operator.wiring_dither import OWNER
from simulator.inprocess import PlantDriver
from telemetry.clock import SystemClock
from tests.integration.running import COMMAND, Node, environment, node_up, railwatch

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
# Load steps of a job in step show nothing however long they are recorded.
WATCH = ("--watch", "25s")
BUSES = {("psu0", "psu1"): ["gpu0", "gpu1", "gpu2"], ("psu2",): ["gpu3"]}


def _buses(text: str) -> dict[tuple[str, ...], list[str]]:
    described = yaml.safe_load(text)["topology"]["buses"]
    return {
        tuple(bus["supplies"]): [gpu for branch in bus["branches"] for gpu in branch.get("gpus", ())]
        for bus in described
    }


def _app_clocks_mhz(node: Node) -> list[float | None]:
    assert node.context.state_file is not None
    driver = PlantDriver(Path(node.context.state_file), SystemClock())
    return [driver.clock_knob.read(gpu.uuid) for gpu in driver.gpus()]


@contextlib.contextmanager
def _learning(node: Node, *options: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [COMMAND, "wiring", "learn", "--data-dir", str(node.data_dir), *WATCH, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=tempfile.gettempdir(),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_in_enforce_the_clocks_are_moved_restored_and_the_wiring_is_found(tmp_path: Path) -> None:
    with node_up(tmp_path / "data", "--simulate", "v100x4-lone-gpu") as node:
        assert node.url
        with _learning(node) as process:
            node.line(type="action", state="applied", owner=OWNER)
            for _ in range(3):  # a person presses it again before the clock is restored
                process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
        assert "clocks are restored" in err
        assert "interrupted; what was learnt so far follows" in err
        assert process.returncode == 1
        assert _app_clocks_mhz(node) == [None] * 4

        done = railwatch("wiring", "learn", "--data-dir", str(node.data_dir), *WATCH, within_s=450.0)
        assert done.status == 0, done.err
        assert _buses(done.out) == BUSES
        assert "and 4 moved GPUs" in done.out
        assert _app_clocks_mhz(node) == [None] * 4
        moved = {line["entity_id"] for line in node.of(type="action", state="applied", owner=OWNER)}
        assert len(moved) == 4
        assert not node.of(type="incident", severity="warning")


def _carry_out(step: str, driver: PlantDriver) -> None:
    """Do what a step asks of a person, as ``nvidia-smi`` would."""
    pci = step.partition(" -i ")[2].split()[0]
    gpu = next(one for one in driver.gpus() if one.pci == pci)
    if " -rgc" in step:
        driver.clock_knob.write(gpu.uuid, None)
    else:
        supported_mhz, wanted_mhz = driver.clock_knob.supported(gpu.uuid), float(step.rpartition(",")[2])
        driver.clock_knob.write(gpu.uuid, max(one for one in supported_mhz if one <= wanted_mhz))


def test_where_caps_are_not_enforced_a_person_is_led_and_what_was_skipped_is_not_sure(tmp_path: Path) -> None:
    config = tmp_path / "railwatch.yaml"
    config.write_text("actions: {clock_cap: recommend}\n")
    with node_up(tmp_path / "data", "--simulate", "v100x4-lone-gpu", "--config", str(config)) as node:
        assert node.url
        listed = railwatch("wiring", "learn", "--data-dir", str(node.data_dir), *WATCH, within_s=120.0)
        assert listed.status == 1
        assert "actions.clock_cap is recommend: run this on a terminal" in listed.err
        assert listed.err.count(" -lgc 0,") == 4

        assert node.context.state_file is not None
        driver = PlantDriver(Path(node.context.state_file), SystemClock())
        with _learning(node, "--experiment", "guided") as process:
            assert process.stdin is not None
            assert process.stderr is not None
            for line in process.stderr:
                if "nvidia-smi" not in line:
                    continue
                is_skipped = driver.gpus()[1].pci in line or driver.gpus()[2].pci in line
                if not is_skipped:
                    _carry_out(line, driver)
                process.stdin.write("s\n" if is_skipped else "\n")
                process.stdin.flush()
            out, _ = process.communicate(timeout=30)
        assert process.returncode == 1
        found = _buses(out)
        assert set(found) == set(BUSES)
        assert "gpu0" in found["psu0", "psu1"]
        assert "gpu3" in found["psu2",]
        assert sorted(line.split()[1] for line in out.splitlines() if "NOT SURE" in line) == ["gpu1", "gpu2"]
        assert not node.of(type="action", owner=OWNER)
