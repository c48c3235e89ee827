"""The README and the documentation: commands that exist, links that lead somewhere, pages that can be read."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.calibrated_thresholds import ThresholdFile, write_thresholds
from config.loading import load_config
from railwatch.reference.cli import CliCommand, cli_markdown, commands
from railwatch.reference.records import records_markdown
from rules.policy.cases import run_cases
from rules.policy.loading import load_policies
from simulator.files.node import load_node
from simulator.files.rack_scenario import load_rack_scenario
from simulator.files.scenario import load_scenario
from telemetry.record_json import RECORD_TYPES

ROOT = Path(__file__).resolve().parents[2]
PAGES = tuple(
    sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")]),
)
# Generated, with tables and long descriptions.
UNWRAPPED = {"docs/reference/configuration.md", "docs/reference/signals.md"}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
COMMANDS = {command.path: command for command in commands()}
by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def fenced(page: Path, *languages: str) -> Iterator[str]:
    for language, body in FENCE.findall(page.read_text(encoding="utf-8")):
        if language in languages:
            yield body


def railwatch_lines(page: Path) -> list[list[str]]:
    """Return every command that starts with railwatch, also behind a pipe, in tokens."""
    found = []
    for body in fenced(page, "sh", "console"):
        for line in body.splitlines():
            for part in line.removeprefix("$ ").split("|"):
                tokens = shlex.split(part.split(" > ")[0], comments=True)
                while tokens and re.fullmatch(r"[A-Z_]+=.*", tokens[0]):  # variables before the command
                    tokens = tokens[1:]
                if tokens and tokens[0] == "railwatch":
                    found.append(tokens[1:])
    return found


def command_of(tokens: list[str]) -> tuple[CliCommand, list[str]]:
    for length in (4, 3, 2, 1):
        command = COMMANDS.get(tuple(tokens[:length]))
        if command is not None:
            return command, tokens[length:]
    raise AssertionError(f"railwatch {' '.join(tokens)}: no such command")


def check(tokens: list[str]) -> None:
    """Report what is wrong with one command line, as its parser would."""
    command, rest = command_of(tokens)
    options = {name: item for item in command.parameters if item.is_option for name in item.names}
    given: set[str] = set()
    arguments = 0
    while rest:
        token = rest.pop(0)
        if token == "--":  # what follows is another program's
            break
        if not token.startswith("--"):
            arguments += 1
            continue
        assert token in options, f"railwatch {' '.join(tokens)}: no option {token}"
        given.add(token)
        if options[token].takes_value:
            assert rest, f"railwatch {' '.join(tokens)}: {token} needs a value"
            rest.pop(0)
    allowed = [item for item in command.parameters if not item.is_option]
    assert arguments >= sum(item.required for item in allowed), f"railwatch {' '.join(tokens)}: an argument is missing"
    assert arguments == 0 or allowed, f"railwatch {' '.join(tokens)}: takes no argument"
    missing = {item.names[0] for item in options.values() if item.required} - given
    assert not missing, f"railwatch {' '.join(tokens)}: needs {missing}"


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page as GitHub makes them from its headings."""
    found = set()
    for heading in HEADING.findall(page.read_text(encoding="utf-8")):
        found.add(re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-"))
    return found


@by_page
def test_every_command_exists_with_every_option_that_is_named(page: Path) -> None:
    for tokens in railwatch_lines(page):
        check(tokens)


@by_page
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{page.relative_to(ROOT)}: {target} leads nowhere"
        assert not anchor or anchor in anchors(linked), f"{page.relative_to(ROOT)}: {target} names no heading"


@by_page
def test_sentences_stay_under_120_columns(page: Path) -> None:
    if str(page.relative_to(ROOT)) in UNWRAPPED:
        return
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    long = [line for line in text.splitlines() if len(line) > 120 and not line.startswith("|")]
    assert not long, long


def test_the_pages_hold_commands_to_check() -> None:
    assert sum(len(railwatch_lines(page)) for page in PAGES) > 40


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("frobnicate", "no such command"),
        ("up --fro", "no option --fro"),
        ("up --for", "needs a value"),
        ("simulate run healthy", "needs {'--out'}"),
        ("replay", "an argument is missing"),
        ("doctor twice", "takes no argument"),
    ],
)
def test_a_command_that_would_be_refused_is_found(line: str, complaint: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(complaint)):
        check(line.split())


def test_every_command_is_in_the_readme_and_in_the_reference() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in COMMANDS:
        assert f"railwatch {path[0]}" in readme, path
        assert len(path) == 1 or f"`{path[1]}`" in readme or f"railwatch {' '.join(path)}`" in readme, path
        assert f"## `railwatch {' '.join(path)}`" in cli_markdown()


def test_every_record_type_is_in_the_reference_with_its_enums() -> None:
    text = records_markdown()
    assert all(f"## `{name}`" in text for name in RECORD_TYPES)
    assert "| `closed_ns` | integer or null | |" in text
    assert "`open`, `mitigated`, `closed`." in text


@by_page
def test_every_configuration_that_is_shown_is_accepted(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    calibrated = ThresholdFile(version=1, pages_per_node_month=0.1, healthy_node_days=1.0, thresholds={})
    write_thresholds(tmp_path / "thresholds.yaml", calibrated)
    for body in fenced(page, "yaml"):
        shown = tmp_path / "shown.yaml"
        if re.search(r"^ *cases:", body, re.MULTILINE):
            shown.write_text(body, encoding="utf-8")
            results = run_cases(load_policies((shown,)))
            assert results
            assert all(result.passed for result in results), [result.problems for result in results]
        elif re.search(r"^rack:", body, re.MULTILINE):
            shown.write_text(body, encoding="utf-8")
            load_rack_scenario(str(shown))
        elif re.search(r"^(changes|include):", body, re.MULTILINE):
            shown.write_text(body, encoding="utf-8")
            load_scenario(str(shown), load_node("v100x4"))
        elif re.search(r"^extends:", body, re.MULTILINE):
            shown.write_text(body, encoding="utf-8")
            load_node(str(shown))
        else:
            (tmp_path / "rules").mkdir(exist_ok=True)
            shown.write_text(body, encoding="utf-8")
            load_config(shown, {})
