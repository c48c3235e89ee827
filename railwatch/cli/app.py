"""Root of the command line, and the exit status and message of every error."""

import gc
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import getdoc
from typing import Annotated

import typer
from pydantic import ValidationError
from typer.core import TyperOption
from typer.exceptions import Abort, TyperException

from railwatch import __version__
from telemetry.errors import ConfigError, EnvironmentLacksError, RailwatchError


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCommand:
    """Command of the root: `summary` is the first paragraph of its own help; a group has no `example`."""

    name: str
    summary: str
    example: str | None = None


# A command is the function of its name in the module of its name; a group is the `app` there.
COMMANDS = (
    ListedCommand(
        name="up",
        summary="Run railwatch on this node: sampling, guard, store and web page.",
        example="railwatch up --simulate v100x4 --scenario psu-sag --for 60s",
    ),
    ListedCommand(
        name="actuatord",
        summary="Run the privileged actuator: it sets the GPU knobs that its own file allows, within its ranges.",
        example="railwatch actuatord --config /etc/railwatch/actuatord.yaml --check",
    ),
    ListedCommand(
        name="doctor",
        summary="Report what this node can measure and control, what is missing and so not judged, and how to get it.",
        example="railwatch doctor --measure 10s --json",
    ),
    ListedCommand(
        name="record",
        summary="Record samples of a running node at full rate into one file, with records and kernel log.",
        example="railwatch record --duration 60s --out incident.parquet",
    ),
    ListedCommand(
        name="replay",
        summary="Run detectors and policies over a recording; nothing is changed, decisions are printed.",
        example="railwatch replay incident.parquet --json",
    ),
    ListedCommand(
        name="rehearse",
        summary="Run a scenario with and without railwatch, and compare GPU drops, goodput and actions.",
        example="railwatch rehearse psu-sag --seeds 3",
    ),
    ListedCommand(
        name="evaluate",
        summary="Score detection and classification on simulated and real data against their goals.",
        example="railwatch evaluate judgement --seeds 3 --json",
    ),
    ListedCommand(
        name="clocks",
        summary="Report what held each GPU below its highest clock, for how long, and at what cost.",
        example="railwatch clocks monday.parquet --json",
    ),
    ListedCommand(
        name="backtest",
        summary="Score every row of a CSV table against its healthy first part, and flag anomalies.",
        example="railwatch backtest node.csv --time time_s --columns power_w,gpu_temp_c --out scores.csv",
    ),
    ListedCommand(
        name="fleet",
        summary="Judge all nodes that write to one store, with the detectors of a node and those that compare nodes.",
    ),
    ListedCommand(name="incidents", summary="List and show incidents, with the evidence and what was done."),
    ListedCommand(name="actions", summary="List, show, verify, approve and release actions."),
    ListedCommand(name="recordings", summary="List and show the recordings of the flight recorder."),
    ListedCommand(name="rules", summary="List, show, compare, explain, check and test policies."),
    ListedCommand(name="simulate", summary="List, show, run, serve and check simulated nodes, racks and scenarios."),
    ListedCommand(name="logs", summary="Find GPU and PCIe errors in kernel logs."),
    ListedCommand(name="explain", summary="Explain an Xid, a cause or an incident, and what to do about it."),
    ListedCommand(name="config", summary="Check a configuration file, show the one in force, or print a sample."),
    ListedCommand(name="dashboards", summary="Export dashboards for Grafana."),
    ListedCommand(name="supply", summary="Estimate the source resistance of a supply path from logged data."),
    ListedCommand(name="wiring", summary="Draw and check which supply feeds which GPU through which plug."),
    ListedCommand(name="models", summary="Calibrate thresholds from healthy recordings, for a budget of pages."),
    ListedCommand(
        name="baselines",
        summary="List the learnt baselines of a running node, and accept a new normal state.",
    ),
    ListedCommand(name="board", summary="Show the power curve of each board over its clock, as learnt."),
    ListedCommand(name="dither", summary="Plan and judge an experiment: which GPU moves a supply voltage."),
    ListedCommand(name="notify", summary="Test the notification routes, and show what they sent and hold."),
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"railwatch {__version__}")
        raise typer.Exit


def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Watch power, heat and bus of GPU nodes, report what is about to fail, and act before it does."""


def app_for_arguments(arguments: Sequence[str]) -> typer.Typer:
    """Return the command line with the command that the arguments name, or a list of all commands.

    The list loads no command: loading all of them takes seconds, too long for help or a mistyped name.
    """
    named = arguments[1:2] if arguments[:1] == ["--"] else arguments[:1]
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
    app = typer.Typer(
        name="railwatch",
        no_args_is_help=True,
        add_completion=False,
        epilog="Example: railwatch up --simulate v100x4 --scenario psu-sag --for 60s",
    )
    app.callback()(root)
    return app


def _load(app: typer.Typer, listed: ListedCommand) -> None:
    module = import_module(f"railwatch.cli.{listed.name}")
    if listed.example is None:
        app.add_typer(module.app, name=listed.name)
    else:
        app.command(epilog=f"Example: {listed.example}")(getattr(module, listed.name))
    _unwrap_help(app)


def _unwrap_help(app: typer.Typer) -> None:
    """Join the lines of each paragraph of help, so that the terminal wraps them."""
    for command in app.registered_commands:
        text = command.help or getdoc(command.callback) or ""
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _unwrap_help(group.typer_instance)


def _not_loaded() -> None:
    raise AssertionError("a named command is loaded")


def main() -> None:
    """Run the command line. Exit status: 0 done, 1 a check failed, 2 wrong use, 3 the environment lacks something."""
    _prepare_streams()
    try:
        app = app_for_arguments(sys.argv[1:])
        gc.freeze()
        gc.enable()
        status = app(standalone_mode=False)
        sys.stdout.flush()
    except SystemExit as err:
        # Rich exits with 1 on a closed pipe; here 1 means that a check failed.
        sys.exit(0 if isinstance(err.__context__, BrokenPipeError) else err.code)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as err:
        status = _reported(err)
        if status is None:
            raise
    sys.exit(status)


def _prepare_streams() -> None:
    """Replace closed streams by the null device, and characters that a terminal's encoding lacks by a question mark."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - open until the end
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - open until the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.encoding.casefold().startswith("utf"):
            stream.reconfigure(errors="replace")


def _reported(err: Exception) -> int | None:
    """Report an error in one line and return the exit status; None for a defect, which needs a traceback."""
    status: int | None = None
    match err:
        case TyperException():
            status = _report_usage_error(err)
        case ConfigError():
            for problem in err.problems:
                sys.stderr.write(f"railwatch: {problem}\n")
            status = 2
        case EnvironmentLacksError():
            status = _report(str(err), 3)
        case RailwatchError():
            status = _report(str(err), 1)
        case BrokenPipeError():  # the reader of our output closed it
            _discard_output()
            status = 0
        case OSError():
            _discard_output()
            status = _report(f"{err.filename or 'standard output'}: {err.strerror}", 3)
        case Abort():
            status = 130
    return status


def _discard_output() -> None:
    """Send buffered output to the null device, so that the flush of the interpreter does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_usage_error(err: TyperException) -> int:
    """Report wrong use in one line and return the exit status; a group without a command has shown its help."""
    context = getattr(err, "ctx", None)
    message = " ".join(_usage_message(err).split())
    if not message or type(err).__name__ == "NoArgsIsHelpError":
        return 2
    return _report(message if context is None else f"{message} (see {context.command_path} --help)", 2)


def _usage_message(err: TyperException) -> str:
    """Return what was wrong: the option or argument, its value and what was expected, as far as they are known."""
    message = err.message.removesuffix(".")
    if not isinstance(err, typer.BadParameter):
        nearest = getattr(err, "possibilities", None)
        return f"{message}; perhaps {', '.join(sorted(nearest))}" if nearest else message
    param = err.param
    names = (*param.opts, *param.secondary_opts) if isinstance(param, TyperOption) else (getattr(param, "metavar", ""),)
    where = err.param_hint or "/".join(filter(None, names)) or getattr(param, "name", "")
    if isinstance(err.__cause__, ValidationError):
        (detail, *_) = err.__cause__.errors(include_url=False)
        if detail["type"] != "value_error":
            from telemetry.documents import problems_of  # noqa: PLC0415 -- loads YAML, for an error only

            (problem, *_) = problems_of(err.__cause__, where="", lines={})
            message = f"{problem.found}; expected {problem.expected}"
        else:
            message = str(detail["ctx"]["error"]).removesuffix(".")
    return f"{where}: {message or 'missing'}" if where else message


def _report(message: str, status: int) -> int:
    sys.stderr.write(f"railwatch: {message}\n")
    return status
