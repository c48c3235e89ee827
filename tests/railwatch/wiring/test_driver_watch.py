"""A driver that stops answering, with the real C library: what is noticed, kept and reported; when it is read again."""

import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agent.collectors.gpu.driver_tables import GpuFast
from agent.collectors.host.self_metrics import SelfMetrics
from agent.collectors.port import Collector
from agent.driver.port import GpuReader
from agent.sampler.counters import SamplerCounters
from agent.sampler.sampler import make_ring
from agent.sampler.settings import SamplerSettings
from agent.sampler.watched_thread import WorkerState, WorkerStatus
from railwatch.run_context import DriverKind, RunContext
from railwatch.wiring import driver_status as driver_asking
from railwatch.wiring import driver_watch
from railwatch.wiring.driver_status import Pauses
from railwatch.wiring.driver_watch import AbsentReader, DriverWatch
from simulator.driver.layout import ALL_GPUS
from telemetry.clock import SystemClock
from telemetry.entities import Topology
from telemetry.errors import TransientError
from telemetry.records import Event, EventKind, Severity
from telemetry.signals import RateClass
from tests.agent.driver.plant_file import PlantFile, plant_driver
from tests.agent.fakes import FakeClock
from tests.railwatch.a_run import a_run_context

CLOCK = SystemClock()
# Longer than any of these tests waits, and short enough for the threads left behind to end with them.
HANG_US = 6_000_000
HANG = ("*", ALL_GPUS, 0, HANG_US)


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlantFile]:
    with plant_driver(tmp_path, monkeypatch, gpus=2) as made:
        yield made
        made.state.set_faults([])
        for thread in threading.enumerate():
            if thread.name == "open-driver":
                thread.join(60.0)


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    made = replace(a_run_context(tmp_path), driver=DriverKind.NVML)
    made.save()
    return made


def watch(context: RunContext, open_limit_s: float = 10.0) -> DriverWatch:
    return DriverWatch(context, CLOCK, open_limit_s=open_limit_s)


def published(watching: DriverWatch) -> list[Event]:
    return [event for source in watching.event_sources() for event in source.poll(0.01)]


def uuids(reader: GpuReader | None) -> list[str]:
    return [] if reader is None else [gpu.uuid for gpu in reader.gpus()]


def test_a_driver_that_answers_is_opened_and_nothing_is_reported(plant: PlantFile, context: RunContext) -> None:
    watching = watch(context)
    opened = watching.open()
    assert len(uuids(opened.reader)) == 2
    assert (watching.away, published(watching)) == (None, [])
    assert opened.nvml is not None
    opened.nvml.close()


def test_a_driver_that_does_not_open_is_not_waited_for_and_the_gpus_of_before_stay_known(
    plant: PlantFile, context: RunContext
) -> None:
    before = watch(context).open()
    assert before.nvml is not None
    before.nvml.close()
    plant.state.set_faults([HANG])
    started_s = CLOCK.monotonic_s()
    watching = watch(context, open_limit_s=0.3)
    away = watching.open()
    assert CLOCK.monotonic_s() - started_s < HANG_US / 1e6
    assert isinstance(away.reader, AbsentReader)
    assert uuids(away.reader) == uuids(before.reader)
    assert away.events is None
    values = np.zeros((2, 6))
    for read in (away.reader.read_fast, away.reader.read_slow, away.reader.read_rare):
        with pytest.raises(TransientError, match=r"did not open within 0\.3 s"):
            read(values)
    (event,) = published(watching)
    assert (event.kind, event.severity) == (EventKind.COLLECTOR, Severity.WARNING)
    assert "GPUs are not read" in event.message
    assert published(watching) != []  # a fresh source; one source reports once
    (source,) = watching.event_sources()
    assert len(source.poll(0.01)) == 1
    assert source.poll(0.01) == ()


def test_after_a_hang_the_next_process_does_not_even_try_to_open(plant: PlantFile, context: RunContext) -> None:
    watch(context).mark_away("the GPU driver does not respond: gpu_fast has hung for 20 s")
    plant.state.set_faults([HANG])
    started_s = CLOCK.monotonic_s()
    away = watch(context).open()
    assert CLOCK.monotonic_s() - started_s < HANG_US / 1e6
    assert away.reader is None  # no process before knew any GPU
    assert "gpu_fast has hung" in away.why


def test_a_driver_that_is_back_is_found_from_outside_then_opened_and_reported_once(
    plant: PlantFile, context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_watch, "HANGS", Pauses(first_s=0.1, next_s=0.5, longest_s=0.5))
    monkeypatch.setattr(driver_asking, "PROBE_LIMIT_S", 2.0)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library_folder(context)))
    watch(context).mark_away("it hung")
    plant.state.set_faults([("*", ALL_GPUS, 0, 60_000_000)])
    watching = watch(context)
    watching.open()
    answered = threading.Event()
    asking = threading.Thread(target=watching.probe_until_back, args=(answered,), daemon=True)
    asking.start()
    assert not answered.wait(1.0)
    monkeypatch.setattr(driver_asking, "PROBE_LIMIT_S", 60.0)
    plant.state.set_faults([])
    assert answered.wait(60.0)
    asking.join(60.0)
    after = watch(context)
    opened = after.open()
    assert len(uuids(opened.reader)) == 2
    (event,) = published(after)
    assert event.severity is Severity.INFO
    assert "answers again" in event.message
    assert opened.nvml is not None
    opened.nvml.close()
    third = watch(context)
    again = third.open()
    assert published(third) == []
    assert again.nvml is not None
    again.nvml.close()


NOT_LOADED = ("nvmlInit_v2", ALL_GPUS, 9, 0)


def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask without long pauses."""
    for name in ("HANGS", "ABSENT"):
        monkeypatch.setattr(driver_watch, name, Pauses(first_s=0.1, next_s=0.2, longest_s=0.2))


def test_a_driver_that_is_not_there_yet_is_looked_for_on_a_real_node_until_it_comes_which_is_reported_once(
    plant: PlantFile, context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    quickly(monkeypatch)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library_folder(context)))
    real = replace(context, simulated=False)
    plant.state.set_faults([NOT_LOADED])
    watching = watch(real)
    assert watching.open().reader is None
    assert (watching.away, published(watching)) == (None, [])
    answered = threading.Event()
    asking = threading.Thread(target=watching.probe_until_back, args=(answered,), daemon=True)
    asking.start()
    assert not answered.wait(1.5), "a driver that is not loaded was taken for one that reads"
    plant.state.set_faults([])
    assert answered.wait(60.0)
    asking.join(60.0)
    after = watch(real)
    opened = after.open()
    assert len(uuids(opened.reader)) == 2
    (event,) = published(after)
    assert event.severity is Severity.INFO
    assert "The GPU driver came after" in event.message
    assert opened.nvml is not None
    opened.nvml.close()
    assert watch(real).open().nvml is not None


def test_a_simulated_node_without_a_driver_looks_for_none(plant: PlantFile, context: RunContext) -> None:
    plant.state.set_faults([NOT_LOADED])
    watching = watch(context)
    assert watching.open().reader is None
    answered = threading.Event()
    watching.probe_until_back(answered)  # returns at once
    assert not answered.is_set()


def test_a_driver_that_hung_when_the_run_began_is_not_opened_but_asked_from_outside(
    plant: PlantFile, context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    quickly(monkeypatch)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library_folder(context)))
    begun = replace(context, driver=DriverKind.HUNG, source="no GPU read: NVML did not answer within 60 s")
    first = watch(begun)
    assert first.open().reader is None
    assert first.away is not None
    assert "did not answer within 60 s" in first.away.why
    answered = threading.Event()
    first.probe_until_back(answered)
    assert answered.is_set()
    for messages in (1, 0):  # and it is not taken for hung once more
        watching = watch(begun)
        opened = watching.open()
        assert len(uuids(opened.reader)) == 2
        assert len(published(watching)) == messages
        assert opened.nvml is not None
        opened.nvml.close()


def library_folder(context: RunContext) -> Path:
    """Return the path at which `plant_driver` built the library for this process."""
    (folder,) = (context.run_dir.parent.parent / "driver-cache").glob("nvml-*")
    return folder


def collectors(reader: GpuReader) -> list[Collector]:
    return [GpuFast(reader), SelfMetrics("node0", SamplerCounters(), CLOCK)]


def test_the_rows_of_before_survive_in_the_ring_while_the_driver_is_away(plant: PlantFile, context: RunContext) -> None:
    before = watch(context)
    opened = before.open()
    assert opened.reader is not None
    assert opened.nvml is not None
    made = before.keep_tables(collectors(opened.reader))
    settings, nothing = SamplerSettings(), Topology(entities=())
    ring = make_ring(context.ring_path, made, settings, node="node0", topology=nothing, simulated=True)
    values = np.zeros(ring.tables["gpu_fast"].spec.shape)
    opened.reader.read_fast(values)
    ring.tables["gpu_fast"].append(1, values, np.ones(values.shape, dtype=np.bool_))
    ring.close()
    opened.nvml.close()

    after = watch(context)
    after.mark_away("it hung")
    after.open()
    # Even the tables that no reader of known GPUs can stand for are kept, in their order.
    kept = after.keep_tables([SelfMetrics("node0", SamplerCounters(), CLOCK)])
    assert [one.name for one in kept] == ["gpu_fast", "agent"]
    assert [one.rate for one in kept] == [one.rate for one in made]
    with pytest.raises(TransientError):
        kept[0].read(values)
    ring = make_ring(context.ring_path, kept, settings, node="node0", topology=nothing, simulated=True)
    assert ring.tables["gpu_fast"].count == 1
    assert np.array_equal(ring.tables["gpu_fast"].read(0).frame.values[0], values, equal_nan=True)
    ring.close()


def test_a_table_that_came_while_the_driver_was_away_is_kept_by_the_process_after(
    plant: PlantFile, context: RunContext
) -> None:
    before = watch(context)
    opened = before.open()
    assert opened.reader is not None
    assert opened.nvml is not None
    settings, nothing = SamplerSettings(), Topology(entities=())
    first = before.keep_tables([GpuFast(opened.reader)])
    make_ring(context.ring_path, first, settings, node="node0", topology=nothing, simulated=True).close()
    opened.nvml.close()
    before.mark_away("it hung")
    for _ in range(2):
        away = watch(context)
        away.open()
        kept = away.keep_tables([SelfMetrics("node0", SamplerCounters(), CLOCK)])
        assert [(one.name, one.rate) for one in kept] == [("gpu_fast", RateClass.FAST), ("agent", RateClass.SLOW)]
        make_ring(context.ring_path, kept, settings, node="node0", topology=nothing, simulated=True).close()
    again = watch(context)
    again.open()
    assert [one.name for one in again.keep_tables([])] == ["gpu_fast", "agent"]


def test_a_run_folder_that_takes_no_file_ends_nothing(
    plant: PlantFile, context: RunContext, caplog: pytest.LogCaptureFixture
) -> None:
    watching = watch(replace(context, run_dir=context.run_dir / "gone"))
    opened = watching.open()
    assert opened.nvml is not None
    assert opened.reader is not None
    assert len(watching.keep_tables(collectors(opened.reader))) == 2
    opened.nvml.close()
    assert "cannot write" in caplog.text


def test_a_probe_that_hangs_ends_itself_without_being_waited_for(
    plant: PlantFile, context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_asking, "PROBE_LIMIT_S", 1.0)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library_folder(context)))
    plant.state.set_faults([("*", ALL_GPUS, 0, 60_000_000)])
    asked = driver_asking.start_probe()
    assert asked.wait(60.0) == -signal.SIGALRM
    assert asked.stdout is not None
    asked.stdout.close()


@pytest.mark.parametrize("function", ["nvmlDeviceGetSamples", "nvmlGpmQueryDeviceSupport"])
def test_a_driver_that_hangs_in_any_call_of_this_process_is_not_back(
    plant: PlantFile, context: RunContext, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library_folder(context)))
    answers = []
    for faults, limit_s in (([], 60.0), ([(function, ALL_GPUS, 0, 60_000_000)], 2.0)):
        monkeypatch.setattr(driver_asking, "PROBE_LIMIT_S", limit_s)
        plant.state.set_faults(faults)
        asked = driver_asking.start_probe()
        answers.append(driver_asking.reads_gpus(asked))
        asked.wait(60.0)
    assert answers == [True, False]


def status(name: str, state: WorkerState) -> WorkerStatus:
    return WorkerStatus(name=name, state=state, detail="", errors=0, hangs=0, age_s=None)


def test_a_driver_counts_as_dead_after_ten_deadlines_of_one_hang_and_other_collectors_do_not_count(
    tmp_path: Path, plant: PlantFile
) -> None:
    clock = FakeClock()
    watching = DriverWatch(a_run_context(tmp_path), clock)  # a deadline is two seconds
    opened = watch(replace(a_run_context(tmp_path), driver=DriverKind.NVML)).open()
    assert opened.reader is not None
    assert opened.nvml is not None
    made = collectors(opened.reader)
    opened.nvml.close()

    def check_hung(gpu: WorkerState, own: WorkerState) -> str:
        clock.advance(1.0)
        return watching.check_hung(made, [status("gpu_fast", gpu), status("agent", own)])

    assert [check_hung(WorkerState.WORKING, WorkerState.HUNG) for _ in range(40)] == [""] * 40
    assert [check_hung(WorkerState.HUNG, WorkerState.WORKING) for _ in range(19)] == [""] * 19
    assert check_hung(WorkerState.WORKING, WorkerState.WORKING) == ""
    assert [check_hung(WorkerState.HUNG, WorkerState.WORKING) for _ in range(20)] == [""] * 20
    assert (
        check_hung(WorkerState.HUNG, WorkerState.WORKING)
        == "the GPU driver does not respond: gpu_fast has hung for 20 s"
    )
