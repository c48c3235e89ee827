"""Connection of a command to the actuator of a run, and the error if it is gone."""

import fcntl
import os
from pathlib import Path

from agent.actuation.client import ActuatorClient
from config.loading import load_config
from railwatch.cli.run_folder import live_session
from railwatch.operator.leftovers import knobs_left
from railwatch.run_context import RunContext, run_dir_of
from telemetry.errors import EnvironmentLacksError, TransientError


def configured_actuator_socket(config_file: Path | None) -> Path | None:
    """Return the socket of the configured privileged actuator, None if there is none."""
    return load_config(config_file, os.environ).actions.socket


def privileged_actuator(socket: Path) -> ActuatorClient:
    """Return a client of the privileged actuator; EnvironmentLacksError if it is not running."""
    client = ActuatorClient(socket)
    if not _answers(client):
        raise EnvironmentLacksError(f"actuatord is not running at {socket}; its caps stay set until it is restarted")
    return client


def actuator_of_run(data_dir: Path, *, privileged: Path | None) -> tuple[ActuatorClient, RunContext | None]:
    """Return the actuator and the context of the run on a data folder, or the privileged actuator if none runs.

    Raises
    ------
    EnvironmentLacksError
        There is no actuator, or it no longer answers.
    """
    try:
        context = live_session(data_dir)
    except EnvironmentLacksError:
        if privileged is None:
            raise
        return privileged_actuator(privileged), None
    if context.privileged_socket is not None:
        return privileged_actuator(context.privileged_socket), context
    client = ActuatorClient(context.actuator_socket)
    if not _answers(client) and has_ended(data_dir):
        raise EnvironmentLacksError(f"{data_dir}: the run has ended; its knobs: {_left(data_dir, context)}")
    return client, context


def has_ended(data_dir: Path) -> bool:
    """Return True if no run uses a data folder: a run holds its lock, which a kill releases."""
    if not run_dir_of(data_dir).exists():  # it stopped normally
        return True
    try:
        with (data_dir / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except OSError:  # locked, or owned by another user
        return False
    return True


def _answers(client: ActuatorClient) -> bool:
    """Return True if a process listens on the socket, even if it is slow or refuses."""
    try:
        client.status()
    except TransientError as err:
        return not isinstance(err.__cause__, ConnectionRefusedError | FileNotFoundError)
    return True


def _left(data_dir: Path, context: RunContext) -> str:
    if context.simulated:
        return "none left, the simulated GPUs are gone"
    left = knobs_left(data_dir)
    return f"{', '.join(left)}; run railwatch actions revert-all to release them" if left else "all released"
