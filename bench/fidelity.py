"""Share of the GPUs' power updates that is kept, against the simulated driver's own log.

The sampler runs on one core, the served node on the other together with a busy process. Each case runs in step
with the sensors and then at a fixed rate, twice a period, which is what a poll that knows nothing of the phase needs.
"""

import contextlib
import itertools
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agent.ring.ring import Ring
from bench.cores import other_core
from bench.machine import run_subject
from bench.rows import Row, compared
from bench.subjects.many_gpus import served_plant
from simulator.driver.layout import SAMPLE_SLOTS
from simulator.driver.state import StateFile
from telemetry.frames import Frame

# A node with 20 ms sensors and one with 100 ms sensors, and the fixed rate that each is compared at.
CASES = (("v100x4", "20ms", 100.0), ("a100x8", "100ms", 20.0))
WARM_UP_S, MEASURED_S = 15.0, 30.0
# A missed update is filled in two seconds later, at the next look.
SETTLE_S = 4.5
_FOLLOW_S = 0.2
# The node has to keep its own time while its core is busy; a real sensor is no process that waits its turn.
PLANT_NICENESS = -15

# UTC ns and mW.
Update = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Result of one run; `error_ms` are the time-stamp errors of the kept updates.

    `polled` are the updates that polls saw, `foreign` what was kept and was no update or one that was kept already.
    """

    updates: int
    polled: int
    filled: int
    foreign: int
    polls: int
    gpus: int
    late_p99_s: float
    error_ms: tuple[float, ...]

    @property
    def kept_share(self) -> float:
        """Distinct updates kept."""
        return (self.polled + self.filled) / self.updates

    @property
    def calls_per_update(self) -> float:
        """Reads of a GPU for one update that a poll saw."""
        return self.polls * self.gpus / max(1, self.polled)


def run(measured_s: float = MEASURED_S, cases: tuple[tuple[str, str, float], ...] = CASES) -> tuple[Row, ...]:
    """Measure every case in step and at its fixed rate; about four minutes."""
    rows: list[Row] = []
    for node, suffix, rate_hz in cases:
        with tempfile.TemporaryDirectory(prefix="railwatch-bench-") as folder:
            in_step = measure(node, None, Path(folder) / "step", measured_s)
            fixed = measure(node, rate_hz, Path(folder) / "fixed", measured_s)
        rows += rows_of(in_step, fixed, suffix=suffix, against=f"fixed {rate_hz:g} Hz")
    return tuple(rows)


def rows_of(in_step: Score, fixed: Score, *, suffix: str, against: str) -> list[Row]:
    """Return the rows of one case."""

    def row(name: str, value: float, unit: str, baseline: float) -> Row:
        return compared(f"{name}_{suffix}", value, unit, baseline, against)

    def share(of: Score, count: int) -> float:
        return count / of.updates

    def error_ms(of: Score, percentile: float) -> float:
        return float(np.percentile(of.error_ms, percentile))

    return [
        row("kept_share", in_step.kept_share, "ratio", fixed.kept_share),
        row("polled_share", share(in_step, in_step.polled), "ratio", share(fixed, fixed.polled)),
        row("duplicate_share", share(in_step, in_step.foreign), "ratio", share(fixed, fixed.foreign)),
        row("stamp_error_p50_ms", error_ms(in_step, 50), "ms", error_ms(fixed, 50)),
        row("stamp_error_p99_ms", error_ms(in_step, 99), "ms", error_ms(fixed, 99)),
        row("jitter_p99_ms", 1000 * in_step.late_p99_s, "ms", 1000 * fixed.late_p99_s),
        row("calls_per_update", in_step.calls_per_update, "", fixed.calls_per_update),
        row("updates", in_step.updates, "", fixed.updates),
    ]


def measure(
    node: str, rate_hz: float | None, folder: Path, measured_s: float, *, warm_up_s: float = WARM_UP_S
) -> Score:
    """Sample one node in step, or at a rate, and compare with what its driver logged.

    Raises
    ------
    EnvironmentLacksError
        There is no C compiler, or a part did not run.
    """
    folder.mkdir(parents=True)
    ring_path = folder / "ring"
    with (
        served_plant(folder, node, niceness=PLANT_NICENESS) as served,
        busy_core(),
        followed(served.state) as log,
    ):
        task = {
            "rate_hz": rate_hz,
            "ring": str(ring_path),
            "warm_up_s": warm_up_s,
            "measured_s": measured_s,
            "settle_s": SETTLE_S,
        }
        result = run_subject(
            "bench.subjects.updates",
            task,
            name="sampler",
            timeout_s=warm_up_s + measured_s + 60.0,
            environment=served.environment,
        )
    ring = Ring.attach(ring_path)
    frames = {name: table.read(0).frame for name, table in ring.tables.items()}
    ring.close()
    return score(
        log,
        frames["gpu_fast"],
        frames["gpu_samples"],
        between=(result["began_ns"], result["ended_ns"]),
        polls=result["polls"],
        late_p99_s=result["late_p99_s"],
    )


def score(
    log: list[list[Update]],
    polled: Frame,
    filled: Frame,
    *,
    between: tuple[int, int],
    polls: int,
    late_p99_s: float,
) -> Score:
    """Compare the two tables with the log of each GPU over a stretch of time."""
    counts = {"updates": 0, "polled": 0, "filled": 0, "foreign": 0}
    errors_ms: list[float] = []
    for gpu, updates in enumerate(log):
        distinct = [now for before, now in itertools.pairwise(updates) if before[1] != now[1]]
        by_value: dict[int, list[int]] = {}
        for at_ns, power_mw in distinct:
            by_value.setdefault(power_mw, []).append(at_ns)
        taken: set[Update] = set()
        for name, frame in (("filled", filled), ("polled", polled)):
            for stamp_ns, power_mw, age_ns in kept(frame, gpu):
                # A poll shows the newest update of its value.
                shown_ns = max((at for at in by_value.get(power_mw, ()) if at <= stamp_ns), default=None)
                if not between[0] <= (stamp_ns if shown_ns is None else shown_ns) < between[1]:
                    continue
                if shown_ns is None or (shown_ns, power_mw) in taken:
                    counts["foreign"] += 1
                    continue
                taken.add((shown_ns, power_mw))
                counts[name] += 1
                errors_ms.append(abs(stamp_ns - age_ns - shown_ns) / 1e6)
        counts["updates"] += sum(between[0] <= at_ns < between[1] for at_ns, _ in distinct)
    return Score(**counts, polls=polls, gpus=len(log), late_p99_s=late_p99_s, error_ms=tuple(errors_ms))


def kept(frame: Frame, gpu: int) -> list[tuple[int, int, int]]:
    """Return the updates of one GPU's power sensor in a table: stamp, mW, and age in ns, 0 where it has none."""
    power_w = frame.signal("power_w")[:, gpu]
    fresh = frame.fresh[:, gpu, frame.spec.signals.index("power_w")] & np.isfinite(power_w)
    at = np.flatnonzero(fresh)
    age_s = frame.signal("power_age_s")[at, gpu] if "power_age_s" in frame.spec.signals else np.full(len(at), np.nan)
    age_ns = np.rint(1e9 * np.nan_to_num(age_s)).astype(int)
    powers_mw = np.rint(1000 * power_w[at]).astype(int)
    return list(zip(frame.time_ns[at].tolist(), powers_mw.tolist(), age_ns.tolist(), strict=True))


@contextlib.contextmanager
def busy_core() -> Iterator[None]:
    """Keep the other core busy until the block ends."""
    burn = f"import os; os.sched_setaffinity(0, {{{other_core()}}})\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", burn]) as child:
        try:
            yield
        finally:
            child.kill()


@contextlib.contextmanager
def followed(path: Path) -> Iterator[list[list[Update]]]:
    """Write down every update of every power sensor until the block ends, from the log of the driver."""
    state, stop = StateFile(path, mode="read"), threading.Event()
    log: list[list[Update]] = [[] for _ in range(state.gpu_count)]
    seen = [0] * state.gpu_count

    def follow() -> None:
        last = False
        while not last:
            last = stop.wait(_FOLLOW_S)
            for gpu, updates in enumerate(log):
                count = int(state.record["sample_count"][gpu])
                for number in range(max(seen[gpu], count - SAMPLE_SLOTS), count):
                    sample = state.record["samples"][gpu][number % SAMPLE_SLOTS]
                    updates.append((int(sample["time_us"]) * 1000, int(sample["power_mw"])))
                seen[gpu] = count

    thread = threading.Thread(target=follow, name="log")
    thread.start()
    try:
        yield log
    finally:
        stop.set()
        thread.join()
        state.close()
