"""The process that ``bench hwmon`` measures: rails read at a pace of their own, in the ways there are."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from agent.collectors.hwmon.rails import RailTable, SweepOptions
from agent.collectors.hwmon.tree import survey_rails
from agent.collectors.rails.sweep import SweepSettings
from agent.sampler.sampler import tune_process
from agent.sampler.schedule import Schedule
from bench.cores import pin
from telemetry.clock import SystemClock

ROW_HZ = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """CPU of the process, and the dips it saw.

    `start_s` is on the machine's monotonic clock, which all processes share. `lowest_v` is the lowest voltage in any
    row of the first rail, `lowest_plain_v` the lowest of what the rows show as the newest voltage: what an agent
    without extremes would have kept.
    """

    start_s: float
    wall_s: float
    cpu_s: float
    rounds: int
    missed: int
    rows: int
    dips_seen: int
    dips_seen_plain: int
    lowest_v: float
    lowest_plain_v: float


def measure_rails(root: Path, *, hz: float, measured_s: float, dip_below_v: float) -> Result:
    """Read the rails of a tree as the sampling process does, with a row 20 times a second."""
    import numpy as np  # noqa: PLC0415 -- with the collectors, whose import is not measured

    clock = SystemClock()
    collector = RailTable(survey_rails(root).rails, SweepOptions(settings=SweepSettings(hz=hz), clock=clock))
    values = np.empty(collector.spec.shape)
    collector.open()
    (sweep,) = collector.sweeps
    collector.read(values)  # what lies before is no part of the measurement
    start_s, cpu_before_s = clock.monotonic_s(), sum(os.times()[:2])
    rounds_before, missed_before = sweep.rounds, sweep.missed
    schedule = Schedule(period_s=1.0 / ROW_HZ, start_s=start_s, tick=1)
    newest_v: list[float] = []
    lowest_v: list[float] = []
    while schedule.deadline_s < start_s + measured_s:
        clock.sleep_until(schedule.deadline_s)
        collector.read(values)
        newest_v.append(float(values[0, 0]))
        lowest_v.append(float(values[0, 2]))
        schedule.advance(clock.monotonic_s())
    wall_s, cpu_s = clock.monotonic_s() - start_s, sum(os.times()[:2]) - cpu_before_s
    result = Result(
        start_s=start_s,
        wall_s=wall_s,
        cpu_s=cpu_s,
        rounds=sweep.rounds - rounds_before,
        missed=sweep.missed - missed_before,
        rows=len(newest_v),
        dips_seen=_stretches(lowest_v, dip_below_v),
        dips_seen_plain=_stretches(newest_v, dip_below_v),
        lowest_v=min(lowest_v),
        lowest_plain_v=min(newest_v),
    )
    collector.close()
    return result


def _stretches(voltages_v: list[float], below_v: float) -> int:
    """Count the stretches below a voltage: a dip that two rows share is one."""
    under = [voltage_v < below_v for voltage_v in voltages_v]
    return sum(now and not before for before, now in zip([False, *under], under, strict=False))


def measure_reopening(root: Path, *, hz: float, measured_s: float) -> Result:
    """Open, read and close every file at each look: what a script over the same tree does."""
    clock = SystemClock()
    paths = sorted(root.glob("class/hwmon/*/*_input"))
    start_s, cpu_before_s = clock.monotonic_s(), sum(os.times()[:2])
    schedule = Schedule(period_s=1.0 / hz, start_s=start_s, tick=1)
    rounds = missed = 0
    while schedule.deadline_s < start_s + measured_s:
        clock.sleep_until(schedule.deadline_s)
        for path in paths:
            with path.open(encoding="ascii") as file:
                int(file.read())
        rounds += 1
        missed += schedule.advance(clock.monotonic_s())
    return Result(
        start_s=start_s,
        wall_s=clock.monotonic_s() - start_s,
        cpu_s=sum(os.times()[:2]) - cpu_before_s,
        rounds=rounds,
        missed=missed,
        rows=0,
        dips_seen=0,
        dips_seen_plain=0,
        lowest_v=float("nan"),
        lowest_plain_v=float("nan"),
    )


def main(task: dict[str, object]) -> dict[str, object]:
    """Run the task; return the result as JSON types."""
    root, hz, measured_s = Path(str(task["root"])), float(str(task["hz"])), float(str(task["measured_s"]))
    pin(int(str(task["core"])))
    tune_process()
    if task["subject"] == "reopening":
        result = measure_reopening(root, hz=hz, measured_s=measured_s)
    else:
        result = measure_rails(root, hz=hz, measured_s=measured_s, dip_below_v=float(str(task["dip_below_v"])))
    return {name: getattr(result, name) for name in Result.__slots__}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
