"""The code tables and what is explanation of a code."""

import pytest

from analytics import catalogue
from telemetry.records import EventKind, Severity


def test_the_xid_table_has_every_code_from_1_to_176_in_order() -> None:
    assert [entry.code for entry in catalogue.xids()] == list(range(1, 177))


def test_the_sxid_table_has_92_codes_in_order() -> None:
    codes = [entry.code for entry in catalogue.sxids()]
    assert len(codes) == 92
    assert codes == sorted(set(codes))


def test_every_row_is_complete() -> None:
    for entry in (*catalogue.xids(), *catalogue.sxids()):
        assert entry.name, entry.code
        assert entry.category, entry.code
        assert entry.action, entry.code
        assert entry.source, entry.code
        assert entry.mnemonic or entry.kind is EventKind.SXID, entry.code


def test_every_code_can_be_explained() -> None:
    for entry in catalogue.xids():
        assert catalogue.explain_xid(entry.code) is not None
    for entry in catalogue.sxids():
        assert catalogue.explain_sxid(entry.code) is not None


def test_a_code_that_is_not_in_the_table_has_no_entry() -> None:
    assert catalogue.xid(0) is None
    assert catalogue.xid(999) is None
    assert catalogue.sxid(1) is None
    assert catalogue.explain_xid(999) is None
    assert catalogue.explain_sxid(79) is None


@pytest.mark.parametrize(
    ("gravity", "severity"),
    [
        (catalogue.Gravity.INFO, Severity.INFO),
        (catalogue.Gravity.UNUSED, Severity.INFO),
        (catalogue.Gravity.APP, Severity.WARNING),
        (catalogue.Gravity.WARN, Severity.WARNING),
        (catalogue.Gravity.DEPENDS, Severity.WARNING),
        (catalogue.Gravity.RESET, Severity.CRITICAL),
        (catalogue.Gravity.FATAL, Severity.CRITICAL),
    ],
)
def test_every_step_of_the_catalogues_scale_has_a_severity(gravity: catalogue.Gravity, severity: Severity) -> None:
    assert catalogue.severity_of(gravity) is severity


@pytest.mark.parametrize(
    ("code", "category", "severity"),
    [
        (13, "engine", Severity.WARNING),
        (31, "engine", Severity.WARNING),
        (45, "engine", Severity.INFO),
        (48, "memory-ecc", Severity.CRITICAL),
        (63, "memory-ecc", Severity.INFO),
        (74, "nvlink", Severity.CRITICAL),
        (79, "pcie", Severity.CRITICAL),
        (94, "memory-ecc", Severity.WARNING),
        (95, "memory-ecc", Severity.CRITICAL),
        (119, "gsp", Severity.CRITICAL),
        (149, "nvlink", Severity.WARNING),
    ],
)
def test_well_known_xids_are_graded(code: int, category: str, severity: Severity) -> None:
    entry = catalogue.xid(code)
    assert entry is not None
    assert (entry.category, entry.severity) == (category, severity)


def test_xid_79_is_explained_in_full() -> None:
    explanation = catalogue.explain_xid(79)
    assert explanation is not None
    assert explanation.mnemonic == "ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS"
    assert "fell off the bus" in explanation.name
    assert explanation.severity is Severity.CRITICAL
    assert explanation.likely_causes == (
        "GPU hardware",
        "driver",
        "system memory corruption",
        "PCIe or NVLink bus",
        "heat",
    )
    assert "reboot" in explanation.action
    assert explanation.note is None
    assert explanation.source.startswith("NVIDIA Xid catalogue")


@pytest.mark.parametrize("code", [48, 63, 64])
def test_codes_that_read_differently_on_a_v100_state_so(code: int) -> None:
    explanation = catalogue.explain_xid(code)
    assert explanation is not None
    assert explanation.note is not None
    assert "V100" in explanation.note


def test_an_sxid_that_is_always_fatal_is_critical() -> None:
    entry = catalogue.sxid(22003)
    assert entry is not None
    assert entry.gravity is catalogue.Gravity.FATAL
    assert entry.severity is Severity.CRITICAL


def test_an_sxid_that_may_be_fatal_leaves_it_to_the_line() -> None:
    entry = catalogue.sxid(20034)
    assert entry is not None
    assert entry.gravity is catalogue.Gravity.DEPENDS


def test_a_corrected_ecc_error_of_a_switch_is_info() -> None:
    entry = catalogue.sxid(11012)
    assert entry is not None
    assert entry.severity is Severity.INFO
