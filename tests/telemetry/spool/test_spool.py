import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.errors import EnvironmentLacksError
from telemetry.rollup import Resolution
from telemetry.spool.spool import Spool


def body(number: int, points: int = 1) -> bytes:
    return b"".join(b"gpu,entity=a power_w=%d %d\n" % (number, number * 1000 + i) for i in range(points))


def put(spool: Spool, number: int, points: int = 1) -> None:
    assert spool.append(Resolution.RAW, body(number, points), newest_ns=number)


def drain(spool: Spool) -> list[bytes]:
    taken = []
    while entries := spool.peek(max_points=7):
        taken += [entry.body for entry in entries]
        spool.ack(entries)
    return taken


def test_entries_come_out_in_order_and_once(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for number in range(20):
        put(spool, number)
    assert drain(spool) == [body(number) for number in range(20)]
    assert spool.peek(max_points=10) == ()
    status = spool.status()
    assert (status.waiting_points, status.waiting_bytes, status.oldest_ns) == (0, 0, None)
    spool.close()


def test_peek_returns_at_least_one_entry_and_no_more_points_than_requested(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for number in range(5):
        put(spool, number, points=4)
    assert len(spool.peek(max_points=1)) == 1
    assert len(spool.peek(max_points=8)) == 2
    assert len(spool.peek(max_points=11)) == 2
    spool.close()


def test_resolution_and_stamp_come_back(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(Resolution.ROLLUP, body(1, 3), newest_ns=77)
    (entry,) = spool.peek(max_points=10)
    assert (entry.resolution, entry.points, entry.newest_ns) == (Resolution.ROLLUP, 3, 77)
    assert spool.status().oldest_ns == 77
    spool.close()


def test_a_new_process_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for number in range(10):
        put(spool, number)
    spool.ack(spool.peek(max_points=4))
    spool.close()
    again = Spool(tmp_path)
    put(again, 10)
    assert drain(again) == [body(number) for number in range(4, 11)]
    again.close()


def test_the_oldest_go_when_the_bound_is_reached_and_are_counted(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=8000)
    for number in range(1000):
        put(spool, number)
    assert sum(path.stat().st_size for path in tmp_path.glob("*.spool")) <= 8000
    status = spool.status()
    assert status.dropped_points > 0
    left = drain(spool)
    assert left == [body(number) for number in range(1000 - len(left), 1000)]
    assert len(left) + status.dropped_points == 1000
    spool.close()
    again = Spool(tmp_path, max_bytes=8000)
    assert again.status().dropped_points == status.dropped_points
    again.close()


def test_what_was_dropped_on_its_way_but_arrived_is_not_counted_as_lost(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=8000)
    for number in range(50):
        put(spool, number)
    on_the_way = spool.peek(max_points=10)
    for number in range(50, 1000):
        put(spool, number)
    dropped = spool.status().dropped_points
    spool.ack(on_the_way)
    assert spool.status().dropped_points == dropped - 10
    assert len(drain(spool)) == 1000 - dropped
    spool.close()


def test_an_entry_larger_than_the_bound_is_refused_and_counted(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=1000)
    assert not spool.append(Resolution.RAW, body(1, 500), newest_ns=1)
    assert spool.status().dropped_points == 500
    put(spool, 2)
    assert drain(spool) == [body(2)]
    spool.close()


@pytest.mark.parametrize("cut_bytes", [1, 10, 24, 30])
def test_a_torn_tail_is_cut_off_and_writing_goes_on(tmp_path: Path, cut_bytes: int) -> None:
    spool = Spool(tmp_path)
    for number in range(3):
        put(spool, number)
    spool.close()
    (segment,) = tmp_path.glob("*.spool")
    segment.write_bytes(segment.read_bytes()[:-cut_bytes])
    again = Spool(tmp_path)
    assert again.status().torn_bytes > 0
    put(again, 9)
    assert drain(again) == [body(0), body(1), body(9)]
    again.close()


def test_a_flaw_in_the_middle_costs_the_rest_of_its_segment_and_no_more(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=8000)
    for number in range(30):
        put(spool, number)
    first = min(tmp_path.glob("*.spool"))
    damaged = bytearray(first.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    first.write_bytes(damaged)
    left = drain(spool)
    assert len(left) + spool.status().dropped_points == 30
    assert left == [body(number) for number in range(30) if body(number) in left]
    assert body(29) in left
    put(spool, 31)
    assert drain(spool) == [body(31)]
    spool.close()


def test_a_position_that_cannot_be_read_sends_everything_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for number in range(4):
        put(spool, number)
    spool.ack(spool.peek(max_points=2))
    spool.close()
    (tmp_path / "position.json").write_text("{torn")
    again = Spool(tmp_path)
    assert drain(again) == [body(number) for number in range(4)]
    again.close()


def test_two_processes_cannot_share_a_spool(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    with pytest.raises(EnvironmentLacksError, match="in use by another process"):
        Spool(tmp_path)
    spool.close()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentLacksError, match="cannot be used as spool"):
        Spool(tmp_path / "file" / "spool")


@settings(max_examples=40)
@given(steps=st.lists(st.sampled_from(["put", "put", "put", "take", "reopen"]), max_size=60), data=st.data())
def test_every_point_is_sent_or_counted_whatever_happens(
    steps: list[str], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("spool")
    spool = Spool(directory, max_bytes=1500)
    put_points, sent = 0, []
    for step in steps:
        if step == "put":
            points = data.draw(st.integers(1, 4))
            put(spool, put_points, points)
            put_points += points
        elif step == "take":
            entries = spool.peek(max_points=data.draw(st.integers(1, 20)))
            sent += [entry.body for entry in entries]
            spool.ack(entries)
        else:
            spool.close()
            spool = Spool(directory, max_bytes=1500)
    status = spool.status()
    assert sum(item.count(b"\n") for item in sent) + status.waiting_points + status.dropped_points == put_points
    sent += drain(spool)
    assert len(set(sent)) == len(sent)
    spool.close()


_KILLED = """
import sys
from pathlib import Path
from telemetry.spool.spool import Spool
from telemetry.rollup import Resolution
from tests.telemetry.spool.test_spool import body
spool = Spool(Path(sys.argv[1]))
for number in range(10_000_000):
    spool.append(Resolution.RAW, body(number, 20), newest_ns=number)
    print(number, flush=True)
"""


def test_what_was_appended_survives_kill_9(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", _KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    for line in writer.stdout:
        if int(line) == 500:
            break
    writer.send_signal(signal.SIGKILL)
    acknowledged = [500, *(int(line) for line in writer.stdout.read().split("\n")[:-1] if line)]
    writer.wait()
    writer.stdout.close()
    spool = Spool(tmp_path)
    found = drain(spool)
    assert found == [body(number, 20) for number in range(len(found))]
    assert acknowledged[-1] + 1 <= len(found) <= acknowledged[-1] + 2
    spool.close()


_FULL = """
import json, resource, signal, sys
from pathlib import Path
from telemetry.spool.spool import Spool
from telemetry.rollup import Resolution
from tests.telemetry.spool.test_spool import body, drain
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
spool = Spool(Path(sys.argv[1]), max_bytes=1_000_000)
resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, resource.RLIM_INFINITY))
for number in range(1000):
    spool.append(Resolution.RAW, body(number, 2), newest_ns=number)
dropped = spool.status().dropped_points
left = drain(spool)
print(json.dumps({"dropped": dropped, "left": len(left), "newest": left[-1] == body(999, 2)}))
"""


def test_a_full_disk_costs_the_oldest_and_is_counted(tmp_path: Path) -> None:
    """A limit on the size of files acts as the full disk."""
    done = subprocess.run(
        [sys.executable, "-c", _FULL, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    report = json.loads(done.stdout)
    assert report["dropped"] + 2 * report["left"] == 2000
    assert report["left"] > 0
    assert report["newest"]


def test_a_foreign_file_is_left_alone_and_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = Spool(tmp_path)
    put(first, 1)
    first.close()
    (tmp_path / "x.spool").write_text("not ours")
    (tmp_path / "²7.spool").write_text("nor this")
    spool = Spool(tmp_path)
    assert drain(spool) == [body(1)]
    assert caplog.text.count("x.spool") == 1
    assert (tmp_path / "x.spool").read_text() == "not ours"
    spool.close()
