"""``railwatch rules test --recording``: policies tried on what was recorded."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import Frame, TableSpec
from telemetry.recording import RecordingMeta, read_recording, write_recording
from telemetry.records import Action, ActionState, Decision, Mode, Verdict
from telemetry.store.records import RecordFile
from tests.railwatch.command_line import Run, command_line, objects
from tests.railwatch.sagging import sagging_recording
from tests.rules.policy_texts import REPORT

BEGUN_NS = 1_700_000_000 * NS_PER_S


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(monkeypatch, capsys, "rules")


def with_done(path: Path) -> tuple[Decision, Action]:
    """Add to a recording what a guard decided and did there: a cap on the supply's only GPU."""
    read = read_recording(path)
    decision = Decision(
        id="d1",
        time_ns=BEGUN_NS + 25 * NS_PER_S,
        rule="by-hand",
        incident_id="i1",
        action="notify",
        targets=("supply:psu0",),
        lease_s=None,
        mode=Mode.ENFORCE,
        verdict=Verdict.EXECUTE,
        reason="it sags",
    )
    action = Action(
        id="a1",
        time_ns=decision.time_ns + 1,
        decision_id="d1",
        incident_id="i1",
        knob="message",
        entity_id="supply:psu0",
        unit="",
        found=None,
        wanted=None,
        read_back=None,
        state=ActionState.APPLIED,
        mode=Mode.ENFORCE,
        lease_until_ns=None,
        owner="railwatch",
        reason="told",
    )
    write_recording(path, read.frames(), topology=read.topology, meta=read.meta, records=(decision, action))
    return decision, action


def test_what_policies_would_have_done_stands_beside_what_was_done(run: Run, tmp_path: Path) -> None:
    recording = tmp_path / "sag.parquet"
    sagging_recording(recording)
    with_done(recording)
    mine = tmp_path / "mine.yaml"
    mine.write_text(REPORT)
    status, out, err = run("test", "--recording", str(recording), "--rules", str(mine), "--json")
    assert status == 0, err
    rows = [row for row in objects(out) if "difference" in row]
    pairs = [((row["would"] or {}).get("policy"), (row["was"] or {}).get("policy"), row["difference"]) for row in rows]
    beside = ("supply-sag-notify", None, "was not done")
    assert pairs == [("supply-sag-clock-cap", "by-hand", ""), beside], "the other built-in ones stay in force"
    assert rows[0]["was"]["came"] == "applied"
    assert "11." in rows[0]["would"]["reason"]
    reported = [row["unjudged"] for row in objects(out) if "unjudged" in row]
    assert any("power_brake" in text for text in reported), "no GPU table, so no brake"
    assert any("supported clocks of the GPUs" in text for text in reported)


def quiet_recording(path: Path) -> tuple[Decision, Action]:
    """Forty seconds of a healthy supply, once a second, in which something was done all the same."""
    supply = Entity(kind=EntityKind.SUPPLY, key="psu0", name="psu0")
    spec = TableSpec(name="supply", kind=EntityKind.SUPPLY, entities=(supply,), signals=("voltage_v",))
    values = np.full((41, 1, 1), 12.0)
    time_ns = BEGUN_NS + np.arange(41) * NS_PER_S
    frame = Frame(spec=spec, time_ns=time_ns, values=values, fresh=np.ones(values.shape, dtype=bool))
    meta = RecordingMeta(node="box", simulated=True)
    write_recording(path, [frame], topology=Topology(entities=(supply,)), meta=meta)
    return with_done(path)


def test_a_part_of_a_recording_can_be_named_by_time_or_by_how_long_ago(run: Run, tmp_path: Path) -> None:
    recording = tmp_path / "sag.parquet"
    quiet_recording(recording)

    def rows(*span: str) -> int:
        _, out, err = run("test", "--recording", str(recording), *span, "--json")
        assert not err
        return sum("difference" in row for row in objects(out))

    assert rows() == 1
    assert rows("--since", "5s") == 0
    assert rows("--since", "30s", "--until", "5s") == 1
    assert rows("--until", "2023-11-14T22:13:22Z") == 0
    for wrong in (("--since", "monday"), ("--since", "1s", "--until", "10s")):
        status, _, err = run("test", "--recording", str(recording), *wrong)
        assert status == 2
        assert err.startswith("railwatch: --since: ")


def test_without_supply_currents_it_states_what_it_could_not_judge(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "volts.csv"
    rows = [f"{BEGUN_NS + k * NS_PER_S // 10},supply,psu0,voltage_v,{12.0 - 0.05 * (k > 50)}," for k in range(100)]
    path.write_text("time_ns,kind,entity,signal,value,text\n" + "\n".join(rows) + "\n")
    status, out, err = run("test", "--recording", str(path))
    assert status == 0, err
    assert "no supply currents: no source resistance" in out
    assert "the recording holds no decisions to compare with" in out
    assert "0 decisions, 0 differ" in out


def test_a_data_folder_is_tried_recording_by_recording(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    decision, action = quiet_recording(folder / "quiet.parquet")
    lonely = replace(decision, id="d0", time_ns=BEGUN_NS - 3600 * NS_PER_S)
    records = RecordFile(tmp_path / "records", simulated=True)
    later = replace(action, time_ns=action.time_ns + 600 * NS_PER_S, state=ActionState.RELEASED)
    records.append([lonely, decision, action, later])
    records.close()
    status, out, err = run("test", "--from-store", str(tmp_path), "--since", "2023-11-01", "--json")
    assert status == 0, err
    differences = [row["difference"] for row in objects(out) if "difference" in row]
    assert differences == ["would not be done", "not judged"]
    assert objects(out)[0]["was"]["came"] == "applied, released", "what came of it after the recording had ended"
    assert "1 decision outside of recordings" in run("test", "--from-store", str(tmp_path), "--since", "2023-11-01")[1]
    assert run("test", "--from-store", str(tmp_path), "--since", "1d", "--json")[1] == ""
    assert run("test", "--from-store", str(tmp_path / "nowhere"))[0] == 3
    whole = (folder / "quiet.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    status, out, err = run("test", "--from-store", str(tmp_path), "--since", "2023-11-01")
    assert status == 0
    assert "cut.parquet: (file): cut short" in err
    assert "1 recording, 1 decision outside of recordings" in out, "one that a crash cut short keeps no other"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--since", "7d"), "--since"),
        (("--rules", "x"), "--rules"),
        (("a.yaml", "--recording", "b.csv"), "PATHS"),
        (("--recording", "b.csv", "--from-store", "c"), "--from-store"),
    ],
)
def test_options_that_do_not_go_together_are_refused_by_name(run: Run, arguments: tuple[str, ...], named: str) -> None:
    status, _, err = run("test", *arguments)
    assert status == 2
    assert err.startswith(f"railwatch: {named}: it ")


def test_policies_tried_on_a_recording_are_laid_over_the_builtin_ones(run: Run, tmp_path: Path) -> None:
    recording = tmp_path / "sag.parquet"
    sagging_recording(recording)
    (tmp_path / "rules").mkdir()
    other = REPORT.replace("id: supply-sag-clock-cap", "id: mine").replace(
        "when: {cause: supply_sag}", "when: {cause: gpu_lost}"
    )
    other = other.replace("{cause: supply_sag, entity_kind: supply}", "{cause: gpu_lost}")
    (tmp_path / "rules" / "mine.yaml").write_text(
        other.replace("quiet, incident: {cause: gpu_lost}", "quiet, incident: {cause: hang}")
    )

    def acting(*more: str) -> set[str]:
        status, out, err = run("test", "--recording", str(recording), *more, "--json")
        assert status == 0, err
        return {row["would"]["policy"] for row in objects(out) if row.get("would")}

    assert acting()
    assert acting("--rules", str(tmp_path / "rules")) == acting()
