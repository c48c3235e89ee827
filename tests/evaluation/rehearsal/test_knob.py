"""The clocks of a plant through the actuator's port."""

import pytest

from evaluation.rehearsal.knob import PlantClock, PlantClockKnob
from simulator.files.node import load_node
from simulator.files.scenario import UNDISTURBED
from simulator.plant.plant import Plant
from telemetry.errors import DeviceLostError, NotSupportedError


def _plant() -> Plant:
    return Plant(load_node("v100x4"), UNDISTURBED, 1)


def test_a_clock_that_is_set_acts_on_its_gpu_alone_and_can_be_taken_back() -> None:
    plant = _plant()
    knob = PlantClockKnob(plant)
    uuid = plant.node.gpu_uuid(2)
    assert knob.read(uuid) is None
    knob.write(uuid, 1005.0)
    plant.advance(500)
    assert knob.read(uuid) == 1005.0
    assert plant.state.gpus.clock_mhz.tolist()[2] == 1005.0
    assert plant.state.gpus.clock_mhz.tolist()[0] > 1005.0
    knob.write(uuid, None)
    plant.advance(500)
    assert knob.read(uuid) is None
    assert plant.state.gpus.clock_mhz.tolist()[2] > 1005.0


def test_a_clock_that_the_part_lacks_is_refused_and_changes_nothing() -> None:
    plant = _plant()
    knob = PlantClockKnob(plant)
    with pytest.raises(NotSupportedError, match="1003"):
        knob.write(plant.node.gpu_uuid(0), 1003.0)
    assert knob.read(plant.node.gpu_uuid(0)) is None


def test_a_gpu_off_its_bus_answers_as_one_that_is_lost() -> None:
    plant = _plant()
    knob = PlantClockKnob(plant)
    plant.state.gpus.present[1] = False
    with pytest.raises(DeviceLostError):
        knob.read(plant.node.gpu_uuid(1))


def test_the_time_moves_with_the_plant_and_nothing_waits_in_it() -> None:
    plant = _plant()
    clock = PlantClock(plant)
    before_ns = clock.utc_ns()
    plant.advance(1500)
    assert clock.monotonic_s() == 1.5
    assert clock.utc_ns() - before_ns == 1_500_000_000
    with pytest.raises(ValueError, match="cannot wait"):
        clock.sleep_until(2.0)
