"""Runs one program on a served node."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from simulator.served.description import Served
from simulator.served.server import PlantServer

_PATIENCE_S = 5.0  # assumption: what ends at all on SIGTERM does so by then
_NOT_STARTED = 127  # what a shell answers where there is no such program


def run_program(command: Sequence[str], server: PlantServer, served: Served, has_ended: Callable[[], bool]) -> int:
    """Run a program while the node is served, and give its exit status: 128 and the signal where one ended it."""
    variables = _variables(served, os.environ)
    # Ctrl-C reaches the command by itself, since it stands in front; it decides what that means.
    signal.signal(signal.SIGINT, lambda *_: None)
    try:
        process = subprocess.Popen(list(command), env=os.environ | variables | {"PATH": _path(os.environ)})
    except OSError as err:
        sys.stderr.write(f"railwatch: {command[0]}: {err.strerror}\n")
        return _NOT_STARTED
    try:
        server.run(lambda: process.poll() is not None or has_ended())
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            status = process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
    return 128 - status if status < 0 else status


def _path(environ: Mapping[str, str]) -> str:
    """Return where programs are looked for; those beside this Python come last, so that nvitop needs no activation."""
    return os.pathsep.join((environ.get("PATH", os.defpath), str(Path(sys.executable).parent)))


def _variables(served: Served, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a program on the node; what the library path already holds stays behind ours."""
    variables = served.environment | served.sources
    before = environ.get("LD_LIBRARY_PATH")
    if before and "LD_LIBRARY_PATH" in variables:
        variables["LD_LIBRARY_PATH"] += f":{before}"
    return variables
