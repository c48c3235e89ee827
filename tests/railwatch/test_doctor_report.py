"""Driver rows of doctor: one line for all GPUs."""

from typing import Any

import pytest

from railwatch.cli.doctor_report import print_rows


def period(gpu: int, signal: str, period_ms: float | None, changes: int) -> dict[str, Any]:
    return {"kind": "update_period", "name": signal, "gpu": f"gpu{gpu}", "period_ms": period_ms, "changes": changes}


def test_a_signal_is_one_line_with_the_range_over_the_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([period(gpu, "power_w", 20.0 + gpu / 10, 15) for gpu in range(4)])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "power_w" in line]
    assert line.split("  ") == ["power_w", "20 to 20.3 ms", "15 changes", "4 GPUs"]


def test_what_did_not_change_is_named_as_such_and_never_called_missing(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([period(0, "power_w", 20.0, 15), period(0, "gpu_temp_c", None, 1), period(0, "pcie_width", None, 0)])
    out = capsys.readouterr().out
    assert "changed too rarely to time\n    gpu_temp_c" in out
    assert "no change seen\n    pcie_width" in out
    assert "missing" not in out


def test_of_the_driver_calls_the_slowest_are_shown_in_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(
        [
            {"kind": "call", "name": f"nvmlCall{number}", "count": 5, "mean_us": float(number), "max_us": 99.0}
            for number in range(30)
        ]
    )
    title, _, *lines = capsys.readouterr().out.splitlines()
    assert title == "slowest driver calls: 10 of 30, all with --json"
    assert [line.split()[-1] for line in lines] == [f"nvmlCall{number}" for number in range(29, 19, -1)]
