"""Choice of a collector's timetable, and the cost of reading it so far."""

import resource
from dataclasses import dataclass

from agent.collectors.port import Collector, PacedCollector
from agent.sampler.pacing.pacer import Pacer
from agent.sampler.schedule import Schedule, Timetable
from agent.sampler.settings import SamplerSettings


@dataclass(slots=True)
class ThreadTimes:
    """Time of one collector's thread; `reading_s` is its time inside reads, nearly all of it in driver calls."""

    reading_s: float = 0.0

    def cpu_and_reading_s(self) -> tuple[float, float]:
        """Return the CPU seconds of the calling thread, and the seconds inside reads."""
        used = resource.getrusage(resource.RUSAGE_THREAD)
        return used.ru_utime + used.ru_stime, self.reading_s


def aged_cells(collector: Collector) -> tuple[tuple[int, int], ...]:
    """Return the cells whose updates have a known age, each with the cell that holds the age."""
    if not isinstance(collector, PacedCollector):
        return ()
    entities, signals = collector.spec.shape
    column = collector.spec.signals.index(collector.pace_signal)
    age = collector.spec.signals.index(collector.age_signal)
    return tuple((row * signals + column, row * signals + age) for row in range(entities))


def timetable_of(collector: Collector, settings: SamplerSettings, times: ThreadTimes) -> tuple[Timetable, Pacer | None]:
    """Return the timetable of a collector; the second is the same object where it follows the sensors, else None."""
    if settings.paced is None or not isinstance(collector, PacedCollector) or collector.name in settings.own:
        fixed = Schedule(period_s=settings.pace_of(collector.name, collector.rate).period_s, start_s=0.0)
        return fixed, None
    entities, signals = collector.spec.shape
    column = collector.spec.signals.index(collector.pace_signal)
    load = collector.spec.signals.index(collector.load_signal)
    pacer = Pacer(
        tuple(row * signals + column for row in range(entities)),
        settings.paced,
        busy_cells=tuple(row * signals + load for row in range(entities)),
        spent=times.cpu_and_reading_s,
    )
    return pacer, pacer
