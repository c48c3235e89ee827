"""Checks of the section of actuators outside the GPUs at load, with key and expected value."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from config.actuators import Actuators


def refused(**sections: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        Actuators.model_validate(sections)
    return str(caught.value)


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({"hooks": {"a": {"command": ["x"]}}}, "full path of a program"),
        ({"hooks": {"a": {"command": ["/bin/x\0y"]}}}, "without a NUL character"),
        ({"hooks": {"a": {"command": ["/bin/x"], "environment": {"A": "\0"}}}}, "without a NUL character"),
        ({"hooks": {"a": {"command": []}}}, "at least 1 item"),
        ({"hooks": {"A b": {"command": ["/x"]}}}, "pattern"),
        ({"hooks": {"a": {"command": ["/x"], "timeout": "1h"}}}, "600"),
        ({"checkpoints": {"a": {}}}, "exactly one of file, pid_file and url"),
        ({"checkpoints": {"a": {"file": "/x", "pid_file": "/y"}}}, "exactly one"),
        ({"checkpoints": {"a": {"pid_file": "/y", "signal": "KILL"}}}, "SIGUSR1"),
        ({"checkpoints": {"a": {"url": "ftp://x"}}}, "http"),
        ({"checkpoints": {"a": {"url": "http://me:secret@x"}}}, "without user and password"),
        ({"slurm": {"node": "gpu[0-3]"}}, "one node"),
        ({"slurm": {"node": "-x"}}, "one node"),
        ({"drain": ["pbs"]}, "slurm"),
        ({"hooks": {"a": {"command": ["/x"], "shell": True}}}, "Extra inputs"),
    ],
)
def test_what_cannot_be_meant_is_refused(sections: dict[str, Any], expected: str) -> None:
    assert expected in refused(**sections)


def test_what_is_meant_reaches_the_actuators_as_it_stands() -> None:
    made = Actuators.model_validate(
        {
            "drain": ["slurm"],
            "slurm": {"timeout": "5s", "conf": "/etc/slurm/slurm.conf"},
            "hooks": {"page": {"command": ["/bin/page", "--now"], "environment": {"TEAM": "power"}}},
            "checkpoints": {"train": {"pid_file": "/run/train.pid", "signal": "USR2", "confirm_file": "/ckpt/latest"}},
        }
    )
    settings = made.slurm.settings("gpu017.cluster.example")
    assert (settings.node, settings.conf, settings.timeout_s) == ("gpu017", "/etc/slurm/slurm.conf", 5.0)
    program = made.hooks["page"].program()
    assert (program.command, program.timeout_s, program.environment) == (
        ("/bin/page", "--now"),
        10.0,
        {"TEAM": "power"},
    )
    job = made.checkpoints["train"].settings()
    assert job.process is not None
    assert (job.process.signal_name, job.confirm_file) == ("SIGUSR2", Path("/ckpt/latest"))


def test_a_command_that_only_reads_the_configuration_loads_no_client_of_any_actuator() -> None:
    script = "import sys, config.loading; print({'urllib3', 'lightkube', 'httpx2', 'apprise'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
