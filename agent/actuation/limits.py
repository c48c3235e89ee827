"""How far a clock cap may go: supported by the part, never above what was asked, never below the rail."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from agent.actuation.claims import Claim
from agent.actuation.request import CapRequest
from telemetry.errors import ActionRefusedError
from telemetry.records import Mode


class UnreadableClocks(StrEnum):
    """Whether a cap may be set through a setting that the driver does not show."""

    REFUSE = "refuse"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockCapSettings:
    """The limits of the clock cap.

    Attributes
    ----------
    min_clock_ratio
        No cap goes below this share of the highest clock. Our own rail: a V100 is then at 612 of 1530 MHz, where its
        core voltage has long met its floor, so that a lower clock loses work and hardly saves power.
    safe_clock_ratio
        Where a decision names no safe clock, a claim that nobody renews falls to this share of the highest clock.
        1005 of 1530 MHz is where four V100 on a weak supply were held: blbadger.github.io/gpu-server, ``-ac 877,1005``.
    first_pause_s, longest_pause_s
        How long a write that could not be done waits for its next try; doubles from the first to the longest.
    highest_mode
        Below `enforce` nothing is capped, whoever asks; what is still held is released.
    unreadable
        Whether a knob that cannot be read may be moved: what a person set through it is lost with the release.
    """

    min_clock_ratio: float = 0.40
    safe_clock_ratio: float = 1005 / 1530
    first_pause_s: float = 1.0
    longest_pause_s: float = 30.0
    highest_mode: Mode = Mode.ENFORCE
    unreadable: UnreadableClocks = UnreadableClocks.REFUSE

    def check(self, mode: Mode, *, readable: bool) -> None:
        """Pass what may be set in this mode through such a knob.

        Raises
        ------
        ActionRefusedError
            It may not, and why.
        """
        if mode is not Mode.ENFORCE:
            return
        if self.highest_mode is not Mode.ENFORCE:
            raise ActionRefusedError(f"asked to enforce, and actions.clock_cap is {self.highest_mode.value} here")
        if not readable and self.unreadable is UnreadableClocks.REFUSE:
            raise ActionRefusedError(
                "the driver does not show this clock setting, so a lock that a person set could be neither seen nor "
                "put back; set actions.unreadable_clocks to allow where nobody locks clocks by hand"
            )

    def pause_s(self, tries: int) -> float:
        """Give how long to wait after so many tries that failed."""
        return min(self.longest_pause_s, self.first_pause_s * 2.0 ** min(tries, 16))


def allowed_clock_mhz(supported_mhz: Sequence[float], wanted_mhz: float, *, min_ratio: float) -> float:
    """Give the highest supported clock at or below the one wanted, but no lower than the rail allows.

    Parameters
    ----------
    supported_mhz
        What the part can be set to, in any order; the rail is a share of the highest.
    wanted_mhz
        What the decision asks for.
    min_ratio
        The lowest allowed share of the highest clock, 0 to 1. A wanted clock below it gives the lowest supported
        clock that is not below the rail.

    Raises
    ------
    ValueError
        No clock is supported, or the wanted one is not a positive number.
    """
    if not supported_mhz:
        raise ValueError("no clock is supported")
    if not (math.isfinite(wanted_mhz) and wanted_mhz > 0):
        raise ValueError(f"clock {wanted_mhz} MHz, expected a positive number")
    rail_mhz = min_ratio * max(supported_mhz)
    within_rail = [clock for clock in supported_mhz if clock >= rail_mhz]
    below = [clock for clock in within_rail if clock <= wanted_mhz]
    return max(below) if below else min(within_rail)


def bounded_claim(
    request: CapRequest, supported_mhz: Sequence[float], settings: ClockCapSettings, *, now_s: float, now_ns: int
) -> Claim:
    """Give the claim of a request at clocks that the part supports and the rail allows, its lease begun.

    Raises
    ------
    ValueError
        The part supports no clock.
    """
    clock_mhz = allowed_clock_mhz(supported_mhz, request.clock_mhz, min_ratio=settings.min_clock_ratio)
    safe_wanted_mhz = request.safe_clock_mhz or settings.safe_clock_ratio * max(supported_mhz)
    safe_mhz = allowed_clock_mhz(supported_mhz, safe_wanted_mhz, min_ratio=settings.min_clock_ratio)
    reason = request.reason
    if clock_mhz > request.clock_mhz:
        share = f"{settings.min_clock_ratio:.0%} of the highest clock"
        reason = f"{reason}; {request.clock_mhz:g} MHz asked for, below the rail of {share}"
    return request.claim(clock_mhz=clock_mhz, safe_clock_mhz=safe_mhz, reason=reason).leased(
        request.lease_s, now_s=now_s, now_ns=now_ns
    )
