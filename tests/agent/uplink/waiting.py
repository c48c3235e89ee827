"""Waiting for what another thread or process brings about."""

import threading
from collections.abc import Callable

LIMIT_S = 15.0
STEP_S = 0.01


def until(condition: Callable[[], bool], what: str) -> None:
    """Return as soon as the condition holds; AssertionError where it does not in time."""
    pause = threading.Event()
    for _ in range(int(LIMIT_S / STEP_S)):
        if condition():
            return
        pause.wait(STEP_S)
    raise AssertionError(f"did not happen within {LIMIT_S:g} s: {what}")
