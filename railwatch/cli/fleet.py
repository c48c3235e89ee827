"""``railwatch fleet``: daemon that judges all nodes of a store."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from config.loading import load_config
from config.models import Config
from config.store import StoreKind
from fleet import loop
from fleet.building import FleetParts, open_fleet
from fleet.outbox import Published
from railwatch import __version__
from railwatch.cli import fleet_acts, fleet_ca
from railwatch.cli.printing import describe, print_json
from railwatch.cli.run_folder import JsonFlag
from telemetry.clock import NS_PER_S, SystemClock, iso_utc
from telemetry.errors import ConfigError, EnvironmentLacksError, NotPermittedError, TransientError
from telemetry.record_json import to_json
from telemetry.stop_signals import set_on_signals
from telemetry.uplink import sender

_MICROS = 1_000_000


def moment_ns(text: str) -> int:
    """Parse a time with UTC offset from the command line."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as err:
        raise typer.BadParameter(f"got {text!r}; expected a time such as 2026-03-01T18:00:00Z") from err
    if found.tzinfo is None:
        raise typer.BadParameter(f"got {text!r}; expected its offset from UTC, as in 2026-03-01T18:00:00Z")
    return round(found.timestamp() * _MICROS) * (NS_PER_S // _MICROS)


app = typer.Typer(
    invoke_without_command=True,
    epilog="Example: railwatch fleet --config /etc/railwatch/fleet.yaml",
)
app.add_typer(fleet_ca.app, name="ca")
for _name, _command, _example in (
    ("status", fleet_acts.status, "railwatch fleet status --config /etc/railwatch/fleet.yaml --ask"),
    ("reset-breaker", fleet_acts.reset_breaker, "railwatch fleet reset-breaker --reason 'PDU A is back'"),
    ("approve", fleet_acts.approve, "railwatch fleet approve feed-sag-drain:i-7f2a7a248c:1 --reason 'go on'"),
    ("reject", fleet_acts.reject, "railwatch fleet reject feed-sag-drain:i-7f2a7a248c:1 --reason 'not now'"),
    ("rehearse", fleet_acts.rehearse, "railwatch fleet rehearse pdu-sag --nodes 1000 --json"),
):
    app.command(_name, epilog=f"Example: {_example}")(_command)


@app.callback()
def fleet(
    context: typer.Context,
    config_file: Annotated[Path | None, typer.Option("--config", help="Configuration file.")] = None,
    data_dir: Annotated[Path | None, typer.Option(readable=False, help="Folder for state, spool and records.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Judge the windows that are due, then exit.")] = False,
    since: Annotated[
        int | None,
        typer.Option(parser=moment_ns, metavar="TIME", help="Start of the first window, for a folder without state."),
    ] = None,
    until: Annotated[
        int | None, typer.Option(parser=moment_ns, metavar="TIME", help="Exit once windows up to this time are judged.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Judge all nodes that write to one store, with the detectors of a node and those that compare nodes.

    Findings go to the same store. A restart continues where it was stopped or killed. It acts through agents if
    `fleet.act` is configured.
    """
    if context.invoked_subcommand is not None:
        return
    config = load_config(config_file, os.environ)
    if data_dir is not None:
        config = config.model_copy(update={"data_dir": data_dir.absolute()})
    _check_store(config, config_file)
    _check_times(since, until, SystemClock().utc_ns())
    logging.basicConfig(
        level=os.environ.get("RAILWATCH_LOG_LEVEL", "INFO"), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("apscheduler").setLevel(logging.ERROR)  # its warnings are counted
    stop = threading.Event()
    set_on_signals(stop, (signal.SIGINT, signal.SIGTERM))
    with ExitStack() as stack:
        if once:
            stack.enter_context(_store_error_at_the_end())
        running = open_fleet(
            config,
            SystemClock(),
            since_ns=since,
            until_ns=until,
            stopping=stop.is_set,
            on_published=Printer(as_json).show,
        )
        stack.callback(running.outbox.close)
        stack.callback(running.reader.close)
        stack.callback(running.close_acting)
        if once:
            _run_once(running)
        else:
            _run(running, stop)


def _run_once(running: FleetParts) -> None:
    """Judge every window that is due and print the number; EnvironmentLacksError where the store is unreachable."""
    before = -1
    while before < running.loop.until_ns:
        before = running.loop.until_ns
        running.loop.step()
    running.loop.save()
    if running.loop.trouble:
        raise EnvironmentLacksError(running.loop.trouble)
    if running.outbox.is_blocked:
        raise TransientError("cannot save records of the last window; it is judged again at the next start")
    windows, until_ns = running.loop.metrics.windows, running.loop.until_ns
    if not windows:
        _check_store_answers(running, until_ns)
    until = f"up to {iso_utc(until_ns)[:19]}Z" if windows else "no window is due; set the start with --since"
    sys.stderr.write(f"railwatch: judged {windows} windows, {len(running.loop.nodes)} nodes known, {until}\n")


def _check_store_answers(running: FleetParts, until_ns: int) -> None:
    """Query the store although no window is due; EnvironmentLacksError where it is unreachable."""
    try:
        running.reader.values_by_node(until_ns - NS_PER_S, until_ns)
    except (TransientError, NotPermittedError) as err:
        raise EnvironmentLacksError(str(err)) from err


@contextmanager
def _store_error_at_the_end() -> Iterator[None]:
    """Suppress log lines of an unreachable store: the command ends with that error itself."""

    def passes(record: logging.LogRecord) -> bool:
        if record.name == sender.__name__:
            return record.levelno >= logging.ERROR
        return record.levelno != logging.ERROR or record.msg != loop.STORE_UNREACHABLE

    loggers = [logging.getLogger(module.__name__) for module in (loop, sender)]
    for one in loggers:
        one.addFilter(passes)
    try:
        yield
    finally:
        for one in loggers:
            one.removeFilter(passes)


def _run(running: FleetParts, stop: threading.Event) -> None:
    until_ns = running.loop.until_ns
    begins = f"continues from {iso_utc(until_ns)[:19]}" if until_ns else "starts"
    logging.getLogger(__name__).info("railwatch %s: fleet loop %s", __version__, begins)
    running.daemon.start()
    try:
        while not stop.wait(0.1) and not running.loop.is_done:
            pass
    finally:
        running.daemon.stop()


def _check_store(config: Config, path: Path | None) -> None:
    if config.store.kind is StoreKind.EMBEDDED:
        where = "(defaults)" if path is None else str(path)
        expected = "influxdb1 or influxdb2, the server that the nodes write to"
        raise ConfigError.at(where, "got embedded", expected, key="store.kind")


def _check_times(since: int | None, until: int | None, now_ns: int) -> None:
    if since is None:
        return
    found = f"got {iso_utc(since)[:19]}Z"
    if since > now_ns:
        raise ConfigError.at("--since", found, "a time that has passed")
    if until is not None and until <= since:
        raise ConfigError.at("--since", found, "a time before --until")


class Printer:
    """Prints findings and incidents, as JSON lines or as text."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._console = Console(highlight=False)

    def show(self, records: tuple[Published, ...]) -> None:
        """Print the records of one window."""
        for record in records:
            if self._as_json:
                print_json(to_json(record))
            else:
                self._console.print(f"[dim]{iso_utc(record.time_ns)[:19]}[/]  {describe(record)}", soft_wrap=True)
