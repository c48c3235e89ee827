"""How a command reaches the actuator of a run, and what it says where that is gone."""

import fcntl
import os
from pathlib import Path

from agent.actuation.client import ActuatorClient
from config.loading import load_config
from railwatch.cli.run_folder import live_session
from railwatch.operator.leftovers import knobs_left
from railwatch.session import Session, run_dir_of
from telemetry.errors import EnvironmentLacksError, TransientError


def configured_actuator_socket(config_file: Path | None) -> Path | None:
    """Return the socket of the privileged actuator of a configuration, None where there is none."""
    return load_config(config_file, os.environ).actions.socket


def privileged_actuator(socket: Path) -> ActuatorClient:
    """Return the privileged actuator; EnvironmentLacksError where it does not run."""
    client = ActuatorClient(socket)
    if not _answers(client):
        raise EnvironmentLacksError(f"actuatord does not run at {socket}; its caps stand until it is started again")
    return client


def actuator_of_run(data_dir: Path, *, privileged: Path | None) -> tuple[ActuatorClient, Session | None]:
    """Return the actuator of the run on a data folder, with that run, or the privileged one where none runs.

    Raises
    ------
    EnvironmentLacksError
        There is none, or nobody answers there any more.
    """
    try:
        session = live_session(data_dir)
    except EnvironmentLacksError:
        if privileged is None:
            raise
        return privileged_actuator(privileged), None
    if session.privileged_socket is not None:
        return privileged_actuator(session.privileged_socket), session
    client = ActuatorClient(session.actuator_socket)
    if not _answers(client) and has_ended(data_dir):
        raise EnvironmentLacksError(f"{data_dir}: that run ended; its knobs: {_left(data_dir, session)}")
    return client, session


def has_ended(data_dir: Path) -> bool:
    """Return whether nobody runs on a data folder: a run holds its lock, and a kill lets go of it."""
    if not run_dir_of(data_dir).exists():  # it ended by itself
        return True
    try:
        with (data_dir / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except OSError:  # it is held, or it belongs to somebody else
        return False
    return True


def _answers(client: ActuatorClient) -> bool:
    """Return whether somebody listens there; one who is slow or refuses does."""
    try:
        client.status()
    except TransientError as err:
        return not isinstance(err.__cause__, ConnectionRefusedError | FileNotFoundError)
    return True


def _left(data_dir: Path, session: Session) -> str:
    if session.simulated:
        return "those of its simulated GPUs, gone with them"
    left = knobs_left(data_dir)
    return f"{', '.join(left)}; railwatch actions revert-all gives them back" if left else "all were given back"
