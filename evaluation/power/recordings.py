"""Recordings of real power as traces: rows of failed readings left out, one clock, one name for each meter.

What each set holds, and the traps that are handled here, is in docs/benchmark.md.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from evaluation.csv_tables import CsvTable, read_table
from evaluation.injection.traces import FeedTrace, NodeTrace
from evaluation.power.pin_trace import PinTrace
from evaluation.power.plan import PowerPlan, PowerSet, Track
from telemetry.catalogue.pins import PIN_COUNT
from telemetry.clock import NS_PER_S
from telemetry.errors import ConfigError
from telemetry.frames import FloatArray, MaskArray, TimeArray

Trace = FeedTrace | NodeTrace | PinTrace
FILES = "*.csv.gz"
_FAILED = (-1.0, -2.0)  # how the analysers' software marks a reading that failed
_STAMP = "%m-%d-%Y %H:%M:%S.%f"
_JOB = re.compile(r"(\d+)(?:-\d+)?_\d+")
_PINS = range(1, PIN_COUNT + 1)
_NODE = "node_"  # the other names are of switches, which have no siblings


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """Recording of one machine without a break.

    `run` is the same for the passes of one run; `twins` are the pairs of names that had one series, of which the trace
    holds the first; `whole` is the trace with both.
    """

    machine: str
    run: str
    trace: Trace
    twins: tuple[tuple[str, str], ...] = ()
    whole: Trace | None = None


def read_runs(folder: Path, of: PowerSet) -> list[Run]:
    """Return the runs of a set, by name; ConfigError with file and line where one cannot be read."""
    return [_read(path, of) for path in sorted(folder.glob(FILES))]


def entities_of(trace: Trace) -> tuple[str, ...]:
    """Return the names of the columns of a trace, as answers use them."""
    if isinstance(trace, NodeTrace):
        return trace.nodes
    name, first = ("feed", 0) if isinstance(trace, FeedTrace) else ("pin", 1)
    return tuple(f"{name}{column + first}" for column in range(trace.current_a.shape[1]))


def servers_of(runs: Iterable[Run], least_w: float) -> list[Run]:
    """Return the runs of servers: the sets also hold feeds of boards and desktops."""
    return [
        run for run in runs if not isinstance(run.trace, FeedTrace) or float(np.nanmedian(run.trace.total_w)) >= least_w
    ]


def missing_sets(root: Path, plan: PowerPlan) -> tuple[str, ...]:
    """Return the folders of the plan in which there is no recording."""
    folders = (*(of.folder for of in plan.sets), plan.direct_current.folder)
    return tuple(folder for folder in folders if not any((root / folder).glob("*.[cn]*")))


def _read(path: Path, of: PowerSet) -> Run:
    name = path.name.removesuffix(".csv.gz")
    parts = name.split("__")
    run = "__".join(parts[:-1]) if of.passes else name
    if of.track is Track.NODES:
        whole = read_nodes(path)
        trace, twins = without_twins(whole)
        job = _JOB.search(parts[-1])
        machine = "__".join((*parts[:-1], *((job.group(1),) if job else ())))
        return Run(machine=machine, run=run, trace=trace, twins=twins, whole=whole if twins else None)
    if of.track is Track.PINS:
        return Run(machine=name, run=run, trace=read_pins(path))
    feeds = read_feeds(path)
    machine = "__".join(parts[: of.machine_parts])
    return Run(machine=f"{machine}, {feeds.power_w.shape[1]} feeds", run=run, trace=feeds)


def read_feeds(path: Path) -> FeedTrace:
    """Return volts, amperes and watts of each feed of an MLPerf power log; a channel without any load is no feed.

    Columns without a number are sums and means over the channels where there are channels, and else the one feed.
    """
    table = read_table(path)
    feeds = [name.removesuffix("watts") for name in table.head if re.fullmatch(r"ch\d+_watts", name)] or [""]
    if "time" in table.head:
        time_s = np.array([_stamp_s(path, line, row[0]) for line, row in table.rows])
    else:
        (time_s,) = table.columns(table.head[:1]).T
    columns = [table.columns([f"{feed}{name}" for feed in feeds]) for name in ("volts", "amps", "watts")]
    volts, amps, watts = (np.where(np.isin(values, _FAILED), math.nan, values) for values in columns)
    used = np.nanmax(watts, axis=0, initial=0.0) > 0.0
    kept = rising(time_s) & np.isfinite(watts[:, used]).any(axis=1)
    return FeedTrace(
        name=path.name.removesuffix(".csv.gz"),
        time_ns=in_ns(time_s[kept]),
        voltage_v=volts[kept][:, used],
        current_a=amps[kept][:, used],
        power_w=watts[kept][:, used],
    )


def read_nodes(path: Path) -> NodeTrace:
    """Return the watts of the nodes of one job on one clock: the last reading in each step, NaN where there is none.

    A step is the usual time between two readings of a node, in whole seconds.
    """
    table = read_table(path)
    place_t, place_n, place_w = (table.place(name) for name in ("time_s", "node", "watts"))
    readings: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for line, row in table.rows:
        if row[place_n].startswith(_NODE):
            readings[row[place_n]].append((table.number(line, row, place_t), table.number(line, row, place_w)))
    nodes = tuple(sorted(readings, key=lambda node: (len(node), node)))
    series = [np.array(readings[node]) for node in nodes]
    step_s = max(round(float(np.median(np.concatenate([np.diff(one[:, 0]) for one in series])))), 1)
    count = int(max(one[:, 0].max() for one in series) // step_s) + 1
    power_w = np.full((count, len(nodes)), math.nan)
    for column, one in enumerate(series):
        power_w[(one[:, 0] // step_s).astype(np.intp), column] = one[:, 1]
    name = path.name.removesuffix(".csv.gz")
    return NodeTrace(
        name=name, nodes=nodes, time_ns=in_ns(step_s * np.arange(count, dtype=np.float64)), power_w=power_w
    )


def without_twins(trace: NodeTrace) -> tuple[NodeTrace, tuple[tuple[str, str], ...]]:
    """Return the trace with each series once, and the pairs of names that shared one, to the last digit."""
    first: dict[bytes, str] = {}
    twins = []
    for column, node in enumerate(trace.nodes):
        values = trace.power_w[:, column]
        known = values[np.isfinite(values)].tobytes()
        other = first.setdefault(known, node)
        if other != node:
            twins.append((other, node))
    kept = [trace.nodes.index(node) for node in first.values()]
    alone = NodeTrace(
        name=trace.name, nodes=tuple(first.values()), time_ns=trace.time_ns, power_w=trace.power_w[:, kept]
    )
    return alone, tuple(twins)


def read_pins(path: Path) -> PinTrace:
    """Return volts and amperes of six pins."""
    return pins_of(read_table(path))


def pins_of(table: CsvTable) -> PinTrace:
    """Return volts and amperes of six pins from a table, without the rows that `kept_rows` leaves out."""
    kept = kept_rows(table)
    return PinTrace(
        name=table.path.name.removesuffix(".csv.gz"),
        time_ns=in_ns(table.columns(["time_s"])[kept, 0]),
        voltage_v=table.columns([f"pin{number}_v" for number in _PINS])[kept],
        current_a=table.columns([f"pin{number}_a" for number in _PINS])[kept],
    )


def kept_rows(table: CsvTable) -> MaskArray:
    """Return which rows of a table count; see `rising`."""
    return rising(table.columns(["time_s"])[:, 0])


def rising(time_s: FloatArray) -> MaskArray:
    """Return which rows are later than all before; a doubled stamp and one that goes back are left out."""
    before = np.maximum.accumulate(np.concatenate([[-math.inf], time_s[:-1]]))
    return np.asarray(time_s > before)


def in_ns(time_s: FloatArray) -> TimeArray:
    """Return seconds as whole nanoseconds, to the microsecond."""
    return np.asarray(np.round(time_s * 1e6).astype(np.int64) * (NS_PER_S // 1_000_000))


def _stamp_s(path: Path, line: int, text: str) -> float:
    try:
        return datetime.strptime(text, _STAMP).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise ConfigError.at(path, f"got {text!r}", "a time as 12-31-2022 23:59:59.999", line=line) from None
