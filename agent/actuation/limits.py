"""How far a knob may be turned: supported by the part, no looser than asked, never beyond the rail."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from agent.actuation.claims import KnobClaim, claim_of
from agent.actuation.held_knob import HeldKnob
from agent.actuation.request import CapRequest
from telemetry.errors import ActionRefusedError
from telemetry.knobs import KnobKind
from telemetry.records import Mode

# Incidents on one knob, each of which makes every line of its journal longer. Heuristic: a node has a handful.
CLAIMS_MAX = 32


class UnreadableClocks(StrEnum):
    """Whether a cap may be set through a setting that the driver does not show."""

    REFUSE = "refuse"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobLimits:
    """The limits of one kind of knob.

    Attributes
    ----------
    min_ratio
        No setting goes below this share of the highest that the part supports.
    safe_ratio
        Where a decision names no safe setting, a claim that nobody renews goes to this share of the highest.
    lowest, highest
        What the machine's owner allows, in the unit of the knob; None is no bound of his.
    highest_mode
        Below `enforce` nothing is turned, whoever asks; what is still held is released.
    """

    min_ratio: float
    safe_ratio: float
    lowest: float | None = None
    highest: float | None = None
    highest_mode: Mode = Mode.ENFORCE


DEFAULT_LIMITS: Mapping[KnobKind, KnobLimits] = {
    # Heuristic of the least: a V100 is then at 612 of 1530 MHz, where its core voltage has long met its floor, so that
    # a lower clock loses work and hardly saves power. 1005 of 1530 MHz is where four V100 on a weak supply were held:
    # blbadger.github.io/gpu-server, ``-ac 877,1005``.
    KnobKind.CLOCK: KnobLimits(min_ratio=0.40, safe_ratio=1005 / 1530),
    # Heuristic: the same least as of the clock, though the driver's own is mostly above it, and about the same safe
    # share.
    KnobKind.POWER: KnobLimits(min_ratio=0.40, safe_ratio=2 / 3),
    # Heuristic: a fan that is held no longer follows the heat (nvml.h, nvmlDeviceSetFanSpeed_v2), so it is held well
    # above where it would be left, and turns at its fastest once nobody looks after it.
    KnobKind.FAN: KnobLimits(min_ratio=0.80, safe_ratio=1.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActuatorSettings:
    """The limits of an actuator.

    Attributes
    ----------
    knobs
        The limits of each kind; a kind that is not named may not be turned.
    gpus
        The UUIDs that may be touched; None for all.
    longest_lease_s
        A request for a longer lease is refused.
    first_pause_s, longest_pause_s
        How long a write that could not be done waits for its next try; doubles from the first to the longest.
    unreadable
        Whether a knob that cannot be read may be moved: what a person set through it is lost with the release.
    """

    knobs: Mapping[KnobKind, KnobLimits] = field(default_factory=lambda: DEFAULT_LIMITS)
    gpus: frozenset[str] | None = None
    longest_lease_s: float = math.inf
    first_pause_s: float = 1.0
    longest_pause_s: float = 30.0
    unreadable: UnreadableClocks = UnreadableClocks.REFUSE

    def check(self, request: CapRequest, uuid: str, *, hold: HeldKnob | None, readable: bool) -> KnobLimits:
        """Return the limits of what is asked for one GPU, beside what is held of it.

        Raises
        ------
        ActionRefusedError
            It may not be done, and why.
        """
        limits = self.knobs.get(request.kind)
        if limits is None:
            raise ActionRefusedError(f"no {request.kind.label} may be set here")
        if self.gpus is not None and uuid not in self.gpus:
            raise ActionRefusedError(f"{uuid} is not among the GPUs that may be touched here")
        if request.lease_s > self.longest_lease_s:
            raise ActionRefusedError(f"a lease of {request.lease_s:g} s, expected at most {self.longest_lease_s:g} s")
        claims = () if hold is None else hold.claims
        if len(claims) >= CLAIMS_MAX and claim_of(claims, request.incident_id) is None:
            raise ActionRefusedError(f"{len(claims)} incidents hold this {request.kind.label}, which is the most")
        if request.mode is Mode.ENFORCE:
            self._check_write(request.kind, limits, readable=readable)
        return limits

    def _check_write(self, kind: KnobKind, limits: KnobLimits, *, readable: bool) -> None:
        if limits.highest_mode is not Mode.ENFORCE:
            raise ActionRefusedError(f"asked to enforce, and actions.{kind} is {limits.highest_mode} here")
        if not readable and self.unreadable is UnreadableClocks.REFUSE:
            raise ActionRefusedError(
                "the driver does not show this clock setting, so a lock that a person set could be neither seen nor "
                "put back; set actions.unreadable_clocks to allow where nobody locks clocks by hand"
            )

    def may_enforce(self, kind: KnobKind) -> bool:
        """Return whether knobs of a kind may be turned at all."""
        return kind in self.knobs and self.knobs[kind].highest_mode is Mode.ENFORCE

    def may_go_on(self, hold: HeldKnob) -> bool:
        """Return whether what an actuator before this one set may stay: its limits may have been others."""
        if not self.may_enforce(hold.kind) or (self.gpus is not None and hold.target.uuid not in self.gpus):
            return False
        limits = self.knobs[hold.kind]
        lowest, highest = limits.lowest or 0.0, math.inf if limits.highest is None else limits.highest
        within = all(lowest <= setting <= highest for one in hold.claims for setting in (one.setting, one.safe_setting))
        return within and all(claim.lease_s <= self.longest_lease_s for claim in hold.claims)

    def pause_s(self, tries: int) -> float:
        """Return how long to wait after so many tries that failed."""
        return min(self.longest_pause_s, self.first_pause_s * 2.0 ** min(tries, 16))


def allowed_setting(kind: KnobKind, supported: Sequence[float], wanted: float, limits: KnobLimits) -> float:
    """Return the supported setting nearest to the one wanted that is no looser, within the limits.

    Parameters
    ----------
    supported
        What the part can be set to, in any order; the rail is a share of the highest.
    wanted
        What the decision asks for. Where no allowed setting is as strict, the strictest allowed one is given.

    Raises
    ------
    ValueError
        The part supports no setting, none that is allowed, or the wanted one is not a positive number.
    """
    if not supported:
        raise ValueError(f"no {kind.label} is supported")
    if not (math.isfinite(wanted) and wanted > 0):
        raise ValueError(f"{kind.label} {wanted} {kind.unit}, expected a positive number")
    lowest = max(limits.min_ratio * max(supported), limits.lowest or 0.0)
    highest = math.inf if limits.highest is None else limits.highest
    within = [setting for setting in supported if lowest <= setting <= highest]
    if not within:
        raise ValueError(f"no supported {kind.label} lies from {lowest:g} to {highest:g} {kind.unit}")
    strict = [setting for setting in within if kind.strictest(setting, wanted) == setting]
    if not strict:
        return kind.strictest(*within)
    return min(strict, key=lambda setting: abs(setting - wanted))


def bounded_claim(
    request: CapRequest, supported: Sequence[float], limits: KnobLimits, *, now_s: float, now_ns: int
) -> KnobClaim:
    """Return the claim of a request at settings that the part supports and the rail allows, its lease begun.

    Raises
    ------
    ValueError
        The part supports no setting that is allowed.
    """
    kind = request.kind
    setting = allowed_setting(kind, supported, request.setting, limits)
    safe_wanted = request.safe_setting or limits.safe_ratio * max(supported)
    safe = allowed_setting(kind, supported, safe_wanted, limits)
    reason = request.reason
    if kind.strictest(setting, request.setting) != setting:
        bound = f"the rail of {limits.min_ratio:.0%} of the highest {kind.label}"
        if limits.lowest is not None and setting >= limits.lowest > limits.min_ratio * max(supported):
            bound = f"the least of {kind.text(limits.lowest)} that is allowed here"
        beyond = "above the highest" if kind is KnobKind.FAN else f"below {bound}"
        reason = f"{reason}; {kind.text(request.setting)} asked for, {beyond}"
    return request.claim(setting=setting, safe_setting=safe, reason=reason).leased(
        request.lease_s, now_s=now_s, now_ns=now_ns
    )
