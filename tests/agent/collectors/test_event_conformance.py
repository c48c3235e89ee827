"""Contract of every event source, over the visible tuple of factories and the kernel log."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.collectors.events.driver_messages import DriverLineParser
from agent.collectors.events.kernel_log import KernelLog
from agent.collectors.events.tracepoints import INSTANCE, POINTS
from agent.collectors.port import EventSource
from agent.collectors.registry.settings import EventSettings
from agent.collectors.registry.sources import FAST_EVENT_SOURCES
from telemetry.errors import RailwatchError
from tests.agent.collectors.node_files import pci_device
from tests.agent.fakes import FakeClock, gpu_identities

KERNEL_LOG = "kernel_log"
GPUS = gpu_identities(2)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node that has every source."""
    root = tmp_path / "node"
    for gpu in GPUS:
        pci_device(root / "sys", gpu.pci)
    for point in POINTS:
        (root / "tracing/events" / point).mkdir(parents=True)
        (root / "tracing/instances" / INSTANCE / "events" / point).mkdir(parents=True)
    for file in (f"tracing/instances/{INSTANCE}/trace_pipe", "fabricmanager.log", "kmsg"):
        (root / file).touch()
    return root


@pytest.fixture(params=[*(factory.__name__ for factory in FAST_EVENT_SOURCES), KERNEL_LOG])
def source(request: pytest.FixtureRequest, root: Path, clock: FakeClock) -> Iterator[EventSource]:
    if request.param == KERNEL_LOG:
        made: EventSource | None = KernelLog(
            root / "kmsg", node="node0", parser=DriverLineParser(GPUS, log="kmsg:boot"), clock=clock
        )
    else:
        settings = EventSettings(
            node="node0",
            clock=clock,
            gpus=GPUS,
            sysfs_root=root / "sys",
            tracefs_root=root / "tracing",
            fabric_log=root / "fabricmanager.log",
        )
        (factory,) = (factory for factory in FAST_EVENT_SOURCES if factory.__name__ == request.param)
        made = factory(settings).source
    if made is None:
        pytest.skip("no netlink socket on this machine")
    yield made
    made.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_where_nothing_happens_nothing_is_reported_also_without_having_been_opened(source: EventSource) -> None:
    assert source.poll(0.0) == ()
    source.open()
    assert source.poll(0.0) == ()


def test_a_poll_waits_no_longer_than_it_is_allowed_to(source: EventSource, clock: FakeClock) -> None:
    source.open()
    source.poll(0.0)
    before_s = clock.monotonic_s()
    source.poll(0.05)
    assert clock.monotonic_s() - before_s <= 0.05 + 1e-6


def test_closing_twice_or_unopened_is_harmless_and_no_descriptor_stays(source: EventSource) -> None:
    source.close()
    source.close()
    before = descriptors()
    for _ in range(10):
        source.open()
        source.open()
        source.poll(0.0)
        source.close()
        source.close()
    assert descriptors() <= before


def test_what_it_reads_may_vanish_under_it(source: EventSource, root: Path) -> None:
    source.open()
    source.poll(0.0)
    shutil.rmtree(root)
    for _ in range(3):
        try:
            events = source.poll(0.0)
        except (OSError, RailwatchError):  # the supervisor closes it, and opens it again later
            source.close()
            continue
        assert all(event.sources == (source.name,) for event in events)
        assert len({event.id for event in events}) == len(events)
