"""``railwatch fleet``: the daemon that judges all nodes of a store."""

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
from config.models import Config, StoreKind
from fleet import loop
from fleet.building import Fleet, open_fleet
from fleet.outbox import Published
from railwatch import __version__
from railwatch.cli import fleet_acts, fleet_ca
from railwatch.cli.printing import describe, print_json
from railwatch.cli.run_folder import JsonFlag
from telemetry.clock import NS_PER_S, SystemClock, iso_utc
from telemetry.errors import ConfigError, EnvironmentLacksError, NotPermittedError, Problem, TransientError
from telemetry.records import to_json
from telemetry.uplink import sender

_MICROS = 1_000_000


def moment_ns(text: str) -> int:
    """Read a time with its offset from UTC from the command line."""
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
    data_dir: Annotated[Path | None, typer.Option(help="Folder for state, spool and records.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Judge what is due, and end.")] = False,
    since: Annotated[
        int | None, typer.Option(parser=moment_ns, metavar="TIME", help="Where to begin where nothing is known yet.")
    ] = None,
    until: Annotated[
        int | None, typer.Option(parser=moment_ns, metavar="TIME", help="End when this is judged.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Judge all nodes that write to one store: the same detectors, and what only shows across nodes.

    What it finds goes to the store beside what the nodes write. It goes on from where it was stopped or killed. It acts
    through agents where `fleet.act` lets it.
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
    logging.getLogger("apscheduler").setLevel(logging.ERROR)  # what it warns of is counted
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with ExitStack() as stack:
        if once:
            stack.enter_context(_store_told_at_the_end())
        running = open_fleet(
            config,
            SystemClock(),
            since_ns=since,
            until_ns=until,
            stopping=stop.is_set,
            on_published=_Teller(as_json).tell,
        )
        stack.callback(running.outbox.close)
        stack.callback(running.reader.close)
        stack.callback(running.close_acting)
        if once:
            _run_once(running)
        else:
            _run(running, stop)


def _run_once(running: Fleet) -> None:
    """Judge every window that is due and say how much that was; EnvironmentLacksError where the store is away."""
    before = -1
    while before < running.loop.until_ns:
        before = running.loop.until_ns
        running.loop.step()
    running.loop.save()
    if running.loop.trouble:
        raise EnvironmentLacksError(running.loop.trouble)
    if running.outbox.is_blocked:
        raise TransientError(
            "records of the last window cannot be kept on disk; they are judged again at the next start"
        )
    windows, until_ns = running.loop.figures.windows, running.loop.until_ns
    if not windows:
        _ask_store(running, until_ns)
    until = f"up to {iso_utc(until_ns)[:19]}Z" if windows else "nothing is due; --since says where to begin"
    sys.stderr.write(f"railwatch: judged {windows} windows, {len(running.loop.nodes)} nodes known, {until}\n")


def _ask_store(running: Fleet, until_ns: int) -> None:
    """Refuse a store that is away although no window is due: who asks once wants to hear of it."""
    try:
        running.reader.values_by_node(until_ns - NS_PER_S, until_ns)
    except (TransientError, NotPermittedError) as err:
        raise EnvironmentLacksError(str(err)) from err


@contextmanager
def _store_told_at_the_end() -> Iterator[None]:
    """Keep loop and sender from telling of a store that is away: the command ends with it, and says so itself."""

    def passes(record: logging.LogRecord) -> bool:
        if record.name == sender.__name__:
            return record.levelno >= logging.ERROR
        return record.levelno != logging.ERROR or not str(record.msg).startswith("the store does not answer")

    talks = [logging.getLogger(module.__name__) for module in (loop, sender)]
    for one in talks:
        one.addFilter(passes)
    try:
        yield
    finally:
        for one in talks:
            one.removeFilter(passes)


def _run(running: Fleet, stop: threading.Event) -> None:
    until_ns = running.loop.until_ns
    begins = f"goes on from {iso_utc(until_ns)[:19]}" if until_ns else "begins"
    logging.getLogger(__name__).info("railwatch %s: fleet loop, %s", __version__, begins)
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
        raise ConfigError([Problem(where=where, line=None, key="store.kind", found="got embedded", expected=expected)])


def _check_times(since: int | None, until: int | None, now_ns: int) -> None:
    if since is None:
        return
    found = f"got {iso_utc(since)[:19]}Z"
    if since > now_ns:
        raise ConfigError([Problem(where="--since", line=None, key="", found=found, expected="a time that has passed")])
    if until is not None and until <= since:
        raise ConfigError([Problem(where="--since", line=None, key="", found=found, expected="a time before --until")])


class _Teller:
    """Says what is found: JSON lines for programs, words for people."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._console = Console(highlight=False)

    def tell(self, records: tuple[Published, ...]) -> None:
        for record in records:
            if self._as_json:
                print_json(to_json(record))
            else:
                self._console.print(f"[dim]{iso_utc(record.time_ns)[:19]}[/]  {describe(record)}", soft_wrap=True)
