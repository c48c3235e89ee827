"""The example that converts logs of other programs: what it writes is a recording, and is judged as one."""

import json
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from config.guard_pipeline import pipeline_settings
from config.loading import load_config
from evaluation.replay import recommending, replayed
from telemetry.entities import EntityKind
from telemetry.recording import Recording, read_recording
from telemetry.records import Cause, Event, EventKind, Finding
from telemetry.signals import signal

SCRIPT = Path("docs/converters/to_recording.py").resolve()
PAGE = Path("docs/how-to/convert-a-log.md").read_text(encoding="utf-8")
MODEL = "NVIDIA H100 80GB HBM3"


def log_of_page(heading: str) -> str:
    """Return the example of a log behind a heading of the page."""
    return PAGE.partition(f"## {heading}\n")[2].partition("```text\n")[2].partition("```")[0]


def convert(source: str, log: str, folder: Path, *more: str) -> tuple[int, str, Path]:
    (folder / "log").write_text(log, encoding="utf-8")
    out = folder / "out.csv"
    command = [sys.executable, "-I", str(SCRIPT), source, str(folder / "log"), str(out), "--node", "node7", *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    return done.returncode, done.stderr, out


def values_of(read: Recording) -> dict[tuple[str, str], list[float]]:
    samples = read.samples
    return {
        (key, name): samples.value[samples.place == place].tolist()
        for place, (_, key, name) in enumerate(samples.places)
    }


def test_a_log_of_nvidia_smi_becomes_a_recording(tmp_path: Path) -> None:
    status, err, out = convert("nvidia-smi", log_of_page("`nvidia-smi`"), tmp_path, "--utc-offset-h", "1")
    assert (status, err) == (0, f"{out}: 4 rows of 2 GPUs\n")
    read = read_recording(out)
    assert values_of(read) == {
        ("0", "power_w"): [612.5],
        ("0", "gpu_util_ratio"): [1.0],
        ("0", "sm_clock_mhz"): [1980.0],
        ("0", "gpu_temp_c"): [61.0],
    }
    assert read.span_ns == (1_795_870_922_123_000_000,) * 2
    assert (read.meta.node, read.meta.simulated) == ("node7", False)
    assert [entity.tag("model") for entity in read.tables[0].entities] == [MODEL, MODEL]
    assert read.topology.edges == (("node:node7", "gpu:0"), ("node:node7", "gpu:1"))


def test_a_table_of_dcgm_becomes_a_recording_without_its_blanks(tmp_path: Path) -> None:
    status, _, out = convert("dcgm-csv", log_of_page("DCGM as CSV"), tmp_path)
    assert status == 0
    read = read_recording(out)
    found = values_of(read)
    assert found["0", "power_w"] == [612.5]
    assert found["1", "gpu_util_ratio"] == [1.0]
    assert not {("1", "power_w"), ("1", "gpu_temp_c")} & found.keys()
    (event,) = read.records
    assert isinstance(event, Event)
    assert (event.kind, event.code, event.entity_id) == (EventKind.XID, 79, "gpu:1")
    assert read.span_ns == (1_795_874_522_123_456_000,) * 2


@pytest.mark.parametrize("time", ["1795874522", "1795874522000", "1795874522000000000", "2026-11-28T14:02:02Z"])
def test_times_are_read_in_every_unit(tmp_path: Path, time: str) -> None:
    status, _, out = convert("dcgm-csv", f"time,gpu,DCGM_FI_DEV_SM_CLOCK\n{time},0,1980\n", tmp_path)
    assert (status, read_recording(out).span_ns) == (0, (1_795_874_522_000_000_000,) * 2)


def matrix(*hosts: str) -> str:
    labels = {
        "__name__": "DCGM_FI_DEV_POWER_USAGE",
        "gpu": "0",
        "modelName": MODEL,
        "pci_bus_id": "00000000:1A:00.0",
    }
    values = [[1795874522.781, "612.5"], [1795874552.781, "NaN"], [1795874582.781, "600"]]
    result = [{"metric": labels | {"Hostname": host}, "values": values} for host in hosts]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


def test_a_range_of_prometheus_becomes_a_recording(tmp_path: Path) -> None:
    status, _, out = convert("prometheus", matrix("node7"), tmp_path)
    assert status == 0
    read = read_recording(out)
    assert np.array_equal(values_of(read)["0", "power_w"], [612.5, np.nan, 600.0], equal_nan=True)
    assert read.span_ns == (1_795_874_522_781_000_000, 1_795_874_582_781_000_000)
    (gpu,) = read.tables[0].entities
    assert (gpu.tag("model"), gpu.tag("pci")) == (MODEL, "0000:1a:00.0")


@pytest.mark.parametrize(
    ("source", "log", "named"),
    [
        ("prometheus", matrix("node7", "node8"), "nodes node7, node8; expected one"),
        (
            "prometheus",
            '{"data":{"resultType":"vector"}}',
            "holds 'vector'; expected the answer to a query for a range",
        ),
        ("dcgm-csv", "time,DCGM_FI_DEV_SM_CLOCK\n1,2\n", "expected one of gpu"),
        ("dcgm-csv", "time,gpu,DCGM_FI_DEV_SM_CLOCK\nsoon,0,2\n", "log:2: time 'soon'; expected a number or a date"),
        (
            "nvidia-smi",
            "timestamp, index, pstate\n2026/11/28 14:02:02.1, 0, P0\n",
            "no reading; expected names such as",
        ),
        ("nvidia-smi", "", "no reading"),
    ],
)
def test_a_log_that_cannot_be_used_is_named_in_one_line(tmp_path: Path, source: str, log: str, named: str) -> None:
    status, err, out = convert(source, log, tmp_path)
    assert status == 2
    assert err.count("\n") == 1
    assert named in err
    assert not out.exists()


def lines_of_a_lost_gpu() -> Iterator[str]:
    """Yield what nvidia-smi prints in eight minutes at a second, in the last of which GPU 1 is lost."""
    yield "timestamp, index, power.draw [W], clocks.current.sm [MHz], temperature.gpu, utilization.gpu [%]"
    rng = np.random.default_rng(3)
    for second in range(480):
        for gpu in range(2):
            watts, kelvin = 600 + rng.normal(0, 8), 61 + rng.integers(0, 2)
            cells = f"{watts:.2f} W, 1980 MHz, {kelvin}, 100 %"
            if gpu == 1 and second >= 420:
                cells = ", ".join(["[GPU is lost]"] * 4)
            yield f"2026/11/28 14:{second // 60:02}:{second % 60:02}.{100 + gpu}, {gpu}, {cells}"


def test_a_lost_gpu_in_a_log_is_found(tmp_path: Path) -> None:
    status, _, out = convert("nvidia-smi", "\n".join(lines_of_a_lost_gpu()) + "\n", tmp_path)
    assert status == 0
    settings = recommending(pipeline_settings(load_config(None, {}), simulated=False))
    found = [record for record in replayed(read_recording(out), settings) if isinstance(record, Finding)]
    assert {(one.cause, one.entity_id) for one in found} == {(Cause.GPU_LOST, "gpu:1")}


def test_every_signal_of_the_example_is_in_the_reference() -> None:
    example = runpy.run_path(str(SCRIPT))
    for known, _ in (*example["DCGM"].values(), *example["NVIDIA_SMI"].values()):
        assert signal(EntityKind.GPU, known).name == known
