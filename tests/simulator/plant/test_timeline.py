import pytest

from simulator.files.node import load_node
from simulator.files.scenario import Change, Quantity, ScenarioFile
from simulator.plant.timeline import Timeline

NODE = load_node("v100x4")


def timeline(*changes: tuple[str, str, float, str]) -> Timeline:
    parsed = [Change.model_validate({"at": at, "what": what, "to": to, "over": over}) for at, what, to, over in changes]
    return Timeline(NODE, ScenarioFile(name="any", description="any", changes=tuple(parsed)))


def test_a_ramp_rises_evenly_and_stays() -> None:
    joints = timeline(("10s", "psu0.joint_mohm", 13.4, "10s"))
    seen = [float(joints.at(time_s)[Quantity.JOINT_MOHM][0]) for time_s in (0.0, 10.0, 15.0, 20.0, 30.0)]
    assert seen == pytest.approx([3.4, 3.4, 8.4, 13.4, 13.4])
    assert joints.at(31.0)[Quantity.JOINT_MOHM][1] == 3.4


def test_a_step_between_two_looks_is_not_missed() -> None:
    brakes = timeline(("1s", "gpus.power_brake", 1.0, "0s"))
    assert brakes.at(0.99)[Quantity.POWER_BRAKE].tolist() == [0.0] * 4
    assert brakes.at(1.0)[Quantity.POWER_BRAKE].tolist() == [1.0] * 4


def test_a_later_change_begins_where_the_one_before_ended() -> None:
    inlet = timeline(("1s", "node.inlet_c", 30.0, "2s"), ("5s", "node.inlet_c", 20.0, "10s"))
    seen = [float(inlet.at(time_s)[Quantity.INLET_C][0]) for time_s in (0.0, 4.0, 5.0, 10.0, 40.0)]
    assert seen == pytest.approx([22.2, 30.0, 30.0, 25.0, 20.0])
