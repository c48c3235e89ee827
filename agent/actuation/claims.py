"""Several incidents' claims on one knob: the strictest wins, the last one out restores what was found.

Pure: a set of claims is a tuple, a change gives a new tuple, and time comes in as an argument.
"""

from dataclasses import dataclass, replace

from telemetry.clock import NS_PER_S
from telemetry.knobs import KnobKind
from telemetry.records import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobClaim:
    """One incident's hold on one knob of one GPU.

    A claim has a lease. When it runs out, the cause is still unresolved and nobody looks after it any more: the
    claim stays, at the safe setting or its own, whichever is stricter. Only a release takes it away.

    Attributes
    ----------
    kind
        Which knob, and so the unit of both settings and which of two is stricter.
    setting
        What is asked for, one that the part supports.
    safe_setting
        What it falls to when the lease runs out.
    deadline_s
        Monotonic end of the lease; None once it has run out.
    lease_until_ns
        The same end as a UTC stamp, for people; None once it has run out.
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

    @property
    def effective(self) -> float:
        """The setting that the claim stands for now."""
        leased = self.deadline_s is not None
        return self.setting if leased else self.kind.strictest(self.setting, self.safe_setting)

    def is_stricter_than(self, other: "KnobClaim") -> bool:
        """Return whether it asks for more protection than another one of the same knob."""
        mine, others = self.effective, other.effective
        return mine != others and self.kind.strictest(mine, others) == mine

    def leased(self, lease_s: float, *, now_s: float, now_ns: int) -> "KnobClaim":
        """Return the claim with a lease that begins now."""
        until_ns = now_ns + round(lease_s * NS_PER_S)
        return replace(self, lease_s=lease_s, deadline_s=now_s + lease_s, lease_until_ns=until_ns)

    def expired(self) -> "KnobClaim":
        """Return the claim as it stands when its lease has run out."""
        return replace(self, deadline_s=None, lease_until_ns=None)


KnobClaims = tuple[KnobClaim, ...]


def claim_of(claims: KnobClaims, incident_id: str) -> KnobClaim | None:
    """Return the claim of one incident, None where it has none."""
    return next((claim for claim in claims if claim.incident_id == incident_id), None)


def with_claim(claims: KnobClaims, claim: KnobClaim) -> KnobClaims:
    """Return the claims with one added; it takes the place of an earlier one of the same incident."""
    return (*without_claim(claims, claim.incident_id), claim)


def without_claim(claims: KnobClaims, incident_id: str) -> KnobClaims:
    """Return the claims less the one of that incident."""
    return tuple(claim for claim in claims if claim.incident_id != incident_id)


def setting_of(claims: KnobClaims, found: float | None) -> float | None:
    """Return what the knob should stand at: the strictest claim, or what was found where there is none.

    A claim never loosens a knob: where what was found is stricter than every claim, it stays. None means unset.
    """
    if not claims:
        return found
    settings = [claim.effective for claim in claims] + ([] if found is None else [found])
    return claims[0].kind.strictest(*settings)


def overdue(claims: KnobClaims, now_s: float) -> KnobClaims:
    """Return the claims whose lease has run out and that do not know it yet."""
    return tuple(claim for claim in claims if claim.deadline_s is not None and claim.deadline_s <= now_s)


def next_deadline_s(claims: KnobClaims) -> float | None:
    """Return when the next lease runs out, None where none does."""
    return min((claim.deadline_s for claim in claims if claim.deadline_s is not None), default=None)
