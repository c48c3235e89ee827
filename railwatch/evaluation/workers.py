"""Runs on all cores: each in a process of its own kind, results in the order of the work."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

Work = TypeVar("Work")
Result = TypeVar("Result")


def processes() -> int:
    """Give how many processors there are for this process."""
    return len(os.sched_getaffinity(0))


def each(
    do: Callable[[Work], Result], work: Sequence[Work], *, done: Callable[[], None], n_processes: int | None = None
) -> Iterator[Result]:
    """Give the result of each piece of work, in order; `done` is called once for each.

    With one process, or one piece of work, everything happens here. What a worker raises is raised here.
    """
    count = min(n_processes or processes(), len(work))
    if count <= 1:
        for one in work:
            yield do(one)
            done()
        return
    # A fresh interpreter each: nothing of this process, neither threads nor a terminal, goes over.
    with ProcessPoolExecutor(max_workers=count, mp_context=get_context("spawn")) as pool:
        for result in pool.map(do, work):
            yield result
            done()
