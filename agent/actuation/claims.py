"""Requests to set knobs, and the claims of incidents: the strictest wins, the last release restores what was found.

Pure: a set of claims is a tuple, a change returns a new tuple, and time is an argument.
"""

import math
from dataclasses import dataclass, replace

from telemetry.clock import NS_PER_S
from telemetry.gpu import KnobKind
from telemetry.records import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTarget:
    """GPU by the id in the decision and by its UUID in the driver."""

    entity_id: str
    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobClaim:
    """Hold of an incident on one knob of one GPU.

    A claim has a lease. When it runs out without a renewal, the cause is still unresolved: the claim stays, at the safe
    setting or its own, whichever is stricter. Only a release removes it. The claim of an experiment has no cause: it
    ends with its lease.

    Attributes
    ----------
    kind
        Which knob, and so the unit of both settings and which of two is stricter.
    setting
        Requested setting, one that the GPU supports.
    safe_setting
        Setting after the lease ran out.
    deadline_s
        Monotonic end of the lease; None once it has run out.
    lease_until_ns
        The same as a UTC time stamp; None once it has run out.
    ends_with_lease
        True if it is released when its lease runs out.
    """

    incident_id: str
    decision_id: str
    kind: KnobKind
    setting: float
    safe_setting: float
    lease_s: float
    deadline_s: float | None
    lease_until_ns: int | None
    owner: str
    mode: Mode
    reason: str
    ends_with_lease: bool = False

    @property
    def effective(self) -> float:
        """Setting that the claim wants now."""
        leased = self.deadline_s is not None
        return self.setting if leased else self.kind.strictest(self.setting, self.safe_setting)

    def is_stricter_than(self, other: "KnobClaim") -> bool:
        """Return True if it is stricter than another claim on the same knob."""
        mine, others = self.effective, other.effective
        return mine != others and self.kind.strictest(mine, others) == mine

    def leased(self, lease_s: float, *, now_s: float, now_ns: int) -> "KnobClaim":
        """Return the claim with a lease that begins now."""
        until_ns = now_ns + round(lease_s * NS_PER_S)
        return replace(self, lease_s=lease_s, deadline_s=now_s + lease_s, lease_until_ns=until_ns)

    def expired(self) -> "KnobClaim":
        """Return the claim after its lease ran out."""
        return replace(self, deadline_s=None, lease_until_ns=None)


KnobClaims = tuple[KnobClaim, ...]


def claim_of(claims: KnobClaims, incident_id: str) -> KnobClaim | None:
    """Return the claim of one incident, None if it has none."""
    return next((claim for claim in claims if claim.incident_id == incident_id), None)


def with_claim(claims: KnobClaims, claim: KnobClaim) -> KnobClaims:
    """Return the claims with one added; it replaces an earlier one of the same incident."""
    return (*without_claim(claims, claim.incident_id), claim)


def without_claim(claims: KnobClaims, incident_id: str) -> KnobClaims:
    """Return the claims without the one of that incident."""
    return tuple(claim for claim in claims if claim.incident_id != incident_id)


def setting_of(claims: KnobClaims, found: float | None) -> float | None:
    """Return the wanted setting of the knob: the strictest claim, or the setting found if there is none.

    A claim never loosens a knob: if the setting found is stricter than every claim, it stays. None means unset.
    """
    if not claims:
        return found
    settings = [claim.effective for claim in claims] + ([] if found is None else [found])
    return claims[0].kind.strictest(*settings)


def overdue(claims: KnobClaims, now_s: float) -> KnobClaims:
    """Return the claims whose lease ran out and that are not marked as expired yet."""
    return tuple(claim for claim in claims if claim.deadline_s is not None and claim.deadline_s <= now_s)


def next_deadline_s(claims: KnobClaims) -> float | None:
    """Return when the next lease runs out, None if none does."""
    return min((claim.deadline_s for claim in claims if claim.deadline_s is not None), default=None)


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
    ends_with_lease
        True to release the claim when its lease runs out, as an experiment needs it whose process was killed.
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
    ends_with_lease: bool = False

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
            ends_with_lease=self.ends_with_lease,
        )
