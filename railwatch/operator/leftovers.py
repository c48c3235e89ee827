"""What a run that ended left on the GPUs of this machine, taken back without starting another one."""

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


def left_in(state_dir: Path) -> bool:
    """Return whether the actuator's journal of a state folder may still hold a knob; one that cannot be read may."""
    try:
        return bool(_held(state_dir))
    except OSError:
        return True


def knobs_left(data_dir: Path) -> tuple[str, ...]:
    """Return which knobs the actuator's journal of a data folder still holds, and where it left them; it is only read."""
    try:
        return _held(state_dir_of(data_dir))
    except OSError:
        return ()


def state_dir_of(data_dir: Path) -> Path:
    """Return where the actuator of a node without a privileged one keeps its journal."""
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
            except (ValueError, KeyError, TypeError):  # torn by a crash, or whom a person keeps from a knob
                continue
            newest.pop(key, None)
            if held:
                newest[key] = f"{key[0]} of {key[1]} at {setting}"
    return tuple(newest.values())


def take_back(state_dir: Path, *, reason: str) -> tuple[Action, ...]:
    """Release every claim that a journal holds, as the next run would at its start.

    Raises
    ------
    EnvironmentLacksError
        There is no driver to do it through, or a process that may do it is at work.
    """
    clock = SystemClock()
    told: list[Action] = []
    with ExitStack() as kept:
        kept.callback(WriterLock().close)
        driver = NvmlDriver(clock)
        kept.callback(driver.close)
        knobs = knobs_of(driver)
        if not knobs:
            raise EnvironmentLacksError("no GPU here has a setting that can be turned; expected the one that was left")
        journal = KnobLog(state_dir, run_id=reason, forcer=DiskSync(clock))
        kept.callback(journal.close)
        KnobActuator(knobs, journal, clock, sink=told.append).recover(run_id=reason)
    return tuple(told)
