"""A wall clock that is stepped by an hour: what is kept, and what is counted."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agent.collectors.port import EventSource
from agent.sampler.counters import SamplerCounters
from agent.sampler.sampler import Sampler, make_ring
from agent.sampler.settings import Pace, SamplerSettings
from analytics.fusion import FusionState, fuse
from telemetry.clock import NS_PER_S, SystemClock
from telemetry.records import Event
from tests.agent.fakes import FakeCollector, gpu_fast_spec, node_topology
from tests.analytics.scenes import event_of
from tests.waiting import wait_for

HOUR_S = 3600
PERIOD_S = 0.02
ROWS = 20


class SteppedClock:
    """The machine's clock, whose time of day a test steps."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self.step_s = 0

    def monotonic_s(self) -> float:
        return self._clock.monotonic_s()

    def utc_ns(self) -> int:
        return self._clock.utc_ns() + self.step_s * NS_PER_S

    def sleep_until(self, monotonic_s: float) -> None:
        self._clock.sleep_until(monotonic_s)


class EventRecorder:
    """Reports the same loss at each poll, at the time of day."""

    name = "teller"

    def __init__(self, clock: SteppedClock) -> None:
        self._clock = clock

    def open(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        self._clock.sleep_until(self._clock.monotonic_s() + timeout_s / 10)
        return (replace(event_of(), time_ns=self._clock.utc_ns()),)


def sampled(folder: Path, *, step_s: int) -> tuple[list[np.ndarray[tuple[int], np.dtype[np.int64]]], int, list[Event]]:
    """Sample, step, and sample on; return the frames' times, the number of rows, and the events."""
    clock, collector = SteppedClock(), FakeCollector(gpu_fast_spec())
    settings = SamplerSettings(fast=Pace(rate_hz=1 / PERIOD_S, stale_after_s=60.0, hung_after_s=60.0))
    ring = make_ring(
        folder / "ring", [collector], settings, node="node0", topology=node_topology(), simulated=True, seconds=60
    )
    reported: list[Event] = []
    sources: list[EventSource] = [EventRecorder(clock)]
    sampler = Sampler(
        ring,
        [collector],
        clock=clock,
        settings=settings,
        counters=SamplerCounters(),
        event_sources=sources,
        on_events=reported.extend,
    )
    table = ring.tables["gpu_fast"]
    sampler.start()
    wait_for(lambda: table.count >= ROWS and len(reported) >= 4)
    clock.step_s = step_s
    count, tellings = table.count, len(reported)
    wait_for(lambda: table.count >= count + ROWS and len(reported) >= tellings + 4)
    sampler.stop(60.0)
    frames, since = [], 0
    while since < table.count:
        read = table.read(since)
        assert read.lost == 0
        frames.append(read.frame.time_ns.copy())
        since = read.next
    count = table.count
    ring.close()
    return frames, count, reported


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S])
def test_every_row_is_kept_and_no_tick_is_missed_or_made_up_for(tmp_path: Path, step_s: int) -> None:
    frames, count, _ = sampled(tmp_path, step_s=step_s)
    time_ns = np.concatenate(frames)
    assert len(time_ns) == count
    assert count >= 2 * ROWS
    assert all((np.diff(frame) > 0).all() for frame in frames), "each frame ascends"
    assert len(frames) == (1 if step_s > 0 else 2), "a frame ends where the clock was set back"
    steps_s = np.diff(time_ns) / NS_PER_S
    assert int((np.abs(steps_s) > HOUR_S / 2).sum()) == 1, "one step, in between two rows"


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S])
def test_a_loss_that_lasts_is_reported_again_once_after_the_step_and_no_more(tmp_path: Path, step_s: int) -> None:
    _, _, reported = sampled(tmp_path, step_s=step_s)
    losses = [event for event in reported if event.sources == ("nvml",)]
    _, fused = fuse(FusionState(), [replace(event, id=f"loss{n}") for n, event in enumerate(losses)])
    assert len(losses) > 6
    assert len({event.id for event in fused}) == 2
