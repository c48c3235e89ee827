"""Remarks on the supply side of a lost GPU: not every loss is the supply's fault."""

from collections.abc import Sequence

from analytics.connectivity import Kinship
from analytics.incidents.case import Case
from telemetry.entities import EntityKind
from telemetry.records import Cause


def supply_remark(case: Case, electrical: Sequence[Case], kinship: Kinship) -> str:
    """Return a remark on the supply side for a lost GPU, from the electrical cases of its node; else an empty text."""
    if case.lead.cause is not Cause.GPU_LOST:
        return ""
    lost_id = case.lead.entity_id
    above = kinship.ancestors(lost_id)
    if kinship.top(lost_id) == lost_id:  # nobody knows which GPU: every supply of the node may have fed it
        above |= kinship.descendants(lost_id)
    beside = [
        other.incident
        for other in electrical
        if other.incident.entity_id in above | {lost_id} or lost_id in other.incident.affected
    ]
    if beside:
        return f"electrical evidence in {beside[0].id}: {beside[0].summary}"
    fed = any(kinship.topology.entity(parent).kind is EntityKind.SUPPLY for parent in above)
    return "no electrical evidence" if fed else "no supply telemetry, so nothing is known of the supply"
