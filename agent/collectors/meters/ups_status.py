"""State of a UPS as flags, and the state changes that are events."""

from enum import IntFlag

from telemetry.records import Severity


class UpsFlag(IntFlag):
    """Flags of ``ups.status`` (NUT Developer Guide, "Status data"); their numbers are stored, so never change them."""

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
# Reported when a state begins and when it ends, worst first. A calibration uses the battery on purpose.
_TRANSITIONS = (
    (UpsFlag.FORCED_SHUTDOWN, Severity.CRITICAL, "is shutting down its outputs", "is no longer shutting down"),
    (UpsFlag.OFF, Severity.CRITICAL, "is off: outputs without power", "is on again"),
    (UpsFlag.LOW_BATTERY, Severity.CRITICAL, "battery low", "battery charged again"),
    (UpsFlag.ON_BATTERY, Severity.CRITICAL, "is on battery: AC lost upstream", "is on line: AC is back"),
    (UpsFlag.OVERLOADED, Severity.WARNING, "is overloaded", "is no longer overloaded"),
    (UpsFlag.BYPASS, Severity.WARNING, "is bypassed: outputs not buffered", "is no longer bypassed"),
    (UpsFlag.REPLACE_BATTERY, Severity.WARNING, "battery needs replacement", "battery was replaced"),
)


def parse_status(text: str) -> UpsFlag:
    """Parse ``OB DISCHRG LB``; unknown flags are ignored. ValueError where no flag is known."""
    known = [_FLAGS[name] for name in text.split() if name in _FLAGS]
    if not known:
        raise ValueError(f"ups.status is {text!r}")
    flags = UpsFlag(0)
    for flag in known:
        flags |= flag
    return flags


def changes(before: UpsFlag, now: UpsFlag) -> tuple[tuple[Severity, str], ...]:
    """Return the changes as severity and text; a state that ends is info."""
    found: list[tuple[Severity, str]] = []
    for flag, severity, begins, ends in _TRANSITIONS:
        if flag in now and flag not in before:
            on_purpose = flag is UpsFlag.ON_BATTERY and UpsFlag.CALIBRATING in now
            found.append((Severity.INFO, "is calibrating: on battery on purpose") if on_purpose else (severity, begins))
        elif flag in before and flag not in now:
            found.append((Severity.INFO, ends))
    return tuple(found)
