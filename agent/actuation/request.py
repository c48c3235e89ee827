"""What a decision asks of the clock cap."""

import math
from dataclasses import dataclass

from agent.actuation.claims import Claim
from agent.actuation.hold import GpuTarget
from telemetry.records import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class CapRequest:
    """Cap the clocks of some GPUs for one incident; all of them alike, in one go.

    Parameters
    ----------
    clock_mhz
        The highest clock wanted; the nearest supported clock at or below it is set.
    safe_clock_mhz
        What the cap falls to when nobody renews the lease; None takes the actuator's own share of the highest clock.
    lease_s
        How long the claim lasts without being renewed.
    owner
        Who asks: the rule, or a person.
    mode
        Anything but `enforce` does everything except the write.
    """

    incident_id: str
    decision_id: str
    gpus: tuple[GpuTarget, ...]
    clock_mhz: float
    lease_s: float
    owner: str
    mode: Mode
    reason: str
    safe_clock_mhz: float | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        for name, value in (
            ("clock_mhz", self.clock_mhz),
            ("safe_clock_mhz", self.safe_clock_mhz),
            ("lease_s", self.lease_s),
        ):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} is {value}, expected a positive number")
        if len({gpu.uuid for gpu in self.gpus}) != len(self.gpus) or not self.gpus:
            raise ValueError("gpus, expected at least one and each once")

    def claim(self, *, clock_mhz: float, safe_clock_mhz: float, reason: str) -> Claim:
        """Give the claim that it makes at the clocks given, its lease not begun."""
        return Claim(
            incident_id=self.incident_id,
            decision_id=self.decision_id,
            clock_mhz=clock_mhz,
            safe_clock_mhz=safe_clock_mhz,
            lease_s=self.lease_s,
            deadline_s=None,
            lease_until_ns=None,
            owner=self.owner,
            mode=self.mode,
            reason=reason,
        )
