"""The power limit and the fans through the real pynvml and a real library; the clocks stand in `test_nvml_clocks`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.driver.nvml import NvmlDriver
from agent.driver.nvml_knobs import FanKnob, PowerLimitKnob, choose_knobs
from telemetry.errors import ActionRefusedError, NotPermittedError, NotSupportedError
from telemetry.gpu import KnobKind
from tests.agent.driver.plant_file import Overridden, PlantFile, plant_driver

UUID = "GPU-00000000-0000-0000-0000-000000000000"


@pytest.fixture
def fans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlantFile]:
    with plant_driver(tmp_path, monkeypatch, fans=2) as plant:
        yield plant


def by_hand(plant: PlantFile) -> list[int]:
    return [int(percent) for percent in plant.state.record["request"][0]["fan_by_hand"][:2]]


def test_a_power_limit_is_set_read_back_and_put_back_also_above_the_default(plant: PlantFile) -> None:
    plant.state.record["fixed"][0]["power_default_mw"] = 250_500
    plant.state.record["request"][0]["power_limit_mw"] = 287_654
    with NvmlDriver() as driver:
        knob = PowerLimitKnob(driver.library)
        assert knob.supported(UUID) == (*(float(limit_w) for limit_w in range(150, 251)), 250.5)
        found = knob.read(UUID)
        assert found == 287.654
        knob.write(UUID, 200.0)
        assert knob.read(UUID) == 200.0
        knob.write(UUID, found)
        assert int(plant.state.record["request"][0]["power_limit_mw"]) == 287_654
        knob.write(UUID, None)
        assert knob.read(UUID) == 250.5


def test_a_power_limit_without_permission_states_so(override: Callable[..., Overridden]) -> None:
    override(nvmlDeviceSetPowerManagementLimit=lambda *_: 4)
    with NvmlDriver() as driver, pytest.raises(NotPermittedError):
        PowerLimitKnob(driver.library).write(UUID, 200.0)


def test_all_fans_are_held_and_given_back_to_the_driver(fans: PlantFile) -> None:
    with NvmlDriver() as driver:
        knob = FanKnob(driver.library)
        assert (knob.supported(UUID)[0], knob.supported(UUID)[-1]) == (0.3, 1.0)
        assert knob.read(UUID) is None
        knob.write(UUID, 0.85)
        assert (knob.read(UUID), by_hand(fans)) == (0.85, [86, 86])
        knob.write(UUID, None)
        assert (knob.read(UUID), by_hand(fans)) == (None, [0, 0])


def test_fans_that_the_driver_already_runs_faster_because_of_the_temperature_are_left_to_it(fans: PlantFile) -> None:
    fans.state.record["fixed"][0]["fan_min_percent"] = 90
    with NvmlDriver() as driver:
        knob = FanKnob(driver.library)
        with pytest.raises(ActionRefusedError, match="% because of the temperature"):
            knob.write(UUID, 0.85)
        assert (knob.read(UUID), by_hand(fans)) == (None, [0, 0])
        knob.write(UUID, 1.0)
        assert by_hand(fans) == [101, 101]


def test_fans_that_a_person_set_one_by_one_are_no_one_setting(fans: PlantFile) -> None:
    fans.state.record["request"][0]["fan_by_hand"][0] = 61
    with NvmlDriver() as driver:
        with pytest.raises(ActionRefusedError, match="different speeds"):
            FanKnob(driver.library).read(UUID)
        assert [knob.kind for knob in choose_knobs(driver.library, UUID)] == list(KnobKind), "the fans are there"


def test_a_fan_that_fails_keeps_no_other_from_being_given_back(
    tmp_path: Path, override: Callable[..., Overridden]
) -> None:
    requested: list[int] = []

    def reset(_: object, fan: int) -> int:
        requested.append(fan)
        return 999 if fan == 0 else 0

    override(nvmlDeviceSetDefaultFanSpeed_v2=reset, nvmlDeviceGetNumFans=two_fans)
    with NvmlDriver() as driver, pytest.raises(Exception, match="999"):
        FanKnob(driver.library).write(UUID, None)
    assert requested == [0, 1]


def two_fans(_: object, count: object) -> int:
    count._obj.value = 2  # type: ignore[attr-defined]
    return 0


def test_a_board_has_the_knobs_that_it_has(plant: PlantFile, override: Callable[..., Overridden]) -> None:
    with NvmlDriver() as driver:
        assert [knob.name for knob in choose_knobs(driver.library, UUID)] == ["application_clock", "power_limit"]
        with pytest.raises(NotSupportedError):
            FanKnob(driver.library).supported(UUID)
    override(nvmlDeviceSetApplicationsClocks=None)
    with NvmlDriver() as driver:
        assert [knob.name for knob in choose_knobs(driver.library, UUID)] == ["locked_clock", "power_limit"]
    override(nvmlDeviceSetApplicationsClocks=None, nvmlDeviceSetGpuLockedClocks=None)
    with NvmlDriver() as driver:
        assert [knob.name for knob in choose_knobs(driver.library, UUID)] == ["power_limit"]
