"""From the sample that crosses the limit to the clock-cap call of the last of four GPUs.

The ring, the guard with its detectors, rules and rails, the client and the actuator process are the real ones; the
samples are written into the ring by the benchmark as a sampler does, and the knob at the other end notes the time.
"""

import contextlib
import gc
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from agent.actuation.client import ActuatorClient
from agent.guard.guard import Guard
from agent.guard.pipeline import Pipeline, PipelineSettings
from agent.ring import Ring
from agent.sampler.sampler import settle_process
from bench.rows import Row
from bench.subjects.stamps import CLOCKS_MHZ, Stamps
from rules.loading import load_builtin_policies
from rules.policy import ActionClass
from rules.rails import Rails
from telemetry.clock import NS_PER_S, SystemClock
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.errors import EnvironmentLacksError
from telemetry.frames import FloatArray, TableSpec
from telemetry.records import Mode, Record
from telemetry.signals import RateClass, Source, signals_of

EPISODES = 150
RATE_HZ = 20
HISTORY_ROWS = 10 * RATE_HZ
OPEN_CIRCUIT_V, SOURCE_OHM = 12.25, 0.004
SAG_V = 11.2
ANSWER_LIMIT_S = 5.0

GPUS = tuple(Entity(kind=EntityKind.GPU, key=f"GPU-{n}", name=f"gpu{n}") for n in range(4))
SUPPLIES = tuple(Entity(kind=EntityKind.SUPPLY, key=f"psu{n}", name=f"psu{n}") for n in range(2))
NODE = Entity(kind=EntityKind.NODE, key="bench", name="bench")
TOPOLOGY = Topology(
    entities=(NODE, *SUPPLIES, *GPUS),
    edges=(
        *((NODE.id, supply.id) for supply in SUPPLIES),
        *((supply.id, gpu.id) for supply in SUPPLIES for gpu in GPUS),
    ),
)
GPU_SIGNALS = tuple(signal.name for signal in signals_of(EntityKind.GPU, source=Source.NVML, rate=RateClass.FAST))
SPECS = (
    TableSpec(name="gpu_fast", kind=EntityKind.GPU, entities=GPUS, signals=GPU_SIGNALS),
    TableSpec(name="hwmon", kind=EntityKind.SUPPLY, entities=SUPPLIES, signals=("voltage_v", "current_a")),
)


class NoRecords:
    """The guard's records are not what is measured."""

    def append(self, record: Record) -> None:
        """Drop one record."""


def run(episodes: int = EPISODES) -> tuple[Row, ...]:
    """Measure on a machine that does nothing else, then with one busy process per core; about a minute."""
    with (
        tempfile.TemporaryDirectory(prefix="railwatch-bench-") as name,
        actuator(Path(name)) as (client, stamps),
        settled(),
    ):
        idle_ms = [episode(Path(name), number, client, stamps) for number in range(episodes)]
        with busy_cores():
            busy_ms = [episode(Path(name), episodes + number, client, stamps) for number in range(episodes)]
    rows = []
    for suffix, taken_ms in (("", busy_ms), ("_idle", idle_ms)):
        for figure, percentile in (("p50", 50), ("p99", 99)):
            value = float(np.percentile(taken_ms, percentile))
            rows.append(Row(name=f"{figure}{suffix}_ms", value=value, unit="ms"))
    return tuple(rows)


def episode(folder: Path, number: int, client: ActuatorClient, stamps: Stamps) -> float:
    """Let the rail sag once under a guard that is new; gives milliseconds until the last GPU's knob was called."""
    clock = SystemClock()
    ring_path = memory_folder(folder) / f"railwatch-bench-{os.getpid()}.ring"
    ring = Ring.create(
        ring_path,
        SPECS,
        node="bench",
        topology=TOPOLOGY,
        simulated=True,
        rows=dict.fromkeys(("gpu_fast", "hwmon"), 400),
    )
    settings = PipelineSettings(
        policies=load_builtin_policies(), rails=Rails(modes=dict.fromkeys(ActionClass, Mode.ENFORCE))
    )
    pipeline = Pipeline(SPECS, TOPOLOGY, settings, supported_mhz={gpu.key: CLOCKS_MHZ for gpu in GPUS})
    guard = Guard(ring.tables, pipeline, client, NoRecords(), clock, snapshot_path=folder / f"incidents-{number}")
    stop = threading.Event()
    thread = threading.Thread(target=guard.run, args=(stop,))
    try:
        for row in range(HISTORY_ROWS):
            age_s = (HISTORY_ROWS - row) / RATE_HZ
            append(ring, clock.utc_ns() - round(age_s * NS_PER_S), None, busy=row % RATE_HZ < RATE_HZ // 2)
        guard.step()
        thread.start()
        stamps.clear()
        clock.sleep_until(clock.monotonic_s() + 0.03 + 0.0007 * (number % 50))  # at any phase of what else runs
        crossed_s = clock.monotonic_s()
        append(ring, clock.utc_ns(), SAG_V, busy=True)
        guard.wake()
        return (stamps.wait_for(len(GPUS), clock, ANSWER_LIMIT_S) - crossed_s) * 1000.0
    finally:
        stop.set()
        guard.wake()
        if thread.is_alive():
            thread.join()
        client.release_all(reason="end of the episode")
        ring.close()
        ring_path.unlink()


def append(ring: Ring, time_ns: int, voltage_v: float | None, *, busy: bool) -> None:
    """Write one row of both tables as the sampler does: GPUs that draw power together, the rail under them.

    A healthy rail where no voltage is given.
    """
    gpu: FloatArray = np.zeros((len(GPUS), len(GPU_SIGNALS)))
    gpu[:, GPU_SIGNALS.index("power_w")] = 300.0 if busy else 130.0
    gpu[:, GPU_SIGNALS.index("sm_clock_mhz")] = CLOCKS_MHZ[-1]
    current_a = 65.0 if busy else 35.0
    rail_v = OPEN_CIRCUIT_V - SOURCE_OHM * current_a if voltage_v is None else voltage_v
    supply = np.array([[rail_v, current_a]] * len(SUPPLIES))
    for name, values in (("gpu_fast", gpu), ("hwmon", supply)):
        ring.tables[name].append(time_ns, values, np.ones(values.shape, dtype=np.bool_))


def memory_folder(otherwise: Path) -> Path:
    """Give a folder in memory, where the agent keeps its ring, or another one where there is none."""
    memory = Path("/dev/shm")  # noqa: S108 -- the kernel's memory file system
    return memory if os.access(memory, os.W_OK) else otherwise


@contextlib.contextmanager
def actuator(folder: Path) -> Iterator[tuple[ActuatorClient, Stamps]]:
    """Run the actuator process until the block ends."""
    stamps = Stamps(folder / "stamps", create=True)
    client = ActuatorClient(folder / "actuator.sock", timeout_s=ANSWER_LIMIT_S)
    command = [sys.executable, "-m", "bench.subjects.actuator", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        try:
            if child.stdout is None or child.stdout.readline() != b"ready\n":
                raise EnvironmentLacksError("the actuator process did not start")
            yield client, stamps
        finally:
            client.close()
            child.terminate()
            stamps.close()


@contextlib.contextmanager
def settled() -> Iterator[None]:
    """Tune this process as the sampling process is tuned, until the block ends."""
    niceness, interval_s = os.getpriority(os.PRIO_PROCESS, 0), sys.getswitchinterval()
    settle_process()
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
        sys.setswitchinterval(interval_s)
        gc.unfreeze()


@contextlib.contextmanager
def busy_cores() -> Iterator[None]:
    """Keep every core busy with a process of its own."""
    ordinary = "import os; os.setpriority(os.PRIO_PROCESS, 0, 0)\nwhile True: pass"
    burners = [subprocess.Popen([sys.executable, "-c", ordinary]) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
