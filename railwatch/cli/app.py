"""The root of the command line, and what every error becomes."""

import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer
from typer.exceptions import Abort, TyperException

from railwatch import __version__
from railwatch.cli.command_list import COMMANDS, ListedCommand
from telemetry.errors import ConfigError, EnvironmentLacksError, RailwatchError

# What the library says of a number out of its range.
_IN_OUR_WORDS = {
    r"Input should be greater than or equal to (\S+)": r"expected \1 at least",
    r"Input should be less than or equal to (\S+)": r"expected \1 at most",
}


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"railwatch {__version__}")
        raise typer.Exit


def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Watch the power, heat and bus of GPU nodes, say what is about to fail, and act before it does."""


def app_for_arguments(words: Sequence[str]) -> typer.Typer:
    """Return command line for these arguments: the command that they name alone, else all by what they are listed as.

    To list them nothing is loaded: all of them take seconds to load, which nobody waits for gladly who mistyped a name.
    """
    named = words[1:2] if words[:1] == ["--"] else words[:1]
    found = [listed for listed in COMMANDS if listed.name in named]
    app = _empty()
    for listed in found:
        _load(app, listed)
    for listed in () if found else COMMANDS:
        app.command(name=listed.name, help=listed.summary)(_not_loaded)
    return app


def whole_app() -> typer.Typer:
    """Return the command line with every command loaded."""
    app = _empty()
    for listed in COMMANDS:
        _load(app, listed)
    return app


def _empty() -> typer.Typer:
    app = typer.Typer(name="railwatch", no_args_is_help=True, add_completion=False)
    app.callback()(root)
    return app


def _load(app: typer.Typer, listed: ListedCommand) -> None:
    module = import_module(f"railwatch.cli.{listed.name}")
    if listed.example is None:
        app.add_typer(module.app, name=listed.name)
    else:
        app.command(epilog=f"Example: {listed.example}")(getattr(module, listed.name))


def _not_loaded() -> None:
    raise AssertionError("a command that is named is loaded")


def main() -> None:
    """Run the command line; exit status 0 done, 1 the answer is no, 2 wrong use, 3 the environment lacks something."""
    try:
        status = app_for_arguments(sys.argv[1:])(standalone_mode=False)
        sys.stdout.flush()
    except SystemExit as err:
        # Rich ends the program with 1 where nobody reads on; here that means something else.
        sys.exit(0 if isinstance(err.__context__, BrokenPipeError) else err.code)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as err:
        status = _complained(err)
        if status is None:
            raise
    sys.exit(status)


def _complained(err: Exception) -> int | None:
    """Return what went wrong and give the exit status; None for a defect, which nobody but a traceback can tell."""
    status: int | None = None
    match err:
        case TyperException():
            status = _complain_of_use(err)
        case ConfigError():
            for problem in err.problems:
                sys.stderr.write(f"railwatch: {problem}\n")
            status = 2
        case EnvironmentLacksError():
            status = _complain(str(err), 3)
        case RailwatchError():
            status = _complain(str(err), 1)
        case BrokenPipeError():  # whoever read our output has enough
            _let_go_of_output()
            status = 0
        case OSError():
            _let_go_of_output()
            status = _complain(f"{err.filename or 'standard output'}: {err.strerror}", 3)
        case Abort():
            status = 130
    return status


def _let_go_of_output() -> None:
    """Let what is still to be written go nowhere, so that the interpreter's own flush does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain_of_use(err: TyperException) -> int:
    """Return in one line what was wrong with the command line; a command without its sub-command has shown its help."""
    context = getattr(err, "ctx", None)
    message = " ".join(str(getattr(err, "format_message", err.__str__)()).split())
    if not message or type(err).__name__ == "NoArgsIsHelpError":
        return 2
    for said, meant in _IN_OUR_WORDS.items():
        message = re.sub(said, meant, message)
    return _complain(message if context is None else f"{message} (see {context.command_path} --help)", 2)


def _complain(message: str, status: int) -> int:
    sys.stderr.write(f"railwatch: {message}\n")
    return status
