"""The drivers' tracepoints, from a tracefs in a folder: its files are there as the kernel would make them."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.collectors.events.tracepoints import INSTANCE, POINTS, Tracepoints, points_of
from analytics.fusion import FusionState, fuse
from telemetry.clock import NS_PER_S, SystemClock
from telemetry.errors import NotPermittedError, NotSupportedError
from telemetry.records import EventKind, Severity
from tests.agent.fakes import START_NS, FakeClock, gpu_identities

GPU = gpu_identities(1)[0]
XID = "Xid (PCI:0000:3b:00.0): 79, pid=4021, name=python3, GPU has fallen off the bus."
SXID = "SXid (PCI:0000:86:00.0): 20034, Fatal, Link 33 LTSSM Fault Up"


class Tracefs:
    """A tracefs whose trace pipe the test writes."""

    def __init__(self, root: Path, *, points: tuple[str, ...] = POINTS) -> None:
        self.root = root
        self.instance = root / "instances" / INSTANCE
        for point in points:
            (root / "events" / point).mkdir(parents=True)
            (self.instance / "events" / point).mkdir(parents=True)
        self.instance.mkdir(parents=True, exist_ok=True)
        self.pipe = self.instance / "trace_pipe"
        self.pipe.touch()
        self.clock = FakeClock()
        self.source = Tracepoints(root, [GPU], node="node0", boot="abcd", clock=self.clock)

    def hit(self, text: str, *, point: str = "nvidia_dev_xid", stamp: str = "999.500000", task: str = "<...>") -> None:
        self.write(f"{task:>16}-4021    [003] d..2.   {stamp}: {point}: {text}\n")

    def write(self, text: str) -> None:
        with self.pipe.open("a", encoding="utf-8") as file:
            file.write(text)

    def setting(self, name: str) -> str:
        return (self.instance / name).read_text(encoding="ascii")


@pytest.fixture
def tracefs(tmp_path: Path) -> Tracefs:
    (tmp_path / "events").mkdir()
    made = Tracefs(tmp_path)
    made.source.open()
    return made


def test_opening_sets_the_monotonic_clock_and_enables_the_points_and_closing_disables_them(
    tracefs: Tracefs,
) -> None:
    assert tracefs.setting("trace_clock") == "mono"
    assert [tracefs.setting(f"events/{point}/enable") for point in POINTS] == ["1", "1"]
    tracefs.source.close()
    tracefs.source.close()
    assert [tracefs.setting(f"events/{point}/enable") for point in POINTS] == ["0", "0"]


@pytest.mark.parametrize("task", ["<...>", "kworker/3:1", "a b-1 [0] x"])
def test_an_xid_is_an_event_of_its_gpu_at_its_own_time(tracefs: Tracefs, task: str) -> None:
    tracefs.hit(XID, task=task)
    (event,) = tracefs.source.poll(0.0)
    assert (event.kind, event.code, event.entity_id) == (EventKind.XID, 79, f"gpu:{GPU.uuid}")
    assert (event.pid, event.process) == (4021, "python3")
    assert event.time_ns == START_NS - NS_PER_S // 2, "half a second before the monotonic clock's 1000 s"
    assert event.sources == ("tracepoints",)


def test_an_sxid_names_its_switch_and_its_details_are_no_further_events(tracefs: Tracefs) -> None:
    tracefs.hit(SXID, point="nvswitch_dev_sxid")
    tracefs.hit("SXid (PCI:0000:86:00.0): 20034, Severity 1 Engine instance 33", point="nvswitch_dev_sxid")
    (event, *details) = tracefs.source.poll(0.0)
    assert (event.kind, event.code, event.severity) == (EventKind.SXID, 20034, Severity.CRITICAL)
    assert (event.pci or "").startswith("0000:86:00")
    assert not details


def test_two_hits_are_two_events_and_a_hit_that_is_read_again_is_the_same_event(tracefs: Tracefs) -> None:
    tracefs.hit(XID.replace("79", "48"), stamp="999.500000")
    tracefs.hit(XID.replace("79", "48"), stamp="999.500001")
    events = tracefs.source.poll(0.0)
    assert len({event.id for event in events}) == 2
    again = Tracepoints(tracefs.root, [GPU], node="node0", boot="abcd", clock=tracefs.clock)
    again.open()
    assert {event.id for event in again.poll(0.0)} == {event.id for event in events}
    state, found = fuse(FusionState(), events)
    assert fuse(state, events)[1] == ()
    assert len(found) == 2


def test_half_a_line_waits_for_its_end(tracefs: Tracefs) -> None:
    line = f"           <...>-1 [000] ..... 999.500000: nvidia_dev_xid: {XID}\n"
    tracefs.write(line[:60])
    assert tracefs.source.poll(0.0) == ()
    tracefs.write(line[60:])
    assert len(tracefs.source.poll(0.0)) == 1


def test_lost_hits_are_counted_and_reported(tracefs: Tracefs) -> None:
    tracefs.write("CPU:3 [LOST 12 EVENTS]\n")
    (event,) = tracefs.source.poll(0.0)
    assert event.kind is EventKind.KERNEL_GAP
    assert "12 tracepoint hits" in event.message
    assert tracefs.source.lost == 12


def test_lost_hits_whose_number_the_kernel_does_not_know_are_reported_too(tracefs: Tracefs) -> None:
    tracefs.write("CPU:3 [LOST EVENTS]\n")
    (event,) = tracefs.source.poll(0.0)
    assert event.kind is EventKind.KERNEL_GAP
    assert event.message.startswith("Some tracepoint hits")
    assert (tracefs.source.lost, tracefs.source.unparsed) == (0, 0)


@pytest.mark.parametrize("group", ["(   4021)", "(-------)"])
def test_a_machine_that_traces_with_thread_groups_is_read_too(tracefs: Tracefs, group: str) -> None:
    tracefs.write(f"           <...>-4021    {group} [003] d..2.   999.500000: nvidia_dev_xid: {XID}\n")
    assert [event.code for event in tracefs.source.poll(0.0)] == [79]


@pytest.mark.parametrize(
    "line",
    [
        f"  sh-1 [000] ..... 999.5: tracing_mark_write: <...>-1 [000] ..... 999.500000: nvidia_dev_xid: {XID}",
        "  sh-1 [000] ..... 999.500000: sched_switch: prev_comm=Xid (PCI:0000:3b:00.0): 79, x",
        "  sh-1 [000] ..... 999.500000: nvidia_dev_xid: Xid (PCI:nowhere): 79, x",
        "\udcff\udcfe",
    ],
)
def test_lines_that_a_program_wrote_or_that_cannot_be_read_are_counted(tracefs: Tracefs, line: str) -> None:
    with tracefs.pipe.open("ab") as file:
        file.write(line.encode("utf-8", errors="surrogateescape") + b"\n")
    assert tracefs.source.poll(0.0) == ()
    assert tracefs.source.unparsed == 1


def a_kept_instance(root: Path, clocks: str, monkeypatch: pytest.MonkeyPatch) -> Tracefs:
    """Return an instance that root made and switched on: no other user may write into it."""
    (root / "events").mkdir()
    tracefs = Tracefs(root)
    for point in POINTS:
        (tracefs.instance / "events" / point / "enable").write_text("1\n", encoding="ascii")
    (tracefs.instance / "trace_clock").write_text(clocks, encoding="ascii")

    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied", str(tracefs.instance))

    tracefs.hit(XID, stamp="5.000000")  # long before anybody read it
    monkeypatch.setattr(Path, "write_text", refuse)  # root may write everywhere, so the refusal has to be made
    tracefs.source.open()
    return tracefs


def test_what_an_instance_had_kept_for_long_before_it_is_read_is_not_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracefs = a_kept_instance(tmp_path, "local global counter uptime perf [mono] mono_raw boot\n", monkeypatch)
    assert tracefs.source.poll(0.0) == ()
    tracefs.hit(XID)
    assert [event.code for event in tracefs.source.poll(0.0)] == [79]
    assert tracefs.source.unparsed == 0


def test_stamps_of_another_clock_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tracefs = a_kept_instance(tmp_path, "[local] global counter uptime perf mono mono_raw boot\n", monkeypatch)
    assert tracefs.source.poll(0.0)[0].time_ns == START_NS


def test_a_driver_without_tracepoints_is_not_supported(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    assert points_of(tmp_path) == ()
    with pytest.raises(NotSupportedError, match="nvidia_dev_xid"):
        Tracepoints(tmp_path, [GPU], node="node0", boot="abcd", clock=FakeClock()).open()


def test_a_tracefs_that_may_not_be_written_is_not_permitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "events").mkdir()
    tracefs = Tracefs(tmp_path)

    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied", str(tracefs.instance))

    monkeypatch.setattr(Path, "write_text", refuse)  # root may write everywhere, so the refusal has to be made
    with pytest.raises(NotPermittedError, match="Permission denied"):
        tracefs.source.open()


def test_the_wait_ends_with_the_time_out_and_does_not_spin(tracefs: Tracefs) -> None:
    assert tracefs.source.poll(0.5) == ()
    assert len(tracefs.clock.slept_s) <= 12


def test_a_point_that_root_has_enabled_is_not_written_again(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    tracefs = Tracefs(tmp_path)
    switches = [tracefs.instance / "events" / point / "enable" for point in POINTS]
    for switch in switches:
        switch.write_text("1\n", encoding="ascii")
    tracefs.source.open()
    assert [switch.read_text(encoding="ascii") for switch in switches] == ["1\n", "1\n"]
    tracefs.hit(XID)
    assert len(tracefs.source.poll(0.0)) == 1


@pytest.fixture
def real_tracefs(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root may trace")
    root = tmp_path / "tracing"
    root.mkdir()
    mounted = subprocess.run(["mount", "-t", "tracefs", "nodev", str(root)], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"tracefs cannot be mounted here: {mounted.stderr.decode().strip()}")
    yield root
    subprocess.run(["umount", str(root)], check=True)


@pytest.mark.integration
def test_the_kernels_own_trace_pipe_is_read_without_blocking_and_the_instance_is_removed(real_tracefs: Path) -> None:
    fork = "sched/sched_process_fork"
    if not (real_tracefs / "events" / fork).is_dir():
        pytest.skip("this kernel has no tracepoint for a fork")
    clock = SystemClock()
    source = Tracepoints(real_tracefs, [GPU], node="node0", boot="abcd", clock=clock, wanted=[fork])
    source.open()
    subprocess.run(["true"], check=True)
    started_s = clock.monotonic_s()
    assert source.poll(0.5) == ()
    assert clock.monotonic_s() - started_s < 60
    assert source.unparsed >= 1, "the fork was traced; it is no Xid"
    source.close()
    assert not (real_tracefs / "instances" / INSTANCE).exists()
