"""Consequences of a lost GPU on its siblings, reported with the loss and not by themselves.

Its links fail at their other ends (Xid 74, the errors of NVLink 5, SXids of the switches, words of the Fabric Manager),
and what its job held on the other GPUs is torn down (Xids 31, 43 and 45).
"""

import math
from collections.abc import Iterable, Sequence

from analytics.connectivity import Kinship
from analytics.incidents.case import Case
from telemetry.clock import NS_PER_S
from telemetry.records import Cause, Finding

# MMU fault, channel reset, channels torn down because of an earlier error (NVIDIA Xid catalogue, 29 October 2025).
_TORN_DOWN = frozenset({31, 43, 45})
# heuristic: a peer meets the dead link at its next transfer, and a job is torn down once its collective gives up or
# somebody ends it; what comes later than this has to be looked at by itself.
FOLLOWS_S = 120.0
# heuristic: a peer's word may reach the log before the driver has touched the GPU that is gone.
LEADS_S = 5.0


def follows(finding: Finding, lost: Finding, kinship: Kinship) -> bool:
    """Return whether a finding tells of what the loss of a GPU did."""
    if lost.cause is not Cause.GPU_LOST or kinship.top(finding.entity_id) != kinship.top(lost.entity_id):
        return False
    code = finding.number("code")
    torn_down = code is not None and not math.isnan(code) and int(code) in _TORN_DOWN
    after_s = (finding.since_ns - lost.since_ns) / NS_PER_S
    is_kind = finding.cause is Cause.FABRIC_ERROR or (finding.cause is Cause.GPU_ERROR and torn_down)
    return is_kind and -LEADS_S <= after_s <= FOLLOWS_S


def loss_behind(finding: Finding, losses: Iterable[Case], kinship: Kinship) -> Case | None:
    """Return the case of the loss that a finding follows from, None where there is none."""
    return next(
        (case for case in losses if any(follows(finding, lost, kinship) for lost in case.incident.findings)), None
    )


def reflex_noted(lost: Finding, cases: Sequence[Case], kinship: Kinship) -> list[Case]:
    """Return the cases that tell of nothing but what a loss did, which became known after them."""
    return [
        case
        for case in cases
        if not (case.storm or case.claimed) and all(follows(own, lost, kinship) for own in case.incident.findings)
    ]
