"""Load that moves: what a lost supply or a bad joint lays on the supplies beside it is told with it, not by itself."""

from collections.abc import Sequence

from analytics.connectivity import Kinship
from analytics.incidents.case import Case
from telemetry.records import Cause, Finding

# What keeps current from one of several supplies in parallel, so that the others carry more.
_SHEDS = frozenset({Cause.SUPPLY_LOST, Cause.JOINT_AGEING})
# What carrying more looks like.
_CARRIES = frozenset({Cause.SUPPLY_SAG, Cause.SUPPLY_OVERLOAD, Cause.SYNCHRONOUS_OVERLOAD})


def shed_by(finding: Finding, near: Sequence[Case], kinship: Kinship) -> Case | None:
    """Return the case of the supply whose load this finding's supply has come to carry, None where there is none."""
    if finding.cause not in _CARRIES:
        return None
    for case in near:
        if any(one.cause in _SHEDS and kinship.are_siblings(one.entity_id, finding.entity_id) for one in case.active):
            return case
    return None


def carried_for(finding: Finding, near: Sequence[Case], kinship: Kinship, *, window_ns: int) -> list[Case]:
    """Return the cases that tell only what siblings of this finding's supply came to carry, since about then."""
    if finding.cause not in _SHEDS:
        return []

    def follows(own: Finding) -> bool:
        related = own.entity_id == finding.entity_id or kinship.are_siblings(own.entity_id, finding.entity_id)
        return own.cause in _CARRIES and related and abs(own.since_ns - finding.since_ns) <= window_ns

    return [case for case in near if not case.storm and all(follows(own) for own in case.incident.findings)]
