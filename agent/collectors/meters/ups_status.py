"""What a UPS says of its state, as flags, and which of its changes are events."""

from enum import IntFlag

from telemetry.records import Severity


class UpsFlag(IntFlag):
    """The words of ``ups.status`` (NUT Developer Guide, "Status data"); the numbers are ours and never change."""

    ON_LINE = 1
    ON_BATTERY = 2
    LOW_BATTERY = 4
    REPLACE_BATTERY = 8
    CHARGING = 16
    DISCHARGING = 32
    BYPASS = 64
    CALIBRATING = 128
    OFF = 256
    OVERLOADED = 512
    TRIMMING = 1024
    BOOSTING = 2048
    FORCED_SHUTDOWN = 4096


_FLAGS = {
    "OL": UpsFlag.ON_LINE,
    "OB": UpsFlag.ON_BATTERY,
    "LB": UpsFlag.LOW_BATTERY,
    "RB": UpsFlag.REPLACE_BATTERY,
    "CHRG": UpsFlag.CHARGING,
    "DISCHRG": UpsFlag.DISCHARGING,
    "BYPASS": UpsFlag.BYPASS,
    "CAL": UpsFlag.CALIBRATING,
    "OFF": UpsFlag.OFF,
    "OVER": UpsFlag.OVERLOADED,
    "TRIM": UpsFlag.TRIMMING,
    "BOOST": UpsFlag.BOOSTING,
    "FSD": UpsFlag.FORCED_SHUTDOWN,
}
# What is told when it begins and when it ends, worst first. During a calibration the battery is used on purpose.
_TRANSITIONS = (
    (UpsFlag.FORCED_SHUTDOWN, Severity.CRITICAL, "shuts down what it feeds", "no longer shuts down"),
    (UpsFlag.OFF, Severity.CRITICAL, "is off: it feeds nothing", "is on again"),
    (UpsFlag.LOW_BATTERY, Severity.CRITICAL, "has little charge left", "is charged again"),
    (UpsFlag.ON_BATTERY, Severity.CRITICAL, "is on battery: AC lost upstream", "is on line: AC is back"),
    (UpsFlag.OVERLOADED, Severity.WARNING, "is overloaded", "is no longer overloaded"),
    (UpsFlag.BYPASS, Severity.WARNING, "is bypassed: nothing is buffered", "is no longer bypassed"),
    (UpsFlag.REPLACE_BATTERY, Severity.WARNING, "asks for a new battery", "has a new battery"),
)


def parse_status(text: str) -> UpsFlag:
    """Read ``OB DISCHRG LB``; words that nobody declared are left out. ValueError where no word is known."""
    known = [_FLAGS[name] for name in text.split() if name in _FLAGS]
    if not known:
        raise ValueError(f"ups.status is {text!r}")
    flags = UpsFlag(0)
    for flag in known:
        flags |= flag
    return flags


def changes(before: UpsFlag, now: UpsFlag) -> tuple[tuple[Severity, str], ...]:
    """Return what changed, as severity and words; the good news is info."""
    found: list[tuple[Severity, str]] = []
    for flag, severity, begins, ends in _TRANSITIONS:
        if flag in now and flag not in before:
            on_purpose = flag is UpsFlag.ON_BATTERY and UpsFlag.CALIBRATING in now
            found.append((Severity.INFO, "calibrates: on battery on purpose") if on_purpose else (severity, begins))
        elif flag in before and flag not in now:
            found.append((Severity.INFO, ends))
    return tuple(found)
