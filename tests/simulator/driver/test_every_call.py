"""A walk over everything that nvidia-ml-py knows: each function answers or refuses as documented, none crashes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pynvml
import pytest

from simulator.files.node import load_node
from tests.simulator.driver.codes import GPU_IS_LOST
from tests.simulator.driver.remote_nvml import environment_of
from tests.simulator.served_plant import served_plant

INJECTED = 29
CODES = {getattr(pynvml, name) for name in dir(pynvml) if name.startswith("NVML_ERROR_")}
# Functions that came after r580, the newest driver of the simulated nodes: nvidia-ml-py 13.580.82 knows none of them.
NOT_THERE = {
    "nvmlDeviceGetAccountingStats_v2",
    "nvmlDeviceGetAdaptiveTgpModeInfo_v1",
    "nvmlDeviceGetBBXTimeData_v1",
    "nvmlDeviceGetBankRemapperStatus_v1",
    "nvmlDeviceGetGpuFabricInfo_v4",
    "nvmlDeviceGetMemoryLimits_v1",
    "nvmlDeviceGetNvLinkTelemetrySamples_v1",
    "nvmlDeviceGetRemappedRows_v2",
    "nvmlDeviceGetUnrepairableMemoryFlag_v1",
    "nvmlDeviceGetVgpuSchedulerLog_v2",
    "nvmlDeviceGetVgpuSchedulerState_v2",
    "nvmlDevicePerfMetricsGetSamples_v1",
    "nvmlDeviceReadPRMCounters_v1",
    "nvmlDeviceSetAdaptiveTgpMode_v1",
    "nvmlDeviceSetMemoryLimits_v1",
    "nvmlDeviceSetNvlinkBwModeAsync_v1",
    "nvmlDeviceSetRusdSettings_v1",
    "nvmlDeviceSetVgpuSchedulerState_v2",
    "nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1",
    "nvmlEventSetGetContextCount_v1",
    "nvmlEventSetGetContextData_v1",
    "nvmlEventSetGetContextInfo_v1",
    "nvmlEventSetGetGpuOperationalEventContextLegacyXid_v1",
    "nvmlEventSetRegisterGpuOperationalEvents_v1",
    "nvmlEventSetWait_v3",
    "nvmlGpuInstanceGetVgpuSchedulerLog_v2",
    "nvmlGpuInstanceGetVgpuSchedulerState_v2",
    "nvmlGpuInstanceSetVgpuSchedulerState_v2",
    "nvmlSystemGetCPER_v1",
}
# What nvidia-ml-py itself does not pass on to the library when its arguments make no sense.
NOT_CALLED = {
    "nvmlExceptionClass",
    "nvmlFriendlyObjectToStruct",
    "nvmlGpuInstanceGetVgpuTypeCreatablePlacements",
    "nvmlDeviceGetConfComputeGpuAttestationReport",
    "nvmlStructToFriendlyObject",
}


def walk(program: str, *arguments: str, state: Path, library_dir: Path) -> dict[str, Any]:
    result = subprocess.run(
        [sys.executable, str(Path(__file__).parent / f"{program}.py"), *arguments],
        env={**os.environ, **environment_of(state, library_dir)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr.splitlines()[-3:]
    answers: dict[str, Any] = json.loads(result.stdout)
    return answers


@pytest.mark.parametrize("node", ["v100x4", "a100x8", "h100x8", "b200x8"])
def test_every_function_answers_or_refuses_with_a_code_of_the_vendor(
    tmp_path: Path, library_dir: Path, node: str
) -> None:
    with served_plant(tmp_path, node=load_node(node)) as plant:
        plant.advance(500)
        answers = walk("every_call", state=plant.served.state, library_dir=library_dir)
    missing = {name for name, answer in answers.items() if answer == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}
    assert missing == NOT_THERE
    assert {name for name, answer in answers.items() if answer not in {*CODES, "answered"}} <= NOT_CALLED
    assert sum(answer == "answered" for answer in answers.values()) > 140
    assert pynvml.NVML_ERROR_UNKNOWN not in answers.values()


@pytest.mark.parametrize("first", ["gpu", "null"])
def test_no_function_crashes_on_zeros(tmp_path: Path, library_dir: Path, first: str) -> None:
    with served_plant(tmp_path) as plant:
        plant.advance(500)
        codes = walk("every_symbol", first, state=plant.served.state, library_dir=library_dir)
    assert {symbol for symbol, code in codes.items() if code is None} == NOT_THERE
    assert set(codes.values()) <= CODES | {0, None}
    if first == "null":
        for symbol, code in codes.items():
            assert code != 0 or not symbol.startswith("nvmlDeviceGet"), symbol


def test_everything_about_a_lost_gpu_states_that_it_is_lost(tmp_path: Path, library_dir: Path) -> None:
    with served_plant(tmp_path, scenario="bus-drop") as plant:
        plant.advance(15_000)
        codes = walk("every_symbol", "gpu", state=plant.served.state, library_dir=library_dir)
    other = {
        symbol
        for symbol, code in codes.items()
        if symbol.startswith(("nvmlDevice", "nvmlGpmQuery")) and code not in {GPU_IS_LOST, None}
    }
    assert {symbol for symbol in other if not symbol.startswith("nvmlDeviceGetHandleBy")} == {
        "nvmlDeviceDiscoverGpus",  # these take an address
        "nvmlDeviceModifyDrainState",
        "nvmlDeviceQueryDrainState",
        "nvmlDeviceRemoveGpu",
        "nvmlDeviceGetCount_v2",
        "nvmlDeviceGetFieldValues",  # the code is in each entry
    }


def test_a_fault_that_is_meant_for_every_call_reaches_every_call(tmp_path: Path, library_dir: Path) -> None:
    with served_plant(tmp_path) as plant:
        plant.advance(500)
        codes = walk("every_symbol", "fault", state=plant.served.state, library_dir=library_dir)
    untouched = {symbol for symbol, code in codes.items() if code not in {INJECTED, None}}
    # These find nothing under such names, and what is not there is not asked.
    assert {symbol for symbol in untouched if not symbol.startswith("nvmlDeviceGetHandleBy")} == set()
