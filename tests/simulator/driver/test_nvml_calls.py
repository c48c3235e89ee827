"""nvidia-ml-py, unmodified, through the system's loader, against a plant that moves when the test says so."""

import ctypes
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from simulator.driver.layout import STATE
from simulator.plant.plant import BLOCK_MS
from simulator.served.server import PlantServer
from tests.simulator.driver.remote_nvml import NvmlCallError, RemoteNvml, environment_of, remote_nvml
from tests.simulator.hand_clock import START_NS
from tests.simulator.served_plant import node_with, served_plant

INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 2, 3, 4, 6
DRIVER_NOT_LOADED, TIMEOUT, GPU_IS_LOST, VERSION_MISMATCH = 9, 10, 15, 25
GRAPHICS, SM, MEMORY = 0, 1, 2
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change settings, as on hardware")


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[PlantServer]:
    with served_plant(tmp_path) as server:
        yield server


@pytest.fixture
def nvml(plant: PlantServer, library_dir: Path) -> Iterator[RemoteNvml]:
    with remote_nvml(environment_of(plant.served.state, library_dir)) as remote:
        remote.call("nvmlInit")
        yield remote


def test_the_system_says_which_driver_it_has(nvml: RemoteNvml) -> None:
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
def test_what_a_v100_says_of_itself(nvml: RemoteNvml, call: tuple[object, ...], value: object) -> None:
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


def test_sensors_show_what_the_plant_does(nvml: RemoteNvml, plant: PlantServer) -> None:
    gpu = nvml.gpu(3)
    plant.advance(2000)
    truth, bank = plant.plant.state.gpus, plant.bank
    assert nvml.call("nvmlDeviceGetPowerUsage", gpu) == round(bank.gpu_power_w[3] * 1000)
    assert nvml.call("nvmlDeviceGetTotalEnergyConsumption", gpu) == int(truth.energy_j[3] * 1000)
    assert nvml.call("nvmlDeviceGetTemperature", gpu, 0) == round(bank.gpu_temp_c[3])
    assert nvml.call("nvmlDeviceGetTemperatureV", gpu, 0) == round(bank.gpu_temp_c[3])
    assert nvml.call("nvmlDeviceGetUtilizationRates", gpu)["gpu"] == 100
    for name in ("EventReasons", "ThrottleReasons"):
        assert nvml.call(f"nvmlDeviceGetCurrentClocks{name}", gpu) == int(truth.reasons[3])
    violation = nvml.call("nvmlDeviceGetViolationStatus", gpu, 0)
    assert violation["violationTime"] == int(truth.counters_ms["power_violation"][3]) * 1_000_000


def test_memory_adds_up_in_both_versions(nvml: RemoteNvml) -> None:
    gpu = nvml.gpu(0)
    first, second = nvml.call("nvmlDeviceGetMemoryInfo", gpu), nvml.call("nvmlDeviceGetMemoryInfo", gpu, 0x02000028)
    assert first["total"] == first["used"] + first["free"] == 16 << 30
    assert second["total"] == second["used"] + second["free"] + second["reserved"]
    assert first["used"] == second["used"] + second["reserved"]


def test_each_field_has_its_own_return_type_and_time(nvml: RemoteNvml, plant: PlantServer) -> None:
    plant.advance(1000)
    ids = [1, 3, 74, 78, 79, 82, 83, 94, 95, 185, 186, 187, 188, 189, 190, 191, 192, 193, 9999]
    fields = {field["fieldId"]: field for field in nvml.call("nvmlDeviceGetFieldValues", nvml.gpu(0), ids)}
    assert list(fields) == ids
    failed = {number for number, field in fields.items() if field["nvmlReturn"] != 0}
    assert failed == {185, 193, 9999}  # no average power and no T.Limit on Volta
    assert {fields[number]["nvmlReturn"] for number in failed} == {NOT_SUPPORTED}
    types = {number: field["valueType"] for number, field in fields.items() if number not in failed}
    assert {number for number, kind in types.items() if kind == 3} == {3, 74, 78, 79, 83, 191}
    assert fields[186]["value"]["uiVal"] == round(plant.bank.gpu_power_w[0] * 1000)
    assert [fields[number]["value"]["uiVal"] for number in (187, 188, 189, 190)] == [150_000, 300_000, 300_000, 300_000]
    start_us = START_NS // 1000 - BLOCK_MS * 1000  # a first block is done before the clock runs
    assert fields[186]["timestamp"] == start_us + int(plant.bank.gpu_power_at_ms[0]) * 1000
    assert fields[82]["timestamp"] == start_us + plant.plant.state.now_ms * 1000


@pytest.mark.parametrize(
    ("version", "first"),
    [("570.124.06", None), ("575.51.03", 251), ("580.65.06", 251), ("580.82.07", 269), ("595.45.04", 269)],
)
def test_the_slowdown_counters_stand_where_the_driver_branch_has_them(
    tmp_path: Path, library_dir: Path, version: str, first: int | None
) -> None:
    node = node_with(driver_version=version)
    with (
        served_plant(tmp_path, node=node, scenario="power-brake") as plant,
        remote_nvml(environment_of(plant.served.state, library_dir)) as nvml,
    ):
        plant.advance(12_000)
        nvml.call("nvmlInit")
        fields = nvml.call("nvmlDeviceGetFieldValues", nvml.gpu(0), list(range(251, 274)))
        counters = [field["fieldId"] for field in fields if field["nvmlReturn"] == 0 and field["valueType"] == 3]
        assert counters == ([] if first is None else [first, first + 1, first + 2])
        if first is not None:
            braked_ns = next(f["value"]["ullVal"] for f in fields if f["fieldId"] == first + 2)
            assert braked_ns == (plant.plant.state.now_ms - 10_000) * 1_000_000
        # On the wrong side of the move stands a flag of power smoothing, and it answers with success.
        flag = 256 if first == 251 else 251
        assert next(field for field in fields if field["fieldId"] == flag)["value"]["ullVal"] == 0


def test_margins_of_newer_parts_are_signed(tmp_path: Path, library_dir: Path) -> None:
    with (
        served_plant(tmp_path, node=node_with(margins=True)) as plant,
        remote_nvml(environment_of(plant.served.state, library_dir)) as nvml,
    ):
        nvml.call("nvmlInit")
        fields = nvml.call("nvmlDeviceGetFieldValues", nvml.gpu(0), [193, 194])
        assert [(field["valueType"], field["value"]["siVal"]) for field in fields] == [(5, -8), (5, -2)]


def test_the_drivers_own_samples_come_every_20_ms_and_each_once(nvml: RemoteNvml, plant: PlantServer) -> None:
    plant.advance(1000)
    kind, samples = nvml.call("nvmlDeviceGetSamples", nvml.gpu(0), 0, 0)
    times = [sample["timeStamp"] for sample in samples]
    assert kind == 1
    assert np.diff(times).tolist() == [20_000] * (len(times) - 1)
    assert len(times) >= 48
    assert nvml.error_of("nvmlDeviceGetSamples", nvml.gpu(0), 0, times[-1]) == NOT_FOUND
    plant.advance(20)
    assert len(nvml.call("nvmlDeviceGetSamples", nvml.gpu(0), 0, times[-1])[1]) == 1
    plant.advance(5000)
    assert len(nvml.call("nvmlDeviceGetSamples", nvml.gpu(0), 0, 0)[1]) == 120


@needs_root
def test_setters_move_the_plant_and_getters_show_it(nvml: RemoteNvml, plant: PlantServer) -> None:
    gpu = nvml.gpu(0)
    nvml.call("nvmlDeviceSetApplicationsClocks", gpu, 877, 1005)
    assert nvml.call("nvmlDeviceGetApplicationsClock", gpu, GRAPHICS) == 1005
    plant.advance(100)
    assert nvml.call("nvmlDeviceGetClockInfo", gpu, SM) == 1005
    assert nvml.call("nvmlDeviceGetCurrentClocksEventReasons", gpu) == 0x2
    assert nvml.call("nvmlDeviceGetClockInfo", nvml.gpu(1), SM) == 1530
    nvml.call("nvmlDeviceResetApplicationsClocks", gpu)
    assert nvml.call("nvmlDeviceGetApplicationsClock", gpu, GRAPHICS) == 1290
    plant.advance(3000)
    assert plant.plant.state.gpus.clock_mhz[0] > 1290

    nvml.call("nvmlDeviceSetGpuLockedClocks", gpu, 135, 1100)
    plant.advance(100)
    assert nvml.call("nvmlDeviceGetClockInfo", gpu, SM) == 1095
    nvml.call("nvmlDeviceResetGpuLockedClocks", gpu)
    plant.advance(3000)
    assert plant.plant.state.gpus.clock_mhz[0] > 1290

    nvml.call("nvmlDeviceSetPowerManagementLimit", gpu, 150_000)
    assert nvml.call("nvmlDeviceGetPowerManagementLimit", gpu) == 150_000
    plant.advance(5000)
    assert nvml.call("nvmlDeviceGetCurrentClocksEventReasons", gpu) & 0x4
    assert plant.plant.state.gpus.clock_mhz[0] < 1000

    nvml.call("nvmlDeviceSetPersistenceMode", gpu, 0)
    assert nvml.call("nvmlDeviceGetPersistenceMode", gpu) == 0


@needs_root
@pytest.mark.parametrize(
    ("call", "code"),
    [
        (("nvmlDeviceSetApplicationsClocks", 877, 1000), INVALID_ARGUMENT),
        (("nvmlDeviceSetApplicationsClocks", 900, 1005), INVALID_ARGUMENT),
        (("nvmlDeviceSetPowerManagementLimit", 149_999), INVALID_ARGUMENT),
        (("nvmlDeviceSetPowerManagementLimit", 300_001), INVALID_ARGUMENT),
        (("nvmlDeviceSetGpuLockedClocks", 1200, 1100), INVALID_ARGUMENT),
        (("nvmlDeviceSetGpuLockedClocks", 135, 0xFFFFFF01), INVALID_ARGUMENT),
        (("nvmlDeviceSetMemoryLockedClocks", 877, 877), NOT_SUPPORTED),
        (("nvmlDeviceSetPersistenceMode", 2), INVALID_ARGUMENT),
    ],
)
def test_a_setting_that_hardware_refuses_is_refused_and_changes_nothing(
    nvml: RemoteNvml, plant: PlantServer, call: tuple[object, ...], code: int
) -> None:
    record = StateRecord(plant)
    before = record.requests()
    name, *arguments = call
    assert nvml.error_of(str(name), nvml.gpu(0), *arguments) == code
    assert record.requests() == before


@needs_root
def test_a_pair_of_limit_ids_locks_the_clocks_to_base(nvml: RemoteNvml, plant: PlantServer) -> None:
    nvml.call("nvmlDeviceSetGpuLockedClocks", nvml.gpu(0), 0xFFFFFF01, 0xFFFFFF01)
    plant.advance(50)
    assert nvml.call("nvmlDeviceGetClockInfo", nvml.gpu(0), SM) == 1290


class StateRecord:
    """The requests in the state file, as bytes."""

    def __init__(self, plant: PlantServer) -> None:
        self._path = plant.served.state

    def requests(self) -> bytes:
        return bytes(np.frombuffer(self._path.read_bytes(), dtype=STATE)[0]["request"].tobytes())


@needs_root
@pytest.mark.parametrize("unrestricted", [False, True])
def test_who_is_not_root_reads_everything_and_sets_only_what_is_opened(library_dir: Path, unrestricted: bool) -> None:  # noqa: FBT001 -- pytest gives it by position
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with (
            served_plant(Path(folder), clocks_unrestricted=unrestricted) as plant,
            remote_nvml(environment_of(plant.served.state, library_dir)) as nvml,
        ):
            plant.served.state.chmod(0o666 if unrestricted else 0o644)
            nvml.call("nvmlInit")  # loads the library while it can still be read
            nvml.call("nvmlShutdown")
            nvml.call("setuid", 65534)
            nvml.call("nvmlInit")
            gpu = nvml.gpu(0)
            assert nvml.call("nvmlDeviceGetPowerUsage", gpu) > 0
            assert nvml.error_of("nvmlDeviceSetPowerManagementLimit", gpu, 200_000) == NO_PERMISSION
            assert nvml.error_of("nvmlDeviceSetGpuLockedClocks", gpu, 135, 1005) == NO_PERMISSION
            assert nvml.error_of("nvmlDeviceSetPersistenceMode", gpu, 0) == NO_PERMISSION
            assert nvml.call("nvmlDeviceGetAPIRestriction", gpu, 0) == int(not unrestricted)
            if unrestricted:
                nvml.call("nvmlDeviceSetApplicationsClocks", gpu, 877, 1005)
            else:
                assert nvml.error_of("nvmlDeviceSetApplicationsClocks", gpu, 877, 1005) == NO_PERMISSION
                assert nvml.error_of("nvmlDeviceResetApplicationsClocks", gpu) == NO_PERMISSION


def test_a_lost_gpu_says_so_and_its_siblings_do_not_notice(tmp_path: Path, library_dir: Path) -> None:
    with (
        served_plant(tmp_path, scenario="bus-drop") as plant,
        remote_nvml(environment_of(plant.served.state, library_dir)) as nvml,
    ):
        nvml.call("nvmlInit")
        lost, sibling = nvml.gpu(3), nvml.gpu(0)
        uuid = nvml.call("nvmlDeviceGetUUID", lost)
        plant.advance(15_000)
        assert nvml.call("nvmlDeviceGetCount") == 4
        for call in (
            ("nvmlDeviceGetPowerUsage", lost),
            ("nvmlDeviceGetName", lost),
            ("nvmlDeviceGetTemperature", lost, 0),
            ("nvmlDeviceSetApplicationsClocks", lost, 877, 1005),
            ("nvmlDeviceGetHandleByIndex", 3),
            ("nvmlDeviceGetHandleByUUID", uuid),
            ("nvmlDeviceGetHandleByPciBusId", "0000:1e:00.0"),
        ):
            assert nvml.error_of(*call) == GPU_IS_LOST, call
        fields = nvml.call("nvmlDeviceGetFieldValues", lost, [83, 186])
        assert [field["nvmlReturn"] for field in fields] == [GPU_IS_LOST, GPU_IS_LOST]
        assert nvml.call("nvmlDeviceGetPowerUsage", sibling) > 0


def told_until_the_loss(nvml: RemoteNvml, event_set: dict[str, str]) -> None:
    for _ in range(8):
        assert nvml.call("nvmlEventSetWait_v2", event_set, 600_000)["eventData"] == 74


def test_events_wake_the_waiter_and_the_past_is_not_told(tmp_path: Path, library_dir: Path) -> None:
    with (
        served_plant(tmp_path, scenario="bus-drop") as plant,
        remote_nvml(environment_of(plant.served.state, library_dir)) as nvml,
    ):
        nvml.call("nvmlInit")
        kept = {"kept": "set"}
        nvml.call("nvmlEventSetCreate", keep="set")
        for index in range(4):
            nvml.call("nvmlDeviceRegisterEvents", nvml.gpu(index), 0x8, kept)
        assert nvml.error_of("nvmlEventSetWait_v2", kept, 10) == TIMEOUT
        nvml.send("nvmlEventSetWait_v2", kept, 60_000)
        plant.advance(15_000)
        event = nvml.receive()
        assert (event["eventType"], event["eventData"], event["gpuInstanceId"]) == (0x8, 79, 0xFFFFFFFF)
        # From then on every wait ends at once, however long it may last; what neighbours had to tell comes before.
        with pytest.raises(NvmlCallError, match="GPU is lost"):
            told_until_the_loss(nvml, kept)
        nvml.call("nvmlEventSetCreate", keep="later")
        nvml.call("nvmlDeviceRegisterEvents", nvml.gpu(0), 0x8, {"kept": "later"})
        assert nvml.error_of("nvmlEventSetWait_v2", {"kept": "later"}, 10) == TIMEOUT
        nvml.call("nvmlEventSetFree", kept)


def test_an_event_type_that_is_not_supported_registers_nothing(nvml: RemoteNvml, plant: PlantServer) -> None:
    nvml.call("nvmlEventSetCreate", keep="set")
    assert nvml.error_of("nvmlDeviceRegisterEvents", nvml.gpu(0), 0x8 | 0x100, {"kept": "set"}) == NOT_SUPPORTED
    plant.plant.take_events()
    assert nvml.error_of("nvmlEventSetWait_v2", {"kept": "set"}, 5) == TIMEOUT


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
