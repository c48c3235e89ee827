"""Report of doctor about a node whose driver and sensors are simulated, and about one without any."""

from pathlib import Path

import pytest

from simulator.driver.build import find_compiler
from tests.integration.running import Fields, environment, node_up, railwatch

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def test_inside_the_simulated_node_doctor_finds_its_gpus_and_supplies(tmp_path: Path) -> None:
    if find_compiler() is None:
        pytest.skip("no C compiler: there is no driver library for other programs to load")
    with node_up(tmp_path / "data", "--simulate", "v100x4") as node:
        assert node.url
        context = node.context
        config = tmp_path / "doctor.yaml"
        config.write_text(f"sources:\n  sysfs: {context.sysfs}\n  kmsg: {context.kmsg}\n")
        env = environment(LD_LIBRARY_PATH=context.library_dir, RAILWATCH_PLANT=context.state_file)
        done = railwatch("doctor", "--config", str(config), "--measure", "2s", "--json", env=env)
        reported = railwatch("doctor", "--config", str(config), "--measure", "1s", env=env)
    assert done.status == 0, done.err
    sources = {row["name"]: row for row in done.rows if row["kind"] == "source"}
    for name in ("gpu_fast", "gpu_slow", "gpu_bus", "supply", "node", "kernel_log"):
        assert sources[name]["state"] == "working", sources[name]
    gpus = [row for row in done.rows if row["kind"] == "gpu"]
    assert [row["name"] for row in gpus] == ["gpu0", "gpu1", "gpu2", "gpu3"]
    assert all("V100" in row["detail"] for row in gpus)
    assert all(row["mean_us"] > 0 for row in done.rows if row["kind"] == "call")
    unjudged = {row["name"]: row["detail"] for row in done.rows if row["kind"] == "not_judged"}
    assert unjudged["fans, and lost airflow within minutes"] == "neither speed nor duty of a fan is read"
    assert not any("joints" in what or "airflow and" in what for what in unjudged), "rails and inlet are read"
    periods = [row["period_ms"] for row in _of(done.rows, "update_period", "power_w")]
    assert len(periods) == 4
    # The plant's power sensor updates every 20 ms, as on a V100 (arXiv 2312.02741).
    assert all(period == pytest.approx(20, abs=5) for period in periods), periods
    assert {row["state"] for row in done.rows if row["kind"] == "update_period"} <= {
        "working",
        "few_changes",
        "unchanged",
    }
    lines = reported.out.splitlines()
    assert [line.split()[0] for line in lines].count("power_w") == 1
    assert lines.index("not judged on this node") > lines.index("controls")
    (calls,) = [line for line in lines if line.startswith("slowest driver calls: 10 of ")]
    assert lines.index(calls) < lines.index("sensor update periods")
    unchanged = lines[lines.index("no change seen") + 1]
    assert "max_pcie_width" in unchanged
    assert len(lines) < 100


def test_without_any_gpu_doctor_states_what_is_missing_and_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    config = tmp_path / "doctor.yaml"
    config.write_text(f"sources:\n  sysfs: {tmp_path / 'sys'}\n  kmsg: {tmp_path / 'kmsg'}\n")
    env = environment(LD_LIBRARY_PATH=None)
    done = railwatch("doctor", "--config", str(config), "--json", env=env)
    assert done.status == 1
    for name in ("gpu_fast", "supply"):
        (row,) = _of(done.rows, "source", name)
        assert row["state"] == "missing"
        assert row["detail"]
        assert row["how_to_get"]
    (ability,) = _of(done.rows, "ability", "clock_cap")
    assert ability["state"] == "missing"
    groups = {row["name"]: row["group"] for row in done.rows if row["kind"] == "source"}
    named = ("gpu_fast", "bmc", "pdu", "ups", "gpu_processes", "kernel_log", "uevents")
    assert [groups[name] for name in named] == ["fast", "slow", "slow", "slow", "slow", "events", "events"]
    reported = railwatch("doctor", "--config", str(config), env=env)
    assert reported.status == 1
    assert "to get it" in reported.out
    assert "same as gpu_fast" in reported.out
    assert any(f"under {tmp_path / 'sys'}/class/hwmon" in line for line in reported.out.splitlines())


def _of(rows: list[Fields], kind: str, name: str) -> list[Fields]:
    return [row for row in rows if (row["kind"], row["name"]) == (kind, name)]
