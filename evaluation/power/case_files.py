"""Cases as files for other judges: one CSV a case, an index without labels, and how to answer."""

import csv
import gzip
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evaluation.power.cases import Case
from evaluation.power.chains import FIELDS, Half
from evaluation.power.faults import decimals_of
from evaluation.power.recordings import Trace, entities_of
from evaluation.rows import Progress, step_counter
from telemetry.clock import NS_PER_S
from telemetry.errors import ConfigError

INDEX = "index.csv"
_SUFFIXES = {"voltage_v": "v", "current_a": "a", "power_w": "w"}
_README = Path(__file__).with_name("cases_readme.md")
# heuristic: the second level is a third larger than the last, and takes a quarter of its time.
_LEVEL = 2


def write_case_files(folder: Path, cases: Sequence[Case], progress: Progress) -> int:
    """Write all cases to a folder that is new or empty; return how many there are."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError.at(folder, "exists and is not an empty folder", "a new or empty folder", key="--cases")
    folder.mkdir(parents=True, exist_ok=True)
    ordered = sorted(cases, key=lambda case: case.id)
    done = step_counter(progress, len(ordered), "cases")
    with (folder / INDEX).open("w", encoding="utf-8", newline="") as file:
        index = csv.writer(file, lineterminator="\n")
        index.writerow(("case", "file", "track", "use", "rows", "judged_from_s", "entities"))
        for case in ordered:
            index.writerow(_index_row(case))
            content = case_csv(case.trace())
            # Without a time in it, the same cases are the same bytes.
            (folder / f"{case.id}.csv.gz").write_bytes(gzip.compress(content.encode(), _LEVEL, mtime=0))
            done()
    (folder / "README.md").write_text(_README.read_text(encoding="utf-8"), encoding="utf-8")
    return len(ordered)


def case_csv(trace: Trace) -> str:
    """Return a trace as CSV: seconds from the first row, then each reading; empty where there is none."""
    entities = entities_of(trace)
    fields = FIELDS[type(trace)]
    values = np.stack([getattr(trace, field) for field in fields], axis=2).reshape(len(trace.time_ns), -1)
    decimals = [decimals_of(getattr(trace, field)) for field in fields] * len(entities)
    form = ",".join(["%.3f", *(f"%.{count}f" for count in decimals)])
    time_s = (trace.time_ns - trace.time_ns[0]) / NS_PER_S
    out = io.StringIO()
    out.write(",".join(["time_s", *(f"{one}_{_SUFFIXES[field]}" for one in entities for field in fields)]) + "\n")
    for row in np.column_stack([time_s, values]).tolist():
        out.write(form % tuple(row) + "\n")
    return out.getvalue().replace("nan", "")


def _index_row(case: Case) -> tuple[str | int, ...]:
    trace = case.chain.trace
    judged_s = float(trace.time_ns[case.chain.learn_rows] - trace.time_ns[0]) / NS_PER_S
    use = "calibration: well" if case.chain.half is Half.CALIBRATION else "scored"
    names = " ".join(entities_of(trace))
    return case.id, f"{case.id}.csv.gz", case.chain.track, use, len(trace.time_ns), f"{judged_s:.3f}", names
