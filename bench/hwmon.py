"""Cost of reading four rails a thousand times a second, and whether a dip of 5 ms is seen.

The tree lies in memory. Reading a real sensor takes the time of its bus on top, in which the processor is free for
others: 0.1 to 1 ms over I2C.
"""

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.cores import measured_core, other_core, pin
from bench.machine import run_subject
from bench.rows import Row, compared
from bench.subjects.rails import ROW_HZ, Result
from telemetry.clock import SystemClock

MEASURED_S = 10.0
RAILS = 4
DIP_S = 0.005
DIP_EVERY_S = 0.23  # out of step with the rows
REST_MV, DIP_MV = 12_000, 11_240
DIP_BELOW_V = 11.3


def run(measured_s: float = MEASURED_S) -> tuple[Row, ...]:
    """Measure each way and pace, one after the other on the same core; about a minute."""
    memory = Path("/dev/shm")  # noqa: S108 -- the kernel's memory file system
    with tempfile.TemporaryDirectory(prefix="railwatch-bench-", dir=memory if memory.is_dir() else None) as folder:
        root = Path(folder)
        make_tree(root)
        fast = _measure(root, "rails", 1000.0, measured_s)
        plain = _measure(root, "reopening", 1000.0, measured_s)
        slow = _measure(root, "rails", 100.0, measured_s)
        with dips(root) as times_s:
            dipped = _measure(root, "rails", 1000.0, measured_s)
        end_s = dipped.start_s + dipped.wall_s
        made = sum(dipped.start_s - DIP_S < at_s < end_s - DIP_S for at_s in times_s)
    return (
        compared("core_share_1khz", fast.cpu_s / fast.wall_s, "core", plain.cpu_s / plain.wall_s, "open, read, close"),
        Row(name="core_share_100hz", value=slow.cpu_s / slow.wall_s, unit="core"),
        Row(name="us_per_round", value=1e6 * fast.cpu_s / fast.rounds, unit="us"),
        Row(name="rounds_hz", value=fast.rounds / fast.wall_s, unit="Hz"),
        Row(name="missed_share", value=fast.missed / (fast.rounds + fast.missed), unit="share"),
        compared("dips_seen", dipped.dips_seen, "dips", float(made), f"made, {DIP_S * 1000:g} ms each"),
        compared("dips_seen_plain", dipped.dips_seen_plain, "dips", float(made), f"newest value at {ROW_HZ:g} Hz"),
        compared("lowest_v", dipped.lowest_v, "V", DIP_MV / 1000, "the dip's own minimum"),
    )


def make_tree(root: Path) -> None:
    """Make a tree of four labelled shunt monitors."""
    for number in range(RAILS):
        device = root / f"class/hwmon/hwmon{number}"
        device.mkdir(parents=True)
        files = {
            "name": "ina228",
            "in0_input": str(REST_MV),
            "in0_label": f"psu{number} 12V",
            "curr1_input": "45000",
            "curr1_label": f"psu{number} 12V",
        }
        for name, text in files.items():
            (device / name).write_text(f"{text}\n", encoding="ascii")


@contextmanager
def dips(root: Path) -> Iterator[list[float]]:
    """Make the first rail dip repeatedly until the block ends; yield the list of the monotonic times of the dips."""
    stop = threading.Event()
    made: list[float] = []
    writer = threading.Thread(target=_dip, args=(root / "class/hwmon/hwmon0/in0_input", stop, made))
    writer.start()
    try:
        yield made
    finally:
        stop.set()
        writer.join()


def _dip(path: Path, stop: threading.Event, made: list[float]) -> None:
    clock = SystemClock()
    fd = os.open(path, os.O_WRONLY)
    pin(other_core())
    at_s = clock.monotonic_s() + DIP_EVERY_S
    while not stop.is_set():
        clock.sleep_until(at_s)
        os.pwrite(fd, f"{DIP_MV}\n".encode(), 0)
        clock.sleep_until(at_s + DIP_S)
        os.pwrite(fd, f"{REST_MV}\n".encode(), 0)
        made.append(at_s)
        at_s += DIP_EVERY_S
    os.close(fd)


def _measure(root: Path, subject: str, hz: float, measured_s: float) -> Result:
    task = {
        "subject": subject,
        "root": str(root),
        "hz": hz,
        "measured_s": measured_s,
        "core": measured_core(),
        "dip_below_v": DIP_BELOW_V,
    }
    return Result(**run_subject("bench.subjects.rails", task, name=subject, timeout_s=measured_s + 60.0))
