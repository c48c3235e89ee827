"""Request to the actuator."""

import math
from dataclasses import dataclass

from agent.actuation.claims import KnobClaim
from agent.actuation.held_knob import GpuTarget
from telemetry.knobs import KnobKind
from telemetry.records import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class CapRequest:
    """Request to set one knob of some GPUs for one incident, all to the same setting.

    Parameters
    ----------
    kind
        Kind of knob, which defines the unit of the settings.
    setting
        Wanted setting; the nearest supported one that is no looser is used.
    safe_setting
        Setting after the lease ran out; None uses the actuator's own share of the highest setting.
    lease_s
        Length of the lease.
    owner
        Sender: the rules, or a person.
    mode
        Anything but `enforce` does everything except the write.
    """

    incident_id: str
    decision_id: str
    gpus: tuple[GpuTarget, ...]
    kind: KnobKind
    setting: float
    lease_s: float
    owner: str
    mode: Mode
    reason: str
    safe_setting: float | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that are not positive, and a GPU that is named twice."""
        for name, value in (
            ("setting", self.setting),
            ("safe_setting", self.safe_setting),
            ("lease_s", self.lease_s),
        ):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} is {value}, expected a positive number")
        if len({gpu.uuid for gpu in self.gpus}) != len(self.gpus) or not self.gpus:
            raise ValueError("gpus: expected at least one GPU, each once")

    def claim(self, *, setting: float, safe_setting: float, reason: str) -> KnobClaim:
        """Return its claim at the given settings; the lease has not begun."""
        return KnobClaim(
            incident_id=self.incident_id,
            decision_id=self.decision_id,
            kind=self.kind,
            setting=setting,
            safe_setting=safe_setting,
            lease_s=self.lease_s,
            deadline_s=None,
            lease_until_ns=None,
            owner=self.owner,
            mode=self.mode,
            reason=reason,
        )
