"""Comparison of the states of detectors."""

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from telemetry.entities import Topology


def assert_same(one: Any, other: Any, name: str = "state") -> None:
    """Compare two states to the bit; AssertionError names the field that differs."""
    if isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other, err_msg=name)
    elif is_dataclass(one) and not isinstance(one, Topology):
        for field in fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name), f"{name}.{field.name}")
    else:
        assert one == other, name
