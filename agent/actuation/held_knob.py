"""What railwatch holds of one knob of one GPU: what it found, what it set, and for whom."""

from dataclasses import dataclass, replace

from agent.actuation.claims import KnobClaim, KnobClaims, next_deadline_s, setting_of
from telemetry.knobs import KnobKind

KnobKey = tuple[KnobKind, str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTarget:
    """One GPU as the decision names it and as the driver does."""

    entity_id: str
    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldKnob:
    """The state of one knob of one GPU while claims rest on it; settings are None where the knob is unset.

    Attributes
    ----------
    knob
        Which setting of the driver it is.
    found
        The setting before our first write; what the last claim out restores.
    before
        The setting before our latest write.
    wanted
        The setting that our latest write asked for.
    read_back
        The setting read after it; means something only when `settled`.
    settled
        False between the journal entry and the read-back: either setting may then be in force.
    claims
        Whose hold it is; empty while a restore is still owed.
    subject
        The claim that was changed last, in whose name a late write is reported.
    owed
        A write is owed because the GPU or the driver did not take it.
    lost
        The GPU was away since our latest write, so its settings may have been reset.
    tries
        How often the owed write was tried.
    retry_at_s
        Monotonic time of the next try.
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

    @classmethod
    def begin(
        cls, target: GpuTarget, *, knob: str, found: float | None, claim: KnobClaim, enforcing: bool
    ) -> "HeldKnob":
        """Return a hold that has read the knob and not yet touched it."""
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
        """Which knob it is, and whether it is moved or only talked about."""
        return self.kind, self.target.uuid, self.enforcing

    @property
    def kind(self) -> KnobKind:
        """What kind of knob it is."""
        return self.subject.kind

    @property
    def is_over(self) -> bool:
        """Whether nothing rests on it any more."""
        return self.settled and not self.claims and not self.owed

    @property
    def setting(self) -> float | None:
        """What the knob should stand at."""
        return setting_of(self.claims, self.found)

    @property
    def expected(self) -> float | None:
        """Where the knob was left: as it was read back, or as it was asked for where that is not known."""
        return self.read_back if self.settled else self.wanted

    @property
    def due_at_s(self) -> float | None:
        """When something is to be done about it: a lease ends, or an owed write is tried again; None for never."""
        deadline_s = next_deadline_s(self.claims)
        if not self.owed:
            return deadline_s
        return self.retry_at_s if deadline_s is None else min(deadline_s, self.retry_at_s)

    def is_ours(self, in_force: float | None) -> bool:
        """Return whether what is in force is what we left there; if not, somebody else has set it since."""
        if not self.enforcing:
            return True
        if self.settled:
            return in_force == self.read_back
        return in_force in (self.before, self.wanted)

    def must_write(self, in_force: float | None) -> bool:
        """Return whether the knob has to be moved to where the claims want it.

        Where it was found as None and reads as None, nobody may be able to tell what is in force; then what counts
        is what was written last, and a write that is in doubt is done again.
        """
        if not self.enforcing:
            return False
        if in_force is None and self.found is None:
            return self.setting != self.wanted or self.owed or self.lost or not self.settled
        return self.setting != in_force

    def confirms(self, read_back: float | None, *, readable: bool) -> bool:
        """Return whether a read-back shows the wanted setting.

        Where no getter shows the setting (NVML has none for locked clocks), a reading proves nothing.
        """
        return read_back == self.wanted or not readable

    def aiming(self, in_force: float | None) -> "HeldKnob":
        """Return the hold as it stands when its setting is about to be written over `in_force`."""
        return replace(self, before=in_force, wanted=self.setting, settled=False)

    def landed(self, read_back: float | None) -> "HeldKnob":
        """Return the hold after its setting was read back."""
        return replace(self, read_back=read_back, settled=True, lost=False, owed=False, tries=0)

    def owing(self, *, retry_at_s: float, lost: bool) -> "HeldKnob":
        """Return the hold with a write still owed."""
        return replace(self, owed=True, lost=self.lost or lost, tries=self.tries + 1, retry_at_s=retry_at_s)
