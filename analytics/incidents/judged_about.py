"""What detectors judged about the time of a finding: what else would have been found, had it been there."""

from collections.abc import Iterator

from analytics.connectivity import Kinship
from analytics.judged import DIPS, PATHS, Judged, JudgedPair
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.records import Cause, Finding

# What a supply may be behind: silence of the supply side counts for these.
_SUPPLIED = frozenset({Cause.GPU_LOST, Cause.POWER_BRAKE, Cause.HW_SLOWDOWN})
# heuristic: some training steps, so that a rail was seen under load and not in one gap between two steps.
_BEFORE_NS = 5 * NS_PER_S
_SUPPLY_ID = f"{EntityKind.SUPPLY}:"


def concerns(finding: Finding) -> bool:
    """Return True if the silence of other detectors is evidence about a finding."""
    return finding.cause in _SUPPLIED or finding.cause is Cause.SENSOR_LOST or finding.entity_id.startswith(_SUPPLY_ID)


def after_finding(
    known: frozenset[JudgedPair], finding: Finding, judged: Judged, kinship: Kinship
) -> frozenset[JudgedPair]:
    """Return what was judged about findings of a case, after another record of one of them.

    For a GPU: dips of its supplies in the seconds before, and their paths about then; this is of one moment, and stays.
    For a supply: its own path as it is now. For a silent sensor: the others of its kind that have answered.
    """
    found = {JudgedPair(finding.id, detector, entity_id) for detector, entity_id in _judged(finding, judged, kinship)}
    stays = finding.cause in _SUPPLIED
    return frozenset(found.union(one for one in known if stays or one.finding_id != finding.id))


def supplies_of(entity_id: str, kinship: Kinship) -> frozenset[str]:
    """Return the supplies above an entity; all of its supplies for a whole node, of which any may be meant."""
    reach = kinship.ancestors(entity_id)
    if kinship.top(entity_id) == entity_id:
        reach |= kinship.descendants(entity_id)
    return frozenset(found for found in reach if found.startswith(_SUPPLY_ID))


def _judged(finding: Finding, judged: Judged, kinship: Kinship) -> Iterator[tuple[str, str]]:
    if finding.cause is Cause.SENSOR_LOST:
        kind = finding.entity_id.partition(":")[0]
        reach = kinship.descendants(kinship.top(finding.entity_id))
        alike = {found for found in reach if found.startswith(f"{kind}:")}
        yield from ((finding.detector, found) for found in judged.any_of(finding.detector, alike))
    elif finding.cause in _SUPPLIED:
        supplies, since_ns = supplies_of(finding.entity_id, kinship), finding.since_ns
        dips = judged.throughout(DIPS, supplies, since_ns=since_ns - _BEFORE_NS, until_ns=since_ns)
        yield from ((DIPS, found) for found in dips)
        yield from ((PATHS, found) for found in judged.throughout(PATHS, dips, since_ns=since_ns, until_ns=since_ns))
    else:
        own, now_ns = frozenset({finding.entity_id}), finding.time_ns
        yield from ((PATHS, found) for found in judged.throughout(PATHS, own, since_ns=now_ns, until_ns=now_ns))
