"""What the engine keeps between steps, and its form on disk."""

from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from rules.claims import Claim, Watch
from rules.policy import ActionClass
from rules.rails import Breaker
from rules.refusals import HOUR_NS
from telemetry.records import Incident, IncidentState

DAY_NS = 24 * HOUR_NS

Key = tuple[str, str]


@dataclass(slots=True, kw_only=True)
class Memory:
    """State of one engine. Keys are ``(policy id, incident id)`` or, where it says so, ``(policy id, entity id)``.

    Parameters
    ----------
    ended
        By entity: when the last action ended, for a day.
    acted
        When new actions were taken, for an hour.
    returns
        By entity: when the symptom came back after its cap was relaxed, for a day.
    latched
        By entity: why its cap is not relaxed any more.
    failed
        Decisions in a row that could not be carried out.
    """

    incidents: dict[str, Incident] = field(default_factory=dict)
    claims: dict[Key, Claim] = field(default_factory=dict)
    watches: dict[Key, Watch] = field(default_factory=dict)
    ended: dict[Key, int] = field(default_factory=dict)
    acted: list[tuple[ActionClass, int]] = field(default_factory=list)
    returns: dict[Key, tuple[int, ...]] = field(default_factory=dict)
    latched: dict[Key, str] = field(default_factory=dict)
    failed: tuple[str, ...] = ()
    breaker: Breaker | None = None

    def keep(self, key: Key, claim: Claim, now_ns: int) -> None:
        """Keep a claim while it holds a GPU; its end starts the cooldown."""
        if claim.clocks:
            self.claims[key] = claim
        else:
            self.end(key, claim.entity_id, now_ns)

    def end(self, key: Key, entity_id: str, now_ns: int) -> None:
        """Drop a claim; the cooldown runs from now."""
        self.claims.pop(key, None)
        self.ended[key[0], entity_id] = now_ns

    def note_return(self, policy_id: str, entity_id: str, now_ns: int, *, most: int) -> None:
        """Count that the symptom came back after a cap was relaxed; more than `most` in a day, and relaxing ends."""
        key = (policy_id, entity_id)
        times = (*(time_ns for time_ns in self.returns.get(key, ()) if now_ns - time_ns < DAY_NS), now_ns)
        self.returns[key] = times
        if len(times) > most:
            self.latched[key] = f"the symptom came back {len(times)} times in a day; a person must reset it"

    def forget(self, now_ns: int) -> None:
        """Drop what is over, so that memory is bounded by what is live and one day of ends."""
        held = {claim.incident_id for claim in self.claims.values()}
        over = [
            name
            for name, incident in self.incidents.items()
            if incident.state is IncidentState.CLOSED and name not in held
        ]
        for name in over:
            del self.incidents[name]
        self.watches = {key: watch for key, watch in self.watches.items() if key[1] in self.incidents}
        self.ended = {key: time_ns for key, time_ns in self.ended.items() if now_ns - time_ns < DAY_NS}
        self.acted = [item for item in self.acted if now_ns - item[1] < HOUR_NS]

    def snapshot(self) -> dict[str, Any]:
        """Give it as JSON types."""
        stored = _Stored(
            incidents=tuple(self.incidents.values()),
            claims=tuple(self.claims.values()),
            watches=tuple((*key, watch) for key, watch in self.watches.items()),
            ended=tuple((*key, time_ns) for key, time_ns in self.ended.items()),
            acted=tuple(self.acted),
            returns=tuple((*key, times) for key, times in self.returns.items()),
            latched=tuple((*key, why) for key, why in self.latched.items()),
            failed=self.failed,
            breaker=self.breaker,
        )
        state: dict[str, Any] = _STORED.dump_python(stored, mode="json")
        return state


def restore_memory(state: dict[str, Any], *, policies: frozenset[str]) -> Memory:
    """Read what `Memory.snapshot` gave, without what belongs to policies that are gone; ValueError where it is none."""
    stored = _STORED.validate_python(state)
    return Memory(
        incidents={incident.id: incident for incident in stored.incidents},
        claims={(item.policy_id, item.incident_id): item for item in stored.claims if item.policy_id in policies},
        watches={(policy, name): watch for policy, name, watch in stored.watches if policy in policies},
        ended={(policy, name): time_ns for policy, name, time_ns in stored.ended if policy in policies},
        acted=list(stored.acted),
        returns={(policy, name): times for policy, name, times in stored.returns if policy in policies},
        latched={(policy, name): why for policy, name, why in stored.latched if policy in policies},
        failed=stored.failed,
        breaker=stored.breaker,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    incidents: tuple[Incident, ...]
    claims: tuple[Claim, ...]
    watches: tuple[tuple[str, str, Watch], ...]
    ended: tuple[tuple[str, str, int], ...]
    acted: tuple[tuple[ActionClass, int], ...]
    returns: tuple[tuple[str, str, tuple[int, ...]], ...]
    latched: tuple[tuple[str, str, str], ...]
    failed: tuple[str, ...]
    breaker: Breaker | None


_STORED: TypeAdapter[_Stored] = TypeAdapter(_Stored)
