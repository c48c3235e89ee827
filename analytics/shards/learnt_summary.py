"""Summary of a restart: which learnt baselines continue, and which start over and why."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from analytics.shards.learnt_away import LearntBatch
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity

# heuristic: a time server corrects a clock by less; time stamps further ahead are wrong.
AHEAD_NS = 60 * NS_PER_S
# heuristic: a fault may be repaired within a day, and one that still holds is found again within minutes of load.
CONTINUES_NS = 86_400 * NS_PER_S
_MOST_NAMED = 3


@dataclass(slots=True)
class RestartSummary:
    """Counts of what was loaded, and what starts over with the reason."""

    restarted: dict[str, str] = field(default_factory=dict)
    odd: dict[str, None] = field(default_factory=dict)
    known: int = 0
    new: list[str] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    away: list[str] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """True if everything that was present before is present and continues; what was away before does not count."""
        return not (self.restarted or self.odd or self.new or self.gone)

    def note_entities(
        self,
        before: Collection[str],
        away_before: Collection[str],
        now: Mapping[str, Sequence[Entity]],
        away: Sequence[LearntBatch],
    ) -> None:
        """Count the entities by id: those that continue, are new, are gone, and are still away."""
        old = {*before, *away_before}
        ours = {one.id: one.name for every in now.values() for one in every}
        self.known = len(old & ours.keys())
        self.new = [name for entity_id, name in ours.items() if entity_id not in old]
        self.gone = set(before) - ours.keys()
        self.away = sorted({one for batch in away for one in batch.kept_ns} - ours.keys())

    def text(self, age_ns: int) -> str:
        """Return the summary in one line, beginning with the age of the file."""
        parts = [f"{_age(age_ns)}{self.known} entities continue"]
        for what, names in (("new", self.new), ("absent", self.away), ("with impossible values", [*self.odd])):
            if names:
                more = ", ..." if len(names) > _MOST_NAMED else ""
                parts.append(f"{len(names)} {what} ({', '.join(names[:_MOST_NAMED])}{more})")
        if self.idle:
            parts.append(f"without a table: {', '.join(self.idle)}")
        if self.restarted:
            parts.append("learning again: " + ", ".join(f"{name} ({why})" for name, why in self.restarted.items()))
        return "; ".join(parts)


def _age(age_ns: int) -> str:
    seconds = abs(age_ns) / NS_PER_S
    amount = f"{seconds / 86_400:.0f} d" if seconds > 2 * 86_400 else f"{seconds / 60:.0f} min"
    if age_ns < -AHEAD_NS:
        return f"saved {amount} in the future, findings are measured again; "
    again = ", findings are measured again" if age_ns > CONTINUES_NS else ""
    return f"saved {amount} ago{again}; "
