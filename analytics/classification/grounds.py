"""Grounds of a hypothesis: the path in the topology from the entity at fault to the symptom, and what it lacks.

A cause is grounded by three tests: a path leads from it to the symptom, each entity on that path deviates, and none
does before the one above it (OpenRCA 2.0, arXiv 2606.27154). The tests change no probability: they separate a cause
that the structure of the node confirms from one that the signs alone suggest.

A node or a job has no signal of its own to deviate: it is seen by what it holds. It deviates where several of these do
together, and is the root where a fault of them all would lie in it. One entity alone shows no fault of what holds it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from analytics.classification.classes import LIES_IN, SHARED
from analytics.classification.reading import PLAIN_SIGNS, TOGETHER_NS, IncidentScene
from analytics.classification.score import OWNERS
from analytics.classification.sign import Observation
from analytics.connectivity import Kinship
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.records import FaultClass, Finding, Hypothesis, PathStep

# heuristic: paths and shares of supplies are judged in blocks of two seconds, so what follows within one may seem to
# have begun before.
_ORDER_NS = 2 * NS_PER_S
_SUPPLY_ID = f"{EntityKind.SUPPLY}:"
_HOLDERS = (EntityKind.NODE, EntityKind.JOB)
# Two or more siblings that deviate together point to their parent.
_SEVERAL = 2


def with_grounds(
    hypotheses: Iterable[Hypothesis], observed: Sequence[Observation], scene: IncidentScene, symptom: Finding
) -> tuple[Hypothesis, ...]:
    """Return the hypotheses, each with its path to the symptom of the incident."""
    return tuple(_grounded(one, observed, scene, symptom) for one in hypotheses)


def _grounded(one: Hypothesis, observed: Sequence[Observation], scene: IncidentScene, symptom: Finding) -> Hypothesis:
    root = _root(one.cause, observed, symptom)
    if root is None:
        return replace(one, ungrounded="no sign that is its own")
    root = _shared(one.cause, root, scene, symptom) or root
    kinds = LIES_IN.get(one.cause)
    if kinds is not None and root.entity_id.partition(":")[0] not in kinds:
        return replace(one, path=(root,), ungrounded=f"no {kinds[0]} shows it")
    line = line_between(root.entity_id, symptom.entity_id, scene.kinship)
    if not line:
        names = [scene.kinship.label(each) for each in (root.entity_id, symptom.entity_id)]
        return replace(one, path=(root,), ungrounded=f"no path from {names[0]} to {names[1]}")
    seen = _earliest((*scene.own, *scene.beside))
    path = (root, *(_step(seen[each]) for each in line[1:] if each in seen))
    return replace(one, path=path, ungrounded=_lacks(line, path, scene.kinship))


def _root(cause: FaultClass, observed: Iterable[Observation], symptom: Finding) -> PathStep | None:
    """Return where a class shows: at the symptom if that is its own sign, else at the first of its own signs."""
    sign = PLAIN_SIGNS.get(symptom.cause)
    if sign is not None and OWNERS[sign] is cause:
        return _step(symptom)
    own = [one for one in observed if one.present and one.entity_id and OWNERS[one.sign] is cause]
    if not own:
        return None
    first = min(own, key=lambda one: one.since_ns)
    return PathStep(entity_id=first.entity_id, shows=first.sign.value, since_ns=first.since_ns)


def _shared(cause: FaultClass, root: PathStep, scene: IncidentScene, symptom: Finding) -> PathStep | None:
    """Return the node or job that holds all entities with the symptom, where the fault would lie in it; else None."""
    kinds = LIES_IN.get(cause)
    elsewhere = kinds is not None and EntityKind.NODE in kinds and root.entity_id.partition(":")[0] not in kinds
    if cause not in SHARED and not elsewhere:
        return None
    together = [
        one for one in scene.own if one.cause is symptom.cause and abs(one.since_ns - symptom.since_ns) <= TOGETHER_NS
    ]
    members = {one.entity_id for one in together}
    if len(members) < _SEVERAL or root.entity_id not in members:
        return None
    holder = scene.kinship.common_root(sorted(members))
    if holder is None or holder.partition(":")[0] not in _HOLDERS:
        return None
    return replace(root, entity_id=holder, since_ns=min(one.since_ns for one in together))


def _step(one: Finding) -> PathStep:
    return PathStep(entity_id=one.entity_id, shows=one.cause.value, since_ns=one.since_ns)


def line_between(root_id: str, symptom_id: str, kinship: Kinship) -> tuple[str, ...]:
    """Return the entities from a cause to its symptom, both included; empty where nothing joins them.

    A fault acts on what the entity feeds or holds, on the job or node that it is part of, and over a shared bus on the
    supplies beside it. What a node or job holds is reached at once; from one supply to the next every one counts.
    """
    if root_id != symptom_id and root_id.partition(":")[0] in _HOLDERS:
        return (root_id, symptom_id) if symptom_id in kinship.descendants(root_id) else ()
    if root_id in kinship.descendants(symptom_id):
        return root_id, symptom_id
    supplies = root_id.startswith(_SUPPLY_ID) and symptom_id.startswith(_SUPPLY_ID)
    shared = {*kinship.gpus_under(root_id)} & {*kinship.gpus_under(symptom_id)}
    beside = (root_id, symptom_id) if supplies and shared else ()
    return kinship.line(root_id, symptom_id) or beside


def _earliest(findings: Iterable[Finding]) -> Mapping[str, Finding]:
    """Return the finding of each entity that began first."""
    first: dict[str, Finding] = {}
    for one in sorted(findings, key=lambda each: (each.since_ns, each.id)):
        first.setdefault(one.entity_id, one)
    return first


def _lacks(line: Sequence[str], path: Sequence[PathStep], kinship: Kinship) -> str:
    """Return what a path lacks, as a text; empty for one that passes."""
    known = {one.entity_id for one in path}
    silent = [each for each in line if each not in known]
    if silent:
        return f"{kinship.label(silent[0])} on the path shows nothing"
    for above, below in pairwise(path):
        early_s = (above.since_ns - below.since_ns) / NS_PER_S
        if above.since_ns - below.since_ns > _ORDER_NS:
            return f"{kinship.label(below.entity_id)} deviates {early_s:.0f} s before {kinship.label(above.entity_id)}"
    return ""
