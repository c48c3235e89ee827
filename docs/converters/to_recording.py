"""Writes a recording from a log of another program: an example to copy, without any dependency.

``python to_recording.py {dcgm-csv,prometheus,nvidia-smi} LOG OUT.csv``; docs/how-to/convert-a-log.md has the details.
"""

import argparse
import csv
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

# What a source calls it: the signal of docs/reference/signals.md, and the factor to its unit.
Names = Mapping[str, tuple[str, float]]
MIB = 2.0**20
DCGM: Names = {
    "DCGM_FI_DEV_POWER_USAGE": ("power_w", 1.0),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("energy_j", 1e-3),
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": ("power_limit_w", 1.0),
    "DCGM_FI_DEV_SM_CLOCK": ("sm_clock_mhz", 1.0),
    "DCGM_FI_DEV_MEM_CLOCK": ("mem_clock_mhz", 1.0),
    "DCGM_FI_DEV_GPU_UTIL": ("gpu_util_ratio", 0.01),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("mem_util_ratio", 0.01),
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": ("throttle_reasons", 1.0),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": ("throttle_reasons", 1.0),
    "DCGM_FI_DEV_GPU_TEMP": ("gpu_temp_c", 1.0),
    "DCGM_FI_DEV_MEMORY_TEMP": ("hbm_temp_c", 1.0),
    "DCGM_FI_DEV_SLOWDOWN_TEMP": ("slowdown_temp_c", 1.0),
    "DCGM_FI_DEV_SHUTDOWN_TEMP": ("shutdown_temp_c", 1.0),
    "DCGM_FI_DEV_FAN_SPEED": ("fan_ratio", 0.01),
    "DCGM_FI_DEV_FB_USED": ("memory_used_bytes", MIB),
    "DCGM_FI_DEV_FB_TOTAL": ("memory_total_bytes", MIB),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": ("pcie_replays", 1.0),
    "DCGM_FI_DEV_PCIE_LINK_GEN": ("pcie_generation", 1.0),
    "DCGM_FI_DEV_PCIE_LINK_WIDTH": ("pcie_width", 1.0),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": ("ecc_corrected", 1.0),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": ("ecc_uncorrected", 1.0),
    "DCGM_FI_DEV_ROW_REMAP_PENDING": ("remap_pending", 1.0),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("remap_failed", 1.0),
}
DCGM_XID = "DCGM_FI_DEV_XID_ERRORS"  # the code of the last Xid, 0 before the first
# DCGM_INT32_BLANK and its three neighbours; the blanks of other types are larger (dcgm_structs.h of DCGM).
DCGM_BLANK = 0x7FFFFFF0
DCGM_BLANK_END = 0x7FFFFFF4
DCGM_WIDE_BLANK = 2.0**47
NVIDIA_SMI: Names = {
    "power.draw": ("power_w", 1.0),
    "enforced.power.limit": ("power_limit_w", 1.0),
    "power.limit": ("power_limit_requested_w", 1.0),
    "clocks.sm": ("sm_clock_mhz", 1.0),
    "clocks.current.sm": ("sm_clock_mhz", 1.0),
    "clocks.mem": ("mem_clock_mhz", 1.0),
    "clocks.current.memory": ("mem_clock_mhz", 1.0),
    "clocks.max.sm": ("max_sm_clock_mhz", 1.0),
    "utilization.gpu": ("gpu_util_ratio", 0.01),
    "utilization.memory": ("mem_util_ratio", 0.01),
    "clocks_throttle_reasons.active": ("throttle_reasons", 1.0),
    "clocks_event_reasons.active": ("throttle_reasons", 1.0),
    "temperature.gpu": ("gpu_temp_c", 1.0),
    "temperature.memory": ("hbm_temp_c", 1.0),
    "fan.speed": ("fan_ratio", 0.01),
    "memory.used": ("memory_used_bytes", MIB),
    "memory.total": ("memory_total_bytes", MIB),
    "pcie.link.gen.current": ("pcie_generation", 1.0),
    "pcie.link.gen.gpucurrent": ("pcie_generation", 1.0),
    "pcie.link.width.current": ("pcie_width", 1.0),
    "ecc.errors.corrected.volatile.total": ("ecc_corrected", 1.0),
    "ecc.errors.uncorrected.volatile.total": ("ecc_uncorrected", 1.0),
}


# Nanoseconds in the unit of a number that is a time, and the size at which it is the next finer one.
STAMP_UNITS = ((10**9, 1e11), (10**6, 1e14), (10**3, 1e17), (1, math.inf))


@dataclass
class Log:
    """Rows of a recording and what is known of the GPUs; `held` is the newest value of each signal."""

    rows: list[tuple[int, str, str, str, str]] = field(default_factory=list)
    held: dict[tuple[str, str], float] = field(default_factory=dict)
    tags: dict[str, dict[str, str]] = field(default_factory=dict)

    def reading(self, time_ns: int, gpu: str, signal: str, value: float) -> None:
        """Add a reading; one that is not a number ends the value before it, once."""
        self.tags.setdefault(gpu, {})
        if math.isnan(value) and math.isnan(self.held.get((gpu, signal), math.nan)):
            return
        self.held[gpu, signal] = value
        self.rows.append((time_ns, "gpu", gpu, signal, "" if math.isnan(value) else repr(value)))

    def last_xid(self, time_ns: int, gpu: str, code: float) -> None:
        """Add an event where the code of the last Xid changed; the same code twice in a row cannot be seen."""
        before = self.held.get((gpu, DCGM_XID), 0.0)
        if math.isnan(code) or code == before:
            return
        self.held[gpu, DCGM_XID] = code
        if code:
            self.rows.append((time_ns, "event", gpu, "xid", repr(code)))

    def write(self, path: Path, node: str) -> None:
        """Write the rows in order of time, and the header."""
        gpus = [_entity("gpu", key, f"GPU {key}", tags) for key, tags in self.tags.items()]
        signals = sorted({row[3] for row in self.rows if row[1] == "gpu"})
        header = {
            "format": 1,
            "node": node,
            "simulated": False,
            "config": {},
            "about": {},
            "tables": [{"name": "gpu", "kind": "gpu", "entities": gpus, "signals": signals}],
            "topology": {
                "entities": [_entity("node", node, node, {}), *gpus],
                "edges": [[f"node:{node}", f"gpu:{key}"] for key in self.tags],
            },
        }
        with path.open("w", encoding="utf-8", newline="") as out:
            rows = csv.writer(out, lineterminator="\n")
            rows.writerow(("time_ns", "kind", "entity", "signal", "value", "text"))
            rows.writerows((*row, "") for row in sorted(self.rows, key=lambda row: row[0]))
            out.write(f"# railwatch {json.dumps(header, allow_nan=False)}\n")


def from_dcgm_csv(path: Path, options: argparse.Namespace) -> Log:
    """Read a table with a column of times, one of GPUs, and one for each DCGM field."""
    log = Log()
    for number, row in _table(path):
        time = _first(row, ("timestamp", "Timestamp", "time", "Time"), path)
        gpu = _first(row, ("gpu", "gpu_id", "GPU", "gpuId", "device"), path)
        _add_dcgm(log, _time_ns(time, f"{path}:{number}", options), gpu, row.items())
    return log


def from_prometheus(path: Path, options: argparse.Namespace) -> Log:
    """Read the answer of Prometheus to a query for series of the DCGM exporter, a matrix."""
    answer = json.loads(path.read_text(encoding="utf-8"))
    data = answer.get("data", {}) if isinstance(answer, dict) else {}
    if data.get("resultType") != "matrix":
        raise ValueError(f"{path}: holds {data.get('resultType')!r}; expected the answer to a query for a range")
    log, hosts = Log(), set[str]()
    for series in data["result"]:
        labels = series["metric"]
        hosts.add(labels.get("Hostname", ""))
        gpu = str(labels.get("gpu", labels.get("UUID", "")))
        names = {"model": labels.get("modelName", ""), "pci": _pci(labels.get("pci_bus_id", ""))}
        log.tags.setdefault(gpu, {}).update({name: text for name, text in names.items() if text})
        for time, value in series["values"]:
            _add_dcgm(log, _time_ns(str(time), str(path), options), gpu, [(labels["__name__"], value)])
    if len(hosts) > 1:
        raise ValueError(f'{path}: nodes {", ".join(sorted(hosts))}; expected one, as by {{Hostname="NAME"}}')
    return log


def from_nvidia_smi(path: Path, options: argparse.Namespace) -> Log:
    """Read what `nvidia-smi --query-gpu=timestamp,index,... --format=csv --loop=1` printed."""
    log = Log()
    for number, row in _table(path):
        cells = {name.split(" [")[0]: text for name, text in row.items()}
        gpu = _first(cells, ("index", "uuid", "gpu_uuid", "pci.bus_id"), path)
        time_ns = _time_ns(_first(cells, ("timestamp",), path), f"{path}:{number}", options)
        names = {"model": cells.get("name", ""), "pci": _pci(cells.get("pci.bus_id", ""))}
        log.tags.setdefault(gpu, {}).update({name: text for name, text in names.items() if text})
        for name, text in cells.items():
            if name in NVIDIA_SMI:
                signal, factor = NVIDIA_SMI[name]
                log.reading(time_ns, gpu, signal, _number(text) * factor)
    return log


def _add_dcgm(log: Log, time_ns: int, gpu: str, cells: Iterable[tuple[str, str]]) -> None:
    for name, text in cells:
        value = _number(text)
        if DCGM_BLANK <= value < DCGM_BLANK_END or value >= DCGM_WIDE_BLANK:
            value = math.nan
        if name == DCGM_XID:
            log.last_xid(time_ns, gpu, value)
        elif name in DCGM:
            signal, factor = DCGM[name]
            log.reading(time_ns, gpu, signal, value * factor)


def _table(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a CSV file with a header, with their line numbers; a header that returns is left out."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines, skipinitialspace=True, restval="")
        names = rows.fieldnames or []
        for row in rows:
            cells = {name: (row[name] or "").strip() for name in names}
            if cells != {name: name for name in names}:
                yield rows.line_num, cells


def _first(row: Mapping[str, str], names: tuple[str, ...], path: Path) -> str:
    """Return the cell of the first of some columns that is there."""
    for name in names:
        if row.get(name):
            return row[name]
    raise ValueError(f"{path}: columns {', '.join(row)}; expected one of {', '.join(names)}")


def _number(text: str) -> float:
    """Return the number in ``612.50 W``, ``0x4`` or ``87``; NaN for ``[N/A]`` and other words."""
    first = text.split(" ", maxsplit=1)[0]
    try:
        return float(int(first, 16)) if first.startswith("0x") else float(first)
    except ValueError:
        return math.nan


def _time_ns(text: str, where: str, options: argparse.Namespace) -> int:
    """Return a time: seconds, ms, µs or ns since 1970 by its size, or a date, local ones by `--utc-offset-h`."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isfinite(number):
        to_ns = next(factor for factor, end in STAMP_UNITS if number < end)
        return int(text) * to_ns if text.isdigit() else round(number * 1e6) * to_ns // 10**6
    try:
        time = datetime.fromisoformat(text.replace("/", "-"))
    except ValueError:
        raise ValueError(f"{where}: time {text!r}; expected a number or a date") from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=timezone(timedelta(hours=options.utc_offset_h)))
    since = time - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000


def _pci(text: str) -> str:
    """Return a PCI address as the kernel writes it: ``0000:1a:00.0`` of ``00000000:1A:00.0``."""
    return text[-12:].lower()


def _entity(kind: str, key: str, name: str, tags: Mapping[str, str]) -> dict[str, Any]:
    return {"kind": kind, "key": key, "name": name, "tags": sorted(tags.items())}


SOURCES: Mapping[str, Callable[[Path, argparse.Namespace], Log]] = {
    "dcgm-csv": from_dcgm_csv,
    "prometheus": from_prometheus,
    "nvidia-smi": from_nvidia_smi,
}

USUAL = {"dcgm-csv": "DCGM_FI_DEV_GPU_TEMP", "prometheus": "DCGM_FI_DEV_GPU_TEMP", "nvidia-smi": "power.draw [W]"}


def main() -> int:
    """Convert one log; exit status 2 with one line if it cannot be used."""
    parser = argparse.ArgumentParser(description="Write a recording from a log of another program.")
    parser.add_argument("source", choices=sorted(SOURCES))
    parser.add_argument("log", type=Path)
    parser.add_argument("out", type=Path, help="name of the recording, ends in .csv")
    parser.add_argument("--node", default="node", help="name of the node")
    parser.add_argument("--utc-offset-h", type=float, default=0.0, help="of times without a zone, such as 1 or -7")
    options = parser.parse_args()
    try:
        log = SOURCES[options.source](options.log, options)
        if log.rows:
            log.write(options.out, options.node)
    except (OSError, ValueError, KeyError) as err:
        sys.stderr.write(f"{err}\n")
        return 2
    if not log.rows:
        sys.stderr.write(f"{options.log}: no reading; expected names such as {USUAL[options.source]}\n")
        return 2
    sys.stderr.write(f"{options.out}: {len(log.rows)} rows of {len(log.tags)} GPUs\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
