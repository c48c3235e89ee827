"""Where a guard keeps what its detectors learnt, so that a restart does not begin to learn a fault as normal."""

import contextlib
import logging
import os
from pathlib import Path
from typing import Protocol

from telemetry.clock import Clock

logger = logging.getLogger(__name__)

# Own choice: packing takes tens of milliseconds, and no more than this is learnt anew where the process is killed.
KEEP_EVERY_S = 600.0


class Learner(Protocol):
    """Whoever learns: the pipeline."""

    @property
    def learnt(self) -> bytes:
        """What was learnt so far."""
        ...

    def take_learnt(self, blob: bytes) -> None:
        """Go on with what was learnt; ValueError where it does not fit, and nothing is changed."""
        ...


class LearntFile:
    """One file, written whole or not at all, now and then and at the end; one thread owns it."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._keep_at_s = clock.monotonic_s() + KEEP_EVERY_S

    def restore(self, learner: Learner) -> None:
        """Let it go on from the file; one that does not fit is put aside and said."""
        try:
            learner.take_learnt(self._path.read_bytes())
        except FileNotFoundError:
            return
        except Exception as err:  # noqa: BLE001 -- supervisor of what is kept: a file must not keep the guard from starting
            logger.warning("what was learnt before cannot be used, and is learnt anew: %s: %s", self._path, err)
            with contextlib.suppress(OSError):
                self._path.replace(self._path.with_suffix(".bad"))

    def keep(self, learner: Learner, *, now: bool = False) -> None:
        """Write it down, at most once in `KEEP_EVERY_S` unless it is asked for now."""
        now_s = self._clock.monotonic_s()
        if not now and now_s < self._keep_at_s:
            return
        self._keep_at_s = now_s + KEEP_EVERY_S
        fresh = self._path.with_suffix(".new")
        try:
            with fresh.open("wb") as file:
                file.write(learner.learnt)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._path)
        except OSError as err:
            logger.warning("what is learnt cannot be kept for a restart: %s: %s", fresh, err.strerror)
