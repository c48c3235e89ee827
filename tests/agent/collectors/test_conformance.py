"""Contract of every collector, over the two visible tuples of factories."""

import shutil
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from agent.collectors.events.factories import kernel_log_status
from agent.collectors.port import BuiltCollector, Collector, SourceState
from agent.collectors.registry.sources import (
    FAST_COLLECTORS,
    SLOW_COLLECTORS,
    SLOW_EVENT_SOURCES,
    build_collectors,
    build_slow_collectors,
)
from agent.collectors.sysfs.attribute_file import REOPEN_AFTER_READS
from telemetry.errors import RailwatchError
from telemetry.frames import FloatArray
from telemetry.signals import RateClass, signals_of
from tests.agent.collectors.whole_node import fast_settings, makers, slow_settings, tree
from tests.agent.fakes import FakeGpuReader

MAKERS = makers()
UNTOUCHED = -12345.0
# They read another source's signals at a pace of their own: the buffers once a second, the board as it is configured.
OWN_PACE = {"gpu_samples", "bmc", "bmc_supplies", "bmc_fans"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tree(tmp_path)


@pytest.fixture(params=MAKERS)
def maker(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def collector(maker: str, root: Path) -> Iterator[Collector]:
    made = MAKERS[maker](root)
    made.open()
    yield made
    made.close()


def _read(collector: Collector) -> FloatArray:
    values = np.full(collector.spec.shape, UNTOUCHED)
    collector.read(values)
    return values


def test_the_suite_runs_over_every_factory_but_the_ups_s() -> None:
    names = {factory.__name__ for factory in (*FAST_COLLECTORS, *SLOW_COLLECTORS)}
    assert len(names) == len(FAST_COLLECTORS) + len(SLOW_COLLECTORS)
    assert names - set(MAKERS) == {"ups"}


def test_columns_are_signals_of_the_catalogue_at_their_rate(maker: str, collector: Collector) -> None:
    spec = collector.spec
    assert spec.name == collector.name
    known = {signal.name: signal for signal in signals_of(spec.kind)}
    assert set(spec.signals) <= set(known)
    assert len(set(spec.signals)) == len(spec.signals)
    assert collector.rate in set(RateClass)
    if maker not in OWN_PACE:
        assert {known[name].rate for name in spec.signals} == {collector.rate}


def test_rows_are_entities_of_one_kind_each_with_a_key_of_its_own(collector: Collector) -> None:
    entities = collector.spec.entities
    assert entities
    assert {entity.kind for entity in entities} == {collector.spec.kind}
    assert len({entity.key for entity in entities}) == len(entities)
    assert all(entity.key and entity.name for entity in entities)
    assert collector.spec.shape == (len(entities), len(collector.spec.signals))


def test_names_of_tables_are_unique_over_all_collectors(root: Path) -> None:
    names = [make(root).spec.name for make in MAKERS.values()]
    assert len(set(names)) == len(names)


def test_every_cell_is_filled_at_every_read_and_nothing_beside_them(collector: Collector) -> None:
    rows, columns = collector.spec.shape
    around = np.full((rows + 2, columns), UNTOUCHED)
    inner = around[1:-1]  # as the sampler's own rows: C-contiguous
    for _ in range(3):
        inner[:] = UNTOUCHED
        collector.read(inner)
        assert (inner != UNTOUCHED).all()
        inner[:] = UNTOUCHED
        assert (around == UNTOUCHED).all()


def test_absent_is_nan_and_never_infinite(collector: Collector) -> None:
    values = _read(collector)
    assert not np.isinf(values).any()


def test_closing_twice_is_harmless_and_it_can_be_opened_again(collector: Collector) -> None:
    _read(collector)
    collector.close()
    collector.close()
    collector.open()
    assert (_read(collector) != UNTOUCHED).all()
    collector.close()


def test_a_read_after_close_returns_values_or_an_error_that_names_what_to_do(collector: Collector) -> None:
    _read(collector)
    collector.close()
    try:
        values = _read(collector)
    except RailwatchError:
        return
    assert (values != UNTOUCHED).all()
    collector.close()


def test_a_collector_that_was_never_opened_can_be_closed(maker: str, root: Path) -> None:
    MAKERS[maker](root).close()


def test_files_that_vanish_read_as_absent_or_raise_what_the_sampler_knows(collector: Collector, root: Path) -> None:
    _read(collector)
    shutil.rmtree(root)
    try:
        for _ in range(REOPEN_AFTER_READS):  # a plain file that is gone is not looked for at every read
            values = _read(collector)
    except RailwatchError:
        return
    assert (values != UNTOUCHED).all()
    if collector.name == "supply":
        assert np.isnan(values).all()
    elif collector.name == "gpu_bus":
        assert (values[:, 0] == 0).all()


def test_reading_does_not_pile_up_memory(collector: Collector) -> None:
    values = np.empty(collector.spec.shape)
    tracemalloc.start()
    try:
        for _ in range(200):  # what is kept from read to read, an event loop's own among it, is full by then
            collector.read(values)
        before_bytes = tracemalloc.get_traced_memory()[0]
        for _ in range(200):
            collector.read(values)
        grown_bytes = tracemalloc.get_traced_memory()[0] - before_bytes
    finally:
        tracemalloc.stop()
    assert grown_bytes < 8192
    collector.close()


def test_on_a_whole_node_every_source_works_but_those_behind_a_network(root: Path) -> None:
    fast = build_collectors(fast_settings(root, FakeGpuReader(2)))
    assert {one.status.name: one.status.state for one in fast if one.source is None} == {}
    slow = {one.status.name: one.status.state for one in build_slow_collectors(slow_settings(root, FakeGpuReader(2)))}
    working = {name for name, state in slow.items() if state is SourceState.WORKING}
    assert {"board_supplies", "board_fans", "board", "gpu_rare", "gpu_processes"} <= working
    assert slow["pdu"] is SourceState.MISSING
    assert slow["ups"] is SourceState.MISSING


def test_on_an_empty_node_each_source_that_is_missing_has_a_reason_and_most_how_to_get_it(tmp_path: Path) -> None:
    built: list[BuiltCollector] = [
        *build_collectors(fast_settings(tmp_path, None)),
        *build_slow_collectors(slow_settings(tmp_path, None)),
    ]
    missing = [one.status for one in built if one.source is None]
    assert {status.state for status in missing} == {SourceState.MISSING}
    assert all(status.detail for status in missing)
    how = {status.name for status in missing if status.how_to_get}
    assert how >= {"gpu_fast", "gpu_slow", "gpu_bus", "supply", "board_fans", "pdu", "ups", "gpu_rare"}
    assert {one.status.name for one in built if one.source is not None} >= {"node", "agent"}
    assert {one.name: one.detail for one in missing}["gpu_fast"] == "no NVML"


def test_a_slow_node_without_anything_still_names_its_sources_of_events(tmp_path: Path) -> None:
    found = [factory(slow_settings(tmp_path, None)) for factory in SLOW_EVENT_SOURCES]
    assert all(source is None or source.name for source in found)


def test_a_driver_without_gpus_has_no_gpu_collectors(root: Path) -> None:
    built = {one.status.name: one for one in build_collectors(fast_settings(root, FakeGpuReader(0)))}
    assert built["gpu_fast"].source is None
    assert built["gpu_fast"].status.detail == "the driver finds no GPU"


def test_the_kernel_log_may_be_missing_or_there(tmp_path: Path) -> None:
    assert kernel_log_status(tmp_path / "kmsg").state is SourceState.MISSING
    (tmp_path / "kmsg").touch()
    assert kernel_log_status(tmp_path / "kmsg").state is SourceState.WORKING
