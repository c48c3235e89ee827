"""``railwatch replay``: the live pipeline over a recording, the same every time."""

from pathlib import Path

import numpy as np
import pytest

from agent.guard.step_log import TABLE as STEPS
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import Frame, TableSpec
from telemetry.recording import RecordingMeta, write_recording
from tests.analytics.scenes import event_of
from tests.railwatch.command_line import Run, objects
from tests.railwatch.sagging import sagging_recording


@pytest.mark.parametrize("name", ["sag.parquet", "sag.csv"])
def test_a_recording_is_replayed_the_same_every_time(run: Run, tmp_path: Path, name: str) -> None:
    sagging_recording(tmp_path / name)
    status, first, _ = run("replay", str(tmp_path / name), "--json")
    assert status == 0
    assert run("replay", str(tmp_path / name), "--json")[1] == first
    records = objects(first)
    finding = next(record for record in records if record["type"] == "finding")
    assert (finding["cause"], finding["entity_id"]) == ("supply_sag", "supply:psu0")
    assert 19.9e9 < finding["time_ns"] - 1_700_000_000e9 < 21.5e9
    assert {"incident", "decision"} <= {record["type"] for record in records}


def test_the_last_line_counts_an_incident_once_and_does_not_break(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / ("a-long-name-" * 8)
    folder.mkdir()
    sagging_recording(folder / "sag.parquet")
    records = objects(run("replay", str(folder / "sag.parquet"), "--json")[1])
    of_incidents = [record["id"] for record in records if record["type"] == "incident"]
    assert len(set(of_incidents)) == 1 < len(of_incidents)
    last = run("replay", str(folder / "sag.parquet"))[1].splitlines()[-1]
    assert last.startswith(f"{folder}/sag.parquet: ")
    assert f", 1 incident ({len(of_incidents)} records)" in last


@pytest.mark.parametrize("nominal_v", [12.0, 48.0, 54.0])
def test_a_foreign_table_in_long_form_is_replayed_too(run: Run, tmp_path: Path, nominal_v: float) -> None:
    rows = ["time_ns,kind,entity,signal,value"]
    for tick in range(200):
        stamp = 1_700_000_000_000_000_000 + tick * 50_000_000
        volts = nominal_v if tick < 100 else nominal_v * 11.2 / 12.0  # no tag names the class of the rail
        rows.append(f"{stamp},supply,psu0,voltage_v,{volts + tick % 3 * 0.001:.3f}")
    path = tmp_path / "foreign.csv"
    path.write_text("\n".join(rows) + "\n")
    status, out, _ = run("replay", str(path), "--json")
    assert status == 0
    assert [record["type"] for record in objects(out)][:2] == ["finding", "incident"]


BOX = Entity(kind=EntityKind.NODE, key="box", name="box")
PSU = Entity(kind=EntityKind.SUPPLY, key="psu0", name="psu0")
BEGUN_NS = 1_700_000_000_000_000_000


def rows_of(spec: TableSpec, values: list[list[float]]) -> Frame:
    """Return a row every 50 ms with these values of the table's one entity."""
    cells = np.array(values)[:, None, :]
    times = BEGUN_NS + 50_000_000 * np.arange(len(values))
    return Frame(spec=spec, time_ns=times, values=cells, fresh=np.ones(cells.shape, dtype=np.bool_))


def test_a_recording_across_a_new_start_of_the_guard_is_judged_to_its_end(run: Run, tmp_path: Path) -> None:
    supply = TableSpec(name="supply", kind=EntityKind.SUPPLY, entities=(PSU,), signals=("voltage_v",))
    agent = Entity(kind=EntityKind.AGENT, key="box", name="box")
    steps = TableSpec(name=STEPS, kind=EntityKind.AGENT, entities=(agent,), signals=("next_supply", "events"))
    volts = [[(12.0 if tick < 200 else 11.2) + tick % 3 * 0.001] for tick in range(400)]
    counted = [[float(tick % 150 + 1), 0.0] for tick in range(400)]  # twice another ring begins to count
    write_recording(
        tmp_path / "anew.parquet",
        [rows_of(supply, volts), rows_of(steps, counted)],
        topology=Topology(entities=(BOX, PSU), edges=((BOX.id, PSU.id),)),
        meta=RecordingMeta(node="box", simulated=True, about={"first_rows": {"supply": 0, STEPS: 0}}),
    )
    status, out, err = run("replay", str(tmp_path / "anew.parquet"), "--json")
    assert status == 0, err
    assert [record["cause"] for record in objects(out) if record["type"] == "finding"][:1] == ["supply_sag"]


def test_what_a_recording_lacks_is_shown(run: Run, tmp_path: Path) -> None:
    supply = TableSpec(name="supply", kind=EntityKind.SUPPLY, entities=(PSU,), signals=("voltage_v",))
    for name, about in (("whole", {}), ("lacks", {"ring_rows_lost": 12, "cut_s": 3.5})):
        write_recording(
            tmp_path / f"{name}.parquet",
            [rows_of(supply, [[12.0], [12.1]])],
            topology=Topology(entities=(BOX, PSU), edges=((BOX.id, PSU.id),)),
            meta=RecordingMeta(node="box", simulated=True, about=about),
        )
    _, whole, _ = run("recordings", "show", str(tmp_path / "whole.parquet"))
    _, lacks, _ = run("recordings", "show", str(tmp_path / "lacks.parquet"))
    reported = [line for line in lacks.splitlines() if "12 rows lost: overwritten" in line or "first 3.5 s" in line]
    assert len(reported) == len(lacks.splitlines()) - len(whole.splitlines()) == 2


def test_an_event_that_was_reported_after_the_last_row_is_replayed(run: Run, tmp_path: Path) -> None:
    supply = TableSpec(name="supply", kind=EntityKind.SUPPLY, entities=(PSU,), signals=("voltage_v",))
    event = event_of(at_s=61.0)
    assert event.time_ns > BEGUN_NS + 60 * NS_PER_S
    write_recording(
        tmp_path / "silent.parquet",
        [rows_of(supply, [[12.0], [12.1]])],
        topology=Topology(entities=(BOX, PSU), edges=((BOX.id, PSU.id),)),
        meta=RecordingMeta(node="box", simulated=True),
        records=[event],
    )
    status, out, err = run("replay", str(tmp_path / "silent.parquet"), "--json")
    assert status == 0, err
    assert [record["id"] for record in objects(out) if record["type"] == "event"] == [event.id]


def test_replay_lays_a_folder_of_rules_over_the_built_in_ones(run: Run, tmp_path: Path) -> None:
    sagging_recording(tmp_path / "sag.parquet")
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "tell.yaml").write_text(
        "id: tell-me\nstatus: experimental\nwhy: to know\nsource: [a person]\nwhen: {cause: supply_sag}\n"
        "then: {action: notify, cooldown: 1m}\n"
        "cases:\n"
        "  - {name: tells, incident: {cause: supply_sag, severity: warning, entity_kind: supply},"
        " expect: {action: notify}}\n"
        "  - {name: quiet, incident: {cause: gpu_lost, severity: warning, entity_kind: gpu}, expect: none}\n"
    )
    alone = tmp_path / "alone.yaml"
    alone.write_text("rules: {builtin: false}\n")

    def deciding(*options: str) -> set[str]:
        status, out, err = run("replay", str(tmp_path / "sag.parquet"), "--rules", str(rules), "--json", *options)
        assert status == 0, err
        return {record["rule"] for record in objects(out) if record["type"] == "decision"}

    assert deciding("--config", str(alone)) == {"tell-me"}
    assert deciding() >= {"tell-me", "supply-sag-clock-cap"}


def test_faults_of_the_recording_are_named_in_one_line_each_left_out_and_counted(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [
        f"{(1_700_000_000 + at_s) * 10**9},supply,feed{feed},{signal},{-1.0 if at_s == 50 else value + at_s % 7},"
        for at_s in range(90)
        for feed in range(2)
        for signal, value in (("voltage_v", 206.0), ("current_a", 5.0 + feed), ("power_w", 1030.0 + 206.0 * feed))
    ]
    lines = ["time_ns,kind,entity,signal,value,text", *rows, *rows[60:63]]
    (tmp_path / "bad.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    status, printed, _ = run("replay", str(tmp_path / "bad.csv"))
    assert status == 0
    assert printed.splitlines()[-1].endswith("; 9 readings left out")
    assert [line.split("bad.csv: ")[1] for line in caplog.messages] == [
        "6 readings of -1 at one time (supply feed0, supply feed1): failed reads, left out",
        "3 readings have the stamp of the one before (supply feed0): left out",
    ]
