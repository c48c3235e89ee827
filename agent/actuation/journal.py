"""The write-ahead journal of the actuator: what was found and set on each knob, noted before the hardware is touched.

One JSON line holds the whole state of one knob of one GPU; the newest line of it counts. A line torn by a crash is
dropped: it was never followed by a write. The file is rewritten with the newest lines when it is opened and when it
grows long.

A line is with the kernel before the hardware is written, so a kill loses nothing. It is not forced to the disk: that
would guard against a crash of the kernel or a power cut, and no setting outlives those (docs/decisions/0013).
"""

import contextlib
import errno
import fcntl
import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from agent.actuation.claims import Claim
from agent.actuation.hold import GpuTarget, Hold
from telemetry.clock import NS_PER_S
from telemetry.errors import EnvironmentLacksError
from telemetry.knobs import KnobKind
from telemetry.records import Mode

logger = logging.getLogger(__name__)

FILE_NAME = "actuator.journal"
LOCK_NAME = "actuator.lock"
# Where the journal lay when there was no knob but the clock; read once, and then gone.
EARLIER_NAME = "clock_cap.journal"
# About 500 changes of state; a replay of it takes some ms.
COMPACT_BYTES = 256 << 10

_Key = tuple[KnobKind, str]


class _ClaimLine(BaseModel):
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

    def claim(self, *, now_s: float, now_ns: int) -> Claim:
        """Give the claim with what is left of its lease; a wall clock that was set back adds nothing to it."""
        deadline_s = None
        if self.lease_until_ns is not None:
            deadline_s = now_s + min(self.lease_s, (self.lease_until_ns - now_ns) / NS_PER_S)
        return Claim(**self.model_dump(), deadline_s=deadline_s)


class _HoldLine(BaseModel):
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
    claims: tuple[_ClaimLine, ...]
    subject: _ClaimLine

    def hold(self, *, now_s: float, now_ns: int) -> Hold:
        """Give the hold that the line tells of."""
        fields = self.model_dump(exclude={"run_id", "entity_id", "uuid", "claims", "subject"})
        return Hold(
            **fields,
            target=GpuTarget(entity_id=self.entity_id, uuid=self.uuid),
            enforcing=True,
            claims=tuple(line.claim(now_s=now_s, now_ns=now_ns) for line in self.claims),
            subject=self.subject.claim(now_s=now_s, now_ns=now_ns),
        )


class HoldJournal:
    """The journal of one state folder, which one process at a time may hold.

    Opening reads what an earlier run left (`leftovers`, by knob, with the id of that run) and takes the lock that makes
    this process the only one that turns knobs from this folder.

    Raises
    ------
    EnvironmentLacksError
        The folder cannot be written, or another process holds its lock.
    """

    def __init__(self, state_dir: Path, *, run_id: str, compact_bytes: int = COMPACT_BYTES) -> None:
        self._path = state_dir / FILE_NAME
        self._run_id = run_id
        self._compact_bytes = compact_bytes
        self._size = 0
        self.unreadable = 0
        try:
            state_dir.mkdir(parents=True, exist_ok=True, mode=0o750)
            self._lock = _lock(state_dir / LOCK_NAME)
            self._lines = self._replay()
            self._file = self._rewrite()
            self._path.with_name(EARLIER_NAME).unlink(missing_ok=True)
        except OSError as err:
            raise EnvironmentLacksError(
                f"{self._path}: {err.strerror}; expected a journal that can be written"
            ) from err

    def leftovers(self, *, now_s: float, now_ns: int) -> tuple[tuple[str, Hold], ...]:
        """Give ``(run id, hold)`` of every knob whose last line still holds something."""
        lines = (_HoldLine.model_validate_json(text) for text in self._lines.values())
        return tuple((line.run_id, line.hold(now_s=now_s, now_ns=now_ns)) for line in lines)

    def append(self, holds: Sequence[Hold]) -> None:
        """Write the state of some knobs in one go.

        Raises
        ------
        OSError
            It could not be written; nothing of it counts.
        """
        if not holds:
            return
        texts = {_key(hold): self._text(hold) for hold in holds}
        data = b"".join(texts.values())
        size = self._size
        try:
            _write_all(self._file, data)
        except OSError as err:
            err.filename = str(self._path)
            os.ftruncate(self._file, size)
            raise
        for hold in holds:
            if hold.claims or hold.owed or not hold.settled:
                self._lines[_key(hold)] = texts[_key(hold)]
            else:
                self._lines.pop(_key(hold), None)
        self._size = size + len(data)

    def close(self) -> None:
        """Close the file and give the lock back."""
        os.close(self._file)
        os.close(self._lock)

    def compact(self) -> None:
        """Rewrite the file with the newest lines where it has grown long; takes some ms then, so not before a cap."""
        if self._size <= self._compact_bytes:
            return
        try:
            fresh = self._rewrite()
        except OSError as err:
            logger.warning("journal cannot be rewritten and grows: %s: %s", self._path, err.strerror)
            self._compact_bytes *= 2
            return
        os.close(self._file)
        self._file = fresh

    def _rewrite(self) -> int:
        """Replace the file by the newest lines; gives its descriptor."""
        fresh = self._path.with_name(self._path.name + ".new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o640)
        data = b"".join(self._lines.values())
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
            fresh.replace(self._path)
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError:
            os.close(descriptor)
            raise
        self._size = len(data)
        return descriptor

    def _replay(self) -> dict[_Key, bytes]:
        lines: dict[_Key, bytes] = {}
        data = bytearray()
        for path in (self._path.with_name(EARLIER_NAME), self._path):
            with contextlib.suppress(FileNotFoundError):
                data += path.read_bytes()
        for text in bytes(data).splitlines(keepends=True):
            try:
                line = _HoldLine.model_validate_json(text)
            except ValidationError:
                self.unreadable += 1
                continue
            if line.claims or line.owed or not line.settled:
                lines[line.subject.kind, line.uuid] = text if text.endswith(b"\n") else text + b"\n"
            else:
                lines.pop((line.subject.kind, line.uuid), None)
        if self.unreadable:
            logger.warning("journal had lines that cannot be read", extra={"lines": self.unreadable})
        return lines

    def _text(self, hold: Hold) -> bytes:
        claims = [_claim_fields(claim) for claim in hold.claims]
        fields = {
            "run_id": self._run_id,
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
            "claims": claims,
            "subject": _claim_fields(hold.subject),
        }
        return json.dumps(fields, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _key(hold: Hold) -> _Key:
    return hold.kind, hold.target.uuid


def _claim_fields(claim: Claim) -> dict[str, object]:
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


def _write_all(descriptor: int, data: bytes) -> None:
    if os.write(descriptor, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # a short write is a full disk


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise EnvironmentLacksError(
            f"{path}: another process turns GPU knobs from this folder; expected it to be the only one"
        ) from None
    return descriptor
