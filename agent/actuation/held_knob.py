"""Knob of one GPU that railwatch holds: the setting found, the setting written, the claims, and planned changes."""

from dataclasses import dataclass, replace

from agent.actuation.claims import GpuTarget, KnobClaim, KnobClaims, next_deadline_s, setting_of
from telemetry.gpu import KnobKind, ReleasedBy
from telemetry.records import ActionState

KnobKey = tuple[KnobKind, str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldKnob:
    """State of one knob of one GPU while incidents claim it; settings are None if the knob is unset.

    Attributes
    ----------
    knob
        Name of the setting in the driver.
    found
        Setting before our first write; the last release restores it.
    before
        Setting before our latest write.
    wanted
        Setting of our latest write.
    read_back
        Setting read after it; valid only if `settled`.
    settled
        False between the journal entry and the read-back: either setting may be in force then.
    claims
        Claims on the knob; empty while a restore is still pending.
    subject
        Claim that was changed last; a late write is reported for it.
    owed
        A write is pending because the GPU or the driver did not accept it.
    lost
        The GPU was away since our latest write, so its settings may have been reset.
    tries
        Failed attempts of the pending write.
    retry_at_s
        Monotonic time of the next attempt.
    released_by
        Cause of the latest change if it releases the claim of `subject`; a late write is reported with it.
    """

    target: GpuTarget
    knob: str
    enforcing: bool
    found: float | None
    before: float | None
    wanted: float | None
    read_back: float | None
    settled: bool
    claims: KnobClaims
    subject: KnobClaim
    owed: bool = False
    lost: bool = False
    tries: int = 0
    retry_at_s: float = 0.0
    released_by: ReleasedBy | None = None

    @classmethod
    def begin(
        cls, target: GpuTarget, *, knob: str, found: float | None, claim: KnobClaim, enforcing: bool
    ) -> "HeldKnob":
        """Return the state after the knob was read and before the first write."""
        return cls(
            target=target,
            knob=knob,
            enforcing=enforcing,
            found=found,
            before=found,
            wanted=found,
            read_back=found,
            settled=True,
            claims=(claim,),
            subject=claim,
        )

    @property
    def key(self) -> KnobKey:
        """Kind of knob, GPU, and whether it is written or only a dry run."""
        return self.kind, self.target.uuid, self.enforcing

    @property
    def kind(self) -> KnobKind:
        """Kind of knob."""
        return self.subject.kind

    @property
    def is_over(self) -> bool:
        """True if no claim and no pending write is left."""
        return self.settled and not self.claims and not self.owed

    @property
    def setting(self) -> float | None:
        """Wanted setting."""
        return setting_of(self.claims, self.found)

    @property
    def expected(self) -> float | None:
        """Expected setting: as read back, or as written if there was no read-back."""
        return self.read_back if self.settled else self.wanted

    @property
    def due_at_s(self) -> float | None:
        """Time of the next work: a lease ends or a pending write is retried; None for never."""
        deadline_s = next_deadline_s(self.claims)
        if not self.owed:
            return deadline_s
        return self.retry_at_s if deadline_s is None else min(deadline_s, self.retry_at_s)

    def is_ours(self, in_force: float | None) -> bool:
        """Return True if the setting in force is ours; if not, someone else has set it since."""
        if not self.enforcing:
            return True
        if self.settled:
            return in_force == self.read_back
        return in_force in (self.before, self.wanted)

    def must_write(self, in_force: float | None) -> bool:
        """Return True if the knob has to be written.

        If it was found as None and reads as None, the setting in force may be unreadable: then the latest write counts,
        and an uncertain write is repeated.
        """
        if not self.enforcing:
            return False
        if in_force is None and self.found is None:
            return self.setting != self.wanted or self.owed or self.lost or not self.settled
        return self.setting != in_force

    def confirms(self, read_back: float | None, *, readable: bool) -> bool:
        """Return True if a read-back shows the wanted setting.

        Without a getter (NVML has none for locked clocks) a reading proves nothing.
        """
        return read_back == self.wanted or not readable

    def aiming(self, in_force: float | None) -> "HeldKnob":
        """Return the state before its setting is written over `in_force`."""
        return replace(self, before=in_force, wanted=self.setting, settled=False)

    def landed(self, read_back: float | None) -> "HeldKnob":
        """Return the state after its setting was read back."""
        return replace(self, read_back=read_back, settled=True, lost=False, owed=False, tries=0)

    def owing(self, *, retry_at_s: float, lost: bool) -> "HeldKnob":
        """Return the state with a write pending."""
        return replace(self, owed=True, lost=self.lost or lost, tries=self.tries + 1, retry_at_s=retry_at_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobChange:
    """Held knob with its new claims, and the action to report after the write.

    `again` requests a write even if the knob seems to have the setting; `released_by` is set for a release.
    """

    hold: HeldKnob
    earlier: HeldKnob | None
    in_force: float | None
    state: ActionState
    reason: str
    again: bool = False
    released_by: ReleasedBy | None = None

    @property
    def writes(self) -> bool:
        """True if the hardware has to be written."""
        return self.hold.must_write(self.in_force) or (self.again and self.hold.enforcing)

    @property
    def protects(self) -> bool:
        """True if the change makes the knob stricter; one that reads as unset is at its loosest."""
        aim, now = self.hold.setting, self.in_force
        return aim is not None and (now is None or (aim != now and self.hold.kind.strictest(aim, now) == aim))
