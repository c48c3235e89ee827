"""``railwatch rules``: layers, differences, explanations, checks, and policies tried on what was recorded."""

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


@pytest.fixture
def layered(tmp_path: Path) -> str:
    """A configuration with a site's and a node's layer over the built-in one."""
    for name, text in (
        ("site", REPORT),
        ("node", REPORT.replace("cooldown: 10m", "cooldown: 1h").replace("  - {name: quiet", "  - {name: silent")),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "sag.yaml").write_text(text)
    config = tmp_path / "railwatch.yaml"
    config.write_text(f"rules: {{dirs: [{tmp_path}/site], node_dirs: [{tmp_path}/node]}}\n")
    return str(config)


def test_the_list_shows_layer_mode_and_what_is_replaced(run: Run, layered: str, tmp_path: Path) -> None:
    rows = {row["id"]: row for row in objects(run("list", "--config", layered, "--json")[1])}
    sag = rows["supply-sag-clock-cap"]
    assert (sag["layer"], sag["action"], sag["mode"]) == ("node", "notify", "observe")
    assert sag["replaces"] == f"{tmp_path}/site/sag.yaml"
    assert rows["gpu-lost-notify"]["layer"] == "built-in"
    assert rows["gpu-lost-notify"]["replaces"] is None
    enforced = {row["mode"] for row in objects(run("list", "--simulated", "--config", layered, "--json")[1])}
    assert "enforce" in enforced
    status, out, _ = run("list", "--config", layered)
    assert status == 0
    assert out.splitlines()[1].split() == ["id", "layer", "action", "mode", "status", "replaces"]


def test_a_folder_is_listed_and_compared_as_the_sites(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(REPORT.replace("id: supply-sag-clock-cap", "id: mine"))
    rows = {row["id"]: row["layer"] for row in objects(run("list", str(tmp_path), "--json")[1])}
    assert (rows["mine"], rows["supply-sag-clock-cap"]) == ("site", "built-in")
    for arguments in ((str(tmp_path),), ("mine", str(tmp_path))):
        status, out, _ = run("diff", *arguments)
        assert (status, out.splitlines()[0]) == (1, f"mine: added by site {tmp_path}/mine.yaml")


@pytest.mark.parametrize(
    ("then", "at", "config", "known"),
    [
        (
            "hook, program: tel",
            "then.program",
            "hooks: {tell: {command: [/bin/true]}, gone: {command: [/bin/true]}}",
            "got 'tel'; expected one of gone, tell",
        ),
        (
            "hook, program: tel",
            "then.program",
            "drain: []",
            "got 'tel'; expected a name that the configuration has; it has none",
        ),
        (
            "notify, parameters: {route: night}",
            "then.parameters.route",
            "notification: {routes: {day: {kind: webhook, url: 'http://127.0.0.1:9/'}}}",
            "got 'night'; expected one of day",
        ),
        (
            "checkpoint, budget: {actions: 2}, parameters: {checkpoint: tran}",
            "then.parameters.checkpoint",
            "checkpoints: {train: {file: /tmp/ask}}",
            "got 'tran'; expected one of train",
        ),
    ],
)
def test_a_name_that_the_configuration_lacks_is_refused_at_its_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    *,
    then: str,
    at: str,
    config: str,
    known: str,
) -> None:
    (tmp_path / "my").mkdir()
    policy, file = tmp_path / "my" / "mine.yaml", tmp_path / "railwatch.yaml"
    argument = then.partition(",")[0]
    text = REPORT.replace("{action: notify, cooldown", f"{{action: {then}, cooldown").replace(
        "id: supply-sag-clock-cap", "id: mine"
    )
    policy.write_text(text.replace("expect: {action: notify}", f"expect: {{action: {argument}}}"))
    file.write_text(f"actuators:\n  {config}\nrules: {{dirs: [{tmp_path}/my]}}\n")
    run = command_line(monkeypatch, capsys)
    line = f"{policy}:6: {at}: {known}\n"
    recorded = ("rules", "test", "--recording", str(tmp_path / "any.parquet"), "--config")
    asked = [("rules", name, "--config") for name in ("list", "test", "check", "diff")]
    for arguments in (*asked, recorded, ("config", "check"), ("up", "--simulate", "v100x4", "--config")):
        status, out, err = run(*arguments, str(file))
        assert (status, out, err.removeprefix("railwatch: ")) == (2, "", line), arguments
    assert run("rules", "test", str(policy), "--config", str(file))[2] == line
    for name in ("list", "test", "check"):
        assert run("rules", name, str(policy))[0] != 2, "without a configuration nobody knows"


def test_the_cases_of_the_policies_that_a_configuration_puts_in_force_are_run(run: Run, layered: str) -> None:
    status, out, _ = run("test", "--config", layered, "--json")
    assert status == 0
    rows = objects(out)
    assert [row["case"] for row in rows if row["policy"] == "supply-sag-clock-cap"] == ["tells", "silent"]
    assert "gpu-lost-notify" in {row["policy"] for row in rows}, "the built-in ones that nobody replaces"


def test_a_policy_is_shown_with_the_file_and_every_layer_below(run: Run, layered: str, tmp_path: Path) -> None:
    status, out, _ = run("show", "supply-sag-clock-cap", "--config", layered)
    head, _, text = out.partition("\n")
    assert status == 0
    assert text == (tmp_path / "node" / "sag.yaml").read_text()
    assert head.startswith(f"# node, {tmp_path}/node/sag.yaml; replaces the site one, {tmp_path}/site/sag.yaml; ")
    assert "replaces the built-in one" in head
    (shown,) = objects(run("show", "supply-sag-clock-cap", "--config", layered, "--json")[1])
    assert shown["text"] == text


def test_a_policy_that_is_not_there_is_reported_with_those_that_are(run: Run) -> None:
    status, out, err = run("show", "nonsense")
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert "got 'nonsense'; expected one of" in err
    assert err.endswith("; own policies need --config FILE or PATHS\n")


def test_a_folder_after_the_id_lays_its_policies_over_those_in_force(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(REPORT.replace("id: supply-sag-clock-cap", "id: mine"))
    assert run("show", "mine", str(tmp_path))[1].startswith(f"# site, {tmp_path}/mine.yaml\n")
    assert "cooldown after an action: 10m" in run("explain", "mine", str(tmp_path))[1]
    assert run("explain", "supply-sag-clock-cap", str(tmp_path))[0] == 0, "the built-in ones stay"


def test_a_policy_that_no_layer_below_has_is_a_difference(run: Run, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "mine.yaml").write_text(REPORT.replace("id: supply-sag-clock-cap", "id: mine"))
    config = tmp_path / "railwatch.yaml"
    config.write_text(f"rules: {{dirs: [{tmp_path}/site]}}\n")
    status, out, _ = run("diff", "--config", str(config))
    assert status == 1
    assert out.startswith(f"mine: added by site {tmp_path}/site/mine.yaml\n")
    (row,) = objects(run("diff", "mine", "--config", str(config), "--json")[1])
    assert (row["id"], row["below"], row["was"], row["is"]["status"]) == ("mine", None, None, "experimental")


def test_differences_are_reported_key_by_key_down_the_layers(run: Run, layered: str) -> None:
    status, out, _ = run("diff", "supply-sag-clock-cap", "--config", layered, "--json")
    rows = objects(out)
    assert status == 1
    upper = {row["key"]: (row["was"], row["is"]) for row in rows if row["layer"] == "node"}
    assert upper["then.cooldown"] == ("10m", "1h")
    assert set(upper) == {"then.cooldown", "cases['quiet']", "cases['silent']"}
    assert upper["cases['quiet']"][0]["expect"] == "none", "values as they are, for programs"
    lower = {row["key"]: row["is"] for row in rows if row["layer"] == "site"}
    assert lower["then.action"] == "notify"
    assert lower["then.target"] is None
    assert "10m" in run("diff", "--config", layered)[1]


def test_where_no_layer_changes_anything_the_answer_is_none(run: Run) -> None:
    assert run("diff")[:2] == (0, "no layer changes a policy\n")


def test_a_policy_is_explained_in_sentences(run: Run) -> None:
    status, out, _ = run("explain", "supply-sag-clock-cap")
    assert status == 0
    assert "cause is supply_sag" in out
    assert "stay above 11.55 V" in out
    assert "mode in force: observe, so nothing is changed" in out
    assert "11.55 V: heuristic" in out
    (reported,) = objects(run("explain", "supply-sag-clock-cap", "--simulated", "--json")[1])
    assert {"about": "within", "words": "mode in force: enforce"} in reported["words"]


def test_a_check_reports_errors_and_warnings_by_file_line_and_key(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    text = REPORT.replace("id: supply-sag-clock-cap", "id: mine")
    path.write_text(text.replace("when: {cause: supply_sag}", "when: {cause: novelty, state: closed}"))
    status, out, _ = run("check", str(path))
    assert status == 1
    assert f"{path}:5: when: error: unreachable: no open incident can meet it" in out
    rows = objects(run("check", str(path), "--json")[1])
    assert [(row["policy"], row["line"], row["level"]) for row in rows if row["flaw"] == "unreachable"] == [
        ("mine", 5, "error")
    ]


def test_warnings_fail_only_where_they_are_asked_to(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(REPORT.replace("id: supply-sag-clock-cap", "id: mine"))  # beside the built-in one
    text = REPORT.replace("id: supply-sag-clock-cap", "id: twin")
    (tmp_path / "twin.yaml").write_text(text)
    status, out, _ = run("check", str(tmp_path))
    assert status == 0
    assert "warning: overlapping: mine and twin both do notify" in out
    assert run("check", str(tmp_path), "--strict")[0] == 1


def test_a_file_with_mistakes_is_refused_by_every_command(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(REPORT.replace("when: {cause: supply_sag}", "when: {cause: suply_sag}"))
    for arguments in (("check", str(path)), ("test", str(path))):
        status, _, err = run(*arguments)
        assert status == 2
        assert err.startswith(
            f"{path}:5: when.cause: got 'suply_sag'; expected supply_sag instead of suply_sag, or one of"
        )
        (reported,) = objects(run(*arguments, "--json")[1])
        assert (reported["file"], reported["line"], reported["key"]) == (str(path), 5, "when.cause")


def test_a_fixed_clock_that_lowers_nothing_is_an_error_at_its_key(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "high.yaml"
    clock = "then: {action: clock_cap, target: all_gpus, clock: {mhz: 3000}, budget: {actions: 1}}"
    path.write_text(
        REPORT.replace("then: {action: notify, cooldown: 10m}", clock).replace("id: supply-sag", "id: high")
    )
    status, out, _ = run("check", str(path))
    assert status == 1
    assert f"{path}:6: then.clock.mhz: error: without effect: never lowers a clock on the nodes of its cases" in out
    assert "1 error, " in out
    assert "3000, the value of then.clock.mhz" in out
    path.write_text(path.read_text().replace("mhz: 3000", "mhz: 1200"))
    assert "without effect" not in run("check", str(path))[1]


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
    assert "cut.parquet: (file): not Parquet" in err
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
