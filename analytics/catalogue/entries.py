"""Rows of the two code tables, read once from the package, and the explanation of a code to an operator.

`xid.csv` covers Xid codes, `sxid.csv` NVSwitch SXid codes; both have the columns of `XidEntry`, causes separated by
``|``. Every row names its source. The Xid table is NVIDIA's catalogue for Ampere and newer; explanations add what
differs on older GPUs.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files

from telemetry.records import EventKind, Severity


class Gravity(StrEnum):
    """The catalogue's own scale: what an error of this code costs.

    It is finer than `telemetry.records.Severity`, which has three steps; `severity_of` maps one to the other.
    """

    INFO = "info"
    APP = "app"
    WARN = "warn"
    RESET = "reset"
    FATAL = "fatal"
    DEPENDS = "depends"
    UNUSED = "unused"


# A lost process is worth a look but leaves the GPU usable: warning. A GPU that must be reset or replaced does no work
# until someone acts: critical. Where the line itself decides, the code alone is a warning.
_SEVERITIES: Mapping[Gravity, Severity] = {
    Gravity.INFO: Severity.INFO,
    Gravity.UNUSED: Severity.INFO,
    Gravity.APP: Severity.WARNING,
    Gravity.WARN: Severity.WARNING,
    Gravity.DEPENDS: Severity.WARNING,
    Gravity.RESET: Severity.CRITICAL,
    Gravity.FATAL: Severity.CRITICAL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class XidEntry:
    """Code of the catalogue.

    Parameters
    ----------
    kind
        ``xid`` for a GPU code, ``sxid`` for an NVSwitch code.
    mnemonic
        NVIDIA's own name for it, empty where none is published.
    category
        The part of the GPU or switch: engine, memory-ecc, nvlink, pcie ...
    causes
        Where NVIDIA's table looks for the cause: hw, driver, app, sysmem, bus, thermal, fb (framebuffer).
    gravity
        What it costs, on the catalogue's scale.
    """

    kind: EventKind
    code: int
    name: str
    mnemonic: str
    category: str
    causes: tuple[str, ...]
    gravity: Gravity
    action: str
    source: str

    @property
    def severity(self) -> Severity:
        """The gravity on the three-step scale of records."""
        return severity_of(self.gravity)


def severity_of(gravity: Gravity) -> Severity:
    """Return the three-step severity of a step on the catalogue's scale."""
    return _SEVERITIES[gravity]


def xid(code: int) -> XidEntry | None:
    """Return the entry of an Xid code, None where the catalogue has no such code."""
    return _xid_table().get(code)


def sxid(code: int) -> XidEntry | None:
    """Return the entry of an NVSwitch SXid code, None where the catalogue has no such code."""
    return _sxid_table().get(code)


def xids() -> tuple[XidEntry, ...]:
    """Return every Xid entry, by code."""
    return tuple(_xid_table().values())


def sxids() -> tuple[XidEntry, ...]:
    """Return every SXid entry, by code."""
    return tuple(_sxid_table().values())


@cache
def _xid_table() -> Mapping[int, XidEntry]:
    return _read("xid.csv", EventKind.XID)


@cache
def _sxid_table() -> Mapping[int, XidEntry]:
    return _read("sxid.csv", EventKind.SXID)


def _read(file_name: str, kind: EventKind) -> Mapping[int, XidEntry]:
    text = files("analytics.catalogue").joinpath(file_name).read_text(encoding="utf-8")
    entries = (_entry(row, kind) for row in csv.DictReader(text.splitlines()))
    return {entry.code: entry for entry in sorted(entries, key=lambda entry: entry.code)}


def _entry(row: Mapping[str, str], kind: EventKind) -> XidEntry:
    return XidEntry(
        kind=kind,
        code=int(row["code"]),
        name=row["name"],
        mnemonic=row["mnemonic"],
        category=row["category"],
        causes=tuple(row["causes"].split("|")) if row["causes"] else (),
        gravity=Gravity(row["severity"]),
        action=row["action"],
        source=row["source"],
    )


_MEANINGS: Mapping[Gravity, str] = {
    Gravity.INFO: "The GPU or switch handled it; work goes on.",
    Gravity.APP: "A process lost its work; the GPU itself stays usable.",
    Gravity.WARN: "Something is wrong that rarely stops the GPU at once; repeats on one device point to that device.",
    Gravity.RESET: "The GPU does no useful work until it is drained and reset.",
    Gravity.FATAL: "The device is lost to its jobs until the node is power-cycled, or a person looks at the hardware.",
    Gravity.DEPENDS: "The log line itself has the severity: read Fatal or Non-fatal, or its action.",
    Gravity.UNUSED: "NVIDIA's catalogue lists this code as not in use on current GPUs.",
}
_CAUSES: Mapping[str, str] = {
    "hw": "GPU hardware",
    "driver": "driver",
    "app": "application",
    "sysmem": "system memory corruption",
    "bus": "PCIe or NVLink bus",
    "thermal": "heat",
    "fb": "GPU memory (framebuffer)",
}
# Volta and older retire pages of memory where Ampere and newer remap rows, so three codes read differently there:
# docs.nvidia.com/deploy/dynamic-page-retirement/visibility.html and nvidia-esp.custhelp.com answer 4644.
_BEFORE_AMPERE: Mapping[int, str] = {
    48: "On V100 and older: a double-bit error ends the application, and Xid 63 follows when the page is retired.",
    63: "On V100 and older: one memory page was retired; it is avoided from the next driver load on.",
    64: "On V100 and older: a page could not be retired, so the bad page stays in use.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeExplanation:
    """Explanation of a code for an operator; every field is text ready for a screen."""

    kind: EventKind
    code: int
    name: str
    mnemonic: str
    category: str
    likely_causes: tuple[str, ...]
    severity: Severity
    meaning: str
    action: str
    note: str | None
    source: str


def explain_xid(code: int) -> CodeExplanation | None:
    """Explain an Xid code, None where the catalogue has no such code."""
    entry = xid(code)
    return None if entry is None else _explain(entry, _BEFORE_AMPERE.get(code))


def explain_sxid(code: int) -> CodeExplanation | None:
    """Explain an NVSwitch SXid code, None where the catalogue has no such code."""
    entry = sxid(code)
    return None if entry is None else _explain(entry, None)


def _explain(entry: XidEntry, note: str | None) -> CodeExplanation:
    return CodeExplanation(
        kind=entry.kind,
        code=entry.code,
        name=entry.name,
        mnemonic=entry.mnemonic,
        category=entry.category,
        likely_causes=tuple(_CAUSES[cause] for cause in entry.causes),
        severity=entry.severity,
        meaning=_MEANINGS[entry.gravity],
        action=entry.action,
        note=note,
        source=entry.source,
    )
