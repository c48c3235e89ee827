"""The root of the command line, and what every error becomes."""

import os
import sys

import typer
from click.exceptions import Abort

from railwatch.cli import actions, config, dashboards, explain, incidents, logs, rules, simulate
from railwatch.cli.doctor import doctor
from railwatch.cli.record import record
from railwatch.cli.replay import replay
from railwatch.cli.up import up
from telemetry.errors import ConfigError, EnvironmentLacksError, RailwatchError

app = typer.Typer(
    name="railwatch",
    no_args_is_help=True,
    add_completion=False,
    help="Watches the power, heat and bus of GPU nodes, says what is about to fail, and acts before it does.",
)
app.command(epilog="Example: railwatch up --simulate v100x4 --scenario psu-sag --for 60s")(up)
app.command(epilog="Example: railwatch doctor --measure 10s --json")(doctor)
app.command(epilog="Example: railwatch record --duration 60s --out incident.parquet")(record)
app.command(epilog="Example: railwatch replay incident.parquet --json")(replay)
for name, commands in (
    ("incidents", incidents.app),
    ("actions", actions.app),
    ("rules", rules.app),
    ("simulate", simulate.app),
    ("logs", logs.app),
    ("explain", explain.app),
    ("config", config.app),
    ("dashboards", dashboards.app),
):
    app.add_typer(commands, name=name)


def main() -> None:
    """Run the command line; exit status 0 done, 1 the answer is no, 2 wrong use, 3 the environment lacks something."""
    try:
        app(standalone_mode=True)
    except ConfigError as err:
        for problem in err.problems:
            sys.stderr.write(f"railwatch: {problem}\n")
        sys.exit(2)
    except EnvironmentLacksError as err:
        sys.stderr.write(f"railwatch: {err}\n")
        sys.exit(3)
    except RailwatchError as err:
        sys.stderr.write(f"railwatch: {err}\n")
        sys.exit(1)
    except BrokenPipeError:  # whoever read our output has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (Abort, KeyboardInterrupt):
        sys.exit(130)
