"""Real sessions of a connector: nothing on a healthy card, and faults that are put in are found."""

import csv
import gzip
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evaluation.injection.pins import Pins
from evaluation.pins.fixed_rules import rules_broken
from evaluation.pins.sessions import read_session
from evaluation.pins.suite import PLAN, PinPlan, judge_fault, pin_rows, reported
from evaluation.rows import VARIABLE, Effort
from telemetry.documents import load_document
from telemetry.errors import ConfigError, EnvironmentLacksError
from tests.analytics.detectors.pin_scenes import healthy, judged, load_a

REAL = Path(os.environ.get(VARIABLE, "/nonexistent")) / "astral_pins"
HEAD = ["time_s", *(f"pin{pin}_v" for pin in range(1, 7)), *(f"pin{pin}_a" for pin in range(1, 7))]
OWN = ["gpu_w", "gpu_c", "gpu_util_pct", "sm_mhz", "mem_mhz"]
with_recordings = pytest.mark.skipif(not REAL.is_dir(), reason=f"{VARIABLE} has no astral_pins")


def write(path: Path, pins: Pins, *, rate_hz: float = 2.0, head: list[str] | None = None) -> Path:
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(head or [*HEAD, *OWN])
        for row, (volts, amperes) in enumerate(zip(pins.voltage_v, pins.current_a, strict=True)):
            watts = 12.0 * amperes.sum()
            writer.writerow([row / rate_hz, *volts, *amperes, *((watts, 60, 99, 2600, 14000) if row else [""] * 5)])
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "astral_pins").mkdir()
    write(tmp_path / "astral_pins/made.csv.gz", healthy(load_a(300)))
    return tmp_path


def test_a_session_is_read_with_what_the_card_reports_and_gaps_are_absent(folder: Path) -> None:
    session = read_session(folder / "astral_pins/made.csv.gz")
    assert session.name == "made"
    assert session.duration_s == pytest.approx(299 / 2)
    assert session.frame().values.shape == (300, 1, 12)
    assert np.isnan(session.own[0]).all()
    assert session.own[1].tolist() == pytest.approx([12.0 * session.total_a[1], 60.0, 0.99, 2600.0])
    assert not session.own_frame().fresh[0].any()


def test_a_file_that_is_no_session_is_refused_with_file_and_column(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv.gz", healthy(load_a(3)), head=[*HEAD[:-1], "other", *OWN])
    with pytest.raises(ConfigError, match="no column pin6_a"):
        read_session(path)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(",".join([*HEAD, *OWN]) + "\n" + ",".join(["0", "twelve", *["1"] * 16]) + "\n")
    with pytest.raises(ConfigError, match=r"pin1_v.*'twelve'"):
        read_session(path)


def test_the_suite_finds_and_names_what_is_put_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(folder))
    rows = {row.name: row for row in pin_rows(Effort(), lambda _text, _share: None)}
    assert rows["false findings an hour, sessions as they are"].value == 0.0
    plan = load_document(PinPlan, PLAN)
    for name, fault in plan.faults.items():
        assert not fault.has_goal or (rows[f"found: {name}"].value or 0.0) >= 0.9, name
    assert rows["named: contact +10 mΩ, current moves"].met
    assert rows["fixed rules: contact +3 mΩ, current moves"].value == 0.0


def test_a_session_without_load_has_no_contact_to_judge(tmp_path: Path) -> None:
    plan = load_document(PinPlan, PLAN)
    idle = read_session(write(tmp_path / "idle.csv.gz", healthy(load_a(400, full_a=3.0))))
    assert judge_fault(idle, plan.faults["open pin"], plan, seed=1) == []
    assert all(one.found_s is not None for one in judge_fault(idle, plan.faults["zeros on all pins"], plan, seed=1))


def test_fixed_rules_need_five_readings_in_a_row() -> None:
    pins = healthy(load_a(50))
    pins.current_a[10:14, 2] = 0.0
    assert not rules_broken(pins).any()
    pins.current_a[20:26, 2] = 0.0
    assert np.flatnonzero(rules_broken(pins)).tolist() == [24, 25]


def test_without_recordings_the_suite_names_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(EnvironmentLacksError, match="astral_pins"):
        next(pin_rows(Effort(), lambda _text, _share: None))


@with_recordings
@pytest.mark.parametrize("name", ["burn.csv.gz", pytest.param("gaming-hots.csv.gz", marks=pytest.mark.soak)])
def test_nothing_is_reported_on_a_real_healthy_session(name: str) -> None:
    assert reported(read_session(REAL / name)) == ()


@with_recordings
@pytest.mark.parametrize("order", [("burn", "gaming-hots"), ("gaming-hots", "burn")], ids="-".join)
def test_one_real_session_after_the_other_is_quiet_with_one_fingerprint(order: tuple[str, str]) -> None:
    frames = [read_session(REAL / f"{name}.csv.gz").frame() for name in order]
    later = replace(frames[1], time_ns=frames[1].time_ns + frames[0].time_ns[-1] - frames[0].time_ns[0] + 3600 * 10**9)
    state, findings = judged(frames[0], later)
    assert findings == []
    assert state.usual.known[0, 1], "the burn has taught it a full load"


@with_recordings
@pytest.mark.parametrize("name", ["open pin", "contact +5 mΩ, current moves", "V - 5 mΩ x I, current stays"])
def test_faults_of_a_contact_are_found_in_a_real_burn_within_a_minute(name: str) -> None:
    plan = load_document(PinPlan, PLAN)
    found = judge_fault(read_session(REAL / "burn.csv.gz"), plan.faults[name], plan, seed=3)
    assert len(found) == 24
    assert all(one.is_named and (one.found_s or 99.0) <= 30.0 for one in found)
