"""Fixed settings that change nothing where the policy itself shows them."""

from collections.abc import Iterator, Sequence

from rules.caps.knobs import KNOB_OF
from rules.checking.complaint import Complaint, Flaw
from rules.policy.model import CaseNode, Policy
from rules.policy.sourced_numbers import setting_key
from telemetry.knobs import KnobKind

# What is at or beyond the loosest setting of every node of the cases, in words.
_NEVER = {
    KnobKind.CLOCK: "never lowers a clock on the nodes of its cases, which reach {loosest:g} MHz",
    KnobKind.POWER: "never lowers a power limit on the nodes of its cases, where {loosest:g} W is the default",
    KnobKind.FAN: "never raises a fan on the nodes of its cases, which stand at {loosest:g} or more",
}


def without_effect(policies: Sequence[Policy]) -> Iterator[Complaint]:
    """Yield every policy whose fixed setting restrains no node of its cases; of other nodes nothing is known here."""
    for policy in policies:
        knob, rule = KNOB_OF.get(policy.then.action), policy.then.setting
        if knob is None or rule is None or rule.fixed is None:
            continue
        found = [loosest for case in policy.cases if (loosest := _loosest(knob, case.node)) is not None]
        if not found or any(_restrains(knob, rule.fixed, loosest) for loosest in found):
            continue
        # The one that comes nearest to the setting: where it is told, it holds for all.
        nearest = min(found) if knob is KnobKind.FAN else max(found)
        words = _NEVER[knob].format(loosest=nearest)
        key = setting_key(policy, "fixed")
        yield Complaint(policy_id=policy.id, where=policy.where, key=key, flaw=Flaw.INEFFECTIVE, words=words)


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
