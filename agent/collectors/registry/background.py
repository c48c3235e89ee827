"""Builder of sources that may hang: each is built in a thread of its own, and failed ones are retried later."""

import logging
import math
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from agent.collectors.port import BuiltCollector, Collector, SourceState, missing
from telemetry.clock import Clock

logger = logging.getLogger(__name__)

Settings = TypeVar("Settings")
_POLL_S = 0.02


class SourceBuilder(Generic[Settings]):
    """Builds the sources of a tuple of factories; none of them can delay the others.

    A factory that raises, or does not return in time, is a failed source. Its thread keeps running: while it is stuck
    no second one is started, and its result is used at the next retry, however late, so that nothing is surveyed
    twice.
    """

    def __init__(
        self, factories: Sequence[Callable[[Settings], BuiltCollector]], settings: Settings, clock: Clock
    ) -> None:
        self._factories = tuple(factories)
        self._settings = settings
        self._clock = clock
        self._threads: dict[int, threading.Thread] = {}
        self._results: dict[int, BuiltCollector] = {}
        self._kept: dict[int, BuiltCollector] = {}
        self._build_times_s: dict[int, float] = {}
        self._dropped: set[int] = set()

    @property
    def built(self) -> tuple[BuiltCollector, ...]:
        """Every source in its present state, in the order of the factories."""
        return tuple(self._kept[number] for number in range(len(self._factories)))

    def build(self, within_s: float) -> tuple[BuiltCollector, ...]:
        """Build every source and return them in the order of the factories."""
        self._run(range(len(self._factories)), within_s)
        for number, factory in enumerate(self._factories):
            built = self._results.pop(number, None)
            self._kept[number] = _failed(factory, f"no response within {within_s:g} s") if built is None else built
        return self.built

    def retry(self, within_s: float, *, max_s: float = math.inf) -> bool:
        """Retry failed sources; return True if a source was built, or one measures other signals than before.

        A source that took longer than `max_s` is logged and not retried again: the caller restarts for a new source
        and waits no longer than `max_s` for it, so it would fail again.
        """
        failed = [number for number, built in self._kept.items() if built.status.state is SourceState.FAILED]
        failed = [number for number in failed if number not in self._dropped]
        self._run(failed, within_s)
        changed = False
        for number in failed:
            new = self._results.pop(number, None)
            if new is None or new.source is None:
                continue
            known = self._kept[number].source
            if self._build_times_s[number] > max_s:
                self._dropped.add(number)
                text = "source %s took %.0f s to build, more than %g s; not retrying"
                logger.warning(text, _name(self._factories[number]), self._build_times_s[number], max_s)
            elif known is None or _measures(known) != _measures(new.source):
                changed = True
                self._kept[number] = new
                continue
            new.source.close()
        return changed

    def _run(self, numbers: Sequence[int], within_s: float) -> None:
        for number in numbers:
            thread = self._threads.get(number)
            if (thread is None or not thread.is_alive()) and number not in self._results:
                name = f"build-{_name(self._factories[number])}"
                new = self._threads[number] = threading.Thread(
                    target=self._build_one, args=(number,), name=name, daemon=True
                )
                new.start()
        end_s = self._clock.monotonic_s() + within_s
        while any(self._threads[number].is_alive() for number in numbers if number not in self._results):
            now_s = self._clock.monotonic_s()
            if now_s >= end_s:
                return
            self._clock.sleep_until(min(end_s, now_s + _POLL_S))

    def _build_one(self, number: int) -> None:
        factory, began_s = self._factories[number], self._clock.monotonic_s()
        try:
            built = factory(self._settings)
        except Exception as err:
            logger.warning("cannot build source %s", _name(factory), exc_info=err)
            built = _failed(factory, f"{type(err).__name__}: {err}")
        self._build_times_s[number] = self._clock.monotonic_s() - began_s
        self._results[number] = built


def _measures(collector: Collector) -> tuple[object, ...]:
    return collector.spec.entities, collector.spec.signals


def _name(factory: Callable[..., BuiltCollector]) -> str:
    return getattr(factory, "__name__", type(factory).__name__).strip("_")


def _failed(factory: Callable[..., BuiltCollector], detail: str) -> BuiltCollector:
    return missing(_name(factory), detail, "retried every minute", state=SourceState.FAILED)
