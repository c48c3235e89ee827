"""The root of the command line, and what every error becomes."""

import os
import sys
from typing import Annotated

import typer
from typer.exceptions import Abort, TyperException

from railwatch import __version__
from railwatch.cli import actions, config, dashboards, explain, incidents, logs, recordings, rules, simulate, supply
from railwatch.cli.backtest import backtest
from railwatch.cli.doctor import doctor
from railwatch.cli.evaluate import evaluate
from railwatch.cli.record import record
from railwatch.cli.replay import replay
from railwatch.cli.up import up
from telemetry.errors import ConfigError, EnvironmentLacksError, RailwatchError

app = typer.Typer(
    name="railwatch",
    no_args_is_help=True,
    add_completion=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"railwatch {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Watch the power, heat and bus of GPU nodes, say what is about to fail, and act before it does."""


app.command(epilog="Example: railwatch up --simulate v100x4 --scenario psu-sag --for 60s")(up)
app.command(epilog="Example: railwatch doctor --measure 10s --json")(doctor)
app.command(epilog="Example: railwatch record --duration 60s --out incident.parquet")(record)
app.command(epilog="Example: railwatch replay incident.parquet --json")(replay)
app.command(epilog="Example: railwatch evaluate judgement --seeds 3 --json")(evaluate)
app.command(epilog="Example: railwatch backtest node.csv --time time_s --columns power_w,gpu_temp_c --out scores.csv")(
    backtest
)
for name, commands in (
    ("incidents", incidents.app),
    ("actions", actions.app),
    ("recordings", recordings.app),
    ("rules", rules.app),
    ("simulate", simulate.app),
    ("logs", logs.app),
    ("explain", explain.app),
    ("config", config.app),
    ("dashboards", dashboards.app),
    ("supply", supply.app),
):
    app.add_typer(commands, name=name)


def main() -> None:
    """Run the command line; exit status 0 done, 1 the answer is no, 2 wrong use, 3 the environment lacks something."""
    try:
        status = app(standalone_mode=False)
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
    """Say what went wrong and give the exit status; None for a defect, which nobody but a traceback can tell."""
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
    """Say in one line what was wrong with the command line; a command without its sub-command has shown its help."""
    context = getattr(err, "ctx", None)
    message = " ".join(str(getattr(err, "format_message", err.__str__)()).split())
    if not message or type(err).__name__ == "NoArgsIsHelpError":
        return 2
    return _complain(message if context is None else f"{message} (see {context.command_path} --help)", 2)


def _complain(message: str, status: int) -> int:
    sys.stderr.write(f"railwatch: {message}\n")
    return status
