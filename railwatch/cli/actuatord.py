"""``railwatch actuatord``: the privileged actuator, the one process that needs root."""

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
from agent.scheduling import freeze_loaded_objects
from config.actuatord import DEFAULT_PATH, ActuatordConfig, load_actuatord
from railwatch.cli.actuator_connection import privileged_actuator
from railwatch.cli.printing import pluralize, print_json
from railwatch.cli.run_folder import JsonFlag
from railwatch.wiring.gpu_driver import knobs_of
from simulator.driver.layout import STATE_VARIABLE
from telemetry.clock import SystemClock
from telemetry.errors import EnvironmentLacksError
from telemetry.record_journal import RecordJournalWriter
from telemetry.stop_signals import set_on_signals

# Id of this boot, random(4): settings of an earlier boot are gone.
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
RECORDS_NAME = "actuator.jsonl"


def actuatord(
    config_file: Annotated[Path, typer.Option("--config", help="Allowed knobs, ranges, users.")] = DEFAULT_PATH,
    check: Annotated[bool, typer.Option("--check", help="Check the file, print what it allows, and exit.")] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Print what the running actuator holds and refused.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Run the privileged actuator: it sets the GPU knobs that its own file allows, within its ranges.

    Clients are authenticated by the user id that the kernel reports. A cap that is not renewed moves to its safe
    setting and stays there. On SIGTERM the actuator releases everything; after a kill, the next start continues from
    its journal.
    """
    config, access = load_actuatord(config_file)
    if status:
        _print_status(config, as_json=as_json)
    elif check:
        _print_allowed(config, access, config_file, as_json=as_json)
    else:
        _serve(config, access)


def _serve(config: ActuatordConfig, access: Access) -> None:
    logging.basicConfig(
        level=os.environ.get("RAILWATCH_LOG_LEVEL", "INFO"), format="%(levelname)s %(name)s: %(message)s"
    )
    clock, stop = SystemClock(), threading.Event()
    set_on_signals(stop, (signal.SIGINT, signal.SIGTERM))
    with ExitStack() as kept:
        records = RecordJournalWriter(config.state_dir / RECORDS_NAME)
        kept.callback(records.close)

        def open_knobs() -> tuple[Knob, ...]:
            if STATE_VARIABLE not in os.environ:  # simulated GPUs have no other writer
                kept.callback(WriterLock().close)
            driver = NvmlDriver(clock)
            kept.callback(driver.close)
            knobs = knobs_of(driver)
            if not knobs:
                raise EnvironmentLacksError("no GPU with a clock, power limit or fan that NVML can set")
            return knobs

        freeze_loaded_objects()
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
            ready=lambda: logging.getLogger(__name__).info("listening on %s", config.socket),
        )


def _boot_id() -> str:
    """Return the id of this boot; within one boot, claims of a killed process are taken over."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError as err:
        raise EnvironmentLacksError(f"{_BOOT_ID}: {err.strerror}; expected the boot id of the kernel") from err


def _print_status(config: ActuatordConfig, *, as_json: bool) -> None:
    client = privileged_actuator(config.socket)
    state = client.status()
    client.close()
    if as_json:
        print_json(state)
        return
    refused = ", ".join(f"{count} {name}" for name, count in state["refused"].items())
    named = (("in_force", "action"), ("connections", "connection"), ("failures", "failure"))
    actions, connections, failures = (pluralize(state[key], one) for key, one in named)
    typer.echo(f"{actions} in force, {connections}, {failures}")
    typer.echo(f"refused: {refused}")
    if syncs := state.get("syncs"):  # an actuator of an earlier version counts none
        typer.echo(f"journal: {syncs['done']} disk syncs, {syncs['slow']} slow, {syncs['failed']} failed")
    if dropped := state.get("bars_dropped"):
        typer.echo(f"releases by operators: the oldest {dropped} dropped; their incidents may get actions again")


def _print_allowed(config: ActuatordConfig, access: Access, path: Path, *, as_json: bool) -> None:
    allowed = config.knobs.model_dump(exclude_none=True)
    if as_json:
        print_json({"file": str(path), "ok": True, "knobs": allowed, "uids": sorted(access.uids), "gid": access.gid})
        return
    typer.echo(f"{path}: no problems")
    who = [*config.users, *([] if config.group is None else [f"group {config.group}"])]
    typer.echo(f"clients allowed on {config.socket}: root{''.join(f', {name}' for name in who)}")
    for name, bounds in allowed.items():
        limits = ", ".join(f"{key} {value:g}" for key, value in bounds.items())
        typer.echo(f"allowed: {name}{f' within {limits}' if limits else ''}")
    if not allowed:
        typer.echo("allowed: nothing")
