"""Settings that an earlier run left on the GPUs of this machine, and their release without another run."""

import json
from contextlib import ExitStack
from pathlib import Path

from agent.actuation.actuator import KnobActuator
from agent.actuation.disk_sync import DiskSync
from agent.actuation.knob_log import EARLIER_NAME, FILE_NAME, KnobLog
from agent.actuation.writer_lock import WriterLock
from agent.driver.nvml import NvmlDriver
from railwatch.wiring.gpu_driver import knobs_of
from telemetry.clock import SystemClock
from telemetry.errors import EnvironmentLacksError
from telemetry.records import Action


def has_leftovers(state_dir: Path) -> bool:
    """Return True if the knob log of a state folder holds a knob, or cannot be read."""
    try:
        return bool(_held(state_dir))
    except OSError:
        return True


def knobs_left(data_dir: Path) -> tuple[str, ...]:
    """Return the knobs and settings that the knob log of a data folder still holds; nothing is written."""
    try:
        return _held(state_dir_of(data_dir))
    except OSError:
        return ()


def state_dir_of(data_dir: Path) -> Path:
    """Return the folder of the knob log of a node without a privileged actuator."""
    return data_dir / "actuator"


def _held(state_dir: Path) -> tuple[str, ...]:
    newest: dict[tuple[str, str], str] = {}
    for name in (EARLIER_NAME, FILE_NAME):
        try:
            lines = (state_dir / name).read_bytes().splitlines()
        except (FileNotFoundError, NotADirectoryError):
            continue
        for line in lines:
            try:
                hold = json.loads(line)
                key = (hold["knob"], hold["entity_id"])
                held = bool(hold["claims"]) or hold["owed"] or not hold["settled"]
                setting = "unset" if hold["wanted"] is None else f"{hold['wanted']:g}"
            except (ValueError, KeyError, TypeError):  # torn by a crash, or a bar by an operator
                continue
            newest.pop(key, None)
            if held:
                newest[key] = f"{key[0]} of {key[1]} at {setting}"
    return tuple(newest.values())


def release_leftovers(state_dir: Path, *, reason: str) -> tuple[Action, ...]:
    """Release every claim in a knob log, as the next run would at its start.

    Raises
    ------
    EnvironmentLacksError
        There is no driver, or an actuator process is running.
    """
    clock = SystemClock()
    actions: list[Action] = []
    with ExitStack() as kept:
        kept.callback(WriterLock().close)
        driver = NvmlDriver(clock)
        kept.callback(driver.close)
        knobs = knobs_of(driver)
        if not knobs:
            raise EnvironmentLacksError("no GPU on this machine has a setting to release")
        journal = KnobLog(state_dir, run_id=reason, forcer=DiskSync(clock))
        kept.callback(journal.close)
        KnobActuator(knobs, journal, clock, sink=actions.append).recover(run_id=reason)
    return tuple(actions)
