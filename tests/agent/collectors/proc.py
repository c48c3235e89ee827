"""A /proc in a temporary folder."""

from pathlib import Path

from tests.agent.collectors.sysfs_tree import write


def proc_tree(root: Path) -> Path:
    """A node with two kernel threads of the driver, one of something else, and a program that calls itself nv_queue."""
    write(
        root,
        {
            "stat": "cpu  100 0 50 850 0 0 0 0 0 0\ncpu0 100 0 50 850 0 0 0 0 0 0\nintr 0",
            "loadavg": "1.50 1.00 0.50 1/800 5000",
            "meminfo": _meminfo(),
            "pressure/cpu": "some avg10=12.50 avg60=3.00 avg300=1.00 total=2500000",
            "pressure/memory": _both("some avg10=1.00", 1_000_000, "full avg10=0.50", 500_000),
            "pressure/io": _both("some avg10=0.00", 7, "full avg10=0.00", 3),
        },
    )
    thread(root, 812, "nv_queue")
    thread(root, 813, "irq/57-nvidia")
    thread(root, 814, "irq/58-s-nvidia")
    thread(root, 20, "kworker/0:1")
    thread(root, 4000, "nv_queue", parent=1, system=9_999)
    return root


def thread(
    root: Path, pid: int, name: str, *, parent: int = 2, user: int = 0, system: int = 0, start: int = 100
) -> None:
    """Write a process or kernel thread with its times in ticks."""
    times = f"{user} {system} 0 0 20 0 1 0 {start} 0 0"
    write(root, {f"{pid}/comm": name, f"{pid}/stat": f"{pid} ({name}) S {parent} 0 0 0 -1 0 0 0 0 0 {times}"})


def _meminfo() -> str:
    kib = {"MemTotal": 1000, "MemFree": 100, "MemAvailable": 400, "SwapTotal": 200, "SwapFree": 150}
    return "\n".join(f"{name + ':':<12}{value:>12} kB" for name, value in kib.items())


def _both(some: str, some_us: int, full: str, full_us: int) -> str:
    rest = "avg60=0.00 avg300=0.00"
    return f"{some} {rest} total={some_us}\n{full} {rest} total={full_us}"
