"""Stop of a process on signals, with no lock in the handler.

`threading.Event.set` takes a lock that its own thread cannot take twice. A handler runs in the main thread, between any
two of its instructions: within `wait` or `set` of the same event it would wait for itself, and Ctrl-C pressed twice, or
a signal to a whole process group, would leave a process that nothing but SIGKILL ends.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Iterable


def set_on_signals(stop: threading.Event, numbers: Iterable[signal.Signals]) -> None:
    """Set the event soon after one of these signals; main thread only."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def note(_number: int, _frame: object) -> None:
        with contextlib.suppress(BlockingIOError):  # then there are signals to read already
            os.write(writer, b".")

    def set_once_noted() -> None:
        os.read(reader, 1)
        stop.set()

    for number in numbers:
        signal.signal(number, note)
    threading.Thread(target=set_once_noted, name="stop-signals", daemon=True).start()
