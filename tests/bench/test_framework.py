import json
from pathlib import Path

import pytest

from bench import __main__ as command
from bench.machine import cpu_model, describe_machine
from bench.registry import BENCHMARKS
from bench.rows import Benchmark, Row
from telemetry.errors import EnvironmentLacksError


def lacking() -> tuple[Row, ...]:
    raise EnvironmentLacksError("influxd is not on PATH")


STANDINS = (
    Benchmark(
        name="agent_cost",
        summary="",
        run=lambda: (Row(name="core_share", value=0.02, unit="core", baseline=0.04, against="a loop"),),
    ),
    Benchmark(name="ingest", summary="", run=lacking),
)


def test_a_row_has_its_ratio_to_the_baseline() -> None:
    row = Row(name="a", value=3.0, unit="s", baseline=2.0)
    assert row.ratio == 1.5
    assert list(row.to_json())[:5] == ["name", "value", "unit", "baseline", "ratio"]
    assert Row(name="a", value=3.0, unit="s").ratio is None


def test_every_benchmark_has_a_name_of_its_own_and_states_what_it_measures() -> None:
    assert len({benchmark.name for benchmark in BENCHMARKS}) == len(BENCHMARKS)
    assert all(benchmark.summary for benchmark in BENCHMARKS)


def test_the_machine_is_described_as_json_can_carry_it() -> None:
    machine = describe_machine()
    assert json.loads(json.dumps(machine)) == machine
    assert {"cpu", "cores", "kernel", "python", "packages"} <= machine.keys()


def test_a_kernel_that_names_no_processor_leaves_the_architecture(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor : 0\n")
    assert cpu_model(tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text("model name\t: Fast: 9000\n")
    assert cpu_model(tmp_path / "cpuinfo") == "Fast: 9000"


def test_json_is_one_object_a_line_and_the_rest_goes_to_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "BENCHMARKS", STANDINS)
    assert command.main(["all", "--json"]) == 0
    printed = capsys.readouterr()
    machine, row = (json.loads(line) for line in printed.out.splitlines())
    assert "cpu" in machine["machine"]
    assert (row["bench"], row["name"], row["ratio"]) == ("agent_cost", "core_share", 0.5)
    assert printed.err == "bench: ingest: influxd is not on PATH\n"


def test_a_benchmark_that_was_named_and_cannot_run_exits_with_three(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "BENCHMARKS", STANDINS)
    assert command.main(["ingest"]) == 3
    assert command.main(["agent_cost"]) == 0
    assert "core_share" in capsys.readouterr().out


def test_a_name_that_is_none_is_wrong_use() -> None:
    with pytest.raises(SystemExit, match="2"):
        command.main(["nothing"])
