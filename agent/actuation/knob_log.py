"""Write-ahead log of the actuator: settings found and written on each knob, logged before the hardware is written.

One JSON line is the whole state of one knob of one GPU; its newest line counts. A line torn by a crash is dropped: it
was never followed by a write. Other lines block an incident from a knob. The file is rewritten with the newest lines
when it is opened and when it grows long.

A line is in the kernel before the hardware is written, so a kill loses nothing. It is synced to disk right after
(`disk_sync`), against a power cut; only changes that do not protect wait for that (docs/decisions/0013).
"""

import contextlib
import fcntl
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from agent.actuation.blocklist import Block, Blocklist
from agent.actuation.claims import GpuTarget, KnobClaim
from agent.actuation.disk_sync import DiskSync, SyncCounts
from agent.actuation.held_knob import HeldKnob, KnobChange
from telemetry.atomic_files import open_replaced, write_whole
from telemetry.clock import NS_PER_S
from telemetry.errors import EnvironmentLacksError
from telemetry.gpu import KnobKind, ReleasedBy
from telemetry.json_text import json_bytes
from telemetry.records import Mode

logger = logging.getLogger(__name__)

FILE_NAME = "actuator.journal"
LOCK_NAME = "actuator.lock"
# Earlier name, when the clock was the only knob; read once, then removed.
EARLIER_NAME = "clock_cap.journal"
# About 500 changes of state; a replay of it takes some ms.
COMPACT_BYTES = 256 << 10
_Key = tuple[KnobKind, str]


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
    # Absent for all but an experiment, as in all earlier lines.
    ends_with_lease: bool = False

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
    # Absent for a request, as in all earlier lines.
    released_by: ReleasedBy | None = None

    @property
    def is_over(self) -> bool:
        """True if no claim and no pending write is left."""
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


_CLAIM_FIELDS = tuple(ClaimLine.model_fields)
_HOLD_FIELDS = ("knob", "found", "before", "wanted", "read_back", "settled", "owed", "lost")
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
        **{name: getattr(hold, name) for name in _HOLD_FIELDS},
        "claims": [_claim_fields(claim) for claim in hold.claims],
        "subject": _claim_fields(hold.subject),
    }
    if hold.released_by not in (None, ReleasedBy.REQUEST):
        fields["released_by"] = hold.released_by
    return _line(fields)


def block_text(bar: Block) -> bytes:
    """Return the line of a blocked incident."""
    return _line({"barred": bar.kind, "uuid": bar.uuid, "incident_id": bar.incident_id, "reason": bar.reason})


def _line(fields: Mapping[str, object]) -> bytes:
    return json_bytes(fields) + b"\n"


def _claim_fields(claim: KnobClaim) -> dict[str, object]:
    # `asdict` takes ten times as long. The deadline stays out, monotonic time means nothing elsewhere.
    fields = {name: getattr(claim, name) for name in _CLAIM_FIELDS}
    if not claim.ends_with_lease:
        del fields["ends_with_lease"]
    return fields


class KnobLog:
    """Write-ahead log of one state folder, used by one process at a time.

    Opening reads what an earlier run left (`leftovers`, by knob, with the id of that run) and takes the lock of the
    folder.

    `forcer` syncs the lines to disk and is closed with the log; None syncs only a rewritten file. `note_bars` receives
    the number of dropped blocks, each time it grows. `barred` has the blocked incidents, also from before this run.
    EnvironmentLacksError where the folder cannot be written, or another process has its lock.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        run_id: str,
        forcer: DiskSync | None = None,
        note_bars: Callable[[int], None] = lambda _: None,
        compact_bytes: int = COMPACT_BYTES,
    ) -> None:
        self._path = state_dir / FILE_NAME
        self._run_id = run_id
        self._forcer = forcer
        self._compact_bytes = compact_bytes
        self._size = self._least_size = 0
        self.unreadable = 0
        try:
            state_dir.mkdir(parents=True, exist_ok=True, mode=0o750)
            self._lock = _lock(state_dir / LOCK_NAME)
            self._lines, bars = self._replay()
            self.barred = Blocklist(bars, on_dropped=note_bars)
            self._file = self._rewrite()
            self._path.with_name(EARLIER_NAME).unlink(missing_ok=True)
        except (OSError, EnvironmentLacksError) as err:
            if forcer is not None:
                forcer.close()
            if isinstance(err, EnvironmentLacksError):
                raise
            raise EnvironmentLacksError(f"{self._path}: {err.strerror}; expected a writable file") from err

    def leftovers(self, *, now_s: float, now_ns: int) -> tuple[tuple[str, HeldKnob], ...]:
        """Return ``(run id, held knob)`` of every knob that is still held."""
        lines = (HeldKnobLine.model_validate_json(text) for text in self._lines.values())
        return tuple((line.run_id, line.hold(now_s=now_s, now_ns=now_ns)) for line in lines)

    def append(self, holds: Sequence[HeldKnob], bars: Sequence[Block] = ()) -> None:
        """Append the state of some knobs, and blocks, in one write.

        OSError where it could not be written; only the blocks count, as long as this process lives.
        """
        for bar in bars:
            self.barred.add(bar)
        if not holds and not bars:
            return
        texts = {_key(hold): held_knob_text(hold, self._run_id) for hold in holds}
        data = b"".join((*(block_text(bar) for bar in bars), *texts.values()))
        size = self._size
        try:
            write_whole(self._file, data)
        except OSError as err:
            err.filename = str(self._path)
            os.ftruncate(self._file, size)
            raise
        for hold in holds:
            if hold.is_over:
                self._lines.pop(_key(hold), None)
            else:
                self._lines[_key(hold)] = texts[_key(hold)]
        self._size = size + len(data)
        if self._forcer is not None:
            self._forcer.request(self._file)

    def append_ahead(self, changes: Sequence[KnobChange]) -> str | None:
        """Append changes before their write; return the error, if any. Caps do not wait for the disk."""
        try:
            self.append([change.hold.aiming(change.in_force) for change in changes])
        except OSError as err:
            return err.strerror or str(err)
        if changes and not any(change.protects for change in changes):
            self.settle()
        return None

    def append_after(self, holds: Sequence[HeldKnob], bars: Sequence[Block] = ()) -> None:
        """Append states after their write, and blocks; an error is logged."""
        try:
            self.append(holds, bars)
        except OSError as err:
            # The entry before the write exists, or there was no write: a restart can still undo it.
            logger.error("cannot write the journal of the actuator, caps stay in force: %s", err)  # noqa: TRY400 -- a full disk needs no traceback

    def settle(self) -> bool:
        """Wait until every line is on disk, some ms per turn; return False if it is not there yet."""
        return self._forcer is None or self._forcer.wait()

    def end_turn(self) -> None:
        """Rewrite the file if it has grown long, and reset the time that `settle` may use."""
        if self._forcer is not None:
            self._forcer.end_turn()
        self._compact()

    @property
    def syncs(self) -> SyncCounts:
        """Counts of syncs so far."""
        return SyncCounts() if self._forcer is None else self._forcer.syncs

    def close(self) -> None:
        """Close the file and release the lock, after a last sync within its time limit."""
        if self._forcer is not None:
            self._forcer.close()
        os.close(self._file)
        os.close(self._lock)

    def _compact(self) -> None:
        """Rewrite the file with the newest lines if it has grown long; waits for the disk, so not while caps come."""
        if self._size <= max(self._compact_bytes, 2 * self._least_size):
            return
        if self._forcer is not None and not self._forcer.is_done:
            return  # lines still come, or the disk does not answer
        try:
            fresh = self._rewrite()
        except OSError as err:
            logger.warning("cannot rewrite the journal, it keeps growing: %s: %s", self._path, err.strerror)
            self._compact_bytes *= 2
            return
        earlier, self._file = self._file, fresh
        if self._forcer is not None:
            self._forcer.request(fresh)  # it no longer uses the previous file
        os.close(earlier)

    def _rewrite(self) -> int:
        """Replace the file by the newest lines; return its descriptor."""
        data = b"".join((*(block_text(bar) for bar in self.barred), *self._lines.values()))
        descriptor = open_replaced(self._path, data)
        self._size = self._least_size = len(data)
        return descriptor

    def _replay(self) -> tuple[dict[_Key, bytes], list[Block]]:
        lines: dict[_Key, bytes] = {}
        bars: list[Block] = []
        data = bytearray()
        for path in (self._path.with_name(EARLIER_NAME), self._path):
            with contextlib.suppress(FileNotFoundError):
                data += path.read_bytes()
        for text in bytes(data).splitlines(keepends=True):
            try:
                line = read_line(text)
            except ValidationError:
                self.unreadable += 1
                continue
            if isinstance(line, BlockLine):
                bars.append(line.bar())
            elif line.is_over:
                lines.pop((line.subject.kind, line.uuid), None)
            else:
                lines[line.subject.kind, line.uuid] = text if text.endswith(b"\n") else text + b"\n"
        if self.unreadable:
            logger.warning("%s: %d lines cannot be read, skipped", self._path, self.unreadable)
        return lines, bars


def _key(hold: HeldKnob) -> _Key:
    return hold.kind, hold.target.uuid


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise EnvironmentLacksError(
            f"{path}: locked by another actuator; expected no other one on this folder"
        ) from None
    return descriptor
