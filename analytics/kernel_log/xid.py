"""Xid lines: the GPU driver's own error report.

Forms, from open-gpu-kernel-modules `kernel_rc.c` and, for the last three, old logs::

    NVRM: Xid (PCI:DDDD:BB:DD): CODE, pid=P, name=N, MSG
    NVRM: Xid (PCI:DDDD:BB:DD GPU-I:II GPU-CI:CC): CODE, pid=P, name=N, MSG
    NVRM: Xid (DDDD:BB:DD): CODE, MSG
    NVRM: Xid (BBBB:DD): CODE, MSG
    NVRM: Xid: CODE, MSG
"""

import re
from collections.abc import Iterator, Mapping

from analytics import catalogue
from analytics.kernel_log.events import MESSAGE_MAX_CHARS, KernelEvent
from analytics.kernel_log.text import normal_address
from telemetry.records import EventKind, Severity

# Every repetition is bounded or over one class, so that matching is linear in the line.
PATTERNS: Mapping[str, re.Pattern[str]] = {
    "xid": re.compile(
        r"(?<![A-Za-z])Xid\s{0,8}\((?P<where>[^()]{0,96})\)[\s:]{0,8}(?P<code>\d{1,5})(?!\w)", re.IGNORECASE
    ),
    "xid_without_address": re.compile(r"NVRM:\s{0,8}Xid[\s:]{1,8}(?P<code>\d{1,5})(?!\w)", re.IGNORECASE),
    # The vGPU manager on a hypervisor: it names the guest's channel, not the device.
    "xid_of_guest": re.compile(r"\bXID (?P<code>\d{1,5}) detected on physical_chid", re.IGNORECASE),
}
_WHERE = re.compile(
    r"\s{0,4}(?:PCI:)?(?P<pci>[0-9a-f:.]{5,24})(?:\s{1,4}GPU-I:(?P<gpu>\d{1,3}))?(?:\s{1,4}GPU-CI:(?P<compute>\d{1,3}))?\s{0,4}",
    re.IGNORECASE,
)
_PID = re.compile(r"pid=['\"\u2018]?(?:(?P<pid>\d{1,10})\b|<?unknown>?)?['\"\u2019]?[,\s]{0,4}", re.IGNORECASE)
_CAUSED_BY = re.compile(r"\bcaused by previous Xid (\d{1,5})\b", re.IGNORECASE)
_LINK = re.compile(r"\blink\s{1,4}(-?\d{1,3})\b", re.IGNORECASE)
_FATAL = re.compile(r"\b(non-?)?fatal\b", re.IGNORECASE)
_RECOVERY_ACTION = re.compile(r"\bto 0x[0-9a-f]{1,4} \((?P<action>[^()]{0,64})\)", re.IGNORECASE)
# TASK_COMM_LEN is 16 with the closing zero byte (include/linux/sched.h).
_NAME_MAX_CHARS = 15
_GPU_RECOVERY_ACTION_CHANGED = 154


def read_xids(line: int, text: str) -> Iterator[KernelEvent]:
    """Yield an event for each Xid in a line; lines that two CPUs wrote into each other hold more than one."""
    matches = [match for pattern in PATTERNS.values() for match in pattern.finditer(text)]
    matches.sort(key=lambda match: match.start())
    for index, match in enumerate(matches):
        place = _place(match.groupdict().get("where"))
        if place is None:
            continue
        end = matches[index + 1].start() if index + 1 < len(matches) else len(text)
        rest = text[match.end() : end]
        if end < len(text):
            rest = rest.removesuffix("NVRM: ").rstrip()
        yield _event(line, int(match["code"]), place, rest)


def _place(where: str | None) -> tuple[str | None, int | None, int | None] | None:
    """Return address, GPU instance and compute instance; None where the parenthesis holds something else."""
    if where is None:
        return None, None, None
    match = _WHERE.fullmatch(where)
    pci = normal_address(match["pci"]) if match is not None else None
    if match is None or pci is None:
        return None
    return pci, _number(match["gpu"]), _number(match["compute"])


def _event(line: int, code: int, place: tuple[str | None, int | None, int | None], rest: str) -> KernelEvent:
    pid, process, message = split_process(rest)
    caused_by = _CAUSED_BY.search(message)
    fatal = is_fatal(message)
    pci, gpu_instance, compute_instance = place
    return KernelEvent(
        kind=EventKind.XID,
        line=line,
        report_line=line,
        message=message,
        severity=_severity(code, message, fatal=fatal),
        code=code,
        pci=pci,
        pid=pid,
        process=process,
        fatal=fatal,
        link=link_of(message),
        gpu_instance=gpu_instance,
        compute_instance=compute_instance,
        caused_by=_number(caused_by[1]) if caused_by else None,
    )


def split_process(rest: str) -> tuple[int | None, str | None, str]:
    """Split what follows the code into pid, process name and message; the first two are None where unknown."""
    rest = rest.lstrip(" ,\t").rstrip()
    pid: int | None = None
    match = _PID.match(rest)
    if match is not None:
        pid = _number(match["pid"])
        rest = rest[match.end() :]
    process: str | None = None
    if rest.lower().startswith("name="):
        process, rest = _split_name(rest[len("name=") :])
    return pid, process, rest.strip(" \t\"'`")[:MESSAGE_MAX_CHARS]


def _split_name(rest: str) -> tuple[str | None, str]:
    name, separator, message = rest.partition(", ")
    if len(name) > _NAME_MAX_CHARS and "," in name:
        name, _, message = rest.partition(",")
    elif not separator:
        name = name.rstrip(",")
    name = name.strip("'\"\u2018\u2019`")
    return (None if name.strip("<>").lower() in ("", "unknown") else name), message


def link_of(message: str) -> int | None:
    """Return the NVLink that a message names, None where there is none; the driver writes -1 for none."""
    match = _LINK.search(message)
    return int(match[1]) if match and int(match[1]) >= 0 else None


def is_fatal(message: str) -> bool | None:
    """Return True for Fatal, False for Non-fatal, None where the message has neither."""
    match = _FATAL.search(message)
    return None if match is None else match[1] is None


def _severity(code: int, message: str, *, fatal: bool | None) -> Severity:
    entry = catalogue.xid(code)
    if entry is None:
        return Severity.WARNING
    if entry.gravity is catalogue.Gravity.DEPENDS:
        if code == _GPU_RECOVERY_ACTION_CHANGED:
            return _recovery_severity(message)
        if fatal:
            return Severity.CRITICAL
    return entry.severity


def _recovery_severity(message: str) -> Severity:
    """Grade Xid 154 by the action it now requires: none, drain, or a reset or reboot."""
    match = _RECOVERY_ACTION.search(message)
    action = match["action"].lower() if match else ""
    if action == "none":
        return Severity.INFO
    return Severity.CRITICAL if "reset" in action or "reboot" in action else Severity.WARNING


def _number(digits: str | None) -> int | None:
    return None if digits is None else int(digits)
