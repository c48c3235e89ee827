"""Settings that may be changed, by which user, and their effect."""

import tempfile
from pathlib import Path

import numpy as np
import pytest

from simulator.driver.layout import STATE
from simulator.served.server import PlantServer
from tests.simulator.driver.codes import INVALID_ARGUMENT, NO_PERMISSION, NOT_SUPPORTED, needs_root
from tests.simulator.driver.remote_nvml import RemoteNvml, environment_of, remote_nvml
from tests.simulator.served_plant import served_plant

GRAPHICS, SM, MEMORY = 0, 1, 2


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
