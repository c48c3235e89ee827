"""Field ids by driver version, and the seven value types."""

import ctypes
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.driver.nvml_fields import FieldBuffer, ThrottleCounterIds, throttle_counter_ids

EARLY = ThrottleCounterIds(sw_thermal=251, hw_thermal=252, hw_power_brake=253)
LATE = ThrottleCounterIds(sw_thermal=269, hw_thermal=270, hw_power_brake=271)
FORMATS = ("<d", "<I", "<Q", "<Q", "<q", "<i", "<H")
RANGES = (
    (0, 0),
    (0, 2**32 - 1),
    (0, 2**64 - 1),
    (0, 2**64 - 1),
    (-(2**63), 2**63 - 1),
    (-(2**31), 2**31 - 1),
    (0, 65535),
)


@pytest.mark.parametrize(
    ("version", "ids"),
    [
        ("470.256.02", None),
        ("570.211.01", None),
        ("575.57.08", EARLY),
        ("580.65.06", EARLY),
        ("580.82.07", LATE),
        ("580.95.05", LATE),
        ("595.45.04", LATE),
        ("unknown", None),
        ("", None),
    ],
)
def test_the_counter_ids_follow_the_driver_that_runs_and_not_the_headers(
    version: str, ids: ThrottleCounterIds | None
) -> None:
    assert throttle_counter_ids(version) == ids


def _answer(buffer: FieldBuffer, entry: int, kind: int, code: int, value: bytes) -> None:
    """Write what a driver writes: value type, return code and value; the rest of the union keeps old bytes."""
    ctypes.memmove(
        (buffer.address.value or 0) + 40 * entry + 24, struct.pack("<II", kind, code) + value, 8 + len(value)
    )


@given(
    answers=st.lists(
        st.integers(0, 6).flatmap(
            lambda kind: st.tuples(
                st.just(kind),
                st.floats(allow_nan=False) if kind == 0 else st.integers(*RANGES[kind]),
                st.binary(min_size=8, max_size=8),
            )
        ),
        min_size=1,
        max_size=12,
    )
)
def test_each_value_type_is_decoded_whatever_else_lies_in_the_union(
    answers: list[tuple[int, float, bytes]],
) -> None:
    buffer = FieldBuffer(12)
    buffer.lay_out(tuple((field_id, 0) for field_id in range(len(answers))))
    for entry, (kind, value, rubbish) in enumerate(answers):
        _answer(buffer, entry, kind, 0, rubbish)
        _answer(buffer, entry, kind, 0, struct.pack(FORMATS[kind], value))
    assert buffer.answers() == [(0, value) for _, value, _ in answers]


def test_an_entry_that_failed_gives_its_own_code_and_an_unknown_type_counts_as_failed() -> None:
    buffer = FieldBuffer(3)
    buffer.lay_out(((186, 0), (83, 0), (82, 0)))
    _answer(buffer, 0, 1, 3, struct.pack("<Q", 5))
    _answer(buffer, 1, 99, 0, struct.pack("<Q", 5))
    _answer(buffer, 2, 5, 0, struct.pack("<q", -4))
    assert [code for code, _ in buffer.answers()] == [3, 999, 0]
    assert buffer.answers()[2] == (0, -4)


def test_the_memory_of_a_buffer_never_moves() -> None:
    buffer = FieldBuffer(4)
    before = buffer.address.value
    buffer.lay_out(((1, 0), (2, 0), (3, 0), (4, 0)))
    buffer.lay_out(((1, 0),))
    assert buffer.address.value == before
