"""Finding GPUs, what stays the same about them, and how the library starts and ends."""

import ctypes
from pathlib import Path

import pytest

from simulator.driver.layout import STATE
from simulator.served.server import PlantServer
from tests.simulator.driver.codes import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    INVALID_ARGUMENT,
    NOT_FOUND,
    NOT_SUPPORTED,
    VERSION_MISMATCH,
)
from tests.simulator.driver.remote_nvml import RemoteNvml, environment_of, remote_nvml
from tests.simulator.served_plant import node_with, served_plant

GRAPHICS, SM, MEMORY = 0, 1, 2


def test_the_system_states_which_driver_it_has(nvml: RemoteNvml) -> None:
    assert nvml.call("nvmlSystemGetDriverVersion") == "580.95.05"
    assert nvml.call("nvmlSystemGetNVMLVersion") == "13.580.95.05"
    assert nvml.call("nvmlSystemGetCudaDriverVersion_v2") == 13000
    assert nvml.call("nvmlErrorString", GPU_IS_LOST) == "GPU is lost"


def test_gpus_are_found_by_index_uuid_serial_and_bus_address(nvml: RemoteNvml, plant: PlantServer) -> None:
    assert nvml.call("nvmlDeviceGetCount") == 4
    gpu = nvml.gpu(2)
    uuid, serial = nvml.call("nvmlDeviceGetUUID", gpu), nvml.call("nvmlDeviceGetSerial", gpu)
    assert uuid == plant.plant.node.gpu_uuid(2)
    pci = nvml.call("nvmlDeviceGetPciInfo", gpu)
    assert (pci["busId"], pci["busIdLegacy"]) == ("00000000:1D:00.0", "0000:1D:00.0")
    assert (pci["domain"], pci["bus"], pci["device"], pci["pciDeviceId"]) == (0, 0x1D, 0, 0x1DB110DE)
    for name, key in (("UUID", uuid), ("Serial", serial)):
        # nvidia-ml-py wants bytes here; from a C string it makes them itself
        nvml.call(f"nvmlDeviceGetHandleBy{name}", key, keep="same")
        assert nvml.call("nvmlDeviceGetIndex", {"kept": "same"}) == 2
    for address in ("00000000:1D:00.0", "0000:1d:00.0", "1d:00.0"):
        nvml.call("nvmlDeviceGetHandleByPciBusId", address, keep="same")
        assert nvml.call("nvmlDeviceGetIndex", {"kept": "same"}) == 2
    assert nvml.error_of("nvmlDeviceGetHandleByIndex", 4) == INVALID_ARGUMENT
    assert nvml.error_of("nvmlDeviceGetHandleByUUID", "GPU-none") == NOT_FOUND
    assert nvml.error_of("nvmlDeviceGetHandleByPciBusId", "0000:ff:00.0") == NOT_FOUND
    assert nvml.error_of("nvmlDeviceGetHandleByPciBusId", "rubbish") == INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (("nvmlDeviceGetName",), "Tesla V100-SXM2-16GB"),
        (("nvmlDeviceGetIndex",), 1),
        (("nvmlDeviceGetMinorNumber",), 1),
        (("nvmlDeviceGetBrand",), 2),
        (("nvmlDeviceGetArchitecture",), 5),
        (("nvmlDeviceGetCudaComputeCapability",), [7, 0]),
        (("nvmlDeviceGetNumGpuCores",), 5120),
        (("nvmlDeviceGetPowerManagementLimit",), 300_000),
        (("nvmlDeviceGetPowerManagementDefaultLimit",), 300_000),
        (("nvmlDeviceGetEnforcedPowerLimit",), 300_000),
        (("nvmlDeviceGetPowerManagementLimitConstraints",), [150_000, 300_000]),
        (("nvmlDeviceGetClockInfo", SM), 1530),
        (("nvmlDeviceGetClockInfo", MEMORY), 877),
        (("nvmlDeviceGetMaxClockInfo", SM), 1530),
        (("nvmlDeviceGetApplicationsClock", GRAPHICS), 1290),
        (("nvmlDeviceGetDefaultApplicationsClock", GRAPHICS), 1290),
        (("nvmlDeviceGetClock", SM, 0), 1530),
        (("nvmlDeviceGetClock", SM, 1), 1290),
        (("nvmlDeviceGetClock", SM, 3), 1530),
        (("nvmlDeviceGetSupportedMemoryClocks",), [877]),
        (("nvmlDeviceGetTemperatureThreshold", 0), 90),
        (("nvmlDeviceGetTemperatureThreshold", 1), 87),
        (("nvmlDeviceGetTemperatureThreshold", 2), 85),
        (("nvmlDeviceGetTemperatureThreshold", 3), 83),
        (("nvmlDeviceGetCurrPcieLinkGeneration",), 3),
        (("nvmlDeviceGetMaxPcieLinkGeneration",), 3),
        (("nvmlDeviceGetCurrPcieLinkWidth",), 16),
        (("nvmlDeviceGetMaxPcieLinkWidth",), 16),
        (("nvmlDeviceGetPcieReplayCounter",), 0),
        (("nvmlDeviceGetEccMode",), [1, 1]),
        (("nvmlDeviceGetTotalEccErrors", 0, 0), 0),
        (("nvmlDeviceGetTotalEccErrors", 1, 1), 0),
        (("nvmlDeviceGetRetiredPagesPendingStatus",), 0),
        (("nvmlDeviceGetPerformanceState",), 0),
        (("nvmlDeviceGetComputeMode",), 0),
        (("nvmlDeviceGetDisplayMode",), 0),
        (("nvmlDeviceGetDisplayActive",), 0),
        (("nvmlDeviceGetPersistenceMode",), 1),
        (("nvmlDeviceGetGraphicsRunningProcesses",), []),
        (("nvmlDeviceGetMPSComputeRunningProcesses_v3",), []),
        (("nvmlDeviceGetRunningProcessDetailList", 0x1000018, 1), []),
        (("nvmlDeviceGetEncoderUtilization",), [0, 167_000]),
        (("nvmlDeviceGetSupportedEventTypes",), 0x1F),
        (("nvmlDeviceGetSupportedClocksEventReasons",), 0xEF),
    ],
)
def test_what_a_v100_states_of_itself(nvml: RemoteNvml, call: tuple[object, ...], value: object) -> None:
    name, *arguments = call
    assert nvml.call(str(name), nvml.gpu(1), *arguments) == value


def test_every_supported_clock_is_listed_from_the_highest_down(nvml: RemoteNvml) -> None:
    clocks = nvml.call("nvmlDeviceGetSupportedGraphicsClocks", nvml.gpu(0), 877)
    assert (clocks[:3], clocks[-1], len(clocks)) == ([1530, 1522, 1515], 135, 187)
    assert nvml.error_of("nvmlDeviceGetSupportedGraphicsClocks", nvml.gpu(0), 900) == NOT_FOUND


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (("nvmlDeviceGetFanSpeed",), NOT_SUPPORTED),
        (("nvmlDeviceGetNumFans",), NOT_SUPPORTED),
        (("nvmlDeviceGetMigMode",), NOT_SUPPORTED),
        (("nvmlDeviceGetDefaultApplicationsClock", 3), NOT_SUPPORTED),
        (("nvmlDeviceGetClockInfo", 9), INVALID_ARGUMENT),
        (("nvmlDeviceGetTemperature", 5), INVALID_ARGUMENT),
        (("nvmlDeviceGetTemperatureThreshold", 5), NOT_SUPPORTED),
        (("nvmlDeviceGetTemperatureThreshold", 9), INVALID_ARGUMENT),
        (("nvmlDeviceGetMemoryInfo", 0x01000028), VERSION_MISMATCH),
        (("nvmlDeviceGetViolationStatus", 7), INVALID_ARGUMENT),
        (("nvmlDeviceGetSamples", 7, 0), NOT_SUPPORTED),
        (("nvmlDeviceGetProcessUtilization", 2**62), NOT_FOUND),
        (("nvmlDeviceGetRemappedRows",), NOT_SUPPORTED),
        (("nvmlDeviceGetJpgUtilization",), NOT_SUPPORTED),
        (("nvmlDeviceGetMarginTemperature",), NOT_SUPPORTED),
    ],
)
def test_what_a_v100_does_not_have_is_refused_as_on_hardware(
    nvml: RemoteNvml, call: tuple[object, ...], code: int
) -> None:
    name, *arguments = call
    assert nvml.error_of(str(name), nvml.gpu(1), *arguments) == code


def test_more_than_eight_gpus_are_served(tmp_path: Path, library_dir: Path) -> None:
    with (
        served_plant(tmp_path, node=node_with(gpus=16)) as plant,
        remote_nvml(environment_of(plant.served.state, library_dir)) as nvml,
    ):
        plant.advance(100)
        nvml.call("nvmlInit")
        assert nvml.call("nvmlDeviceGetCount") == 16
        assert nvml.call("nvmlDeviceGetPowerUsage", nvml.gpu(15)) > 0


def test_init_and_shutdown_are_counted(nvml: RemoteNvml) -> None:
    nvml.call("nvmlInit")
    nvml.call("nvmlShutdown")
    assert nvml.call("nvmlDeviceGetCount") == 4
    nvml.call("nvmlShutdown")
    assert nvml.error_of("nvmlDeviceGetCount") == 1
    assert nvml.error_of("nvmlShutdown") == 1
    nvml.call("nvmlInit")
    assert nvml.call("nvmlDeviceGetCount") == 4


@pytest.mark.parametrize("content", [None, b"", b"\0" * STATE.itemsize, b"x" * STATE.itemsize])
def test_without_a_plant_the_driver_is_not_loaded(tmp_path: Path, library_dir: Path, content: bytes | None) -> None:
    path = tmp_path / "state"
    if content is not None:
        path.write_bytes(content)
    with remote_nvml(environment_of(path, library_dir)) as nvml:
        assert nvml.error_of("nvmlInit") == DRIVER_NOT_LOADED


def test_without_the_variable_the_driver_is_not_loaded(library_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAILWATCH_PLANT", raising=False)
    with remote_nvml({"LD_LIBRARY_PATH": str(library_dir)}) as nvml:
        assert nvml.error_of("nvmlInit") == DRIVER_NOT_LOADED


def test_a_pointer_that_is_no_handle_of_ours_is_refused(plant: PlantServer, library_dir: Path) -> None:
    library = ctypes.CDLL(str(library_dir / "libnvidia-ml.so.1"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAILWATCH_PLANT", str(plant.served.state))
        # The C library reads the environment of the process, which os.environ has changed.
        assert library.nvmlInit_v2() == 0
    power_mw = ctypes.c_uint()
    assert library.nvmlDeviceGetPowerUsage(ctypes.c_void_p(0), ctypes.byref(power_mw)) == INVALID_ARGUMENT
    assert library.nvmlDeviceGetPowerUsage(ctypes.c_void_p(8), ctypes.byref(power_mw)) == INVALID_ARGUMENT
    assert library.nvmlShutdown() == 0
