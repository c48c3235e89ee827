"""Consequences of a lost GPU or supply, reported with the loss and not as incidents of their own.

A lost supply or a bad joint moves its load to the supplies next to it. The links of a lost GPU fail at their other ends
(Xid 74, the errors of NVLink 5, SXids of the switches, messages of the Fabric Manager), and what its job held on the
other GPUs is torn down (Xids 31, 43 and 45).
"""

import math
from collections.abc import Iterable, Sequence

from analytics.connectivity import Kinship
from analytics.incidents.case import IncidentCase
from analytics.judged import DIPS, JudgedPair, judged_entities
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.records import Cause, Finding

# What keeps current from one of several supplies in parallel, so that the others carry more.
_SHEDS = frozenset({Cause.SUPPLY_LOST, Cause.JOINT_AGEING})
# Symptoms of a supply that carries more.
_CARRIES = frozenset({Cause.SUPPLY_SAG, Cause.SUPPLY_OVERLOAD, Cause.SYNCHRONOUS_OVERLOAD})


def case_of_lost_supply(finding: Finding, near: Sequence[IncidentCase], kinship: Kinship) -> IncidentCase | None:
    """Return the case of the supply whose load this finding's supply has come to carry, None where there is none."""
    if finding.cause not in _CARRIES:
        return None
    for case in near:
        if any(one.cause in _SHEDS and kinship.are_siblings(one.entity_id, finding.entity_id) for one in case.active):
            return case
    return None


def cases_of_shifted_load(
    finding: Finding, near: Sequence[IncidentCase], kinship: Kinship, *, window_ns: int
) -> list[IncidentCase]:
    """Return the cases that hold nothing but the load that moved to siblings of this finding's supply about then."""
    if finding.cause not in _SHEDS:
        return []

    def follows(own: Finding) -> bool:
        related = own.entity_id == finding.entity_id or kinship.are_siblings(own.entity_id, finding.entity_id)
        return own.cause in _CARRIES and related and abs(own.since_ns - finding.since_ns) <= window_ns

    return [case for case in near if not case.storm and all(follows(own) for own in case.incident.findings)]


# MMU fault, channel reset, channels torn down because of an earlier error (NVIDIA Xid catalogue, 29 October 2025).
_TORN_DOWN = frozenset({31, 43, 45})
# heuristic: a peer meets the dead link at its next transfer, and a job is torn down once its collective times out or
# an operator ends it; what comes later is an incident of its own.
FOLLOWS_S = 120.0
# heuristic: a peer's message may reach the log before the driver has touched the GPU that is gone.
LEADS_S = 5.0


def follows_loss(finding: Finding, lost: Finding, kinship: Kinship) -> bool:
    """Return True if a finding is a consequence of the loss of a GPU."""
    if lost.cause is not Cause.GPU_LOST or kinship.top(finding.entity_id) != kinship.top(lost.entity_id):
        return False
    code = finding.number("code")
    torn_down = code is not None and not math.isnan(code) and int(code) in _TORN_DOWN
    after_s = (finding.since_ns - lost.since_ns) / NS_PER_S
    is_kind = finding.cause is Cause.FABRIC_ERROR or (finding.cause is Cause.GPU_ERROR and torn_down)
    return is_kind and -LEADS_S <= after_s <= FOLLOWS_S


def loss_behind(finding: Finding, losses: Iterable[IncidentCase], kinship: Kinship) -> IncidentCase | None:
    """Return the case of the loss that a finding follows from, None where there is none."""
    return next(
        (case for case in losses if any(follows_loss(finding, lost, kinship) for lost in case.incident.findings)), None
    )


def cases_following_loss(lost: Finding, cases: Sequence[IncidentCase], kinship: Kinship) -> list[IncidentCase]:
    """Return the cases that hold nothing but consequences of a loss that became known after them."""
    return [
        case
        for case in cases
        if not (case.storm or case.claimed) and all(follows_loss(own, lost, kinship) for own in case.incident.findings)
    ]


def supply_remark(
    case: IncidentCase, electrical: Sequence[IncidentCase], kinship: Kinship, judged: Iterable[JudgedPair]
) -> str:
    """Return a remark on the supply side for a lost GPU, from the electrical cases of its node; else an empty text."""
    if case.lead.cause is not Cause.GPU_LOST:
        return ""
    lost_id = case.lead.entity_id
    above = kinship.ancestors(lost_id)
    if kinship.top(lost_id) == lost_id:  # unknown which GPU: every supply of the node may have fed it
        above |= kinship.descendants(lost_id)
    beside = [
        other.incident
        for other in electrical
        if other.incident.entity_id in above | {lost_id} or lost_id in other.incident.affected
    ]
    if beside:
        return f"electrical evidence in {beside[0].id}: {beside[0].summary}"
    if judged_entities(judged, case.lead.id, DIPS):
        return "no electrical evidence"
    measured = any(kinship.topology.entity(parent).kind is EntityKind.SUPPLY for parent in above)
    return f"supply {'not judged' if measured else 'not measured'}, so nothing is known of it"
