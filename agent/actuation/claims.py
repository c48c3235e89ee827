"""Several incidents' claims on one knob: the strongest wins, the last one out restores what was found.

Pure: a set of claims is a tuple, a change gives a new tuple, and time comes in as an argument.
"""

from dataclasses import dataclass, replace

from telemetry.clock import NS_PER_S
from telemetry.records import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One incident's hold on the clock of one GPU.

    A claim has a lease. When it runs out, the cause is still unresolved and nobody looks after it any more: the
    claim stays, at the safe clock or its own, whichever is lower. Only a release takes it away.

    Attributes
    ----------
    clock_mhz
        What is asked for, a supported clock.
    safe_clock_mhz
        What it falls to when the lease runs out.
    deadline_s
        Monotonic end of the lease; None once it has run out.
    lease_until_ns
        The same end as a UTC stamp, for people; None once it has run out.
    """

    incident_id: str
    decision_id: str
    clock_mhz: float
    safe_clock_mhz: float
    lease_s: float
    deadline_s: float | None
    lease_until_ns: int | None
    owner: str
    mode: Mode
    reason: str

    @property
    def effective_mhz(self) -> float:
        """The clock that the claim stands for now."""
        return self.clock_mhz if self.deadline_s is not None else min(self.clock_mhz, self.safe_clock_mhz)

    def leased(self, lease_s: float, *, now_s: float, now_ns: int) -> "Claim":
        """Give the claim with a lease that begins now."""
        until_ns = now_ns + round(lease_s * NS_PER_S)
        return replace(self, lease_s=lease_s, deadline_s=now_s + lease_s, lease_until_ns=until_ns)

    def expired(self) -> "Claim":
        """Give the claim as it stands when its lease has run out."""
        return replace(self, deadline_s=None, lease_until_ns=None)


Claims = tuple[Claim, ...]


def claim_of(claims: Claims, incident_id: str) -> Claim | None:
    """Give the claim of one incident, None where it has none."""
    return next((claim for claim in claims if claim.incident_id == incident_id), None)


def with_claim(claims: Claims, claim: Claim) -> Claims:
    """Give the claims with one added; it takes the place of an earlier one of the same incident."""
    return (*without_claim(claims, claim.incident_id), claim)


def without_claim(claims: Claims, incident_id: str) -> Claims:
    """Give the claims less the one of that incident."""
    return tuple(claim for claim in claims if claim.incident_id != incident_id)


def setting_mhz(claims: Claims, found_mhz: float | None) -> float | None:
    """Give what the knob should stand at: the strongest claim, or what was found where there is none.

    A cap never raises a clock: where what was found is lower than every claim, it stays. None means unset.
    """
    clocks_mhz = [claim.effective_mhz for claim in claims]
    if not clocks_mhz:
        return found_mhz
    return min(clocks_mhz) if found_mhz is None else min(*clocks_mhz, found_mhz)


def overdue(claims: Claims, now_s: float) -> Claims:
    """Give the claims whose lease has run out and that do not know it yet."""
    return tuple(claim for claim in claims if claim.deadline_s is not None and claim.deadline_s <= now_s)


def next_deadline_s(claims: Claims) -> float | None:
    """Give when the next lease runs out, None where none does."""
    return min((claim.deadline_s for claim in claims if claim.deadline_s is not None), default=None)
