"""Claims on knobs: how one is set, made stricter, relaxed and given back."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rules.caps.evidence import bases_of
from rules.caps.first_start import FIRST_START
from rules.caps.knobs import KNOB_OF, VERBS, Scale, settable
from rules.caps.relaxing import relax
from rules.caps.setting import Choice, choose, describe, predict, safe_setting
from rules.caps.start_ramp import ramped, ramping
from rules.caps.targets import supplies_of_incident
from rules.caps.thermal_loop import first_output, hottest_c, regulate, setting_of
from rules.caps.tightening import DEEP_AFTER_S, tighten
from rules.engine.approvals import ask, use_approval
from rules.engine.claims import Claim
from rules.engine.memory import Approval
from rules.engine.policy_incident import Matter
from rules.engine.refusals import breaker_words
from rules.policy.model import SettingRule
from telemetry.clock import NS_PER_S
from telemetry.knobs import KnobKind
from telemetry.records import Decision, Mode

# A claim that is not enforced is told anew only where the setting it would take is this much lower: nobody holds the
# symptom down meanwhile, so its evidence goes on moving. Heuristic.
_SHADOW_STEP = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A new claim before it is decided on."""

    knob: KnobKind
    scale: Scale
    choice: Choice
    output: float | None = None
    error_c: float | None = None


def able(matter: Matter, targets: Sequence[str]) -> tuple[str, ...]:
    """Return those of the targets that have the knob of the policy."""
    knob = KNOB_OF[matter.policy.then.action]
    return tuple(name for name in targets if (gpu := matter.node.gpu(name)) is not None and settable(knob, gpu))


def plan(matter: Matter, targets: Sequence[str]) -> Plan:
    """Find the setting of a new claim on these GPUs."""
    rule, knob = _rule(matter), KNOB_OF[matter.policy.then.action]
    scale = matter.scale(knob, targets)
    if scale is None:
        raise ValueError(f"{matter.policy.id} has nothing to set")
    if rule.hold_c is not None:
        return _regulated(matter, targets, scale, hold_c=rule.hold_c)
    if rule.ramp_from is not None:
        start = scale.snap(rule.ramp_from * scale.loosest)
        why = "a job began" if matter.incident.id != FIRST_START else matter.incident.summary
        reason = f"{why}: from {knob.text(start)} up over {rule.ramp_s:g} s"
        return Plan(knob=knob, scale=scale, choice=Choice(setting=start, reason=reason))
    held = [
        setting
        for claim in matter.memory.claims.values()
        for gpu, setting in claim.settings
        if claim.knob is knob and gpu in targets
    ]
    choice = choose(
        rule,
        matter.incident,
        matter.node,
        targets=targets,
        topology=matter.topology,
        scale=scale,
        in_force=scale.strictest_of(held, default=_unrestrained(matter, targets, scale)),
    )
    return Plan(knob=knob, scale=scale, choice=choice)


def at_most(found: Plan, approved: float | None) -> Plan | None:
    """Return the plan no laxer than what a person approved; None where no setting as strict as that is left."""
    wanted, scale = found.choice.setting, found.scale
    if approved is None or wanted is None or not scale.stricter(approved, wanted):
        return found
    setting = scale.snap(approved)
    if scale.stricter(approved, setting):
        return None
    reason = f"no laxer than the {scale.knob.text(approved)} approved; by now it would be {found.choice.reason}"
    output = found.output
    if output is not None:  # the loop goes on from what is set
        output = setting if scale.knob is KnobKind.FAN else setting / scale.loosest
    return replace(found, choice=replace(found.choice, setting=setting, reason=reason), output=output)


def set_claim(matter: Matter, found: Plan, targets: tuple[str, ...], approval: Approval | None) -> Decision | None:
    """Make a new claim."""
    memory, then, setting = matter.memory, matter.policy.then, found.choice.setting
    if setting is None:
        return matter.refuse("needless", found.choice.reason)
    ramp = then.setting is not None and then.setting.ramp_from is not None
    matter.note_acted()
    if (matter.policy.id, matter.incident.entity_id) in memory.ended and matter.mode is Mode.ENFORCE and not ramp:
        _note_return(matter)
    claim = Claim(
        policy_id=matter.policy.id,
        incident_id=matter.incident.id,
        entity_id=matter.incident.entity_id,
        decision_id=matter.new_id,
        knob=found.knob,
        mode=matter.mode,
        lease_s=then.lease_s or 0.0,
        settings=tuple((gpu, setting) for gpu in targets),
        held=setting,
        tightened_ns=matter.now_ns,
        bases=found.choice.bases,
        supplies=supplies_of_incident(matter.incident),
        output=found.output,
        error_c=found.error_c,
        regulated_ns=None if found.output is None else matter.now_ns,
        ramp_since_ns=matter.now_ns if ramp else None,
    )
    return _hold(matter, claim, found.scale, setting=setting, reason=found.choice.reason, approval=approval)


def shadow(matter: Matter, claim: Claim) -> Decision | None:
    """Follow a claim that is told and not carried out; one that was decided in another mode is the engine's to drop."""
    if not matter.is_open:
        matter.memory.end(matter.key, matter.incident.entity_id, matter.now_ns)
        return None
    hold_v = _rule(matter).hold_v
    scale = matter.scale(claim.knob, claim.gpus)
    if scale is None or not claim.bases or hold_v is None:
        return None
    answer = predict(claim.bases, matter.incident, matter.node, scale=scale, hold_v=hold_v)
    if not scale.stricter(answer.setting, scale.fraction(claim.strictest, 1.0 - _SHADOW_STEP)):
        return None
    reason = describe(answer, claim.knob, hold_v)
    return _hold(matter, claim, scale, setting=answer.setting, reason=reason)


def follow(matter: Matter, claim: Claim) -> Decision | None:
    """Take the next step with a claim in force: stricter, looser, or nothing."""
    claim = matter.memory.claims[matter.key] = claim.seen(symptom=matter.is_open, now_ns=matter.now_ns)
    scale = matter.scale(claim.knob, claim.gpus)
    # Where a person lowered the mode: hands off, and the lease or the person ends it.
    if matter.mode is not Mode.ENFORCE or scale is None:
        return None
    if claim.ramp_since_ns is not None:  # it protects a start, not a symptom: a breaker must not leave it half-way
        return _ramp(matter, claim, scale)
    if matter.memory.breaker is not None:
        return matter.refuse("breaker", breaker_words(matter.memory.breaker))
    if claim.output is not None:
        return _regulate(matter, claim, scale)
    decision = _tighten(matter, claim, scale)
    if decision is not None or matter.is_open:
        return decision
    return _relax(matter, matter.memory.claims[matter.key], scale)


def _tighten(matter: Matter, claim: Claim, scale: Scale) -> Decision | None:
    memory, then = matter.memory, matter.policy.then
    settled = matter.now_ns - claim.tightened_ns >= min(DEEP_AFTER_S, then.settle_s) * NS_PER_S
    if not claim.bases and _rule(matter).hold_v is not None and settled and matter.is_open:
        # The evidence was too thin when the cap was set; by now it shows the capped load, which will do as well.
        bases, _ = bases_of(matter.incident, matter.node, targets=claim.gpus, topology=matter.topology)
        claim = memory.claims[matter.key] = replace(claim, bases=bases)
    step = tighten(claim, then, matter.incident, matter.node, matter.limits, scale=scale, now_ns=matter.now_ns)
    if step.useless:
        decision = _loosen(matter, claim, claim.gpus, setting=None, reason=step.reason)
        memory.watches[matter.key] = replace(matter.watch, barred=step.reason)
        return decision
    if step.setting is None:
        if step.exhausted:
            memory.claims[matter.key] = replace(claim, exhausted=True)
            return matter.refuse("exhausted", step.reason)
        return None
    memory.watches[matter.key] = replace(matter.watch, refused=None)
    if step.returned:
        _note_return(matter)
    return _hold(matter, claim, scale, setting=step.setting, reason=step.reason)


def _relax(matter: Matter, claim: Claim, scale: Scale) -> Decision | None:
    memory = matter.memory
    latch = memory.latched.get((matter.policy.id, matter.incident.entity_id))
    if latch is not None:
        verb = VERBS[claim.knob].relax
        if matter.watch.refused == "latched":
            return None
        memory.watches[matter.key] = replace(matter.watch, refused="latched")
        return ask(matter, verb, claim.gpus, reason=f"the cap stays: {latch}; approve to let it go up again")
    step = relax(
        claim, matter.policy.then, matter.incident, matter.node, matter.limits, scale=scale, now_ns=matter.now_ns
    )
    memory.claims[matter.key] = step.claim
    if step.refused is not None:
        return matter.refuse("relax", f"the cap stays: {step.refused}")
    if step.gpu is None:
        return None
    return _loosen(matter, step.claim, (step.gpu,), setting=step.setting, reason=step.reason)


def _regulated(matter: Matter, targets: Sequence[str], scale: Scale, *, hold_c: float) -> Plan:
    hottest = hottest_c(matter.node, targets)
    if hottest is None:
        hottest = matter.incident.number("gpu_temp_c")
    if hottest is None or hottest <= hold_c:
        words = (
            "no GPU tells its temperature" if hottest is None else f"{hottest:g} °C is below the {hold_c:g} °C to hold"
        )
        return Plan(knob=scale.knob, scale=scale, choice=Choice(setting=None, reason=words))
    error_c = hottest - hold_c
    output = first_output(matter.node, targets, scale=scale, error_c=error_c)
    setting = setting_of(output, scale)
    reason = f"the hottest GPU is at {hottest:g} °C, {hold_c:g} °C is to be held"
    choice = Choice(setting=setting, reason=reason)
    return Plan(knob=scale.knob, scale=scale, choice=choice, output=output, error_c=error_c)


def _regulate(matter: Matter, claim: Claim, scale: Scale) -> Decision | None:
    hold_c, release = _rule(matter).hold_c or 0.0, matter.policy.then.release
    step = regulate(claim, matter.node, scale=scale, hold_c=hold_c, now_ns=matter.now_ns)
    matter.memory.claims[matter.key] = claim = step.claim
    quiet_ns = claim.quiet_since_ns
    if step.setting is None:
        return None
    reason = f"the hottest GPU is at {step.hottest_c:g} °C, {hold_c:g} °C is to be held"
    if scale.stricter(step.setting, claim.strictest):
        return _hold(matter, claim, scale, setting=step.setting, reason=reason)
    at_end = step.setting == scale.strictest and matter.is_open
    matter.memory.claims[matter.key] = claim = replace(claim, exhausted=at_end)
    quiet = release is not None and quiet_ns is not None and matter.now_ns - quiet_ns >= release.after_s * NS_PER_S
    if step.setting == scale.loosest and quiet:
        return _loosen(matter, claim, claim.gpus, setting=None, reason=f"{reason}, and the symptom is gone")
    if step.setting == claim.strictest:
        return None
    return _loosen(matter, claim, claim.gpus, setting=step.setting, reason=reason)


def _ramp(matter: Matter, claim: Claim, scale: Scale) -> Decision | None:
    if claim.incident_id == FIRST_START and matter.is_open:
        matter.memory.claims[matter.key] = replace(claim, ramp_since_ns=matter.now_ns)
        return None
    others = [
        setting
        for other in matter.memory.claims.values()
        for gpu, setting in other.settings
        if other.ramp_since_ns is None and other.enforced and other.knob is claim.knob and gpu in claim.gpus
    ]
    target = scale.strictest_of(others, default=scale.loosest)
    step = ramped(claim, _rule(matter), scale=scale, target=target, now_ns=matter.now_ns)
    if step.over:
        return _loosen(matter, claim, claim.gpus, setting=None, reason=f"the start is over; {claim.knob.text(target)}")
    if step.setting is None:
        return None
    why = (
        "a job began and goes"
        if claim.incident_id != FIRST_START
        else "no supply path is waited for any more; the start goes"
    )
    return _loosen(matter, claim, claim.gpus, setting=step.setting, reason=f"{why} up in steps")


def _loosen(matter: Matter, claim: Claim, gpus: tuple[str, ...], *, setting: float | None, reason: str) -> Decision:
    verbs, memory = VERBS[claim.knob], matter.memory
    memory.watches[matter.key] = replace(matter.watch, refused=None)
    decision = matter.decide(
        verbs.release if setting is None else verbs.relax,
        gpus,
        reason=reason,
        setting=setting,
        knob=claim.knob,
        mode=Mode.ENFORCE,
        approval=use_approval(matter, verbs.relax),
    )
    memory.keep(matter.key, claim.relaxed(gpus, setting, decision_id=decision.id, now_ns=matter.now_ns), matter.now_ns)
    return decision


def _hold(
    matter: Matter,
    claim: Claim,
    scale: Scale,
    *,
    setting: float,
    reason: str,
    approval: Approval | None = None,
) -> Decision:
    """Put one setting on all GPUs of a claim and keep it."""
    safe = safe_setting(
        claim.bases,
        matter.incident,
        matter.node,
        scale=scale,
        hold_v=_rule(matter).hold_v,
        resistance_ratio=matter.limits.safe_resistance_ratio,
    )
    decision = matter.decide(
        VERBS[claim.knob].tighten,
        claim.gpus,
        reason=reason,
        setting=setting,
        knob=claim.knob,
        mode=claim.mode,
        approval=approval,
    )
    claim = replace(claim, safe=safe).tightened(setting, decision_id=decision.id, now_ns=matter.now_ns)
    matter.memory.claims[matter.key] = claim
    return decision


def starts_now(matter: Matter) -> bool:
    """Return whether a start ramp is due: a job has just begun, and no ramp for it has been made; or none ever did."""
    if matter.incident.id == FIRST_START:
        return True
    ended_ns = matter.memory.ended.get((matter.policy.id, matter.incident.entity_id))
    return ramping(matter.node, since_ns=ended_ns, now_ns=matter.now_ns)


def is_ramp(matter: Matter) -> bool:
    """Return whether the policy caps the start of jobs."""
    rule = matter.policy.then.setting
    return rule is not None and rule.ramp_from is not None


def _note_return(matter: Matter) -> None:
    """Count that the symptom came back."""
    most = matter.limits.cycles_per_day
    matter.memory.note_return(matter.policy.id, matter.incident.entity_id, matter.now_ns, most=most)


def _rule(matter: Matter) -> SettingRule:
    if matter.policy.then.setting is None:
        raise ValueError(f"{matter.policy.id} has nothing to set")
    return matter.policy.then.setting


def _unrestrained(matter: Matter, targets: Sequence[str], scale: Scale) -> float:
    """Return where GPUs stand without a claim: at their highest clock, which the settings on offer need not hold."""
    if scale.knob is not KnobKind.CLOCK:
        return scale.loosest
    return max(gpu.max_clock_mhz for name in targets if (gpu := matter.node.gpu(name)) is not None)
