"""Entry of every process of a node: reports when it is ready, stops on request, never outlives its supervisor.

The protocol with the supervisor is one line of JSON on standard output, ``{"ready": {...}}`` or
``{"failed": "why"}``; after that standard output stays silent. SIGTERM requests a clean stop, and so does the end of
standard input, which the supervisor holds open for as long as it lives.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from railwatch.run_context import RunContext
from telemetry.errors import ConfigError, EnvironmentLacksError
from telemetry.json_text import json_bytes
from telemetry.stop_signals import set_on_signals

Ready = Callable[[dict[str, Any]], None]
Main = Callable[[RunContext, threading.Event, Ready], None]


def run_child(main: Main) -> None:
    """Run one process of the node whose run folder is the first argument; does not return."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(log_lines())
    logging.basicConfig(level=os.environ.get("RAILWATCH_LOG_LEVEL", "WARNING"), handlers=[handler], force=True)
    stop = threading.Event()
    set_on_signals(stop, (signal.SIGTERM,))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the supervisor requests the stop
    threading.Thread(target=_stop_when_orphaned, args=(stop,), name="orphan-watch", daemon=True).start()
    try:
        main(RunContext.load(Path(sys.argv[1])), stop, _send_ready)
    except (EnvironmentLacksError, ConfigError) as err:
        _send({"failed": str(err)})
        sys.exit(3)
    sys.exit(0)


def log_lines() -> logging.Formatter:
    """Return the format of log lines: time in UTC, level, message, as ``railwatch up`` prints its own lines."""
    lines = logging.Formatter("%(asctime)s  %(levelname)s  %(message)s", datefmt="%H:%M:%S")
    lines.converter = time.gmtime
    return lines


def leave(status: int) -> NoReturn:
    """End this process although threads of it are stuck in the driver.

    A thread that is stuck in the kernel keeps its process from ending; the end of standard output makes the supervisor
    not wait for that.
    """
    logging.shutdown()
    os.close(1)
    os._exit(status)


def _stop_when_orphaned(stop: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    stop.set()


def _send_ready(facts: dict[str, Any]) -> None:
    _send({"ready": facts})


def _send(line: dict[str, Any]) -> None:
    os.write(1, json_bytes(line) + b"\n")
