"""The driver's samples without those that polls saw."""

from hypothesis import given
from hypothesis import strategies as st

from agent.collectors.gpu.missed_updates import SETTLE_NS, MissedUpdates

MS = 1_000_000
FAR_NS = 10**15


def warm(missed: MissedUpdates, *, until_ns: int = 0, step_ns: int = 20 * MS, count: int = 60) -> None:
    """Add matching polls and samples before a time."""
    times = [until_ns - step_ns * (count - n) for n in range(count)]
    missed.add_samples((at, 1000 + n) for n, at in enumerate(times))
    missed.add_polled((at + 3 * MS, 1000 + n) for n, at in enumerate(times))


def test_an_update_that_no_poll_saw_is_returned_once() -> None:
    missed = MissedUpdates()
    warm(missed)
    missed.add_samples([(0, 1), (20 * MS, 2), (40 * MS, 3)])
    missed.add_polled([(5 * MS, 1), (45 * MS, 3)])
    assert missed.settle(100 * MS) == [(20 * MS, 2)]
    assert missed.settle(FAR_NS) == []


def test_a_sample_that_repeats_the_one_before_is_no_update() -> None:
    missed = MissedUpdates()
    warm(missed)
    missed.add_samples([(0, 1), (20 * MS, 1), (40 * MS, 1)])
    missed.add_polled([(5 * MS, 1)])
    assert missed.settle(FAR_NS) == []


def test_a_value_that_comes_back_after_a_missed_one_is_missed_too() -> None:
    missed = MissedUpdates()
    warm(missed)
    missed.add_samples([(0, 1), (20 * MS, 2), (40 * MS, 1)])
    missed.add_polled([(5 * MS, 1)])  # the next poll, after 40 ms, saw the same value again
    assert missed.settle(FAR_NS) == [(20 * MS, 2), (40 * MS, 1)]


def test_a_poll_counts_for_the_newest_sample_of_its_value() -> None:
    missed = MissedUpdates()
    warm(missed)
    missed.add_samples([(0, 7), (20 * MS, 8), (40 * MS, 7)])
    missed.add_polled([(25 * MS, 8), (45 * MS, 7)])
    assert missed.settle(FAR_NS) == [(0, 7)]


def test_a_clock_that_a_poll_saw_before_the_driver_noted_it_is_not_missed() -> None:
    missed = MissedUpdates()
    warm(missed)
    missed.add_samples([(0, 1530), (160 * MS, 1380)])
    missed.add_polled([(5 * MS, 1530), (20 * MS, 1380)])
    assert missed.settle(FAR_NS) == []


def test_nothing_is_missed_before_polls_and_buffer_agree_nor_where_they_are_two_sensors() -> None:
    missed = MissedUpdates()
    missed.add_samples((20 * MS * n, n) for n in range(1, 100))
    assert missed.settle(FAR_NS) == []
    assert missed.agrees is None
    missed.add_samples((FAR_NS + 20 * MS * n, n) for n in range(1, 100))
    missed.add_polled((FAR_NS + 20 * MS * n, 5000 + n) for n in range(1, 100))
    assert missed.settle(FAR_NS + SETTLE_NS) == []
    assert missed.agrees is False


@given(
    values=st.lists(st.integers(0, 5), min_size=30, max_size=120),
    dropped=st.sets(st.integers(0, 119), max_size=20),
    cuts=st.lists(st.integers(0, 120), max_size=4),
)
def test_polls_and_fill_together_are_every_update_once(values: list[int], dropped: set[int], cuts: list[int]) -> None:
    """However the samples arrive in pieces; a poll sees a change only where the value differs from what it saw last."""
    start_ns = 10**12
    samples = [(start_ns + 20 * MS * n, value) for n, value in enumerate(values)]
    updates = [sample for n, sample in enumerate(samples) if n == 0 or sample[1] != samples[n - 1][1]]
    polled: list[tuple[int, int]] = []
    held: int | None = 1059  # what the polls saw last before
    for n, (at, value) in enumerate(samples):
        if n not in dropped and value != held:
            polled.append((at + 3 * MS, value))
            held = value
    missed = MissedUpdates()
    warm(missed, until_ns=start_ns)
    filled: list[tuple[int, int]] = []
    at = 0
    for cut in [*sorted(cuts), len(samples)]:
        missed.add_polled(poll for poll in polled if at <= (poll[0] - start_ns) // (20 * MS) < cut)
        missed.add_samples(samples[at:cut])
        at = max(at, cut)
        filled += missed.settle(start_ns + 20 * MS * at - SETTLE_NS)
    filled += missed.settle(FAR_NS)
    assert len(filled) + len(polled) == len(updates)
    assert sorted(value for _, value in filled) == sorted(
        value for value in _less([value for _, value in updates], [value for _, value in polled])
    )
    assert len(set(filled)) == len(filled)


def _less(all_of: list[int], some: list[int]) -> list[int]:
    rest = list(all_of)
    for value in some:
        rest.remove(value)
    return rest
