"""The help lists commands without loading them, each with the summary of its own help."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer

from railwatch.cli.app import COMMANDS, app_for_arguments, whole_app
from railwatch.cli.up import up

# Run the command line as the script does, then report which large packages it has loaded.
PROGRAM = """\
import sys
from railwatch.cli import main
try:
    main()
except SystemExit:
    loaded = {name.partition(".")[0] for name in sys.modules}
    sys.stderr.write(f"{sorted(loaded & {'numpy', 'yaml', 'agent', 'analytics', 'rules'})}")
"""


def test_only_the_command_that_is_asked_for_is_loaded() -> None:
    assert [command.callback for command in app_for_arguments(["up"]).registered_commands] == [up]
    assert app_for_arguments(["up"]).registered_groups == []
    for arguments in (["rules", "test"], ["--", "rules", "test"]):
        assert [group.name for group in app_for_arguments(arguments).registered_groups] == ["rules"]


def test_each_is_listed_by_the_first_paragraph_of_its_own_help() -> None:
    loaded = typer.main.get_group(whole_app()).commands
    own = {name: " ".join((command.help or "").split("\n\n")[0].split()) for name, command in loaded.items()}
    assert list(own.items()) == [(one.name, one.summary) for one in COMMANDS]


@pytest.mark.parametrize(
    ("argument", "expected"), [("--help", "recordings"), ("--version", "railwatch"), ("rles", "'rules'")]
)
def test_help_version_and_a_typo_load_no_command(argument: str, expected: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, argument], capture_output=True, text=True, timeout=60, check=True
    )
    assert expected in ran.stdout + ran.stderr
    assert ran.stderr.endswith("[]")


def test_the_help_of_every_command_and_group_ends_with_an_example() -> None:
    def without_example(command: typer.core.TyperCommand | typer.core.TyperGroup, path: str) -> Iterator[str]:
        epilog = command.epilog or ""
        if not (epilog.startswith("Example: ") and path in epilog):
            yield path
        for name, inner in getattr(command, "commands", {}).items():
            yield from without_example(inner, f"{path} {name}")

    lacking = [*without_example(typer.main.get_group(whole_app()), "railwatch")]
    assert lacking == []
