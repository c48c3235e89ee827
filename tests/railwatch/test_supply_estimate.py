import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

from tests.railwatch.command_line import Run, command_line

NAMES = ("--time", "t", "--voltage", "v", "--current", "a")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    return command_line(monkeypatch, capsys, "supply", "estimate")


def log(*, rows: int = 400, volt: float = 1.0, amp: float = 1.0, second: float = 1.0, lag: int = 0) -> list[str]:
    rng = np.random.default_rng(1)
    amps = np.repeat(rng.choice([20.0, 70.0], rows // 10), 10) + rng.normal(0, 0.1, rows)
    volts = 12.3 - 0.005 * np.roll(amps, -lag) + rng.normal(0, 0.004, rows)
    cells = zip(np.arange(rows) * 0.1 * second, volts * volt, amps * amp, strict=True)
    return ["t,v,a", *(f"{one:.6f},{other:.7f},{third:.6f}" for one, other, third in cells)]


def write(lines: list[str], name: str = "log.csv") -> str:
    Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return name


def test_a_log_is_answered_in_one_line(run: Run) -> None:
    status, out, err = run(write(log()), *NAMES)
    assert (status, err) == (0, "")
    (line,) = out.splitlines()
    assert line.startswith("log.csv: source resistance 5 mΩ (4.")
    # Levels that last a second, each one reached from one pick to the next.
    for expected in (
        "standard error 0.0",
        "open circuit 12.30",
        "r = -0.99",
        "400 picks (inferred) at 10 Hz",
        "load from 0.",
        " Hz up",
        "halves differ by",
    ):
        assert expected in line


def test_a_log_is_answered_in_one_object(run: Run) -> None:
    status, out, _ = run(write(log()), *NAMES, "--json")
    (result,) = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert result["identifiable"] is True
    assert result["source_resistance_ohm"] == pytest.approx(0.005, rel=0.01)
    low, high = result["source_resistance_bounds_ohm"]
    assert low < 0.005 < high
    assert result["samples"] == 400
    assert (result["sampled"], result["sampled_from"], result["method"]) == ("picks", "inferred", "line")
    assert low < result["source_resistance_ohm"] - result["standard_error_ohm"]
    load_hz, fastest_hz = result["band_hz"]
    assert 0.1 < load_hz < 0.5  # ten picks a level
    assert fastest_hz is None


def test_what_the_source_declares_is_not_inferred_and_bounds_the_band(run: Run) -> None:
    result = json.loads(run(write(log()), *NAMES, "--sampled", "means", "--json")[1])
    assert (result["sampled"], result["sampled_from"]) == ("means", "declared")
    assert result["band_hz"][1] == pytest.approx(5.0)
    assert "400 means at 10 Hz" in run("log.csv", *NAMES, "--sampled", "means")[1]
    status, _, err = run("log.csv", *NAMES, "--sampled", "medians")
    assert status == 2
    assert "medians" in err


def test_a_skew_is_taken_out_and_stated(run: Run) -> None:
    status, out, _ = run(write(log(lag=2)), *NAMES)
    assert status == 0
    assert "source resistance 5 mΩ" in out
    assert "current moved back by 200 ms" in out


def test_eight_bits_are_named(run: Run) -> None:
    rows = [row.split(",") for row in log()[1:]]
    steps = [f"{time},{round(float(volts) / 0.063) * 0.063:.4f},{amps}" for time, volts, amps in rows]
    assert "400 picks (inferred) at 10 Hz, steps of 63 mV" in run(write(["t,v,a", *steps]), *NAMES)[1]


def test_mains_are_estimated_from_differences(run: Run) -> None:
    rng = np.random.default_rng(4)
    amps = np.repeat(rng.choice([4.0, 12.0], 60), 10) + rng.normal(0, 0.01, 600)
    volts = 238.0 + 2.0 * np.sin(np.arange(600) / 90.0) - 0.12 * amps + rng.normal(0, 0.02, 600)
    lines = [
        "t,v,a",
        *(f"{second},{volt:.2f},{amp:.3f}" for second, (volt, amp) in enumerate(zip(volts, amps, strict=True))),
    ]
    result = json.loads(run(write(lines), *NAMES, "--json")[1])
    assert result["method"] == "differences"
    assert result["source_resistance_ohm"] == pytest.approx(0.12, abs=3.0 * result["standard_error_ohm"])
    assert result["standard_error_ohm"] < 0.005
    low, high = result["source_resistance_bounds_ohm"]
    assert low < 0.12 < high
    assert "from differences, as mains drift" in run("log.csv", *NAMES)[1]
    steady = [line if place == 0 else ",".join((*line.split(",")[:2], "8.000")) for place, line in enumerate(lines)]
    assert "fewer than three steps of the current by 3 %" in run(write(steady), *NAMES)[1]


def test_what_cannot_be_reported_ends_with_one_and_the_reason(run: Run) -> None:
    rng = np.random.default_rng(2)
    rows = [row.split(",") for row in log()[1:]]
    noise = [f"{time},{12.0 + rng.normal(0.0, 0.1):.4f},{amps}" for time, _, amps in rows]
    status, out, err = run(write(["t,v,a", *noise]), *NAMES)
    assert (status, err) == (1, "")
    assert "not identifiable: voltage does not follow current" in out
    status, out, _ = run(write(log()[:6]), *NAMES, "--json")
    assert status == 1
    assert json.loads(out)["reason"] == "too few samples"


def test_what_is_missing_or_the_wrong_way_round_is_named(run: Run) -> None:
    assert "too few samples: 5 usable, 8 needed" in run(write(log()[:6]), *NAMES)[1]
    assert "is the sign of the current wrong?" in run(write(log(amp=-1.0)), *NAMES)[1]
    stuck = [",".join((row.split(",")[0], "12.1", row.split(",")[2])) for row in log()[1:]]
    assert "not identifiable: the voltage stays at one value" in run(write(["t,v,a", *stuck]), *NAMES)[1]
    assert json.loads(run("log.csv", *NAMES, "--json")[1])["reason"] == "the voltage does not move"


@pytest.mark.parametrize("per_second", [1, 1_000, 1_000_000, 1_000_000_000])
def test_stamps_since_1970_are_read_whatever_they_are_in(run: Run, per_second: int) -> None:
    rows = (row.split(",", 1) for row in log()[1:])
    lines = [f"{round((1_767_225_600 + float(time)) * per_second)},{rest}" for time, rest in rows]
    if per_second == 1:
        lines = lines[::10]  # whole seconds
    status, out, err = run(write(["t,v,a", *lines]), *NAMES)
    assert (status, err) == (0, "")
    assert f" at {1 if per_second == 1 else 10} Hz" in out


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (log(volt=1e3), "log.csv: v: a median of 12"),
        (log(volt=1e-3), "log.csv: v: a median of 0.012"),
        (log(amp=1e3), "log.csv: a: a maximum of 7"),
        (log(amp=50.0, volt=1.0), "log.csv: v, a: a source resistance of"),
        (log(second=1e8), "log.csv: t: steps of 1e+07"),
        (["t,v,b", "0,1,2"], "log.csv: a: no such column among t, v, b"),
        (["t,v,a", "0,12,1", "1,twelve,1"], "log.csv:3: v: 'twelve'"),
        (["t;v;a", "0;12,1;1"], "log.csv:2: v: '12,1'; expected a number with a decimal point"),
        (["t,v,a"], "log.csv: (file): no row of data"),
        ([""], "no such column among none"),
        ([*log(), *log()[1:]], "log.csv: t: 400 of 800 times not later"),
    ],
)
def test_bad_input_is_refused_in_one_line_that_states_where_and_why(run: Run, lines: list[str], expected: str) -> None:
    if "source resistance" in expected:
        lines = [line if place == 0 else _tiny(line) for place, line in enumerate(lines)]
    status, out, err = run(write(lines), *NAMES)
    assert (status, out) == (2, "")
    assert expected in err
    assert "expected" in err
    assert len(err.splitlines()) == 1


def _tiny(line: str) -> str:
    """Return the row with a thousandth of the voltage's swing, as of a current in the wrong unit."""
    time, volts, amps = line.split(",")
    return f"{time},{12.0 + (float(volts) - 12.0) * 1e-3:.9f},{amps}"


def test_a_file_that_is_none_is_refused(run: Run) -> None:
    assert run("missing.csv", *NAMES)[0] == 2
    Path("bytes.csv").write_bytes(bytes(range(256)))
    assert run("bytes.csv", *NAMES)[0] == 2
    Path("bytes.npz").write_bytes(b"no archive")
    assert run("bytes.npz", *NAMES)[0] == 2


def test_gaps_dates_semicolons_and_gzip_are_read(run: Run) -> None:
    lines = ["t;v;a"]
    for place, row in enumerate(log()[1:]):
        _, volts, amps = row.split(",")
        lines.append(f"2026-01-01T00:{place // 60 % 60:02}:{place % 60:02}Z;{'' if place % 9 == 5 else volts};{amps}")
    with gzip.open("log.csv.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(lines))
    status, out, _ = run("log.csv.gz", *NAMES)
    assert status == 0
    assert "at 1 Hz" in out
    assert "left out: 44 without a value" in out


def test_arrays_are_read_by_name_and_column(run: Run) -> None:
    table = np.array([[float(cell) for cell in row.split(",")] for row in log()[1:]])
    np.savez("log.npz", t=table[:, 0], va=table[:, 1:])
    status, out, _ = run("log.npz", "--time", "t", "--voltage", "va:0", "--current", "va:1")
    assert status == 0
    assert "source resistance 5 mΩ" in out
    status, _, err = run("log.npz", "--time", "t", "--voltage", "va", "--current", "va:1")
    assert status == 2
    assert "expected va:0 to va:1" in err


def test_the_real_feed_is_answered_from_its_own_file(run: Run) -> None:
    folder = os.environ.get("RAILWATCH_DATA")
    if folder is None:
        pytest.skip("RAILWATCH_DATA is not set: no real recordings here")
    file = str(Path(folder) / "oxford_pmd" / "a100_square_wave.npz")
    status, out, _ = run(file, "--time", "t_s", "--voltage", "voltage_v:3", "--current", "current_a:3", "--json")
    assert status == 0
    assert json.loads(out)["source_resistance_ohm"] == pytest.approx(6.77e-3, rel=0.02)
