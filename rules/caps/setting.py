"""Setting of a cap: predicted where the evidence allows it, a fraction of the present one elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from physics.node_state import MeasuredNode
from physics.supply_path import VoltageCap, highest_clock, highest_limit
from rules.caps.knobs import Scale
from rules.caps.shedding import shedding_clock
from rules.caps.supply_basis import SupplyBasis, bases_of, load_now, path_now, supply_findings
from rules.policy.model import SettingRule
from telemetry.entities import Topology
from telemetry.gpu import KnobKind
from telemetry.records import Incident


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChoice:
    """A setting and its reason; `setting` is None if no cap is needed."""

    setting: float | None
    reason: str
    bases: tuple[SupplyBasis, ...] = ()


def choose(
    rule: SettingRule,
    incident: Incident,
    node: MeasuredNode,
    *,
    targets: Sequence[str],
    topology: Topology,
    scale: Scale,
    in_force: float,
) -> SettingChoice:
    """Return the first setting of a cap; `in_force` is the strictest one on a target, or the loosest of all."""
    knob = scale.knob
    if rule.hold_v is None:
        return _without_voltage(
            rule, incident, node, targets=targets, topology=topology, scale=scale, in_force=in_force
        )
    hold_v = rule.hold_v
    bases, doubt = bases_of(incident, node, targets=targets, topology=topology)
    if bases:
        answer = predict(bases, incident, node, scale=scale, hold_v=hold_v)
        held_v = answer.limit_v
        if scale.stricter(answer.setting, in_force):
            reason = f"{describe(answer, knob)}{_by_coarse_meter(answer, bases, incident, node, scale=scale)}"
            return SettingChoice(setting=answer.setting, reason=reason, bases=bases)
        minimum_v = incident.number("minimum_v")
        if minimum_v is None:
            return SettingChoice(setting=None, reason=f"no dip below {held_v:.2f} V was seen, and none is predicted")
        if minimum_v >= held_v:
            return SettingChoice(setting=None, reason=_above(minimum_v, held_v))
        doubt = f"the evidence predicts no dip below {held_v:.2f} V, and there was one"
    elif (seen := _lowest_seen(incident, node, hold_v)) is not None and seen[0] >= seen[1]:
        return SettingChoice(setting=None, reason=f"{doubt}, and {_above(*seen)}")
    return _fallback(rule, scale, in_force, doubt)


def _by_coarse_meter(
    answer: VoltageCap, bases: Sequence[SupplyBasis], incident: Incident, node: MeasuredNode, *, scale: Scale
) -> str:
    """Return what the step of the board's meter costs, as the end of a reason; empty where no such meter decides."""
    step_v = max(basis.meter_step_v for basis in bases)
    if not step_v > 0.0:
        return ""
    higher = [
        replace(basis, path=replace(basis.path, open_circuit_v=basis.path.open_circuit_v + basis.meter_step_v))
        for basis in bases
    ]
    best = predict(higher, incident, node, scale=scale, hold_v=answer.limit_v / bases[0].limit_scale)
    steps = scale.settings.index(best.setting) - scale.settings.index(answer.setting)
    meter = f"the board rail is read in steps of up to {step_v:.2f} V"
    if not answer.holds:
        return f"; {meter}, and may be as much higher"
    if steps <= 0:
        return ""
    counted = "1 step" if steps == 1 else f"{steps} steps"
    return f"; {meter}: {scale.knob.label} chosen on the safe side by up to {counted}"


def _lowest_seen(incident: Incident, node: MeasuredNode, hold_v: float) -> tuple[float, float] | None:
    """Return lowest voltage and voltage to hold of the supply of the incident that is nearest to it.

    None unless the lowest voltage of each is known. That of the incident's evidence counts too: it may be older than
    the last seconds, by which the node is measured.
    """
    measured = [node.supply(finding.entity_id) for finding in supply_findings(incident)]
    minima = [
        (supply.minimum_v, supply.limit_scale * hold_v)
        for supply in measured
        if supply is not None and supply.minimum_v is not None
    ]
    if not minima or len(minima) < len(measured):
        return None
    minimum_v, held_v = min(minima, key=lambda one: one[0] - one[1])
    noted_v = incident.number("minimum_v")
    return (minimum_v if noted_v is None else min(minimum_v, noted_v)), held_v


def _above(minimum_v: float, held_v: float) -> str:
    return f"the lowest voltage of {minimum_v:.2f} V is above the {held_v:.2f} V to hold"


def _without_voltage(
    rule: SettingRule,
    incident: Incident,
    node: MeasuredNode,
    *,
    targets: Sequence[str],
    topology: Topology,
    scale: Scale,
    in_force: float,
) -> SettingChoice:
    """Return the setting of a rule that holds no voltage: fixed, a fraction, or what takes watts off the GPUs."""
    if rule.fixed is not None:
        text = scale.knob.text(rule.fixed)
        return SettingChoice(setting=scale.snap(rule.fixed), reason=f"fixed by the policy: {text}")
    if rule.fraction is not None:
        wanted = scale.fraction(in_force, rule.fraction)
        return SettingChoice(setting=scale.snap(wanted), reason=_share(rule.fraction, scale.knob, in_force))
    found = shedding_clock(rule.shed or "", incident, node, targets=targets, topology=topology, scale=scale)
    if found.clock_mhz is None:
        if found.is_needless:
            return SettingChoice(setting=None, reason=found.reason)
        return _fallback(rule, scale, in_force, found.reason)
    is_stricter = scale.stricter(found.clock_mhz, in_force)
    return SettingChoice(setting=found.clock_mhz if is_stricter else None, reason=found.reason)


def _fallback(rule: SettingRule, scale: Scale, in_force: float, doubt: str) -> SettingChoice:
    """Return a fraction of the setting in force, where the evidence does not allow a prediction."""
    setting = scale.snap(scale.fraction(in_force, rule.fallback))
    return SettingChoice(setting=setting, reason=f"{_share(rule.fallback, scale.knob, in_force)}: {doubt}")


def _share(fraction: float, knob: KnobKind, in_force: float) -> str:
    return f"{fraction:.0%} of the present {knob.label} of {knob.text(in_force)}"


def predict(
    bases: Sequence[SupplyBasis],
    incident: Incident,
    node: MeasuredNode,
    *,
    scale: Scale,
    hold_v: float,
    resistance_ratio: float = 1.0,
) -> VoltageCap:
    """Return the strictest prediction over the supplies, each at a multiple of its present resistance.

    `hold_v` is the voltage to hold at 12 V; a rail of another nominal voltage holds the same share of its own.
    """
    answers = []
    for basis in bases:
        limit_v = basis.limit_scale * hold_v
        path = path_now(basis, incident, node, resistance_ratio=resistance_ratio)
        load = load_now(basis, node)
        if scale.knob is KnobKind.POWER:
            answers.append(highest_limit(path, load, limit_v=limit_v, limits_w=scale.settings))
        else:
            answers.append(highest_clock(path, load, limit_v=limit_v, clocks_mhz=scale.settings))
    return min(answers, key=lambda answer: (answer.holds, answer.setting))


def safe_setting(
    bases: Sequence[SupplyBasis],
    incident: Incident,
    node: MeasuredNode,
    *,
    scale: Scale,
    hold_v: float | None,
    resistance_ratio: float,
) -> float | None:
    """Return the setting that holds even if the source is worse than estimated; None without a prediction."""
    if not bases or hold_v is None:
        return None
    return predict(bases, incident, node, scale=scale, hold_v=hold_v, resistance_ratio=resistance_ratio).setting


def describe(answer: VoltageCap, knob: KnobKind) -> str:
    """Return a prediction as a phrase."""
    hold_v = answer.limit_v
    what = "worst dip" if knob is KnobKind.CLOCK else "plateau"
    if answer.holds:
        return f"{knob.text(answer.setting)}: highest {knob.label} that holds {hold_v:.2f} V in the {what}"
    return f"not even {knob.text(answer.setting)}, the lowest {knob.label} allowed, is predicted to hold {hold_v:.2f} V"
