"""Real services for integration tests: found on PATH, started on loopback, stopped by their process."""

import contextlib
import itertools
import os
import shutil
import socket

import pytest


def require(program: str) -> str:
    """Return the path of a program; without it the test is skipped, or fails where CI=true."""
    path = shutil.which(program)
    if path is None:
        message = f"{program} is not installed on this machine"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return path


# Below 32768, where Linux begins to give ports by itself (ip_local_port_range in the kernel's ip-sysctl): one that was
# looked up there may be taken before the server that it is for has started.
_FIRST_PORT, _PORTS = 12_000, 20_000
# Tests that run beside each other begin far apart, and none gives a port twice before it has given all.
_steps = itertools.count(os.getpid() * 997)


def free_port() -> int:
    """Return a TCP port of the loopback interface that is free, and that no other caller receives."""
    for step in itertools.islice(_steps, _PORTS):
        port = _FIRST_PORT + step % _PORTS
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")
