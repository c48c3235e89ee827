"""Event source over missing GPUs: those that the driver counts but cannot open, and those of the last run."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path

from telemetry.atomic_files import replace_file
from telemetry.clock import Clock
from telemetry.json_text import json_bytes
from telemetry.records import Event, EventKind, Severity

logger = logging.getLogger(__name__)

# Well within the ten minutes after which an error that is not repeated counts as over.
_REPEAT_EVERY_S = 60.0


class GpuRoster:
    """An event source for GPUs that did not respond when the process started.

    A GPU that the driver cannot open has no row in any table, so no detector of rows can miss it. The UUIDs are kept
    in a file for the next start; where as many GPUs respond as before, the missing ones were replaced.

    Parameters
    ----------
    lost_at_open
        For each GPU that the driver counts and cannot open, the reason.
    """

    name = "gpu_roster"

    def __init__(
        self, path: Path, *, uuids: Sequence[str], lost_at_open: Sequence[str], node: str, clock: Clock
    ) -> None:
        self._path = path
        self._uuids = tuple(uuids)
        self._lost_at_open = tuple(lost_at_open)
        self._node = node
        self._clock = clock
        self._message: str | None = None
        self._since_ns = 0
        self._report_at_s = 0.0

    def open(self) -> None:
        """Compare with the GPUs of the last run, and save the expected ones for the next."""
        known = _read(self._path)
        missing = tuple(uuid for uuid in known if uuid not in self._uuids)
        if not self._lost_at_open and len(self._uuids) >= len(known):
            missing = ()
        absent = max(len(self._lost_at_open), len(missing))
        if self._since_ns == 0:
            self._since_ns = self._clock.utc_ns()
        if absent:
            known_of = [", ".join(missing), *self._lost_at_open]
            known_of += [f"removed on purpose? delete {self._path}"] if missing else []
            what = "; ".join(filter(None, known_of))
            self._message = f"{absent} of {len(self._uuids) + absent} GPUs do not respond at start: {what}"
        _write(self._path, (*self._uuids, *missing))

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        """Return the event at once and then every minute, with one id, so that it counts as one lasting error."""
        now_s = self._clock.monotonic_s()
        if self._message is None or now_s < self._report_at_s:
            self._clock.sleep_until(now_s + timeout_s)
            return ()
        self._report_at_s = now_s + _REPEAT_EVERY_S
        return (
            Event(
                id=f"gpus_missing:{self._node}:{self._since_ns}",
                time_ns=self._clock.utc_ns(),
                kind=EventKind.COLLECTOR,
                entity_id=f"node:{self._node}",
                code=None,
                severity=Severity.CRITICAL,
                message=self._message,
                sources=(self.name,),
            ),
        )

    def close(self) -> None:
        """Do nothing: no file stays open."""


def _read(path: Path) -> tuple[str, ...]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as err:
        logger.warning("cannot read GPUs of the last run: %s", err)
        return ()
    return tuple(str(uuid) for uuid in found) if isinstance(found, list) else ()


def _write(path: Path, uuids: Sequence[str]) -> None:
    try:
        replace_file(path, json_bytes(list(uuids)), synced=False)
    except OSError as err:
        logger.warning("cannot save GPUs for the next start: %s", err.strerror)
