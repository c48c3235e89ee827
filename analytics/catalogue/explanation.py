"""One code explained to a person: what it is, what it means, where to look, what to do."""

from collections.abc import Mapping
from dataclasses import dataclass

from analytics.catalogue.entries import Gravity, XidEntry, sxid, xid
from telemetry.records import EventKind, Severity

_MEANINGS: Mapping[Gravity, str] = {
    Gravity.INFO: "The GPU or switch handled it; work goes on.",
    Gravity.APP: "A process lost its work; the GPU itself stays usable.",
    Gravity.WARN: "Something is wrong that rarely stops the GPU at once; repeats on one device point to that device.",
    Gravity.RESET: "The GPU does no useful work until it is drained and reset.",
    Gravity.FATAL: "The device is lost to its jobs until the node is power-cycled, or a person looks at the hardware.",
    Gravity.DEPENDS: "How bad it is stands in the log line itself: read its Fatal or Non-fatal word, or its action.",
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
class Explanation:
    """What a person wants to know of one code; every field is text ready for a screen."""

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


def explain_xid(code: int) -> Explanation | None:
    """Explain an Xid code, None where the catalogue has no such code."""
    entry = xid(code)
    return None if entry is None else _explain(entry, _BEFORE_AMPERE.get(code))


def explain_sxid(code: int) -> Explanation | None:
    """Explain an NVSwitch SXid code, None where the catalogue has no such code."""
    entry = sxid(code)
    return None if entry is None else _explain(entry, None)


def _explain(entry: XidEntry, note: str | None) -> Explanation:
    return Explanation(
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
