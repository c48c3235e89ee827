"""Caps on knobs: set, tightened, relaxed and released."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rules.caps.adjusting import DEEP_AFTER_S, relax, tighten
from rules.caps.board_bus import metered_supplies
from rules.caps.knobs import KNOB_OF, VERBS, Scale, settable
from rules.caps.refining import refine, renewed
from rules.caps.setting import SettingChoice, choose, describe, predict, safe_setting
from rules.caps.start_ramp import FIRST_START, ramped, ramping
from rules.caps.supply_basis import bases_of
from rules.caps.thermal_loop import first_output, hottest_c, regulate, setting_of
from rules.conditions.facts import facts_of
from rules.engine.approvals import request_approval, use_approval
from rules.engine.claims import CapClaim
from rules.engine.memory import Approval
from rules.engine.policy_incident import PolicyIncident
from rules.engine.refusals import breaker_summary
from rules.policy.model import SettingRule
from telemetry.clock import NS_PER_S
from telemetry.gpu import KnobKind
from telemetry.records import Decision, FindingStatus, Mode

# heuristic: a cap that is not enforced is reported again only if its setting would be this much lower. Nothing holds
# the symptom down meanwhile, so its evidence goes on moving.
_SHADOW_STEP = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class CapPlan:
    """A new cap before the decision."""

    knob: KnobKind
    scale: Scale
    choice: SettingChoice
    output: float | None = None
    error_c: float | None = None


def settable_targets(subject: PolicyIncident, targets: Sequence[str]) -> tuple[str, ...]:
    """Return the targets that have the knob of the policy."""
    knob = KNOB_OF[subject.policy.then.action]
    return tuple(name for name in targets if (gpu := subject.node.gpu(name)) is not None and settable(knob, gpu))


def plan_cap(subject: PolicyIncident, targets: Sequence[str]) -> CapPlan:
    """Return the plan of a new cap on these GPUs."""
    rule, knob = _rule(subject), KNOB_OF[subject.policy.then.action]
    scale = subject.scale(knob, targets)
    if scale is None:
        raise ValueError(f"{subject.policy.id} has nothing to set")
    if rule.hold_c is not None:
        return _regulated(subject, targets, scale, hold_c=rule.hold_c)
    if rule.ramp_from is not None:
        start = scale.snap(rule.ramp_from * scale.loosest)
        why = "a job began" if subject.incident.id != FIRST_START else subject.incident.summary
        reason = f"{why}: from {knob.text(start)} up over {rule.ramp_s:g} s"
        return CapPlan(knob=knob, scale=scale, choice=SettingChoice(setting=start, reason=reason))
    held = [
        setting
        for claim in subject.memory.claims.values()
        for gpu, setting in claim.settings
        if claim.knob is knob and gpu in targets
    ]
    choice = choose(
        rule,
        subject.incident,
        subject.node,
        targets=targets,
        topology=subject.topology,
        scale=scale,
        in_force=scale.strictest_of(held, default=_unrestrained(subject, targets, scale)),
    )
    if knob is KnobKind.POWER and choice.setting is not None:
        choice = replace(choice, reason=f"{choice.reason}; it bounds the average power, not the peaks of single steps")
    return CapPlan(knob=knob, scale=scale, choice=choice)


def no_laxer_than(found: CapPlan, approved: float | None) -> CapPlan | None:
    """Return the plan, no laxer than the approved setting; None if no setting is as strict as that."""
    wanted, scale = found.choice.setting, found.scale
    if approved is None or wanted is None or not scale.stricter(approved, wanted):
        return found
    setting = scale.snap(approved)
    if scale.stricter(approved, setting):
        return None
    reason = f"no laxer than the {scale.knob.text(approved)} approved; the present choice is: {found.choice.reason}"
    output = found.output
    if output is not None:  # the loop continues from the setting
        output = setting if scale.knob is KnobKind.FAN else setting / scale.loosest
    return replace(found, choice=replace(found.choice, setting=setting, reason=reason), output=output)


def set_claim(
    subject: PolicyIncident, found: CapPlan, targets: tuple[str, ...], approval: Approval | None
) -> Decision | None:
    """Set a new cap."""
    memory, then, setting = subject.memory, subject.policy.then, found.choice.setting
    if setting is None:
        return subject.refuse("needless", found.choice.reason)
    ramp = then.setting is not None and then.setting.ramp_from is not None
    subject.note_acted()
    if (subject.policy.id, subject.incident.entity_id) in memory.ended and subject.mode is Mode.ENFORCE and not ramp:
        _note_return(subject)
    claim = CapClaim(
        policy_id=subject.policy.id,
        incident_id=subject.incident.id,
        entity_id=subject.incident.entity_id,
        decision_id=subject.new_id,
        knob=found.knob,
        mode=subject.mode,
        lease_s=then.lease_s or 0.0,
        settings=tuple((gpu, setting) for gpu in targets),
        held=setting,
        tightened_ns=subject.now_ns,
        bases=found.choice.bases,
        supplies=metered_supplies(subject.incident),
        output=found.output,
        error_c=found.error_c,
        regulated_ns=None if found.output is None else subject.now_ns,
        ramp_since_ns=subject.now_ns if ramp else None,
    )
    return _hold(subject, claim, found.scale, setting=setting, reason=found.choice.reason, approval=approval)


def follow_unenforced(subject: PolicyIncident, claim: CapClaim) -> Decision | None:
    """Follow a cap that is not enforced; the engine drops one that was decided in another mode."""
    if not subject.is_open:
        subject.memory.end(subject.key, subject.incident.entity_id, subject.now_ns)
        return None
    hold_v = _rule(subject).hold_v
    scale = subject.scale(claim.knob, claim.gpus)
    if scale is None or not claim.bases or hold_v is None:
        return None
    answer = predict(claim.bases, subject.incident, subject.node, scale=scale, hold_v=hold_v)
    if not scale.stricter(answer.setting, scale.fraction(claim.strictest, 1.0 - _SHADOW_STEP)):
        return None
    reason = describe(answer, claim.knob)
    return _hold(subject, claim, scale, setting=answer.setting, reason=reason)


def follow_cap(subject: PolicyIncident, claim: CapClaim) -> Decision | None:
    """Return the next step of a cap in force: tighten, relax, or None."""
    claim = subject.memory.claims[subject.key] = claim.seen(symptom=subject.is_open, now_ns=subject.now_ns)
    scale = subject.scale(claim.knob, claim.gpus)
    # If an operator lowered the mode, nothing is changed; the lease or the operator ends the cap.
    if subject.mode is not Mode.ENFORCE or scale is None:
        return None
    if claim.ramp_since_ns is not None:  # it protects a start, not a symptom: a breaker must not stop it half-way
        return _ramp(subject, claim, scale)
    if subject.memory.breaker is not None:
        return subject.refuse("breaker", breaker_summary(subject.memory.breaker))
    if claim.output is not None:
        return _regulate(subject, claim, scale)
    decision = _tighten(subject, claim, scale) or _refine(subject, scale)
    if decision is not None or subject.is_open:
        return decision
    return _relax(subject, subject.memory.claims[subject.key], scale)


def _tighten(subject: PolicyIncident, claim: CapClaim, scale: Scale) -> Decision | None:
    memory, then = subject.memory, subject.policy.then
    settled = subject.now_ns - claim.tightened_ns >= min(DEEP_AFTER_S, then.settle_s) * NS_PER_S
    if not claim.bases and _rule(subject).hold_v is not None and settled and subject.is_open:
        # The evidence was insufficient when the cap was set; by now it shows the capped load, which is sufficient.
        bases, _ = bases_of(subject.incident, subject.node, targets=claim.gpus, topology=subject.topology)
        claim = memory.claims[subject.key] = replace(claim, bases=bases)
    claim = memory.claims[subject.key] = renewed(claim, subject.incident, subject.node)
    step = tighten(claim, then, subject.incident, subject.node, subject.limits, scale=scale, now_ns=subject.now_ns)
    if step.useless:
        if not _symptom_is_active(subject):
            return None  # what the cap was for has ended; another symptom keeps the incident open
        decision = _loosen(subject, claim, claim.gpus, setting=None, reason=step.reason)
        barred = "an earlier cap did not remove the symptom; no new one until the incident closes"
        memory.watches[subject.key] = replace(subject.watch, barred=barred)
        return decision
    if step.setting is None:
        if step.exhausted:
            memory.claims[subject.key] = replace(claim, exhausted=True)
            return subject.refuse("exhausted", step.reason)
        return None
    memory.watches[subject.key] = replace(subject.watch, refused=None)
    if step.returned:
        _note_return(subject)
    return _hold(subject, claim, scale, setting=step.setting, reason=step.reason)


def _refine(subject: PolicyIncident, scale: Scale) -> Decision | None:
    """Correct a cap for a voltage by what the rail was measured to carry under it."""
    memory, hold_v = subject.memory, _rule(subject).hold_v
    claim = memory.claims.get(subject.key)
    if claim is None or hold_v is None:
        return None
    step = refine(
        claim,
        subject.incident,
        subject.node,
        hold_v=hold_v,
        topology=subject.topology,
        scale=scale,
        now_ns=subject.now_ns,
    )
    memory.claims[subject.key] = step.claim
    if step.setting is None:
        return None
    if scale.stricter(step.setting, claim.strictest):
        return _hold(subject, step.claim, scale, setting=step.setting, reason=step.reason)
    if (subject.policy.id, subject.incident.entity_id) in memory.latched:
        return None
    memory.watches[subject.key] = replace(subject.watch, refused=None)
    decision = subject.decide(
        VERBS[claim.knob].relax,
        claim.gpus,
        reason=step.reason,
        setting=step.setting,
        knob=claim.knob,
        mode=Mode.ENFORCE,
    )
    memory.claims[subject.key] = step.claim.refined(step.setting, decision_id=decision.id, now_ns=subject.now_ns)
    return decision


def _symptom_is_active(subject: PolicyIncident) -> bool:
    """Return True if an active finding meets the policy's condition by its own cause."""
    causes = {one.cause for one in subject.incident.findings if one.status is not FindingStatus.CLEARED}
    return any(
        subject.policy.when.judge(facts_of(replace(subject.incident, cause=cause), subject.node, subject.now_ns)).met
        for cause in causes
    )


def _relax(subject: PolicyIncident, claim: CapClaim, scale: Scale) -> Decision | None:
    memory = subject.memory
    latch = memory.latched.get((subject.policy.id, subject.incident.entity_id))
    if latch is not None:
        verb = VERBS[claim.knob].relax
        if subject.watch.refused == "latched":
            return None
        memory.watches[subject.key] = replace(subject.watch, refused="latched")
        return request_approval(subject, verb, claim.gpus, reason=f"the cap stays: {latch}; approve to relax it again")
    step = relax(
        claim, subject.policy.then, subject.incident, subject.node, subject.limits, scale=scale, now_ns=subject.now_ns
    )
    memory.claims[subject.key] = step.claim
    if step.refused is not None:
        return subject.refuse("relax", f"the cap stays: {step.refused}")
    if step.gpu is None:
        return None
    return _loosen(subject, step.claim, (step.gpu,), setting=step.setting, reason=step.reason)


def _regulated(subject: PolicyIncident, targets: Sequence[str], scale: Scale, *, hold_c: float) -> CapPlan:
    hottest = hottest_c(subject.node, targets)
    if hottest is None:
        hottest = subject.incident.number("gpu_temp_c")
    if hottest is None or hottest <= hold_c:
        reason = (
            "no GPU reports its temperature"
            if hottest is None
            else f"{hottest:g} °C is not above the {hold_c:g} °C to hold"
        )
        return CapPlan(knob=scale.knob, scale=scale, choice=SettingChoice(setting=None, reason=reason))
    error_c = hottest - hold_c
    output = first_output(subject.node, targets, scale=scale, error_c=error_c)
    setting = setting_of(output, scale)
    reason = f"the hottest GPU is at {hottest:g} °C, to be held at {hold_c:g} °C"
    choice = SettingChoice(setting=setting, reason=reason)
    return CapPlan(knob=scale.knob, scale=scale, choice=choice, output=output, error_c=error_c)


def _regulate(subject: PolicyIncident, claim: CapClaim, scale: Scale) -> Decision | None:
    hold_c, release = _rule(subject).hold_c or 0.0, subject.policy.then.release
    step = regulate(claim, subject.node, scale=scale, hold_c=hold_c, now_ns=subject.now_ns)
    subject.memory.claims[subject.key] = claim = step.claim
    quiet_ns = claim.quiet_since_ns
    if step.setting is None:
        return None
    reason = f"the hottest GPU is at {step.hottest_c:g} °C, to be held at {hold_c:g} °C"
    if scale.stricter(step.setting, claim.strictest):
        return _hold(subject, claim, scale, setting=step.setting, reason=reason)
    at_end = step.setting == scale.strictest and subject.is_open
    subject.memory.claims[subject.key] = claim = replace(claim, exhausted=at_end)
    quiet = release is not None and quiet_ns is not None and subject.now_ns - quiet_ns >= release.after_s * NS_PER_S
    if step.setting == scale.loosest and quiet:
        return _loosen(subject, claim, claim.gpus, setting=None, reason=f"{reason}, and the symptom is gone")
    if step.setting == claim.strictest:
        return None
    return _loosen(subject, claim, claim.gpus, setting=step.setting, reason=reason)


def _ramp(subject: PolicyIncident, claim: CapClaim, scale: Scale) -> Decision | None:
    if claim.incident_id == FIRST_START and subject.is_open:
        subject.memory.claims[subject.key] = replace(claim, ramp_since_ns=subject.now_ns)
        return None
    others = [
        setting
        for other in subject.memory.claims.values()
        for gpu, setting in other.settings
        if other.ramp_since_ns is None and other.enforced and other.knob is claim.knob and gpu in claim.gpus
    ]
    target = scale.strictest_of(others, default=scale.loosest)
    step = ramped(claim, _rule(subject), scale=scale, target=target, now_ns=subject.now_ns)
    if step.over:
        return _loosen(subject, claim, claim.gpus, setting=None, reason=f"the start is over; {claim.knob.text(target)}")
    if step.setting is None:
        return None
    why = (
        "a job began and goes"
        if claim.incident_id != FIRST_START
        else "no supply path is left to measure; the start goes"
    )
    return _loosen(subject, claim, claim.gpus, setting=step.setting, reason=f"{why} up in steps")


def _loosen(
    subject: PolicyIncident, claim: CapClaim, gpus: tuple[str, ...], *, setting: float | None, reason: str
) -> Decision:
    verbs, memory = VERBS[claim.knob], subject.memory
    memory.watches[subject.key] = replace(subject.watch, refused=None)
    decision = subject.decide(
        verbs.release if setting is None else verbs.relax,
        gpus,
        reason=reason,
        setting=setting,
        knob=claim.knob,
        mode=Mode.ENFORCE,
        approval=use_approval(subject, verbs.relax),
    )
    memory.keep(
        subject.key, claim.relaxed(gpus, setting, decision_id=decision.id, now_ns=subject.now_ns), subject.now_ns
    )
    return decision


def _hold(
    subject: PolicyIncident,
    claim: CapClaim,
    scale: Scale,
    *,
    setting: float,
    reason: str,
    approval: Approval | None = None,
) -> Decision:
    """Put one setting on all GPUs of a cap and keep it."""
    safe = safe_setting(
        claim.bases,
        subject.incident,
        subject.node,
        scale=scale,
        hold_v=_rule(subject).hold_v,
        resistance_ratio=subject.limits.safe_resistance_ratio,
    )
    decision = subject.decide(
        VERBS[claim.knob].tighten,
        claim.gpus,
        reason=reason,
        setting=setting,
        knob=claim.knob,
        mode=claim.mode,
        approval=approval,
    )
    claim = replace(claim, safe=safe).tightened(setting, decision_id=decision.id, now_ns=subject.now_ns)
    subject.memory.claims[subject.key] = claim
    return decision


def starts_now(subject: PolicyIncident) -> bool:
    """Return True if a start ramp is due: a job has just begun without one, or none has ever run."""
    if subject.incident.id == FIRST_START:
        return True
    ended_ns = subject.memory.ended.get((subject.policy.id, subject.incident.entity_id))
    return ramping(subject.node, since_ns=ended_ns, now_ns=subject.now_ns)


def is_ramp(subject: PolicyIncident) -> bool:
    """Return True if the policy caps the start of jobs."""
    rule = subject.policy.then.setting
    return rule is not None and rule.ramp_from is not None


def _note_return(subject: PolicyIncident) -> None:
    """Count that the symptom came back."""
    most = subject.limits.cycles_per_day
    subject.memory.note_return(subject.policy.id, subject.incident.entity_id, subject.now_ns, most=most)


def _rule(subject: PolicyIncident) -> SettingRule:
    if subject.policy.then.setting is None:
        raise ValueError(f"{subject.policy.id} has nothing to set")
    return subject.policy.then.setting


def _unrestrained(subject: PolicyIncident, targets: Sequence[str], scale: Scale) -> float:
    """Return the setting without a cap: the highest clock, which need not be among the settings."""
    if scale.knob is not KnobKind.CLOCK:
        return scale.loosest
    return max(gpu.max_clock_mhz for name in targets if (gpu := subject.node.gpu(name)) is not None)
