"""Fixed settings that change nothing on the nodes of the policy's own cases."""

from collections.abc import Iterator, Sequence

from rules.caps.knobs import KNOB_OF
from rules.checking.complaint import Complaint, Flaw
from rules.policy.model import CaseNode, Policy
from rules.policy.sourced_numbers import setting_key
from telemetry.knobs import KnobKind

_NEVER = {
    KnobKind.CLOCK: "never lowers a clock on the nodes of its cases, whose highest is {loosest:g} MHz",
    KnobKind.POWER: "never lowers a power limit on the nodes of its cases, whose default is {loosest:g} W",
    KnobKind.FAN: "never raises a fan on the nodes of its cases, whose slowest setting is {loosest:g}",
}


def without_effect(policies: Sequence[Policy]) -> Iterator[Complaint]:
    """Yield every policy whose fixed setting restrains no node of its cases; other nodes are not known here."""
    for policy in policies:
        knob, rule = KNOB_OF.get(policy.then.action), policy.then.setting
        if knob is None or rule is None or rule.fixed is None:
            continue
        found = [loosest for case in policy.cases if (loosest := _loosest(knob, case.node)) is not None]
        if not found or any(_restrains(knob, rule.fixed, loosest) for loosest in found):
            continue
        # The node nearest to the setting: what holds for it holds for all.
        nearest = min(found) if knob is KnobKind.FAN else max(found)
        yield Complaint(
            policy_id=policy.id,
            where=policy.where,
            key=setting_key(policy, "fixed"),
            flaw=Flaw.INEFFECTIVE,
            summary=_NEVER[knob].format(loosest=nearest),
        )


def _loosest(knob: KnobKind, node: CaseNode) -> float | None:
    match knob:
        case KnobKind.CLOCK:
            return node.max_clock_mhz
        case KnobKind.POWER:
            return node.limit_default_w
        case KnobKind.FAN:
            return node.fan_min_ratio


def _restrains(knob: KnobKind, setting: float, loosest: float) -> bool:
    return setting > loosest if knob is KnobKind.FAN else setting < loosest
