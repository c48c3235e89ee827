"""Count of pages to people for a node, kept over restarts, and its rate against the budget."""

import contextlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from analytics.calibration.achieved import PageCount, PageRate
from telemetry.atomic_files import replace_file
from telemetry.clock import Clock
from telemetry.json_text import json_bytes
from telemetry.records import Incident, Record

PAGES = "pages.json"
# heuristic: a kill loses at most this much of the watched time.
SAVE_EVERY_S = 60.0


class KeptPageCount:
    """Counter of pages among records and of watched time, kept in a file; owned by one thread."""

    def __init__(self, path: Path, clock: Clock, *, budget_per_node_month: float) -> None:
        self._path = path
        self._clock = clock
        self._budget = budget_per_node_month
        self._count = read_count(path)
        self._at_s = clock.monotonic_s()
        self._save_at_s = self._at_s + SAVE_EVERY_S

    @property
    def rate(self) -> PageRate:
        """Return the rate so far."""
        return self._count.rate(self._budget)

    def note(self, records: Iterable[Record]) -> None:
        """Count the incidents among new records, and the time since the last call."""
        now_s = self._clock.monotonic_s()
        before = self._count
        self._count = before.watched(now_s - self._at_s).after(one for one in records if isinstance(one, Incident))
        self._at_s = now_s
        if now_s >= self._save_at_s or self._count.pages != before.pages:
            self.save()

    def save(self) -> None:
        """Save the count; on a full disk it is lost for a restart, not for this run."""
        self._save_at_s = self._clock.monotonic_s() + SAVE_EVERY_S
        with contextlib.suppress(OSError):
            replace_file(self._path, json_bytes(asdict(self._count)), synced=False)


def read_count(path: Path) -> PageCount:
    """Return the saved count; zero if there is no file or it cannot be read."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        return PageCount(
            pages=int(held["pages"]), watched_s=float(held["watched_s"]), counted=tuple(map(str, held["counted"]))
        )
    except (OSError, ValueError, KeyError, TypeError):
        return PageCount()
