"""Lines of the actuator's write-ahead log: the state of one knob of one GPU, or a blocked incident."""

import json
from collections.abc import Mapping

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, TypeAdapter

from agent.actuation.blocklist import Block
from agent.actuation.claims import KnobClaim
from agent.actuation.held_knob import GpuTarget, HeldKnob
from telemetry.clock import NS_PER_S
from telemetry.knobs import KnobKind
from telemetry.records import Mode


class ClaimLine(BaseModel):
    """Claim of one incident."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    incident_id: str
    decision_id: str
    # Earlier lines know no knob but the clock.
    kind: KnobKind = KnobKind.CLOCK
    setting: float = Field(validation_alias=AliasChoices("setting", "clock_mhz"))
    safe_setting: float = Field(validation_alias=AliasChoices("safe_setting", "safe_clock_mhz"))
    lease_s: float
    lease_until_ns: int | None
    owner: str
    mode: Mode
    reason: str

    def claim(self, *, now_s: float, now_ns: int) -> KnobClaim:
        """Return the claim with the rest of its lease; a wall clock that was set back does not extend it."""
        deadline_s = None
        if self.lease_until_ns is not None:
            deadline_s = now_s + min(self.lease_s, (self.lease_until_ns - now_ns) / NS_PER_S)
        return KnobClaim(**self.model_dump(), deadline_s=deadline_s)


class HeldKnobLine(BaseModel):
    """State of one knob of one GPU."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_id: str
    entity_id: str
    uuid: str
    knob: str
    found: float | None
    before: float | None
    wanted: float | None
    read_back: float | None
    settled: bool
    owed: bool
    lost: bool
    claims: tuple[ClaimLine, ...]
    subject: ClaimLine

    @property
    def is_over(self) -> bool:
        """Whether no claim and no pending write is left."""
        return self.settled and not self.claims and not self.owed

    def hold(self, *, now_s: float, now_ns: int) -> HeldKnob:
        """Return the held knob."""
        fields = self.model_dump(exclude={"run_id", "entity_id", "uuid", "claims", "subject"})
        return HeldKnob(
            **fields,
            target=GpuTarget(entity_id=self.entity_id, uuid=self.uuid),
            enforcing=True,
            claims=tuple(line.claim(now_s=now_s, now_ns=now_ns) for line in self.claims),
            subject=self.subject.claim(now_s=now_s, now_ns=now_ns),
        )


class BlockLine(BaseModel):
    """Incident that may no longer set one knob of one GPU."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    barred: KnobKind
    uuid: str
    incident_id: str
    reason: str

    def bar(self) -> Block:
        """Return the block."""
        return Block(kind=self.barred, uuid=self.uuid, incident_id=self.incident_id, reason=self.reason)


_LINES: TypeAdapter[HeldKnobLine | BlockLine] = TypeAdapter(HeldKnobLine | BlockLine)


def read_line(text: bytes) -> HeldKnobLine | BlockLine:
    """Parse one line; ValidationError if it is none."""
    return _LINES.validate_json(text)


def held_knob_text(hold: HeldKnob, run_id: str) -> bytes:
    """Return the line of one held knob."""
    fields = {
        "run_id": run_id,
        "entity_id": hold.target.entity_id,
        "uuid": hold.target.uuid,
        "knob": hold.knob,
        "found": hold.found,
        "before": hold.before,
        "wanted": hold.wanted,
        "read_back": hold.read_back,
        "settled": hold.settled,
        "owed": hold.owed,
        "lost": hold.lost,
        "claims": [_claim_fields(claim) for claim in hold.claims],
        "subject": _claim_fields(hold.subject),
    }
    return _line(fields)


def block_text(bar: Block) -> bytes:
    """Return the line of a blocked incident."""
    return _line({"barred": bar.kind, "uuid": bar.uuid, "incident_id": bar.incident_id, "reason": bar.reason})


def _line(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _claim_fields(claim: KnobClaim) -> dict[str, object]:
    # Written out: `asdict` takes ten times as long. The deadline stays out, monotonic time means nothing elsewhere.
    return {
        "incident_id": claim.incident_id,
        "decision_id": claim.decision_id,
        "kind": claim.kind,
        "setting": claim.setting,
        "safe_setting": claim.safe_setting,
        "lease_s": claim.lease_s,
        "lease_until_ns": claim.lease_until_ns,
        "owner": claim.owner,
        "mode": claim.mode,
        "reason": claim.reason,
    }
