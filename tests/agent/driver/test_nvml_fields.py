"""Field ids by driver version, and the seven value types."""

import ctypes
import struct
from array import array

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.driver import nvml_fields
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


# Our name where it is not the header's without its prefix, and where the header has two names the older one.
HEADER_NAMES = {
    "ECC_MODE": "ECC_CURRENT",
    "ECC_MODE_PENDING": "ECC_PENDING",
    "ECC_SBE_VOLATILE": "ECC_SBE_VOL_TOTAL",
    "ECC_DBE_VOLATILE": "ECC_DBE_VOL_TOTAL",
    "ECC_SBE_AGGREGATE": "ECC_SBE_AGG_TOTAL",
    "ECC_DBE_AGGREGATE": "ECC_DBE_AGG_TOTAL",
    "PERF_POLICY_POWER_NS": "PERF_POLICY_POWER",
    "PERF_POLICY_THERMAL_NS": "PERF_POLICY_THERMAL",
    "PERF_POLICY_SYNC_BOOST_NS": "PERF_POLICY_SYNC_BOOST",
    "PERF_POLICY_BOARD_LIMIT_NS": "PERF_POLICY_BOARD_LIMIT",
    "PERF_POLICY_LOW_UTILISATION_NS": "PERF_POLICY_LOW_UTILIZATION",
    "PERF_POLICY_RELIABILITY_NS": "PERF_POLICY_RELIABILITY",
    "PERF_POLICY_BELOW_BASE_NS": "PERF_POLICY_TOTAL_BASE_CLOCKS",
    "MEMORY_TEMP_C": "MEMORY_TEMP",
    "TOTAL_ENERGY_MJ": "TOTAL_ENERGY_CONSUMPTION",
    "PCIE_REPLAY_ROLLOVER": "PCIE_REPLAY_ROLLOVER_COUNTER",
    "NVLINK_DATA_TX_KIB": "NVLINK_THROUGHPUT_DATA_TX",
    "NVLINK_DATA_RX_KIB": "NVLINK_THROUGHPUT_DATA_RX",
    "NVLINK_RAW_TX_KIB": "NVLINK_THROUGHPUT_RAW_TX",
    "NVLINK_RAW_RX_KIB": "NVLINK_THROUGHPUT_RAW_RX",
    "REMAPPED_CORRECTED": "REMAPPED_COR",
    "REMAPPED_UNCORRECTED": "REMAPPED_UNC",
    "REMAPPED_FAILED": "REMAPPED_FAILURE",
    "NVLINK_REPLAYS": "NVLINK_ERROR_DL_REPLAY",
    "NVLINK_RECOVERIES": "NVLINK_ERROR_DL_RECOVERY",
    "NVLINK_CRC_ERRORS": "NVLINK_ERROR_DL_CRC",
    "NVLINK_SPEED_MB_S": "NVLINK_GET_SPEED",
    "NVLINK_STATE": "NVLINK_GET_STATE",
    "PCIE_L0_TO_RECOVERY": "PCIE_L0_TO_RECOVERY_COUNTER",
    "PCIE_CORRECTABLE": "PCIE_COUNT_CORRECTABLE_ERRORS",
    "PCIE_NAKS_RECEIVED": "PCIE_COUNT_NAKS_RECEIVED",
    "PCIE_RECEIVER_ERRORS": "PCIE_COUNT_RECEIVER_ERROR",
    "PCIE_BAD_TLPS": "PCIE_COUNT_BAD_TLP",
    "PCIE_NAKS_SENT": "PCIE_COUNT_NAKS_SENT",
    "PCIE_BAD_DLLPS": "PCIE_COUNT_BAD_DLLP",
    "PCIE_NON_FATAL": "PCIE_COUNT_NON_FATAL_ERROR",
    "PCIE_FATAL": "PCIE_COUNT_FATAL_ERROR",
    "PCIE_UNSUPPORTED_REQUESTS": "PCIE_COUNT_UNSUPPORTED_REQ",
    "PCIE_LCRC_ERRORS": "PCIE_COUNT_LCRC_ERROR",
    "PCIE_LANE_ERRORS": "PCIE_COUNT_LANE_ERROR",
    "POWER_AVERAGE_MW": "POWER_AVERAGE",
    "POWER_INSTANT_MW": "POWER_INSTANT",
    "POWER_LIMIT_MIN_MW": "POWER_MIN_LIMIT",
    "POWER_LIMIT_MAX_MW": "POWER_MAX_LIMIT",
    "POWER_LIMIT_DEFAULT_MW": "POWER_DEFAULT_LIMIT",
    "POWER_LIMIT_REQUESTED_MW": "POWER_REQUESTED_LIMIT",
    "TLIMIT_SHUTDOWN_C": "TEMPERATURE_SHUTDOWN_TLIMIT",
    "TLIMIT_SLOWDOWN_C": "TEMPERATURE_SLOWDOWN_TLIMIT",
    "TLIMIT_MEMORY_MAX_C": "TEMPERATURE_MEM_MAX_TLIMIT",
    "TLIMIT_GPU_MAX_C": "TEMPERATURE_GPU_MAX_TLIMIT",
    "PCIE_TX_BYTES": "PCIE_COUNT_TX_BYTES",
    "PCIE_RX_BYTES": "PCIE_COUNT_RX_BYTES",
    "NVLINK_SENT_BYTES": "NVLINK_COUNT_XMIT_BYTES",
    "NVLINK_RECEIVED_BYTES": "NVLINK_COUNT_RCV_BYTES",
    "NVLINK_SYMBOL_ERRORS": "NVLINK_COUNT_SYMBOL_ERRORS",
    "RECOVERY_ACTION": "GET_GPU_RECOVERY_ACTION",
}
BY_LINK = {
    "NVLINK_CRC_BY_LINK": "NVLINK_CRC_FLIT_ERROR_COUNT_L",
    "NVLINK_REPLAYS_BY_LINK": "NVLINK_REPLAY_ERROR_COUNT_L",
    "NVLINK_RECOVERIES_BY_LINK": "NVLINK_RECOVERY_ERROR_COUNT_L",
    "NVLINK_SPEED_BY_LINK": "NVLINK_SPEED_MBPS_L",
}


def test_every_field_id_is_the_headers() -> None:
    ours = {name: value for name, value in vars(nvml_fields).items() if name.isupper() and name[0] != "_"}
    del ours["SCOPE_GPU"], ours["SCOPE_MODULE"]
    for name, value in ours.items():
        header = (
            tuple(getattr(pynvml, f"NVML_FI_DEV_{BY_LINK[name]}{link}") for link in range(12))
            if name in BY_LINK
            else getattr(pynvml, f"NVML_FI_DEV_{HEADER_NAMES.get(name, name)}")
        )
        assert value == header, name


def _answer(buffer: FieldBuffer, entry: int, kind: int, code: int, value: bytes) -> None:
    """Write what a driver writes: value type, return code and value; the rest of the union keeps old bytes."""
    ctypes.memmove(
        (buffer.address.value or 0) + 40 * entry + 24, struct.pack("<II", kind, code) + value, 8 + len(value)
    )


@given(
    results=st.lists(
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
    results: list[tuple[int, float, bytes]],
) -> None:
    buffer = FieldBuffer(12)
    buffer.lay_out(tuple((field_id, 0) for field_id in range(len(results))))
    for entry, (kind, value, rubbish) in enumerate(results):
        _answer(buffer, entry, kind, 0, rubbish)
        _answer(buffer, entry, kind, 0, struct.pack(FORMATS[kind], value))
    assert buffer.results() == [(0, value) for _, value, _ in results]


def test_an_entry_that_failed_returns_its_own_code_and_an_unknown_type_counts_as_failed() -> None:
    buffer = FieldBuffer(3)
    buffer.lay_out(((186, 0), (83, 0), (82, 0)))
    _answer(buffer, 0, 1, 3, struct.pack("<Q", 5))
    _answer(buffer, 1, 99, 0, struct.pack("<Q", 5))
    _answer(buffer, 2, 5, 0, struct.pack("<q", -4))
    assert [code for code, _ in buffer.results()] == [3, 999, 0]
    assert buffer.results()[2] == (0, -4)


def test_the_memory_of_a_buffer_never_moves() -> None:
    buffer = FieldBuffer(4)
    before = buffer.address.value
    buffer.lay_out(((1, 0), (2, 0), (3, 0), (4, 0)))
    buffer.lay_out(((1, 0),))
    assert buffer.address.value == before


def test_values_go_straight_into_their_cells_and_what_failed_leaves_its_own() -> None:
    buffer = FieldBuffer(3)
    buffer.lay_out(((186, 0), (185, 0), (82, 0)))
    _answer(buffer, 0, 1, 0, struct.pack("<Q", 150_000))
    _answer(buffer, 1, 1, 3, struct.pack("<Q", 7))
    _answer(buffer, 2, 5, 0, struct.pack("<q", -4))
    cells = array("d", [0.0] * 6)
    assert not buffer.fill(cells, 2, ((0, 1e-3), (1, 1e-3), (3, 1.0)))
    assert cells.tolist() == [0.0, 0.0, 150.0, 0.0, 0.0, -4.0]
    _answer(buffer, 1, 1, 0, struct.pack("<Q", 149_000))
    assert buffer.fill(cells, 2, ((0, 1e-3), (1, 1e-3), (3, 1.0)))
    assert cells[3] == 149.0
