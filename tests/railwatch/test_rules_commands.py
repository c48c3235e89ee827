"""``railwatch rules``: layers, differences, explanations, checks, and policies tried on what was recorded."""

from pathlib import Path

import pytest

from telemetry.clock import NS_PER_S
from tests.railwatch.command_line import Run, command_line, objects
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
