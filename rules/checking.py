"""Checks over whole policies and over all of them together: pure reasoning, nothing is run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from rules.caps.knobs import KNOB_OF
from rules.conditions.condition import Condition, Requirements, combine, describe, judge_alternative
from rules.policy.cases import facts_at
from rules.policy.model import ActionClass, Policy, PolicyStatus
from rules.policy.sourced_numbers import setting_key, thresholds_of
from telemetry.gpu import KnobKind
from telemetry.records import IncidentState, Mode

STATE = "state"
# An incident that is not open starts nothing, whatever the condition is,
OPEN = frozenset({IncidentState.OPEN.value})
# except the ramp of a job that starts while the cap of another policy holds the symptom down.
OPEN_OR_MITIGATED = OPEN | {IncidentState.MITIGATED.value}
# Actions that take the job or the node away, and actions that give the job time to end or to save its work.
_ENDS = {ActionClass.REQUEUE: "ends the job at once", ActionClass.POWER_CYCLE: "takes the node away under it"}
_GIVES_TIME = {
    ActionClass.CHECKPOINT: "requests a checkpoint from the job",
    ActionClass.DRAIN: "lets the job run to its end",
}
# One knob each: of two caps the stricter wins, so that the other has no effect of its own.
_HELD = (ActionClass.CLOCK_CAP, ActionClass.POWER_CAP, ActionClass.FAN)
_LOOSEST = {KnobKind.CLOCK: "max_clock_mhz", KnobKind.POWER: "limit_default_w", KnobKind.FAN: "fan_min_ratio"}
_NEVER = {
    KnobKind.CLOCK: "never lowers a clock on the nodes of its cases, whose highest is {loosest:g} MHz",
    KnobKind.POWER: "never lowers a power limit on the nodes of its cases, whose default is {loosest:g} W",
    KnobKind.FAN: "never raises a fan on the nodes of its cases, whose slowest setting is {loosest:g}",
}
# These stay in force until they are released: without a lease they would outlive the process that set them.
_CAPS = (ActionClass.CLOCK_CAP, ActionClass.POWER_CAP, ActionClass.FAN)
_HOLDS = (*_CAPS, ActionClass.DRAIN)
# These may follow the first finding: a cap is released without loss, and a message costs a look.
_AT_ONCE = (*_CAPS, ActionClass.NOTIFY)


class Flaw(StrEnum):
    """Kind of mistake in a policy."""

    UNREACHABLE = "unreachable"
    CONTRADICTING = "contradicting"
    LADDER = "ladder"
    INEFFECTIVE = "without effect"
    RARE = "rarely climbed"
    OVERLAPPING = "overlapping"
    UNBOUNDED = "unbounded"
    UNSOURCED = "without a source"
    UNTESTED = "never tested"

    @property
    def is_error(self) -> bool:
        """True if the policies must not be used like this; a warning is for a person to weigh."""
        return self in (Flaw.UNREACHABLE, Flaw.CONTRADICTING, Flaw.LADDER, Flaw.INEFFECTIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """Mistake in a policy; `key` is its place in the file, such as ``then.budget``."""

    policy_id: str
    where: str
    key: str
    flaw: Flaw
    summary: str


def states_of(policy: Policy) -> frozenset[str]:
    """Return the states of an incident in which a policy may begin to act."""
    setting = policy.then.setting
    return OPEN if setting is None or setting.ramp_from is None else OPEN_OR_MITIGATED


def met_together(*conditions: Condition, states: frozenset[str] = OPEN) -> tuple[Requirements, ...]:
    """Return the alternatives in which one incident in these states meets all conditions; empty if none can."""
    met: tuple[Requirements, ...] = ({STATE: states},)
    for condition in conditions:
        met = tuple(
            both for one in met for other in condition.alternatives if (both := combine(one, other)) is not None
        )
    return met


def describe_met(requirements: Requirements) -> str:
    """Return an alternative as a phrase, without the states that an action needs anyway."""
    return describe({path: value for path, value in requirements.items() if path != STATE})


def unreachable(policies: Sequence[Policy]) -> Iterator[Complaint]:
    """Yield the policies, and the alternatives of their conditions, that no open incident can meet."""
    for policy in policies:
        states = states_of(policy)
        if not met_together(policy.when, states=states):
            yield _complaint(policy, "no open incident can meet it")
            continue
        for alternative in policy.when.alternatives:
            if combine({STATE: states}, alternative) is None:
                yield _complaint(policy, f"no open incident can meet its alternative '{describe(alternative)}'")


def _complaint(policy: Policy, summary: str) -> Complaint:
    return Complaint(policy_id=policy.id, where=policy.where, key="when", flaw=Flaw.UNREACHABLE, summary=summary)


def rungs_below(policy: Policy, by_id: Mapping[str, Policy]) -> tuple[str, ...]:
    """Return the ids below a rung, the nearest first; a circular ladder ends at the first id that repeats."""
    below: list[str] = []
    next_id = policy.after
    while next_id is not None and next_id not in below and next_id != policy.id:
        below.append(next_id)
        rung = by_id.get(next_id)
        next_id = None if rung is None else rung.after
    return tuple(below)


def on_one_ladder(one: Policy, other: Policy, by_id: Mapping[str, Policy]) -> bool:
    """Return True if one of two policies waits for the other."""
    return other.id in rungs_below(one, by_id) or one.id in rungs_below(other, by_id)


def ladder_complaints(policies: Sequence[Policy], *, checked: frozenset[str] | None = None) -> Iterator[Complaint]:
    """Yield the rungs whose policy below is missing, deprecated, on other incidents, or in a circle.

    `checked` are the causes whose symptom is checked after an action; None if that is not known.
    """
    by_id = {policy.id: policy for policy in policies}
    for policy in policies:
        if policy.after is None or policy.status is PolicyStatus.DEPRECATED:
            continue
        found = _fault(policy, by_id) or _unchecked(policy, by_id, checked)
        if found is not None:
            flaw, summary = found
            yield Complaint(policy_id=policy.id, where=policy.where, key="after", flaw=flaw, summary=summary)


def _fault(policy: Policy, by_id: Mapping[str, Policy]) -> tuple[Flaw, str] | None:
    below = policy.after or ""
    rung = by_id.get(below)
    if rung is None:
        return Flaw.LADDER, f"there is no policy {below}"
    if any(name in by_id and by_id[name].after == policy.id for name in (below, *rungs_below(policy, by_id))):
        return Flaw.LADDER, f"the ladder runs in a circle: {' after '.join((policy.id, *rungs_below(policy, by_id)))}"
    if rung.status is PolicyStatus.DEPRECATED:
        return Flaw.UNREACHABLE, f"{below} is deprecated and never acts, so this rung is never reached"
    if not met_together(policy.when, rung.when):
        return Flaw.UNREACHABLE, f"no incident meets both its condition and that of {below}, after which it comes"
    return None


def _unchecked(policy: Policy, by_id: Mapping[str, Policy], checked: frozenset[str] | None) -> tuple[Flaw, str] | None:
    """Return the flaw of a rung that waits for a symptom check that does not exist."""
    below = by_id[policy.after or ""]
    causes = [alternative.get("cause") for alternative in met_together(policy.when, below.when)]
    named = {str(cause) for found in causes if isinstance(found, frozenset) for cause in found}
    if checked is None or None in causes or named & checked:
        return None
    summary = f"no symptom is checked for {', '.join(sorted(named))}: reached only where {below.id} cannot act"
    return Flaw.RARE, summary


def contradictions(policies: Sequence[Policy]) -> Iterator[Complaint]:
    """Yield pairs that would be enforced on the same incident and undo, or merely cover, each other.

    Rungs of one ladder are no pair: the later waits for the earlier.
    """
    by_id = {policy.id: policy for policy in policies}
    acting = [
        policy
        for policy in policies
        if policy.status is not PolicyStatus.DEPRECATED and policy.then.mode is Mode.ENFORCE
    ]
    for one, other in combinations(acting, 2):
        found = _conflict(one, other)
        if found is None or on_one_ladder(one, other, by_id):
            continue
        met = met_together(one.when, other.when)
        if met:
            flaw, summary = found
            summary += f", both if {describe_met(met[0])}"
            yield Complaint(policy_id=one.id, where=one.where, key="when", flaw=flaw, summary=summary)


def _conflict(one: Policy, other: Policy) -> tuple[Flaw, str] | None:
    for ending, giving in ((one, other), (other, one)):
        ends, gives = _ENDS.get(ending.then.action), _GIVES_TIME.get(giving.then.action)
        if ends is not None and gives is not None:
            return Flaw.CONTRADICTING, f"{giving.id} {gives} while {ending.id} {ends}; put one after the other"
    if one.then.action is not other.then.action:
        return None
    if any(item.then.setting is not None and item.then.setting.ramp_from is not None for item in (one, other)):
        return None  # a ramp goes up to where the claims of others leave it
    if one.then.action in _HELD:
        return Flaw.OVERLAPPING, f"{one.id} and {other.id} both hold {one.then.action.value}; the stricter one wins"
    if one.then.parameters == other.then.parameters:
        return Flaw.OVERLAPPING, f"{one.id} and {other.id} both do {one.then.action.value}"
    return None


def without_effect(policies: Sequence[Policy]) -> Iterator[Complaint]:
    """Yield every policy whose fixed setting restrains no node of its cases; other nodes are not known here."""
    for policy in policies:
        knob, rule = KNOB_OF.get(policy.then.action), policy.then.setting
        if knob is None or rule is None or rule.fixed is None:
            continue
        found = [loosest for case in policy.cases if (loosest := getattr(case.node, _LOOSEST[knob])) is not None]
        if not found or any(knob.strictest(rule.fixed, loosest) != loosest for loosest in found):
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


def unbounded(policies: Sequence[Policy]) -> Iterator[Complaint]:
    """Yield each policy's missing lease, budget, cooldown and consecutive evidence."""
    for policy in policies:
        for key, summary in _missing(policy):
            yield Complaint(policy_id=policy.id, where=policy.where, key=key, flaw=Flaw.UNBOUNDED, summary=summary)


def _missing(policy: Policy) -> Iterator[tuple[str, str]]:
    then = policy.then
    name = then.action.value
    if then.action in _HOLDS and not then.lease_s:
        yield "then.lease", f"{name} has no lease"
    if then.cooldown_s <= 0:
        yield "then.cooldown", f"{name} has no cooldown"
    if then.action in _AT_ONCE:
        return
    if then.budget is None:
        yield "then.budget", f"{name} has no budget of its own"
    if then.hold_s <= 0 and then.consecutive <= 1:
        yield "then.hold", f"{name} follows the first finding; set hold, or consecutive to 2 or more"


def untested(policies: Sequence[Policy]) -> Iterator[Complaint]:
    """Yield every alternative that an incident can meet and no firing case does."""
    for policy in policies:
        shown = [facts_at(case, step) for case in policy.cases if case.expect for step in case.incident]
        for alternative in policy.when.alternatives:
            if combine({STATE: states_of(policy)}, alternative) is None:
                continue
            if not any(judge_alternative(alternative, facts).met for facts in shown):
                summary = f"no case fires through '{describe(alternative)}'"
                yield Complaint(
                    policy_id=policy.id, where=policy.where, key="cases", flaw=Flaw.UNTESTED, summary=summary
                )


def unsourced(policies: Sequence[Policy]) -> Iterator[Complaint]:
    """Yield every number that is compared with or set and appears in no line of the policy's source."""
    for policy in policies:
        for threshold in thresholds_of(policy):
            if not threshold.sources:
                summary = f"no line of it names {threshold.value:g}, the value of {threshold.key}"
                yield Complaint(
                    policy_id=policy.id, where=policy.where, key="source", flaw=Flaw.UNSOURCED, summary=summary
                )


CHECKS = (unreachable, without_effect, contradictions, unbounded, untested, unsourced)


def check_policies(policies: Sequence[Policy], *, checked: frozenset[str] | None = None) -> tuple[Complaint, ...]:
    """Return the complaints of every check, errors first, then in the order of the policies.

    `checked` are the causes whose symptom is checked after an action, which ladders wait for.
    """
    order = {policy.id: place for place, policy in enumerate(policies)}
    found = [complaint for check in CHECKS for complaint in check(policies)]
    found += ladder_complaints(policies, checked=checked)
    return tuple(sorted(found, key=lambda item: (not item.flaw.is_error, order[item.policy_id])))
