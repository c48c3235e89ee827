"""From the sample that crosses the limit to the clock-cap call of the last of four GPUs.

The ring, the guard with its reflex, detectors, rules and rails, the client and the actuator process are the real ones;
the samples are written into the ring by the benchmark as a sampler does, and the knob at the other end notes the time.
One guard lives through all episodes: a person releases what it capped, the incident closes, and the rail sags again.
The minutes that this takes are skipped by its clock. Run by root, the guard is another user than the actuator, which
admits it by the group that the kernel reports, as on a node with ``railwatch actuatord``.
"""

import contextlib
import gc
import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agent.actuation.client import ActuatorClient, NonBlockingClient
from agent.guard.guard import JOURNAL_EVERY_S, Guard
from agent.guard.pipeline import Pipeline, PipelineSettings
from agent.guard.reflex import Reflex
from agent.guard.waking import Waking
from agent.ring.ring import Ring
from agent.sampler.sampler import tune_process
from bench.rows import Row
from bench.subjects.actuator import CLOCKS_MHZ, JOURNAL_NAME, Stamps
from rules.limits.node import NodeLimits
from rules.policy.loading import load_builtin_policies
from rules.policy.model import ActionClass
from telemetry.clock import NS_PER_S, SystemClock
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.errors import EnvironmentLacksError, TransientError
from telemetry.frames import FloatArray, TableSpec
from telemetry.records import Mode, Record
from telemetry.signals import RateClass, Source, signals_of

EPISODES, IDLE_EPISODES = 1000, 200
# With `RAILWATCH_BENCH_EPISODES` as many as that are measured.
EPISODES_VARIABLE = "RAILWATCH_BENCH_EPISODES"
ORDINARY_EPISODES = 100
RATE_HZ = 20
HISTORY_ROWS = 12
# The unprivileged user and group of most distributions (65534); they need no entry anywhere.
AGENT_ID = 65534
OPEN_CIRCUIT_V, SOURCE_OHM = 12.25, 0.004
SAG_V = 11.2
ANSWER_LIMIT_S = 5.0
# Of the guard's time, twice an episode: longer than the cooldown of the rule, and its budget of six an hour is kept.
# The rows that follow last longer than the quiet after which a finding is over.
REST_S, QUIET_ROWS, QUIET_ROW_S = 700.0, 4, 4.0

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


class StepCounter:
    """Sink of steps that remembers how far the guard has read."""

    def __init__(self) -> None:
        self._nexts: dict[str, int] = {}

    def note(self, now_ns: int, nexts: Mapping[str, int], events: int) -> None:
        """Record one step."""
        del now_ns, events
        self._nexts = dict(nexts)

    def reached(self, ring: Ring) -> bool:
        """Return True if it has judged every row."""
        return all(self._nexts.get(name) == table.count for name, table in ring.tables.items())


class NoRecords:
    """The guard's records are not what is measured."""

    def append(self, record: Record) -> None:
        """Drop one record."""


class SkippingClock:
    """The machine's clock and what was skipped; sleeping takes its time."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._skipped_s = 0.0

    def skip(self, seconds: float) -> None:
        """Advance the clock at once."""
        self._skipped_s += seconds

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary start."""
        return self._clock.monotonic_s() + self._skipped_s

    def utc_ns(self) -> int:
        """Nanoseconds since 1970-01-01 UTC, and what was skipped."""
        return self._clock.utc_ns() + round(self._skipped_s * NS_PER_S)

    def sleep_until(self, monotonic_s: float) -> None:
        """Return at that time."""
        self._clock.sleep_until(monotonic_s - self._skipped_s)


def run(episodes: int | None = None) -> tuple[Row, ...]:
    """Measure on a machine that does nothing else, then with one busy process per core; about two minutes."""
    episodes = episodes or int(os.environ.get(EPISODES_VARIABLE, EPISODES))
    with tempfile.TemporaryDirectory(prefix="railwatch-bench-") as name, settled():
        measure(Path(name) / "first", 2)  # loads what is loaded late, which the agent's user may not be able to read
        Path(name).chmod(0o755)  # until now it was closed to him, and all was one user
        users = 2 if may_be_agent(Path(name)) else 1
        idle_ms, _ = measure(Path(name) / "idle", min(episodes, IDLE_EPISODES))
        with busy_cores():
            busy_ms, unconfirmed = measure(Path(name) / "busy", episodes)
            ordinary_ms, _ = measure(Path(name) / "ordinary", min(episodes, ORDINARY_EPISODES), reflex=False)
    rows = []
    for suffix, taken_ms in (("", busy_ms), ("_idle", idle_ms), ("_without_reflex", ordinary_ms)):
        for figure, percentile in (("p50", 50), ("p99", 99), ("worst", 100)):
            value = float(np.percentile(taken_ms, percentile))
            rows.append(Row(name=f"{figure}{suffix}_ms", value=value, unit="ms"))
    rows.append(Row(name="episodes", value=len(busy_ms), unit=""))
    rows.append(Row(name="unconfirmed", value=unconfirmed, unit=""))
    rows.append(Row(name="users", value=users, unit=""))
    return tuple(rows)


def measure(folder: Path, episodes: int, *, reflex: bool = True) -> tuple[list[float], int]:
    """Measure so many sags under one guard; return the milliseconds of each and the number of unconfirmed reflexes."""
    folder.mkdir()
    with actuator(folder) as (client, stamps), as_agent(folder), scene(folder, client, stamps, reflex=reflex) as made:
        taken_ms = [made.episode(number) for number in range(episodes)]
        return taken_ms, 0 if made.reflex is None else made.reflex.unconfirmed


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactionRig:
    """Guard in a thread of its own, over a ring that the benchmark writes."""

    ring: Ring
    pipeline: Pipeline
    waking: Waking
    wake: Callable[[], None]
    reflex: Reflex | None
    steps: StepCounter
    clock: SkippingClock
    client: ActuatorClient
    stamps: Stamps

    def episode(self, number: int) -> float:
        """Make the rail sag and recover; return the milliseconds until the last GPU's knob was called."""
        self.rest(HISTORY_ROWS, 1.0 / RATE_HZ)
        reflex = self.reflex
        self.until(lambda: self.steps.reached(self.ring) and (reflex is None or len(reflex.ready) == len(SUPPLIES)))
        self.stamps.clear()
        real = SystemClock()
        real.sleep_until(real.monotonic_s() + 0.001 + 0.0002 * (number % 50))  # at any phase of what else runs
        crossed_s = real.monotonic_s()
        append(self.ring, self.clock.utc_ns(), SAG_V, busy=True)
        self.note()
        taken_ms = (self.stamps.wait_for(len(GPUS), real, ANSWER_LIMIT_S) - crossed_s) * 1000.0
        self.until(lambda: bool(self.pipeline.engine.claims) and (reflex is None or not reflex.out))
        self.client.release_all(reason="end of the episode")
        self.clock.skip(JOURNAL_EVERY_S)
        self.until(lambda: not self.pipeline.engine.claims)
        self.rest(QUIET_ROWS, QUIET_ROW_S)
        self.until(lambda: not self.pipeline.incidents, skip_s=REST_S)
        return taken_ms

    def rest(self, rows: int, every_s: float) -> None:
        """Skip a time, then append rows of a healthy rail."""
        self.clock.skip(REST_S)
        for row in range(rows):
            age_s = (rows - row) * every_s
            append(self.ring, self.clock.utc_ns() - round(age_s * NS_PER_S), None, busy=row % RATE_HZ < RATE_HZ // 2)
        self.note()

    def note(self) -> None:
        """Notify the guard of new rows as the sampler does."""
        for name in self.ring.tables:
            self.waking.note(name)

    def until(self, condition: Callable[[], bool], *, skip_s: float = 0.0) -> None:
        """Wake the guard until something has come true; so much of its time passes before each look."""
        real = SystemClock()
        end_s = real.monotonic_s() + ANSWER_LIMIT_S
        while not condition():
            if real.monotonic_s() > end_s:
                open_ones = [f"{one.summary} ({one.state.value})" for one in self.pipeline.incidents]
                raise TransientError(f"the guard did not come to rest: {'; '.join(open_ones) or 'no incident'}")
            self.clock.skip(skip_s)
            self.wake()
            real.sleep_until(real.monotonic_s() + 0.005)


@contextlib.contextmanager
def scene(folder: Path, client: ActuatorClient, stamps: Stamps, *, reflex: bool) -> Iterator[ReactionRig]:
    """Run a guard as the sampling process does, until the block ends."""
    clock, steps, stop = SkippingClock(), StepCounter(), threading.Event()
    path = memory_folder(folder) / f"railwatch-bench-{os.getpid()}.ring"
    rows = dict.fromkeys(("gpu_fast", "hwmon"), 400)
    ring = Ring.create(path, SPECS, node="bench", topology=TOPOLOGY, simulated=True, rows=rows)
    allowed = NodeLimits(modes=dict.fromkeys(ActionClass, Mode.ENFORCE), actions_per_hour=3600, actions_per_day=86_400)
    settings = PipelineSettings(policies=load_builtin_policies(), action_limits=allowed)
    pipeline = Pipeline(SPECS, TOPOLOGY, settings, supported_mhz={gpu.key: CLOCKS_MHZ for gpu in GPUS})
    limits = settings.limits.rail_sag
    line = NonBlockingClient(folder / "actuator.sock")
    kept = Reflex(SPECS, line, clock, limits=limits) if reflex else None
    guard = Guard(
        ring.tables,
        pipeline,
        client,
        NoRecords(),
        clock,
        snapshot_path=path.with_suffix(".incidents"),
        actions_path=folder / JOURNAL_NAME,
        steps=steps,
        reflex=kept,
    )
    on_low = kept.look if kept is not None else lambda _name, _row: None
    waking = Waking(ring.tables, guard.wake, clock, low_v=limits.minimum_v, on_low=on_low)
    thread = threading.Thread(target=guard.run, args=(stop,))
    try:
        thread.start()
        yield ReactionRig(
            ring=ring,
            pipeline=pipeline,
            waking=waking,
            wake=guard.wake,
            reflex=kept,
            steps=steps,
            clock=clock,
            client=client,
            stamps=stamps,
        )
    finally:
        stop.set()
        guard.wake()
        thread.join()
        line.close()
        ring.close()
        for left in (path, path.with_suffix(".incidents")):
            left.unlink(missing_ok=True)


def append(ring: Ring, time_ns: int, voltage_v: float | None, *, busy: bool) -> None:
    """Write one row of both tables as the sampler does: GPUs that draw power together, the rail under them.

    A healthy rail without a voltage.
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
    """Return a folder in memory, where the agent keeps its ring, or another one where there is none."""
    memory = Path("/dev/shm")  # noqa: S108 -- the kernel's memory file system
    return memory if os.access(memory, os.W_OK) else otherwise


@contextlib.contextmanager
def actuator(folder: Path) -> Iterator[tuple[ActuatorClient, Stamps]]:
    """Run the actuator process until the block ends."""
    stamps = Stamps(folder / "stamps", create=True)
    client = ActuatorClient(folder / "actuator.sock", timeout_s=ANSWER_LIMIT_S)
    group = [str(AGENT_ID)] if may_be_agent(folder) else []
    command = [sys.executable, "-m", "bench.subjects.actuator", str(folder), *group]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        try:
            if child.stdout is None or child.stdout.readline() != b"ready\n":
                raise EnvironmentLacksError("the actuator process did not start")
            yield client, stamps
        finally:
            client.close()
            child.terminate()
            stamps.close()


def may_be_agent(folder: Path) -> bool:
    """Return True if this process can become the agent user and that user can read the code and the folder."""
    if os.geteuid() != 0:
        return False
    with _effective(AGENT_ID):
        needed = (folder, Path(__file__), Path(np.__file__))
        return all(os.access(path, os.R_OK, effective_ids=True) for path in needed)


@contextlib.contextmanager
def as_agent(folder: Path) -> Iterator[None]:
    """Switch to the agent's user until the block ends, where possible; it then owns the folder and its files."""
    if not may_be_agent(folder):
        yield
        return
    for path in (folder, folder / JOURNAL_NAME):
        os.chown(path, AGENT_ID, AGENT_ID)
    folder.chmod(0o2755)  # a journal that is rotated belongs to this group, too
    with _effective(AGENT_ID):
        yield


@contextlib.contextmanager
def _effective(user: int) -> Iterator[None]:
    """Switch to a user and the group of the same number until the block ends; only for root."""
    os.setegid(user)
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@contextlib.contextmanager
def settled() -> Iterator[None]:
    """Tune this process as the sampling process is tuned, until the block ends."""
    niceness, interval_s = os.getpriority(os.PRIO_PROCESS, 0), sys.getswitchinterval()
    tune_process()
    logging.getLogger("agent.guard").setLevel(logging.ERROR)  # each release of an episode is worth a warning
    try:
        yield
    finally:
        logging.getLogger("agent.guard").setLevel(logging.NOTSET)
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
