"""Updates of one sensor that polls missed: the driver's samples without those that polls saw. Pure."""

from collections.abc import Iterable

from telemetry.clock import NS_PER_S

# heuristic: age of the newest sample that a poll may show, where the machine or the driver was delayed.
MAX_AGE_NS = int(1.5 * NS_PER_S)
# heuristic: a poll may show a clock or a utilisation before the driver adds it to its buffer; longer than the slowest
# period that was measured, 160 ms.
_LEAD_NS = int(0.2 * NS_PER_S)
# A sample is settled when every poll that could show it, and every sample that such a poll could match, is there.
SETTLE_NS = 2 * NS_PER_S
# heuristic: polled updates that are enough to see whether polls and buffer show one sensor.
_MIN_SEEN = 10
_REMEMBERED = 200
_AGREES = 0.5


class MissedUpdates:
    """Pairs the updates that polls saw with the driver's samples, both as integers; what has no pair was missed.

    A sample that repeats the one before is no update. Nothing counts as missed until the polls were seen to agree
    with the buffer, for the two may be different sensors under one name: an average and an instant.

    Attributes
    ----------
    agrees
        None while too little was seen.
    """

    def __init__(self) -> None:
        self.agrees: bool | None = None
        self._last: int | None = None
        self._samples: list[tuple[int, int]] = []
        self._paired: set[int] = set()
        self._polled: list[tuple[int, int]] = []
        self._seen = self._found = 0

    def add_samples(self, samples: Iterable[tuple[int, int]]) -> None:
        """Add ``(time_ns, value)`` from the driver's buffer, ascending."""
        for time_ns, value in samples:
            if value != self._last:
                self._samples.append((time_ns, value))
                self._last = value

    def add_polled(self, polled: Iterable[tuple[int, int]]) -> None:
        """Add ``(time_ns, value)`` of the updates that polls saw, ascending; samples up to there are added later."""
        self._polled += polled

    def settle(self, horizon_ns: int) -> list[tuple[int, int]]:
        """Return the updates up to the horizon that polls missed, and discard all samples before it."""
        self._pair(horizon_ns + SETTLE_NS - _LEAD_NS)
        count = 0
        while count < len(self._samples) and self._samples[count][0] <= horizon_ns:
            count += 1
        done, self._samples = self._samples[:count], self._samples[count:]
        missed = [sample for sample in done if sample[0] not in self._paired]
        self._paired -= {time_ns for time_ns, _ in done}
        return missed if self.agrees else []

    def _pair(self, until_ns: int) -> None:
        """Match each polled update up to a time with its sample: the newest of its value, else the next."""
        count = sum(polled_ns <= until_ns for polled_ns, _ in self._polled)
        ready, self._polled = self._polled[:count], self._polled[count:]
        by_value: dict[int, list[int]] = {}
        for time_ns, value in self._samples:
            if time_ns not in self._paired:
                by_value.setdefault(value, []).append(time_ns)
        for polled_ns, value in ready:
            times_ns = by_value.get(value, [])
            before = [at for at in times_ns if polled_ns - MAX_AGE_NS <= at <= polled_ns]
            found = before[-1:] or [at for at in times_ns if polled_ns < at <= polled_ns + _LEAD_NS][:1]
            self._seen += 1
            if found:
                self._found += 1
                self._paired.add(found[0])
                times_ns.remove(found[0])
        if self._seen >= _MIN_SEEN:
            self.agrees = self._found >= _AGREES * self._seen
        if self._seen > _REMEMBERED:
            self._seen, self._found = self._seen // 2, self._found // 2
