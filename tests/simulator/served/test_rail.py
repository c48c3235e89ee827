from simulator.files.node import load_node
from simulator.served.rail import nominal_rail_v


def test_a_rail_is_called_after_the_voltage_it_is_meant_to_have() -> None:
    assert nominal_rail_v(load_node("v100x4").supply) == 12.0
    assert round(nominal_rail_v(load_node("h100x8").supply)) == 54
