"""A signal stops a process, wherever its main thread is at that moment."""

import subprocess
import sys

import pytest

WITHIN_S = 30
SCRIPT = """\
import os, signal, sys, threading
from telemetry.stop_signals import set_on_signals
stop = threading.Event()
set_on_signals(stop, (signal.SIGINT, signal.SIGTERM))
{body}
"""
# The lock of the event is held as it is within `wait` and within `set`.
WITHIN_ITS_LOCK = """\
with stop._cond:
    os.kill(os.getpid(), signal.SIGINT)
stop.wait()
"""
MANY = """\
for number in (signal.SIGINT, signal.SIGTERM) * 50_000:
    os.kill(os.getpid(), number)
stop.wait()
"""
WAITING = """\
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
stop.wait()
"""


@pytest.mark.parametrize("body", [WITHIN_ITS_LOCK, MANY, WAITING], ids=["within its lock", "many", "waiting"])
def test_the_event_is_set_and_the_process_ends(body: str) -> None:
    script = SCRIPT.format(body=body)
    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=WITHIN_S, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_signal_of_another_handler_sets_nothing() -> None:
    body = (
        "signal.signal(signal.SIGINT, lambda *_: None)\nos.kill(os.getpid(), signal.SIGINT)\nsys.exit(stop.wait(0.3))"
    )
    script = SCRIPT.format(body=body)
    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=WITHIN_S, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
