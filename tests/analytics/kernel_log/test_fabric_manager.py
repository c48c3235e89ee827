"""Lines of the Fabric Manager's log."""

import pytest

from analytics.kernel_log.sxid import fabric_line
from telemetry.records import Severity

HEAD = "[Sep 17 2024 06:01:46]"


@pytest.mark.parametrize(
    ("level", "severity"),
    [("INFO", None), ("WARNING", None), ("ERROR", Severity.WARNING), ("CRITICAL", Severity.CRITICAL)],
)
def test_a_level_states_whether_a_line_reports_of_a_fault(level: str, severity: Severity | None) -> None:
    line = fabric_line(f"{HEAD} [{level}] [tid 1230079] failed to find the GPU handle")
    assert line is not None
    assert (line.severity, line.text) == (severity, "failed to find the GPU handle")


@pytest.mark.parametrize(
    "text",
    ["", "<html>", f"{HEAD} [ERROR] no thread", "[2024-09-17 06:01:46] [ERROR] [tid 1] x", f"{HEAD} [] [tid 1] x"],
)
def test_another_form_is_no_line_of_it(text: str) -> None:
    assert fabric_line(text) is None


def test_a_hostile_line_is_cut_and_read_in_no_time() -> None:
    line = fabric_line(f"{HEAD} [ERROR] [tid 1] " + "x" * 1_000_000)
    assert line is not None
    assert len(line.text) == 1024
    assert fabric_line("[" * 1_000_000) is None
