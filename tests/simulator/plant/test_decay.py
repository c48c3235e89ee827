import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator.plant.decay import DecayBlock


@given(
    ratio=st.floats(0.0, 1.0),
    before=st.floats(-100.0, 100.0),
    inputs=st.lists(st.floats(-100.0, 100.0), min_size=1, max_size=20),
)
def test_a_block_is_the_recursion_step_by_step(ratio: float, before: float, inputs: list[float]) -> None:
    expected, value = [], before
    for given_value in inputs:
        value = ratio * value + given_value
        expected.append(value)
    np.testing.assert_allclose(DecayBlock(ratio, len(inputs)).run(before, np.array(inputs)), expected, atol=1e-8)


def test_columns_do_not_mix() -> None:
    block = DecayBlock(0.5, 3).run(np.array([8.0, 0.0]), np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]))
    np.testing.assert_allclose(block, [[4.0, 1.0], [2.0, 1.5], [1.0, 1.75]])
