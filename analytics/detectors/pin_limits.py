"""Limits of the pins of a power connector, with the source of each default."""

from dataclasses import dataclass

from pydantic import ConfigDict, with_config

from physics.connector_pins import PIN_CONTACT_A, PIN_LIMIT_A
from telemetry.durations import DurationS


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorPinsLimits:
    """Limits of the pins of a 12V-2x6 connector: current, share and voltage of each, and readings that are none.

    "Recordings" are two sessions of one healthy RTX 5090 at 2 Hz (github.com/ksokolowski/astral-hwmon,
    docs/measurements/2026-08-14, `burn` and `gaming-hots`).

    Parameters
    ----------
    limit_a, critical_a
        Current of a pin over two blocks of 2 s: 9.2 A, Intel 336521, section 5.2.2.4.3; 9.5 A, the rating of the
        contact (secondary, see `physics.connector_pins`). The recordings reach 8.56 A.
    full_share_ratio, light_share_ratio
        Change of a pin's share over its own from which its contact is suspected, from 25 A and from 10 A on.
        heuristic: five times and three times and a half what the recordings repeat within, 0.2 points (1.2 %) and
        2.3 %. A contact that gains a fourteenth of its path's resistance changes it by 6 %.
    fall_v, rise_ohm
        Voltage that a pin falls below its usual one beside its siblings, and that over its current. heuristic: 1.25
        steps of the monitor, 8 mV; the recordings stay within 6 mV and 0.9 milliohm at a full load, 4 mV at a light
        one.
    open_ratio
        Current of a pin over the mean of the others below which it is open, from 4 A on. heuristic: a contact of ten
        times the resistance; the lowest pin of the recordings carries 0.95 of the mean.
    unequal_ratio
        Current of the least over that of the most loaded pin, from 25 A on, below which pins are unequal whatever was
        learnt. secondary: a warning of astral-guard (astral-guard.1), from a monitor of a vendor; the recordings have
        0.89.
    clear_ratio
        Share of a limit below which it may clear. heuristic: half of a change; of a current, as
        `supply_margins.clear_ratio`.
    hold_s, clear_after_s
        How long a contact must be seen so, and as usual again, under load. heuristic: two blocks; a minute.
    rating_clear_after_s
        Time below the current limit before it clears: as `supply_margins.clear_after_s`.
    empty_s
        Zeros on all pins for this long are a faulty monitor. heuristic: longer than a card takes to wake, 0.1 s
        (docs/measurements/2026-08-15), shorter than a person waits.
    stuck_s, idle_stuck_s, longer
        Readings that repeat to the last digit for this long, or `longer` times as long as ever before, are stuck;
        `idle_stuck_s` below 4 A. heuristic: the recordings repeat for 4.5 s at most.
    """

    limit_a: float = PIN_LIMIT_A
    critical_a: float = PIN_CONTACT_A
    full_share_ratio: float = 0.06
    light_share_ratio: float = 0.08
    fall_v: float = 0.010
    rise_ohm: float = 0.0015
    open_ratio: float = 0.1
    unequal_ratio: float = 0.7
    clear_ratio: float = 0.5
    hold_s: DurationS = 2.0
    clear_after_s: DurationS = 60.0
    rating_clear_after_s: DurationS = 3600.0
    empty_s: DurationS = 10.0
    stuck_s: DurationS = 20.0
    idle_stuck_s: DurationS = 60.0
    longer: float = 3.0

    def __post_init__(self) -> None:
        """Refuse shares that are none, and levels in the wrong order."""
        if not 0 < self.limit_a <= self.critical_a:
            raise ValueError("0 < limit_a <= critical_a")
        ratios = (self.full_share_ratio, self.light_share_ratio, self.open_ratio, self.unequal_ratio, self.clear_ratio)
        if not all(0 < ratio < 1 for ratio in ratios):
            raise ValueError(
                "full_share_ratio, light_share_ratio, open_ratio, unequal_ratio, clear_ratio within 0 to 1"
            )
        if not (self.fall_v > 0 and self.rise_ohm > 0 and self.longer >= 1):
            raise ValueError("fall_v and rise_ohm above 0, longer at least 1")
