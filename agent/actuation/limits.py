"""Limits of knobs: settings that the GPU supports, no looser than requested, within the allowed range."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from agent.actuation.claims import CapRequest, KnobClaim, claim_of
from agent.actuation.held_knob import HeldKnob
from telemetry.errors import ActionRefusedError
from telemetry.gpu import KnobKind
from telemetry.records import Mode

# heuristic: incidents on one knob, each makes every line of the journal longer; a node has a handful.
CLAIMS_MAX = 32


class UnreadableClocks(StrEnum):
    """Permission for caps with a setting that the driver cannot read back."""

    REFUSE = "refuse"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobLimits:
    """Limits of one kind of knob.

    Attributes
    ----------
    min_ratio
        Lowest setting as a share of the highest that the GPU supports.
    safe_ratio
        Safe setting of a claim whose lease ran out, as a share of the highest, if the decision names none.
    lowest, highest
        Configured range, in the unit of the knob; None is no limit.
    highest_mode
        Below `enforce` no request is carried out; what is still held is released.
    """

    min_ratio: float
    safe_ratio: float
    lowest: float | None = None
    highest: float | None = None
    highest_mode: Mode = Mode.ENFORCE


DEFAULT_LIMITS: Mapping[KnobKind, KnobLimits] = {
    # heuristic: minimum at which a V100 is at 612 of 1530 MHz, where its core voltage has long met its floor, so that
    # a lower clock loses work and hardly saves power. 1005 of 1530 MHz is where four V100 on a weak supply were held:
    # blbadger.github.io/gpu-server, ``-ac 877,1005``.
    KnobKind.CLOCK: KnobLimits(min_ratio=0.40, safe_ratio=1005 / 1530),
    # heuristic: the same minimum as of the clock, though the driver's own is mostly above it, and about the same safe
    # share.
    KnobKind.POWER: KnobLimits(min_ratio=0.40, safe_ratio=2 / 3),
    # heuristic: a fan that is held no longer follows the heat (nvml.h, nvmlDeviceSetFanSpeed_v2), so it is held well
    # above its automatic speed, and at its fastest once the lease ran out.
    KnobKind.FAN: KnobLimits(min_ratio=0.80, safe_ratio=1.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActuatorSettings:
    """Limits of an actuator.

    Attributes
    ----------
    knobs
        Limits of each kind; a kind that is not named may not be set.
    gpus
        UUIDs of the GPUs that may be changed; None for all.
    longest_lease_s
        A request for a longer lease is refused.
    first_pause_s, longest_pause_s
        Pause before the retry of a failed write; doubles from the first to the longest.
    unreadable
        Whether a knob that cannot be read may be set: the release removes a setting by someone else.
    """

    knobs: Mapping[KnobKind, KnobLimits] = field(default_factory=lambda: DEFAULT_LIMITS)
    gpus: frozenset[str] | None = None
    longest_lease_s: float = math.inf
    first_pause_s: float = 1.0
    longest_pause_s: float = 30.0
    unreadable: UnreadableClocks = UnreadableClocks.REFUSE

    def check(self, request: CapRequest, uuid: str, *, hold: HeldKnob | None, readable: bool) -> KnobLimits:
        """Check a request for one GPU and return the limits of its knob.

        ActionRefusedError where the request is not allowed; the message has the reason.
        """
        limits = self.knobs.get(request.kind)
        if limits is None:
            raise ActionRefusedError(f"no {request.kind.label} may be set here")
        if self.gpus is not None and uuid not in self.gpus:
            raise ActionRefusedError(f"GPU {uuid} is not allowed: key gpus of the actuator's configuration")
        if request.lease_s > self.longest_lease_s:
            raise ActionRefusedError(f"lease of {request.lease_s:g} s is too long: at most {self.longest_lease_s:g} s")
        claims = () if hold is None else hold.claims
        if len(claims) >= CLAIMS_MAX and claim_of(claims, request.incident_id) is None:
            raise ActionRefusedError(f"{len(claims)} incidents hold this {request.kind.label}, which is the most")
        if request.mode is Mode.ENFORCE:
            self._check_write(request.kind, limits, readable=readable)
        return limits

    def _check_write(self, kind: KnobKind, limits: KnobLimits, *, readable: bool) -> None:
        if limits.highest_mode is not Mode.ENFORCE:
            raise ActionRefusedError(f"mode enforce is not allowed: actions.{kind} is {limits.highest_mode}")
        if not readable and self.unreadable is UnreadableClocks.REFUSE:
            raise ActionRefusedError(
                "the driver cannot read locked clocks back, so a lock set by someone else would be lost; "
                "set actions.unreadable_clocks to allow if nobody locks clocks by hand"
            )

    def may_enforce(self, kind: KnobKind) -> bool:
        """Return True if knobs of a kind may be set at all."""
        return kind in self.knobs and self.knobs[kind].highest_mode is Mode.ENFORCE

    def may_go_on(self, hold: HeldKnob) -> bool:
        """Return True if a setting of an earlier process is within the present limits."""
        if not self.may_enforce(hold.kind) or (self.gpus is not None and hold.target.uuid not in self.gpus):
            return False
        limits = self.knobs[hold.kind]
        lowest, highest = limits.lowest or 0.0, math.inf if limits.highest is None else limits.highest
        within = all(lowest <= setting <= highest for one in hold.claims for setting in (one.setting, one.safe_setting))
        return within and all(claim.lease_s <= self.longest_lease_s for claim in hold.claims)

    def pause_s(self, tries: int) -> float:
        """Return the pause after that many failed attempts."""
        return min(self.longest_pause_s, self.first_pause_s * 2.0 ** min(tries, 16))


def allowed_setting(kind: KnobKind, supported: Sequence[float], wanted: float, limits: KnobLimits) -> float:
    """Return the nearest supported setting that is no looser than wanted, within the limits.

    Parameters
    ----------
    supported
        Supported settings, in any order; the minimum is a share of the highest.
    wanted
        Setting of the decision. If no allowed setting is as strict, the strictest allowed one is returned.

    Raises
    ------
    ValueError
        No setting is supported, none is allowed, or the wanted one is not a positive number.
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
    """Return the claim of a request at supported and allowed settings, with its lease begun.

    ValueError where no supported setting is allowed.
    """
    kind = request.kind
    setting = allowed_setting(kind, supported, request.setting, limits)
    safe_wanted = request.safe_setting or limits.safe_ratio * max(supported)
    safe = allowed_setting(kind, supported, safe_wanted, limits)
    reason = request.reason
    if kind.strictest(setting, request.setting) != setting:
        bound = f"the minimum of {limits.min_ratio:.0%} of the highest {kind.label}"
        if limits.lowest is not None and setting >= limits.lowest > limits.min_ratio * max(supported):
            bound = f"the least of {kind.text(limits.lowest)} that is allowed here"
        beyond = "above the highest" if kind is KnobKind.FAN else f"below {bound}"
        reason = f"{reason}; {kind.text(request.setting)} requested, {beyond}"
    return request.claim(setting=setting, safe_setting=safe, reason=reason).leased(
        request.lease_s, now_s=now_s, now_ns=now_ns
    )
