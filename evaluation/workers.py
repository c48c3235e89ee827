"""Runs on all cores: each in a process of its own kind, results in the order of the work."""

import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import TypeVar

Work = TypeVar("Work")
Result = TypeVar("Result")


def processes() -> int:
    """Return the number of processors available to this process."""
    return len(os.sched_getaffinity(0))


def each(
    do: Callable[[Work], Result], work: Sequence[Work], *, done: Callable[[], None], n_processes: int | None = None
) -> Iterator[Result]:
    """Yield the result of each piece of work, in order; `done` is called once for each.

    With one process, or one piece of work, everything happens here. What a worker raises is raised here. Ended early,
    by an error, an interrupt or a signal, it stops its workers and waits for none of them.
    """
    count = min(n_processes or processes(), len(work))
    if count <= 1:
        for one in work:
            yield do(one)
            done()
        return
    # A fresh interpreter each, which inherits neither threads nor a terminal from this process. Warnings of the
    # simulated parts are in its result and do not belong between the lines that show progress.
    pool = ProcessPoolExecutor(
        max_workers=count,
        mp_context=get_context("spawn"),
        initializer=logging.disable,
        initargs=(logging.WARNING,),
    )
    with pool, none_left_at_work():
        with _interrupt_held():
            # Not `pool.map`: closed early it cancels what is left, and the thread that then finds the workers stopped
            # prints a traceback for each cancelled piece.
            results = [pool.submit(do, one) for one in work]
        for result in results:
            yield result.result()
            done()


@contextmanager
def none_left_at_work() -> Iterator[None]:
    """Stop the workers started inside if anything but their results ends the block."""
    before = set(active_children())
    try:
        yield
    except BaseException:
        for child in set(active_children()) - before:
            child.terminate()
        raise


@contextmanager
def _interrupt_held() -> Iterator[None]:
    """Block Ctrl-C until the end, and for good in processes started inside, which this one stops itself.

    The terminal sends it to all of them, and each would print where it was at work.
    """
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
