import pytest

from simulator.files.node import NodeFile, load_node, node_names
from simulator.runs.carrying import shortfall

NODE = load_node("v100x4")


def fed_by(*, units: int = 2, **changes: float) -> NodeFile:
    """Return the node with other supplies."""
    unit = NODE.supply.units[0].model_copy(update=changes)
    named = tuple(unit.model_copy(update={"name": f"psu{index}"}) for index in range(units))
    return NODE.model_copy(update={"supply": NODE.supply.model_copy(update={"units": named})})


@pytest.mark.parametrize("name", node_names())
def test_every_node_that_comes_with_railwatch_carries_its_own_load(name: str) -> None:
    assert shortfall(load_node(name)) is None


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (fed_by(open_circuit_v=5.0, joint_mohm=50.0), "its load at rest: the rail collapses under"),
        (fed_by(open_circuit_v=11.0), "its load at rest: the rail stands at 10.88 V and GPUs fall off their bus"),
        (fed_by(rated_w=100.0), "its load at rest: a supply is loaded to "),
        (fed_by(units=1), "all GPUs at their power limit: a supply is loaded to "),
        (fed_by(joint_mohm=18.0), "all GPUs at their power limit: the rail stands at "),
    ],
)
def test_what_a_node_cannot_carry_is_reported_with_the_reason(node: NodeFile, expected: str) -> None:
    reported = shortfall(node)
    assert reported is not None
    assert reported.startswith(f"cannot carry {expected}")


def test_a_node_at_rest_is_not_judged_by_its_full_load() -> None:
    assert shortfall(fed_by(units=1), at_rest=True) is None
