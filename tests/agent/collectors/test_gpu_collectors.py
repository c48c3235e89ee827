"""Links, pipes, the rare group and processes as collectors, and their status where a node has none."""

from pathlib import Path

import numpy as np
import pytest

from agent.collectors.gpu.driver_tables import link_table, pipe_table, rare_table
from agent.collectors.gpu.factories import gpu_process_events, gpu_processes, gpu_rare
from agent.collectors.gpu.processes import GpuProcesses
from agent.collectors.gpu.sources import GpuSources, OpenGpus
from agent.collectors.port import BuiltCollector, Collector, SourceState
from agent.collectors.registry.settings import FastSettings, SlowSettings
from agent.collectors.registry.sources import build_collectors
from agent.driver.port import GpuProcess, LinkReader, PipeReader
from agent.sampler.counters import SamplerCounters
from telemetry.entities import EntityKind
from telemetry.signals import signal
from tests.agent.fakes import FakeClock, FakeGpuReader, FakeLinkReader, FakePipeReader, gpu_identities


class NoProcesses:
    def processes(self, uuid: str) -> tuple[GpuProcess, ...]:
        return ()


def _processes() -> GpuProcesses:
    return GpuProcesses(NoProcesses(), gpu_identities(2), proc_root=Path("/proc"), clock=FakeClock())


@pytest.fixture(params=["gpu_links", "gpu_pipes", "gpu_rare", "gpu_processes"])
def collector(request: pytest.FixtureRequest) -> Collector:
    made: tuple[Collector, ...] = (
        link_table(FakeLinkReader()),
        pipe_table(FakePipeReader()),
        rare_table(FakeGpuReader(2)),
        _processes(),
    )
    return next(one for one in made if one.name == request.param)


def test_columns_are_signals_of_the_catalogue_and_every_cell_is_filled(collector: Collector) -> None:
    spec = collector.spec
    assert spec.name == collector.name
    assert {signal(spec.kind, name).rate for name in spec.signals} == {collector.rate}
    collector.open()
    for _ in range(2):
        values = np.full(spec.shape, -12345.0)
        collector.read(values)
        assert (values != -12345.0).all()
        collector.close()
        collector.close()
        collector.open()


def _built(
    links: LinkReader | None, pipes: PipeReader | None, reader: FakeGpuReader | None
) -> dict[str, BuiltCollector]:
    settings = FastSettings(
        node="node0",
        clock=FakeClock(),
        counters=SamplerCounters(),
        reader=reader,
        why_no_reader="no NVML",
        links=links,
        pipes=pipes,
    )
    return {built.status.name: built for built in build_collectors(settings)}


def test_links_are_entities_of_their_gpu() -> None:
    built = _built(FakeLinkReader(), FakePipeReader(), FakeGpuReader(2))
    links = built["gpu_links"].source
    assert links is not None
    first = links.spec.entities[0]
    uuid = gpu_identities(1)[0].uuid
    assert (first.kind, first.key, first.name) == (EntityKind.LINK, f"{uuid}/nvlink0", "gpu0-nvlink0")
    assert (first.tag("gpu"), first.tag("peer")) == (uuid, "0000:3b:00.0")
    assert built["gpu_pipes"].status.state is SourceState.WORKING


@pytest.mark.parametrize(
    ("pipes", "reader", "state", "text"),
    [
        (None, None, SourceState.MISSING, "no NVML"),
        (None, FakeGpuReader(1), SourceState.MISSING, "not read here"),
        (FakePipeReader(0), FakeGpuReader(1), SourceState.MISSING, "performance metrics"),
        (FakePipeReader(0, is_refused=True), FakeGpuReader(1), SourceState.NOT_PERMITTED, "does not permit"),
    ],
)
def test_the_reason_for_missing_pipes_is_reported(
    pipes: PipeReader | None, reader: FakeGpuReader | None, state: SourceState, text: str
) -> None:
    status = _built(FakeLinkReader(0), pipes, reader)["gpu_pipes"].status
    assert status.state is state
    assert text in status.detail


def test_a_node_without_connected_links_has_no_collector_of_them() -> None:
    built = _built(FakeLinkReader(0), None, FakeGpuReader(1))["gpu_links"]
    assert built.source is None
    assert built.status.detail == "this node has no connected NVLink"


def test_the_driver_is_opened_once_for_all_slow_gpu_sources_and_again_while_it_finds_none() -> None:
    found = [OpenGpus(why="loading"), OpenGpus(reader=FakeGpuReader(2), processes=_processes()), OpenGpus()]
    opened: list[OpenGpus] = []

    def open_gpus() -> OpenGpus:
        opened.append(found[len(opened)])
        return opened[-1]

    sources = GpuSources(open_gpus)
    assert gpu_process_events(_settings(sources)) is None
    assert opened == [], "events wait for nothing"
    assert gpu_rare(_settings(sources)).status.detail == "loading"
    assert gpu_rare(_settings(sources)).status.state is SourceState.WORKING
    assert gpu_processes(_settings(sources)).source is not None
    assert gpu_process_events(_settings(sources)) is not None
    assert len(opened) == 2


def test_a_driver_that_lists_no_processes_is_reported() -> None:
    sources = GpuSources(lambda: OpenGpus(reader=FakeGpuReader(2)))
    status = gpu_processes(_settings(sources)).status
    assert (status.state, status.detail) == (SourceState.MISSING, "this driver lists no processes")
    assert gpu_rare(_settings(GpuSources())).status.how_to_get


def _settings(gpus: GpuSources) -> SlowSettings:
    return SlowSettings(node="node0", clock=FakeClock(), gpus=gpus)
