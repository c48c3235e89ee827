"""``railwatch notify``: test notification routes, and show what they sent and hold."""

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from agent.responding.notification.build import channel_for
from agent.responding.notification.ledger import FILE_NAME, Ledger, RouteState
from agent.responding.notification.message_text import trial_notice
from agent.responding.notification.route import Route
from config.loading import load_config
from config.models import Config
from railwatch.cli.printing import print_json, print_table
from railwatch.cli.run_folder import ConfigFile, DataDir, JsonFlag
from railwatch.run_context import responder_folder
from telemetry.clock import SystemClock
from telemetry.errors import ConfigError, EnvironmentLacksError, RailwatchError

app = typer.Typer(
    no_args_is_help=True,
    help="Test the notification routes, and show what they sent and hold.",
    epilog="Example: railwatch notify test --route oncall",
)


@app.command(name="test", epilog="Example: railwatch notify test --config /etc/railwatch.yaml --route oncall")
def try_out(
    route: Annotated[str | None, typer.Option("--route", help="Name of one route; all routes if omitted.")] = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Send a test message on each route, without the queue; exit status 1 if one is not accepted."""
    config = load_config(config_file, os.environ)
    where = "(defaults)" if config_file is None else str(config_file)
    settings = config.actuators.notification.settings()
    routes = [one for one in settings.routes if route in (None, one.name)]
    if not routes:
        names = ", ".join(one.name for one in settings.routes)
        found, expected = (f"no route {route!r}", f"one of {names}") if names else ("no route", "at least one route")
        raise ConfigError.at(where, found, expected, key="actuators.notification.routes")
    failed = [one for one in routes if not _delivers(one, config, as_json=as_json)]
    if failed:
        raise typer.Exit(1)


@app.command(epilog="Example: railwatch notify status --json")
def status(
    simulated: Annotated[bool, typer.Option("--simulated", help="Only messages of simulated nodes.")] = False,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """List the routes with messages sent, waiting and lost, and the last error; exit status 1 if one is failing.

    If a data folder served both a real and a simulated node, the one that sent last comes first and sets the status.
    """
    config = load_config(config_file, os.environ)
    if data_dir is not None:
        config = config.model_copy(update={"data_dir": data_dir.absolute()})
    queues = _queues(config, (True,) if simulated else (False, True))
    if not queues:
        raise EnvironmentLacksError(
            f"{config.data_dir}: no notification was ever queued here; expected the data folder of a run with routes"
        )
    newest: tuple[RouteState, ...] = ()
    for number, (is_simulated, folder) in enumerate(queues):
        ledger = Ledger(folder, read_only=True)
        states = ledger.states()
        ledger.close()
        newest = newest if number else states
        _show(states, simulated=is_simulated, as_json=as_json)
    if any(state.trouble for state in newest):
        raise typer.Exit(1)


def _queues(config: Config, kinds: Sequence[bool]) -> list[tuple[bool, Path]]:
    """Return the notification queues that exist, of a simulated node (True) and of a real one, newest first."""
    folders = [(kind, responder_folder(config, simulated=kind)) for kind in kinds]
    there = [(_written_ns(folder), kind, folder) for kind, folder in folders if (folder / FILE_NAME).exists()]
    return [(kind, folder) for _, kind, folder in sorted(there, reverse=True)]


def _written_ns(folder: Path) -> int:
    """Return when a queue was last written; SQLite writes to its log file first."""
    files = (folder / FILE_NAME, folder / f"{FILE_NAME}-wal")
    return max(file.stat().st_mtime_ns for file in files if file.exists())


def _delivers(route: Route, config: Config, *, as_json: bool) -> bool:
    """Send a test message on one route, print the result and return True if it was accepted."""
    clock = SystemClock()
    node = config.node.name or socket.gethostname()
    link = config.actuators.notification.page_url or ""
    trouble = ""
    try:
        channel_for(route, clock=clock).deliver([trial_notice(node=node, now_ns=clock.utc_ns(), link=link)])
    except RailwatchError as err:
        trouble = str(err)
    if as_json:
        print_json({"route": route.name, "kind": route.kind.value, "taken": not trouble, "trouble": trouble})
    else:
        typer.echo(trouble or f"{route.name}: accepted ({route.kind.value})")
    return not trouble


def _show(states: tuple[RouteState, ...], *, simulated: bool, as_json: bool) -> None:
    if as_json:
        for state in states:
            print_json(
                {
                    "route": state.route,
                    "sent": state.sent,
                    "waiting": state.waiting,
                    "lost": state.lost,
                    "trouble": state.trouble,
                    "simulated": simulated,
                }
            )
        return
    rows = [(one.route, str(one.sent), str(one.waiting), str(one.lost), one.trouble or "none") for one in states]
    print_table("simulated node" if simulated else "", ("route", "sent", "waiting", "lost", "trouble"), rows)
