"""Processes on GPUs: counts, starts and ends, and GPUs without a list."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from agent.collectors.gpu.processes import GpuProcesses, GpuProcessEvents
from agent.driver.port import GpuProcess, ProcessUse
from telemetry.errors import DeviceLostError, NotPermittedError, RailwatchError
from telemetry.frames import FloatArray
from telemetry.records import EventKind, Severity
from tests.agent.collectors.gpu.test_process_owner import write
from tests.agent.fakes import FakeClock, gpu_identities

GPUS = gpu_identities(2)
GIB = float(1 << 30)


class FakeProcessReader:
    """Lists that a test sets; an error in place of a list is raised."""

    def __init__(self) -> None:
        self.lists: dict[str, tuple[GpuProcess, ...] | RailwatchError] = {gpu.uuid: () for gpu in GPUS}

    def processes(self, uuid: str) -> tuple[GpuProcess, ...]:
        found = self.lists[uuid]
        if isinstance(found, RailwatchError):
            raise found
        return found

    def set(self, gpu: int, *processes: tuple[int, ProcessUse, float | None]) -> None:
        uuid = GPUS[gpu].uuid
        self.lists[uuid] = tuple(
            GpuProcess(gpu_uuid=uuid, pid=pid, use=use, used_bytes=used) for pid, use, used in processes
        )


@pytest.fixture
def reader() -> FakeProcessReader:
    return FakeProcessReader()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def collector(reader: FakeProcessReader, tmp_path: Path, clock: FakeClock) -> GpuProcesses:
    return GpuProcesses(reader, GPUS, proc_root=tmp_path, clock=clock)


def _read(collector: GpuProcesses) -> FloatArray:
    values = np.full(collector.spec.shape, -12345.0)
    collector.read(values)
    return values


def _messages(collector: GpuProcesses) -> list[str]:
    return sorted(event.message for event in collector.take(0.0))


def test_counts_and_memory_are_those_of_the_lists(collector: GpuProcesses, reader: FakeProcessReader) -> None:
    reader.set(0, (10, ProcessUse.COMPUTE, 2 * GIB), (11, ProcessUse.COMPUTE, None), (10, ProcessUse.GRAPHICS, 2 * GIB))
    values = _read(collector)
    assert values[0].tolist() == [2.0, 1.0, 2 * GIB], "one that computes and draws holds its memory once"
    assert values[1].tolist() == [0.0, 0.0, 0.0]
    reader.set(0, (11, ProcessUse.COMPUTE, None))
    assert np.isnan(_read(collector)[0, 2])


def test_starts_and_ends_are_reported_with_job_and_gpu(
    collector: GpuProcesses, reader: FakeProcessReader, tmp_path: Path
) -> None:
    write(tmp_path, 10, environ=b"SLURM_JOB_ID=1234\0")
    reader.set(0, (10, ProcessUse.COMPUTE, GIB))
    _read(collector)
    (event,) = collector.take(0.0)
    assert event.message == "python3 (pid 10, slurm:1234) uses GPU 0"
    assert (event.kind, event.severity) == (EventKind.GPU_PROCESS, Severity.INFO)
    assert (event.entity_id, event.pci, event.pid) == (f"gpu:{GPUS[0].uuid}", GPUS[0].pci, 10)
    _read(collector)
    assert _messages(collector) == []
    write(tmp_path, 12)
    reader.set(0, (12, ProcessUse.COMPUTE, GIB))
    _read(collector)
    assert _messages(collector) == [
        "python3 (pid 10, slurm:1234) no longer uses GPU 0",
        "python3 (pid 12) began to use GPU 0",
    ]
    assert [user.label for user in collector.users] == ["python3 (pid 12)"]


def test_every_event_has_the_jobs_of_all_gpus_without_unknown_ones(
    collector: GpuProcesses, reader: FakeProcessReader, tmp_path: Path
) -> None:
    one, two = (f"gpu:{gpu.uuid}" for gpu in GPUS)
    write(tmp_path, 10, environ=b"SLURM_JOB_ID=7\0")
    write(tmp_path, 11, environ=b"SLURM_JOB_ID=7\0")
    reader.set(0, (10, ProcessUse.COMPUTE, GIB), (10, ProcessUse.GRAPHICS, GIB), (99, ProcessUse.GRAPHICS, GIB))
    reader.set(1, (11, ProcessUse.COMPUTE, GIB))
    _read(collector)
    seen = {event.job_gpus for event in collector.take(0.0)}
    assert seen == {(("slurm:7", one), ("slurm:7", two))}, "graphics processes own nothing, and each event has all jobs"
    reader.set(0, (10, ProcessUse.COMPUTE, GIB), (12, ProcessUse.COMPUTE, GIB))  # 12 has no known owner
    _read(collector)
    assert {event.job_gpus for event in collector.take(0.0)} == {(("slurm:7", two),)}
    write(tmp_path, 13, environ=b"SLURM_JOB_ID=8\0")
    reader.set(0, (10, ProcessUse.COMPUTE, GIB), (13, ProcessUse.COMPUTE, GIB))
    _read(collector)
    both = {("slurm:7", one), ("slurm:8", one), ("slurm:7", two)}
    assert {frozenset(event.job_gpus or ()) for event in collector.take(0.0)} == {frozenset(both)}
    reader.set(0)
    reader.set(1)
    _read(collector)
    assert {event.job_gpus for event in collector.take(0.0)} == {()}


def test_a_process_that_becomes_another_jobs_or_begins_to_compute_is_reported(
    collector: GpuProcesses, reader: FakeProcessReader, tmp_path: Path
) -> None:
    write(tmp_path, 10, cgroup="0::/system.slice/slurmstepd.scope/job_7/step_0\n")
    reader.set(0, (10, ProcessUse.GRAPHICS, GIB))
    _read(collector)
    assert [event.job_gpus for event in collector.take(0.0)] == [()]
    reader.set(0, (10, ProcessUse.GRAPHICS, GIB), (10, ProcessUse.COMPUTE, GIB))
    _read(collector)
    assert _messages(collector) == ["jobs now: slurm:7 on GPU 0"]
    (tmp_path / "10/cgroup").write_text("0::/system.slice/slurmstepd.scope/job_8/step_0\n")
    _read(collector)
    assert [event.job_gpus for event in collector.take(0.0)] == [(("slurm:8", f"gpu:{GPUS[0].uuid}"),)]


@pytest.mark.parametrize(("lost", "kept"), [(True, 1), (False, 0)])
def test_a_gpu_whose_list_cannot_be_read_is_no_jobs_unless_it_is_lost(
    collector: GpuProcesses, reader: FakeProcessReader, tmp_path: Path, *, lost: bool, kept: int
) -> None:
    write(tmp_path, 10, environ=b"SLURM_JOB_ID=7\0")
    reader.set(0, (10, ProcessUse.COMPUTE, GIB))
    _read(collector)
    assert len(collector.job_gpus) == 1
    reader.lists[GPUS[0].uuid] = DeviceLostError("gone") if lost else NotPermittedError("no")
    _read(collector)
    assert len(collector.job_gpus) == kept


def test_a_zombie_process_still_belongs_to_its_job(
    collector: GpuProcesses, reader: FakeProcessReader, tmp_path: Path
) -> None:
    write(tmp_path, 10, environ=b"SLURM_JOB_ID=7\0")
    reader.set(0, (10, ProcessUse.COMPUTE, GIB))
    _read(collector)
    collector.take(0.0)
    (tmp_path / "10/environ").write_bytes(b"")
    _read(collector)
    assert collector.job_gpus == (("slurm:7", f"gpu:{GPUS[0].uuid}"),)
    assert _messages(collector) == []


def test_a_process_number_that_is_used_again_is_another_process(
    collector: GpuProcesses, reader: FakeProcessReader, tmp_path: Path
) -> None:
    write(tmp_path, 10, start=100)
    reader.set(1, (10, ProcessUse.COMPUTE, GIB))
    _read(collector)
    collector.take(0.0)
    stat = tmp_path / "10/stat"
    stat.write_text(stat.read_text().replace(" 100 1000", " 999 1000"))
    _read(collector)
    assert len(_messages(collector)) == 2


def test_a_process_that_ended_is_still_itself_until_the_driver_lists_it_no_more(
    collector: GpuProcesses, reader: FakeProcessReader, tmp_path: Path
) -> None:
    write(tmp_path, 10)
    reader.set(0, (10, ProcessUse.COMPUTE, GIB))
    _read(collector)
    collector.take(0.0)
    shutil.rmtree(tmp_path / "10")
    _read(collector)
    assert _messages(collector) == []
    reader.set(0)
    _read(collector)
    assert _messages(collector) == ["python3 (pid 10) no longer uses GPU 0"]


def test_a_process_that_leaves_a_gpu_and_comes_back_is_reported_as_two_events(
    collector: GpuProcesses, reader: FakeProcessReader, tmp_path: Path, clock: FakeClock
) -> None:
    write(tmp_path, 10)
    _read(collector)
    ids = set()
    for _ in range(2):
        reader.set(0, (10, ProcessUse.COMPUTE, GIB))
        _read(collector)
        reader.set(0)
        _read(collector)
        ids |= {event.id for event in collector.take(0.0)}
        clock.advance(10.0)
    assert len(ids) == 4


def test_a_lost_gpu_has_no_numbers_and_no_process_is_reported_as_ended(
    collector: GpuProcesses, reader: FakeProcessReader, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    reader.set(0, (10, ProcessUse.COMPUTE, GIB))
    _read(collector)
    collector.take(0.0)
    reader.lists[GPUS[0].uuid] = DeviceLostError("gone")
    for _ in range(3):
        values = _read(collector)
        assert np.isnan(values[0]).all()
        assert values[1].tolist() == [0.0, 0.0, 0.0]
    assert _messages(collector) == []
    assert sum("cannot list processes of gpu" in record.message for record in caplog.records) == 1


def test_where_no_gpu_reports_the_reason_is_raised(collector: GpuProcesses, reader: FakeProcessReader) -> None:
    for gpu in GPUS:
        reader.lists[gpu.uuid] = NotPermittedError("not you")
    with pytest.raises(NotPermittedError):
        _read(collector)


def test_events_that_are_not_polled_are_bounded_and_counted(collector: GpuProcesses, reader: FakeProcessReader) -> None:
    for first in range(0, 1500, 100):
        reader.set(0, *((pid, ProcessUse.COMPUTE, GIB) for pid in range(first, first + 100)))
        _read(collector)
    assert len(collector.take(0.0)) == 1000
    assert collector.dropped == 100 + 14 * 200 - 1000


def test_the_event_source_reports_what_the_collector_saw(collector: GpuProcesses, reader: FakeProcessReader) -> None:
    source = GpuProcessEvents(collector.take)
    source.open()
    assert source.poll(0.0) == ()
    reader.set(1, (5, ProcessUse.GRAPHICS, GIB))
    _read(collector)
    assert [event.message for event in source.poll(1.0)] == ["a process (pid 5) uses GPU 1"]
    source.close()
