"""Settings of the incident book: grouping and closing of incidents, silences and maintenance windows.

A silenced incident is kept, judged and acted on like any other; only no operator is notified.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase

from pydantic import ConfigDict

from analytics.classification.score import DEFAULT_WEIGHTS
from analytics.connectivity import Kinship
from telemetry.clock import NS_PER_S, iso_utc
from telemetry.durations import DurationS
from telemetry.records import Cause, Incident


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Quiet for some entities and causes over a stretch of time.

    Parameters
    ----------
    until
        When it ends, with its offset from UTC: 2026-03-01T18:00:00Z.
    who
        Operator who requested it.
    why
        What is being done meanwhile.
    start
        When it begins, with its offset from UTC; unset for at once.
    entity
        Name that it holds for, or id where it has a colon, with ``*`` for anything; what it feeds or holds is meant
        too.
    causes
        What it holds for; empty for any cause.
    """

    until: datetime
    who: str
    why: str
    start: datetime | None = None
    entity: str = "*"
    causes: tuple[Cause, ...] = ()

    __pydantic_config__ = ConfigDict(extra="forbid")

    def __post_init__(self) -> None:
        """Refuse times without offset, an end before the beginning, and a silence without operator or reason."""
        if self.until.tzinfo is None or (self.start is not None and self.start.tzinfo is None):
            raise ValueError("start and until with their offset from UTC, such as 2026-03-01T18:00:00Z")
        if self.start is not None and self.start >= self.until:
            raise ValueError("start before until")
        if not (self.who.strip() and self.why.strip()):
            raise ValueError("who and why")

    @property
    def start_ns(self) -> int:
        """Start of the silence in ns, 0 where it has none."""
        return 0 if self.start is None else _ns(self.start)

    @property
    def until_ns(self) -> int:
        """End of the silence in ns."""
        return _ns(self.until)

    def covers(self, incident: Incident, kinship: Kinship, *, now_ns: int) -> bool:
        """Return True if it covers an incident now, by its root or by an entity above it."""
        if not self.start_ns <= now_ns < self.until_ns or (self.causes and incident.cause not in self.causes):
            return False
        line = (incident.entity_id, *kinship.ancestors(incident.entity_id))
        by_id = ":" in self.entity
        return any(fnmatchcase(one if by_id else kinship.name(one), self.entity) for one in line)

    @property
    def text(self) -> str:
        """Text of the silence: who, until when, why."""
        return f"silenced by {self.who} until {iso_utc(self.until_ns)[:19]}Z: {self.why}"


def silence_of(silences: Iterable[Silence], incident: Incident, kinship: Kinship, *, now_ns: int) -> str | None:
    """Return the text of the silence that covers an incident longest, None where none does."""
    held = [one for one in silences if one.covers(incident, kinship, now_ns=now_ns)]
    return max(held, key=lambda one: (one.until_ns, one.text)).text if held else None


def next_change_ns(silences: Sequence[Silence], now_ns: int) -> int | None:
    """Return when the next silence begins or ends, None where none will."""
    bounds = [bound for one in silences for bound in (one.start_ns, one.until_ns) if bound > now_ns]
    return min(bounds, default=None)


def _ns(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000) * (NS_PER_S // 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class BookSettings:
    """Settings for grouping and closing incidents.

    Parameters
    ----------
    quiet_s
        Time without symptom and without claim before an incident closes.
    group_window_s
        Siblings whose findings began within this time point to their parent. Group windows of 60 to 120 s are usual
        in alarm management (EEMUA 191, ISA 18.2).
    confirm_s
        Time after a restart in which a detector must report again what was active before; longer than any hold.
    max_open
        Incidents kept open at once; findings beyond are counted and not taken in.
    storm_above
        Where more incidents than this open on one node or rack within `storm_window_s`, it is an alarm flood and they
        become one, except those about power, heat, lost GPUs and hangs: 10 in 10 min (ISA 18.2, EEMUA 191).
    storm_window_s
        Time in which the incidents of a flood open; see `storm_above`.
    temperature
        Above 1 the probabilities of the hypotheses are more cautious, below 1 bolder. Fitted to the answers about
        faults of machines of another hand; see docs/explanation/causes-and-confidence.md.
    silences
        Silences, each with `until`, `who`, `why`, and optionally `start`, `entity` and `causes`; incidents
        are kept and marked, and no operator is notified. See docs/explanation/causes-and-confidence.md.
    """

    quiet_s: DurationS = 60.0
    group_window_s: DurationS = 120.0
    confirm_s: DurationS = 120.0
    max_open: int = 10_000
    storm_above: int = 10
    storm_window_s: DurationS = 600.0
    temperature: float = DEFAULT_WEIGHTS.temperature
    silences: tuple[Silence, ...] = ()

    __pydantic_config__ = ConfigDict(extra="forbid")

    def __post_init__(self) -> None:
        """Refuse what is no temperature and what is no storm."""
        if not (self.temperature > 0 and self.storm_above >= 1):
            raise ValueError("temperature above 0 and storm_above at least 1")
