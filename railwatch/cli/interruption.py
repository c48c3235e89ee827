"""Ctrl-C of commands that have a setting of the hardware to restore first."""

import contextlib
import signal
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def held_back_interrupt() -> Iterator[Callable[[], None]]:
    """Hold Ctrl-C back, however often it is pressed; yield a function that raises KeyboardInterrupt once it was.

    Call that function where the work may stop: no request to the actuator is interrupted half-way, and no release of a
    clock. Main thread only.
    """
    pressed = list[int]()  # a handler takes no lock

    def raise_if_pressed() -> None:
        if pressed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield raise_if_pressed
    finally:
        signal.signal(signal.SIGINT, before)
