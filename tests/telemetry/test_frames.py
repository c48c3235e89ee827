"""Access to the cells of a frame's arrays without NumPy."""

import numpy as np
import pytest

from telemetry.frames import Cells


def test_the_view_is_of_the_array_that_was_given_last() -> None:
    cells, first, second = Cells(), np.zeros((2, 3)), np.ones((2, 3))
    cells.of(first)[4] = 7.0
    assert first[1, 1] == 7.0
    assert cells.of(second).tolist() == [1.0] * 6
    cells.of(first)[0] = 5.0
    assert first[0, 0] == 5.0


def test_an_array_with_gaps_is_refused() -> None:
    with pytest.raises(TypeError):
        Cells().of(np.zeros((4, 6))[:, ::2])
