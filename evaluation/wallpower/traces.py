"""Real wall-power traces as the table of a feed, and faults put into them."""

import csv
import gzip
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import numpy as np

from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, TableSpec, TimeArray

_MAX_FEEDS = 3
_STAMP = "%m-%d-%Y %H:%M:%S.%f"
# heuristic: a mains that sags is back within a minute, a stuck meter is restarted within ten.
_SAG_S, _STUCK_S = 60.0, 600.0


class FaultKind(StrEnum):
    """Fault put into a trace: a sag into all feeds, all else into the first one."""

    INPUT_SAG = "input_sag"  # the voltage falls to `size`, the current rises by as much
    STUCK = "stuck"  # the voltage repeats its last value
    POWER_GAIN = "power_gain"  # the power reads `size` times what it is
    RESISTANCE = "resistance"  # at the largest current another share `size` of the voltage is lost on the way


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WallTrace:
    """Recording: times ``(n,)``, the rest ``(n, n_feeds)``; `current_a` is the part that does work."""

    name: str
    time_ns: TimeArray
    power_w: FloatArray
    voltage_v: FloatArray
    current_a: FloatArray

    @property
    def duration_s(self) -> float:
        """From the first row to the last."""
        return float(self.time_ns[-1] - self.time_ns[0]) / NS_PER_S

    def spec(self) -> TableSpec:
        """Return the feeds as the table of supplies."""
        feeds = tuple(
            Entity(kind=EntityKind.SUPPLY, key=f"feed{number}", name=f"feed{number}")
            for number in range(self.power_w.shape[1])
        )
        return TableSpec(
            name="feed", kind=EntityKind.SUPPLY, entities=feeds, signals=("voltage_v", "current_a", "power_w")
        )

    def topology(self) -> Topology:
        """Return the server that hangs on the feeds."""
        server = Entity(kind=EntityKind.NODE, key="server", name="server")
        feeds = self.spec().entities
        return Topology(entities=(server, *feeds), edges=tuple((server.id, feed.id) for feed in feeds))

    def frame(self) -> Frame:
        """Return all rows."""
        values = np.stack([self.voltage_v, self.current_a, self.power_w], axis=2)
        return Frame(spec=self.spec(), time_ns=self.time_ns, values=values, fresh=~np.isnan(values))


def read_trace(path: Path, *, failed: float) -> WallTrace:
    """Read a trace with all of its feeds; a reading that failed is NaN, a row whose time does not rise is left out."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        names = reader.fieldnames or ()
        # Where feeds were metered one by one, the columns without a number are sums and means of them.
        feeds = [f"ch{number}_" for number in range(1, _MAX_FEEDS + 1) if f"ch{number}_watts" in names] or [""]
        cells = [f"{feed}{column}" for feed in feeds for column in _COLUMNS]
        rows = [(_time_ns(row["time"]), [_value(row[cell], failed) for cell in cells]) for row in reader]
    times = np.array([time_ns for time_ns, _ in rows], dtype=np.int64)
    values = np.array([read for _, read in rows], dtype=np.float64).reshape(len(rows), len(feeds), len(_COLUMNS))
    rises = times > np.maximum.accumulate(np.concatenate([[0], times[:-1]]))
    used = np.nanmax(values[:, :, 0], axis=0, initial=0.0) > 0.0  # a channel on which nothing hangs
    watts, volts, amps, factor = np.moveaxis(values[rises][:, used], 2, 0)
    return WallTrace(
        name=path.name.removesuffix(".csv.gz"),
        time_ns=times[rises],
        power_w=watts,
        voltage_v=volts,
        current_a=amps * factor,
    )


def with_fault(trace: WallTrace, kind: FaultKind, *, size: float, row: int) -> WallTrace:
    """Return the trace with a fault from a row on."""
    return _PUT[kind](trace, size, row)


def _sag(trace: WallTrace, size: float, row: int) -> WallTrace:
    rows = slice(row, _until(trace, row, _SAG_S))
    volts, amps = trace.voltage_v.copy(), trace.current_a.copy()
    volts[rows] *= size
    amps[rows] /= size  # a supply that regulates draws the same power
    return replace(trace, voltage_v=volts, current_a=amps)


def _stick(trace: WallTrace, size: float, row: int) -> WallTrace:
    del size
    volts = trace.voltage_v.copy()
    known = volts[:row, 0][np.isfinite(volts[:row, 0])]
    volts[row : _until(trace, row, _STUCK_S), 0] = known[-1] if known.size else math.nan
    return replace(trace, voltage_v=volts)


def _gain(trace: WallTrace, size: float, row: int) -> WallTrace:
    watts = trace.power_w.copy()
    watts[row:, 0] *= size
    return replace(trace, power_w=watts)


def _resist(trace: WallTrace, size: float, row: int) -> WallTrace:
    volts, amps = trace.voltage_v.copy(), trace.current_a.copy()
    left = 1.0 - size * amps[row:, 0] / np.nanmax(amps[:, 0])
    volts[row:, 0] *= left
    amps[row:, 0] /= left
    return replace(trace, voltage_v=volts, current_a=amps)


_PUT: dict[FaultKind, Callable[[WallTrace, float, int], WallTrace]] = {
    FaultKind.INPUT_SAG: _sag,
    FaultKind.STUCK: _stick,
    FaultKind.POWER_GAIN: _gain,
    FaultKind.RESISTANCE: _resist,
}
_COLUMNS = ("watts", "volts", "amps", "pf")


def _until(trace: WallTrace, row: int, seconds: float) -> int:
    return int(np.searchsorted(trace.time_ns, trace.time_ns[row] + round(seconds * NS_PER_S)))


def _time_ns(text: str) -> int:
    stamp = datetime.strptime(text, _STAMP).replace(tzinfo=UTC)
    return int(stamp.timestamp()) * NS_PER_S + stamp.microsecond * 1000


def _value(text: str | None, failed: float) -> float:
    value = float(text) if text else math.nan
    return math.nan if value == failed else value
