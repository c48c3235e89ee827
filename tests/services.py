"""Real services for integration tests: found on PATH, started on loopback, stopped by their process."""

import os
import shutil
import socket

import pytest


def require(program: str) -> str:
    """Give the path of a program; without it the test is skipped, or fails where CI=true."""
    path = shutil.which(program)
    if path is None:
        message = f"{program} is not installed on this machine"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return path


def free_port() -> int:
    """Give a TCP port of the loopback interface that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
