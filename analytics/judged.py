"""What detectors judged: the silence of a detector is evidence only about an entity that it judged at that time.

A rail of unknown voltage, a sensor that is read too rarely for dips or a path that no load step has identified shows
nothing, whatever happens on it: it was not judged, and nothing follows from it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from analytics.connectivity.kinship import ByIdentity
from telemetry.entities import Entity
from telemetry.frames import MaskArray, TimeArray

# Detectors by name whose silence counts: dips of a rail, and resistance, branches and open-circuit voltage of a path.
DIPS, PATHS = "rail_sag", "source_resistance"


@lru_cache(maxsize=16)
def places_of(entities: ByIdentity[tuple[Entity, ...]]) -> dict[str, int]:
    """Return the place of each entity of a table, by its id."""
    return {entity.id: place for place, entity in enumerate(entities.it)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgedSpans:
    """Time in which a detector judged the entities of a table without a break, arrays of shape ``(n_entities,)``.

    Those that it has nothing to judge of are no `subject`. One whose span ends before it begins was not judged.
    """

    detector: str
    entities: tuple[Entity, ...]
    subject: MaskArray
    since_ns: TimeArray
    until_ns: TimeArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """The newest span of every detector and entity."""

    spans: tuple[JudgedSpans, ...] = ()

    def throughout(self, detector: str, entity_ids: Collection[str], *, since_ns: int, until_ns: int) -> frozenset[str]:
        """Return those entities that a detector judged from one time to another, if none of them escaped it.

        Those that are no subject of the detector are left out. The result is empty where a subject was not judged for
        all of that time: what happened there would not have been seen.
        """
        found: dict[str, bool] = {}
        for span, place, entity_id in self._places(detector, entity_ids):
            held = span.since_ns[place] <= since_ns and until_ns <= span.until_ns[place]
            found[entity_id] = found.get(entity_id, False) or bool(held)
        return frozenset(found) if all(found.values()) else frozenset()

    def any_of(self, detector: str, entity_ids: Collection[str]) -> frozenset[str]:
        """Return those entities that a detector has ever judged."""
        return frozenset(
            entity_id
            for span, place, entity_id in self._places(detector, entity_ids)
            if span.since_ns[place] <= span.until_ns[place]
        )

    def _places(self, detector: str, entity_ids: Collection[str]) -> Iterator[tuple[JudgedSpans, int, str]]:
        for span in self.spans:
            if span.detector == detector:
                places = places_of(ByIdentity(span.entities))
                for entity_id in entity_ids:
                    place = places.get(entity_id)
                    if place is not None and span.subject[place]:
                        yield span, place, entity_id


NOTHING_JUDGED = Judged()
# Returns what was judged up to now; only called for findings that it matters to.
ReadJudged = Callable[[], Judged]


@dataclass(frozen=True, slots=True, order=True)
class JudgedPair:
    """A detector and an entity that it judged about the time of a finding."""

    finding_id: str
    detector: str
    entity_id: str


def judged_entities(pairs: Iterable[JudgedPair], finding_id: str, detector: str) -> tuple[str, ...]:
    """Return the entities that a detector judged about the time of a finding, in order of their ids."""
    return tuple(sorted(one.entity_id for one in pairs if (one.finding_id, one.detector) == (finding_id, detector)))
