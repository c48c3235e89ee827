"""Which updates of one sensor the polls missed: what the driver kept, less what the polls saw. Pure."""

from collections.abc import Iterable

from telemetry.clock import NS_PER_S

# A poll shows the newest sample; how old that may be where the machine, or the driver, was held up. heuristic.
MAX_AGE_NS = int(1.5 * NS_PER_S)
# A clock or a utilisation may be seen by a poll before the driver puts it into its buffer. heuristic: longer than the
# slowest sensor's period that was measured, 160 ms.
_LEAD_NS = int(0.2 * NS_PER_S)
# A sample is judged when every poll that could have seen it, and every sample that such a poll could have meant, is in.
SETTLE_NS = 2 * NS_PER_S
# How many polled updates tell whether polls and buffer show one sensor. own choices.
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
        """Take ``(time_ns, value)`` from the driver's buffer, ascending."""
        for time_ns, value in samples:
            if value != self._last:
                self._samples.append((time_ns, value))
                self._last = value

    def add_polled(self, polled: Iterable[tuple[int, int]]) -> None:
        """Take ``(time_ns, value)`` of the updates that polls saw, ascending; samples up to there are taken later."""
        self._polled += polled

    def settle(self, horizon_ns: int) -> list[tuple[int, int]]:
        """Return the updates up to the horizon that polls missed, and forget what lies before it."""
        self._pair(horizon_ns + SETTLE_NS - _LEAD_NS)
        count = 0
        while count < len(self._samples) and self._samples[count][0] <= horizon_ns:
            count += 1
        done, self._samples = self._samples[:count], self._samples[count:]
        missed = [sample for sample in done if sample[0] not in self._paired]
        self._paired -= {time_ns for time_ns, _ in done}
        return missed if self.agrees else []

    def _pair(self, until_ns: int) -> None:
        """Pass each polled update up to a time the sample that it showed: the newest of its value, else the next."""
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
