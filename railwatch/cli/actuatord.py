"""``railwatch actuatord``: the one process that needs root."""

import logging
import os
import signal
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from agent.actuation.access import Access
from agent.actuation.server import serve_actuator
from agent.actuation.writer_lock import WriterLock
from agent.driver.nvml import NvmlDriver
from agent.driver.port import Knob
from agent.scheduling import keep_what_is_loaded
from config.actuatord import DEFAULT_PATH, ActuatordConfig, load_actuatord
from railwatch.cli.actuator_connection import privileged_actuator
from railwatch.cli.printing import pluralize, print_json
from railwatch.cli.run_folder import JsonFlag
from railwatch.wiring.gpu_driver import knobs_of
from simulator.driver.layout import STATE_VARIABLE
from telemetry.clock import SystemClock
from telemetry.errors import EnvironmentLacksError
from telemetry.record_journal import RecordJournalWriter

# The name of this boot, random(4): what was set before it is gone with it.
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
RECORDS_NAME = "actuator.jsonl"


def actuatord(
    config_file: Annotated[Path, typer.Option("--config", help="What may be done, and who may ask.")] = DEFAULT_PATH,
    check: Annotated[
        bool, typer.Option("--check", help="Check the configuration, say what it allows, and end.")
    ] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Ask the one that runs what it holds and what it refused.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Turn GPU knobs for an agent without privileges: the ones, within the ranges, that a file of its own allows.

    Whoever asks is checked by the kernel's word. A cap that nobody renews goes to its safe setting and stays. Told to
    stop, it gives everything back; killed, the next start goes on from its journal.
    """
    config, access = load_actuatord(config_file)
    if status:
        _tell_status(config, as_json=as_json)
    elif check:
        _tell_allowed(config, access, config_file, as_json=as_json)
    else:
        _serve(config, access)


def _serve(config: ActuatordConfig, access: Access) -> None:
    logging.basicConfig(
        level=os.environ.get("RAILWATCH_LOG_LEVEL", "INFO"), format="%(levelname)s %(name)s: %(message)s"
    )
    clock, stop = SystemClock(), threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with ExitStack() as kept:
        records = RecordJournalWriter(config.state_dir / RECORDS_NAME)
        kept.callback(records.close)

        def open_knobs() -> tuple[Knob, ...]:
            if STATE_VARIABLE not in os.environ:  # simulated GPUs are nobody else's
                kept.callback(WriterLock().close)
            driver = NvmlDriver(clock)
            kept.callback(driver.close)
            knobs = knobs_of(driver)
            if not knobs:
                raise EnvironmentLacksError(
                    "no GPU here has a setting that can be turned; expected one that NVML shows"
                )
            return knobs

        keep_what_is_loaded()
        serve_actuator(
            open_knobs,
            config.socket,
            config.state_dir,
            records.append,
            clock,
            settings=config.settings(),
            run_id=_boot_id(),
            stop=stop,
            access=access,
            ready=lambda: logging.getLogger(__name__).info("answering at %s", config.socket),
        )


def _boot_id() -> str:
    """Return what tells this boot from others: within one, claims of a process that was killed are taken over."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError as err:
        raise EnvironmentLacksError(f"{_BOOT_ID}: {err.strerror}; expected the kernel's name of this boot") from err


def _tell_status(config: ActuatordConfig, *, as_json: bool) -> None:
    client = privileged_actuator(config.socket)
    said = client.status()
    client.close()
    if as_json:
        print_json(said)
        return
    refused = ", ".join(f"{count} {name}" for name, count in said["refused"].items())
    named = (("in_force", "action"), ("connections", "connection"), ("failures", "failure"))
    actions, connections, failures = (pluralize(said[key], one) for key, one in named)
    typer.echo(f"{actions} in force, {connections}, {failures}")
    typer.echo(f"refused: {refused}")
    if syncs := said.get("syncs"):  # one that was started before it was brought up to date counts none
        typer.echo(
            f"journal: forced to the disk {syncs['done']} times, {syncs['slow']} slowly; {syncs['failed']} failed"
        )
    if dropped := said.get("bars_dropped"):
        typer.echo(f"taken back by people: {dropped} forgotten, the oldest; their incidents may be acted on again")


def _tell_allowed(config: ActuatordConfig, access: Access, path: Path, *, as_json: bool) -> None:
    allowed = config.knobs.model_dump(exclude_none=True)
    if as_json:
        print_json({"file": str(path), "ok": True, "knobs": allowed, "uids": sorted(access.uids), "gid": access.gid})
        return
    typer.echo(f"{path}: no problems")
    who = [*config.users, *([] if config.group is None else [f"group {config.group}"])]
    typer.echo(f"may ask at {config.socket}: root{''.join(f', {name}' for name in who)}")
    for name, bounds in allowed.items():
        words = ", ".join(f"{key} {value:g}" for key, value in bounds.items())
        typer.echo(f"may turn: {name}{f' within {words}' if words else ''}")
    if not allowed:
        typer.echo("may turn nothing")
