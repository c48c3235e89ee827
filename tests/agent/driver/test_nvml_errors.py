"""Every return code of the vendor is translated by what the caller must do."""

import pynvml
import pytest

from agent.driver.nvml_library import CallResult, error_of, normal_pci, nvml_errors, result_of
from telemetry.errors import (
    ActionRefusedError,
    DeviceLostError,
    EnvironmentLacksError,
    NotPermittedError,
    NotSupportedError,
    RailwatchError,
    TransientError,
)

EXPECTED: dict[type[RailwatchError], set[int]] = {
    NotSupportedError: {2, 3, 6, 13, 22, 25, 26, 30},
    NotPermittedError: {4},
    DeviceLostError: {8, 15, 16, 28},
    ActionRefusedError: {24},
    EnvironmentLacksError: {12, 18},
    TransientError: {1, 5, 7, 9, 10, 11, 14, 17, 19, 20, 21, 23, 27, 29, 999},
}
VENDOR_CODES = sorted(
    {getattr(pynvml, name) for name in dir(pynvml) if name.startswith("NVML_ERROR_")},
)


def test_the_table_holds_every_code_that_the_vendor_names() -> None:
    assert set(VENDOR_CODES) == set().union(*EXPECTED.values())


@pytest.mark.parametrize("code", VENDOR_CODES)
def test_each_code_raises_the_error_that_states_what_to_do_and_keeps_its_cause(code: int) -> None:
    with pytest.raises(RailwatchError, match=f"read power: NVML {code}: ") as caught, nvml_errors("read power"):
        raise pynvml.NVMLError(code)
    assert code in EXPECTED[type(caught.value)]
    assert isinstance(caught.value.__cause__, pynvml.NVMLError)


def test_a_code_that_no_table_knows_is_tried_again() -> None:
    assert isinstance(error_of(4711, "read power"), TransientError)


@pytest.mark.parametrize(
    ("code", "result"),
    [
        (0, CallResult.WORKING),
        (3, CallResult.NOT_SUPPORTED),
        (13, CallResult.FUNCTION_MISSING),
        (4, CallResult.NOT_PERMITTED),
        (15, CallResult.LOST),
        (999, CallResult.FAILED),
    ],
)
def test_not_supported_not_permitted_and_lost_are_different_answers(code: int, result: CallResult) -> None:
    assert result_of(code) is result


@pytest.mark.parametrize(
    ("bus_id", "address"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000:3b:00.0", "0000:3b:00.0"),
        ("00010000:AF:1F.7", "10000:af:1f.7"),
        ("odd", "odd"),
    ],
)
def test_a_pci_address_is_written_as_the_kernel_writes_it(bus_id: str, address: str) -> None:
    assert normal_pci(bus_id) == address
