"""The ring against a plain list, a concurrent writer, and a writer that is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.ring.header import rows_for
from agent.ring.ring import Ring
from telemetry.clock import SystemClock
from telemetry.entities import Topology
from telemetry.errors import EnvironmentLacksError
from telemetry.frames import TableSpec
from tests.agent.fakes import gpu_entities, gpu_fast_spec, node_topology

NO_TOPOLOGY = Topology(entities=())


def _ring(path: Path, *, rows: int = 8, spec: TableSpec | None = None) -> Ring:
    spec = spec or gpu_fast_spec(2)
    return Ring.create(path, [spec], node="node0", topology=node_topology(2), simulated=True, rows={"gpu_fast": rows})


def _append(ring: Ring, number: int, *, time_ns: int | None = None) -> None:
    table = ring.tables["gpu_fast"]
    values = np.full(table.spec.shape, float(number))
    table.append(number if time_ns is None else time_ns, values, np.full(table.spec.shape, number % 2 == 0))


def test_a_reader_gets_what_the_writer_stated_about_the_node(tmp_path: Path) -> None:
    writer = _ring(tmp_path / "ring")
    reader = Ring.attach(tmp_path / "ring")
    assert reader.node == "node0"
    assert reader.simulated
    assert reader.topology == node_topology(2)
    assert reader.tables["gpu_fast"].spec == writer.tables["gpu_fast"].spec


@settings(max_examples=60)
@given(
    steps=st.lists(st.tuples(st.integers(0, 12), st.integers(1, 9) | st.none()), max_size=20), rows=st.integers(2, 9)
)
def test_reading_on_returns_every_row_once_in_order_or_counts_it_as_lost(
    steps: list[tuple[int, int | None]], rows: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ring = _ring(tmp_path_factory.mktemp("ring") / "ring", rows=rows)
    table = ring.tables["gpu_fast"]
    written, seen, at = 0, [], 0
    for appends, limit in steps:
        for _ in range(appends):
            _append(ring, written)
            written += 1
        read = table.read(at, limit)
        expected = list(range(at + read.lost, read.next))
        assert read.lost == max(0, written - rows - at)
        assert list(read.frame.time_ns) == expected
        assert list(read.frame.values[:, 1, 2]) == expected
        assert list(read.frame.fresh[:, 0, 0]) == [number % 2 == 0 for number in expected]
        assert limit is None or len(read.frame) <= limit
        seen += expected
        at = read.next
    assert seen == sorted(set(seen))
    ring.close()


def test_a_wall_clock_that_steps_back_ends_the_frame_but_loses_nothing(tmp_path: Path) -> None:
    ring = _ring(tmp_path / "ring")
    for number, time_ns in enumerate((100, 200, 50, 60)):
        _append(ring, number, time_ns=time_ns)
    table = ring.tables["gpu_fast"]
    first = table.read(0)
    second = table.read(first.next)
    assert [list(first.frame.time_ns), list(second.frame.time_ns)] == [[100, 200], [50, 60]]


@pytest.mark.parametrize("since", [-1, 1])
def test_reading_from_a_row_that_cannot_exist_is_misuse(tmp_path: Path, since: int) -> None:
    with pytest.raises(ValueError, match="rows 0 to 0"):
        _ring(tmp_path / "ring").tables["gpu_fast"].read(since)


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    _ring(tmp_path / "ring")
    table = Ring.attach(tmp_path / "ring").tables["gpu_fast"]
    with pytest.raises(TypeError, match="read-only"):
        table.append(1, np.zeros(table.spec.shape), np.zeros(table.spec.shape, bool))


def test_a_second_writer_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    first = _ring(tmp_path / "ring")
    with pytest.raises(EnvironmentLacksError, match="another process writes"):
        _ring(tmp_path / "ring")
    first.close()
    first.close()
    _ring(tmp_path / "ring")


def test_other_tables_make_a_new_ring_and_readers_of_the_old_one_can_report(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    old = _ring(path)
    reader = Ring.attach(path)
    assert reader.current
    old.close()
    _ring(path, spec=gpu_fast_spec(3))
    assert not reader.current
    assert Ring.attach(path).tables["gpu_fast"].spec.entities == gpu_entities(3)


@pytest.mark.parametrize("content", [b"", b"RWRING\x00\x01", b"not a ring at all, but long enough"])
def test_a_file_that_is_no_ring_is_refused_and_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ring").write_bytes(content)
    with pytest.raises(EnvironmentLacksError, match="ring"):
        Ring.attach(tmp_path / "ring")


def test_a_ring_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    _ring(tmp_path / "ring").close()
    os.truncate(tmp_path / "ring", 6000)
    with pytest.raises(EnvironmentLacksError, match="cut short"):
        Ring.attach(tmp_path / "ring")


def test_a_ring_with_a_wrong_number_in_its_header_is_read_or_refused_and_never_fails_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    _ring(path).close()
    whole, refused = path.read_bytes(), 0
    for at in (one for one in range(16, whole.index(b"\x00", 16)) if whole[one : one + 1].isdigit()):
        path.write_bytes(whole[:at] + b"9" + whole[at + 1 :])
        try:
            Ring.attach(path).close()
        except EnvironmentLacksError:
            refused += 1
    assert refused > 5, "sizes, places and versions"


def test_the_error_of_a_missing_ring_suggests_that_the_agent_may_not_run(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentLacksError, match="is the agent running"):
        Ring.attach(tmp_path / "ring")


def test_a_directory_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentLacksError, match="cannot make the sample ring"):
        _ring(tmp_path / "missing" / "ring")


def test_a_table_name_may_occur_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one name"):
        Ring.create(
            tmp_path / "ring",
            [gpu_fast_spec(1), gpu_fast_spec(2)],
            node="n",
            topology=NO_TOPOLOGY,
            simulated=False,
            rows={"gpu_fast": 4},
        )


def test_rows_hold_the_requested_seconds_and_one_more() -> None:
    assert rows_for(300, 20.0) == 6020


_WRITER = """
import sys
from pathlib import Path
import numpy as np
from tests.agent.ring.test_ring import _append, _ring
ring = _ring(Path(sys.argv[1]), rows=64)
number = ring.tables["gpu_fast"].count
print(number, flush=True)
while True:
    _append(ring, number)
    number += 1
"""


def _start_writer(path: Path) -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def test_rows_read_beside_a_writer_at_full_speed_are_whole_and_a_killed_writer_leaves_them(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    process, first_row = _start_writer(path)
    try:
        assert first_row == 0
        table = Ring.attach(path).tables["gpu_fast"]
        at, got, lost, clock = 0, 0, 0, SystemClock()
        end_s = clock.monotonic_s() + 60.0
        while (got < 20_000 or lost == 0) and clock.monotonic_s() < end_s:
            if got >= 20_000:
                clock.sleep_until(clock.monotonic_s() + 0.1)  # long enough to be overtaken
            read = table.read(at)
            numbers = read.frame.time_ns
            assert np.array_equal(numbers, np.arange(read.next - len(numbers), read.next))
            assert np.array_equal(read.frame.values, np.broadcast_to(numbers[:, None, None], read.frame.values.shape))
            at, got, lost = read.next, got + len(numbers), lost + read.lost
        assert got >= 20_000
        assert got + lost == at
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    left = table.count
    tail = table.read(left - 60)
    assert list(tail.frame.time_ns) == list(range(left - 60, left))
    process, first_row = _start_writer(path)
    process.kill()
    process.communicate()
    assert first_row == left, "the next writer of the same tables goes on where the dead one ended"
    assert table.read(left - 1).next >= left
