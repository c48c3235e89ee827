"""From an incident's evidence to a clock: the prediction where the evidence allows it, a fraction where it does not.

The load that a supply carried is taken once, when the cap is first set, because a capped GPU no longer shows what it
would draw. The source, open-circuit voltage and resistance, is taken anew at every step: it is what ages.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rules.clock_for_voltage import GpuLoad, SupplyLoad, SupplyPath, VoltageCap, highest_clock
from rules.node import GpuState, NodeState
from rules.policy import ClockRule
from rules.targets import at_or_below, gpus_of_supply, kind_of, supplies_of_gpu
from telemetry.entities import EntityKind, Topology
from telemetry.records import Finding, FindingStatus, Incident

# Below this part of their power, the GPUs' swing says nothing of how supplies share it. Own choice.
SWING_RATIO_MIN = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyBasis:
    """One supply as it was when the cap was first set."""

    entity_id: str
    path: SupplyPath
    load: SupplyLoad


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A clock and why; `clock_mhz` is None where there is nothing to cap."""

    clock_mhz: float | None
    reason: str
    bases: tuple[SupplyBasis, ...] = ()


def choose_clock(
    rule: ClockRule,
    incident: Incident,
    node: NodeState,
    *,
    targets: Sequence[str],
    topology: Topology,
    clocks_mhz: Sequence[float],
    in_force_mhz: float,
) -> Choice:
    """Choose the first cap of a claim; `in_force_mhz` is the lowest cap on a target, or its highest clock."""
    if rule.mhz is not None:
        clock_mhz = at_or_below(clocks_mhz, rule.mhz)
        return Choice(clock_mhz=clock_mhz, reason=f"the policy asks for {rule.mhz:g} MHz")
    if rule.fraction is not None:
        clock_mhz = at_or_below(clocks_mhz, rule.fraction * in_force_mhz)
        return Choice(clock_mhz=clock_mhz, reason=f"{rule.fraction:g} of {in_force_mhz:g} MHz")
    hold_v = rule.hold_v if rule.hold_v is not None else 0.0
    bases, doubt = bases_of(incident, node, targets=targets, topology=topology)
    if bases:
        answer = voltage_cap(bases, incident, node, clocks_mhz=clocks_mhz, hold_v=hold_v)
        if answer.clock_mhz < in_force_mhz:
            return Choice(clock_mhz=answer.clock_mhz, reason=describe(answer, hold_v), bases=bases)
        minimum_v = incident.number("minimum_v")
        if minimum_v is not None and minimum_v >= hold_v:
            reason = f"the lowest voltage of {minimum_v:.2f} V stands above the {hold_v:.2f} V to hold"
            return Choice(clock_mhz=None, reason=reason)
        doubt = f"the evidence predicts no dip below {hold_v:.2f} V, and there was one"
    clock_mhz = at_or_below(clocks_mhz, rule.fallback * in_force_mhz)
    return Choice(clock_mhz=clock_mhz, reason=f"{rule.fallback:g} of {in_force_mhz:g} MHz, for {doubt}", bases=bases)


def bases_of(
    incident: Incident, node: NodeState, *, targets: Sequence[str], topology: Topology
) -> tuple[tuple[SupplyBasis, ...], str]:
    """Give what each supply of the incident carried; where that cannot be told, nothing and the reason in words."""
    bases = []
    doubt = "no finding names a supply"
    for finding in supply_findings(incident):
        basis, reason = _basis(finding, node, targets=targets, topology=topology)
        if basis is None:
            doubt = reason
        else:
            bases.append(basis)
    return tuple(bases), doubt


def supply_findings(incident: Incident) -> tuple[Finding, ...]:
    """Give the newest finding of each supply, those that are cleared left out."""
    newest: dict[str, Finding] = {}
    for finding in sorted(incident.findings, key=lambda item: item.time_ns):
        if kind_of(finding.entity_id) == EntityKind.SUPPLY and finding.status is not FindingStatus.CLEARED:
            newest[finding.entity_id] = finding
    return tuple(newest.values())


def voltage_cap(
    bases: Sequence[SupplyBasis],
    incident: Incident,
    node: NodeState,
    *,
    clocks_mhz: Sequence[float],
    hold_v: float,
    resistance_ratio: float = 1.0,
) -> VoltageCap:
    """Give the strictest answer over the supplies, each with its present source at a multiple of its resistance."""
    findings = {finding.entity_id: finding for finding in supply_findings(incident)}
    answers = []
    for basis in bases:
        source = _source(findings.get(basis.entity_id), node, basis.entity_id)
        open_circuit_v, resistance_ohm = source or (basis.path.open_circuit_v, basis.path.source_resistance_ohm)
        path = SupplyPath(
            open_circuit_v=open_circuit_v,
            source_resistance_ohm=resistance_ratio * resistance_ohm,
            transient_ohm=basis.path.transient_ohm,
        )
        answers.append(highest_clock(path, basis.load, limit_v=hold_v, clocks_mhz=clocks_mhz))
    return min(answers, key=lambda answer: (answer.holds, answer.clock_mhz))


def safe_clock(
    bases: Sequence[SupplyBasis],
    incident: Incident,
    node: NodeState,
    *,
    clocks_mhz: Sequence[float],
    hold_v: float | None,
    resistance_ratio: float,
) -> float | None:
    """Give the clock that holds even if the source is worse than it seems; None where nothing can be predicted."""
    if not bases or hold_v is None:
        return None
    answer = voltage_cap(bases, incident, node, clocks_mhz=clocks_mhz, hold_v=hold_v, resistance_ratio=resistance_ratio)
    return answer.clock_mhz


def describe(answer: VoltageCap, hold_v: float) -> str:
    """Say what the prediction says."""
    if answer.holds:
        return (
            f"{answer.clock_mhz:g} MHz is the highest clock at which the worst dip stays above {hold_v:.2f} V "
            f"(predicted {answer.predicted_v:.2f} V)"
        )
    return f"not even {answer.clock_mhz:g} MHz, the lowest clock allowed, is predicted to hold {hold_v:.2f} V"


def _basis(
    finding: Finding, node: NodeState, *, targets: Sequence[str], topology: Topology
) -> tuple[SupplyBasis | None, str]:
    source = _source(finding, node, finding.entity_id)
    high_a, low_a = _currents(finding, node)
    if source is None:
        return None, f"the source resistance of {finding.entity_id} is not known"
    if high_a is None:
        return None, f"the current of {finding.entity_id} is not known"
    open_circuit_v, resistance_ohm = source
    fed_ids = gpus_of_supply(finding.entity_id, topology) or tuple(gpu.entity_id for gpu in node.gpus)
    fed = [gpu for gpu in node.gpus if gpu.entity_id in fed_ids]
    capped = [known for gpu in fed if gpu.entity_id in targets and (known := _load(gpu)) is not None]
    if not capped or len(capped) < sum(gpu.entity_id in targets for gpu in fed):
        return None, "the power of the GPUs under load is not known"
    low_a = high_a if low_a is None else min(low_a, high_a)
    high_w = high_a * (open_circuit_v - resistance_ohm * high_a)
    low_w = low_a * (open_circuit_v - resistance_ohm * low_a)
    if not high_w > 0.0:
        return None, f"open-circuit voltage, resistance and current of {finding.entity_id} do not fit together"
    supplies = max(len(supplies_of_gpu(fed[0].entity_id, topology)), 1)
    share = _share(high_w - low_w, high_w, [known for gpu in fed if (known := _load(gpu)) is not None], supplies)
    path = SupplyPath(
        open_circuit_v=open_circuit_v,
        source_resistance_ohm=resistance_ohm,
        transient_ohm=_transient_ohm(finding, open_circuit_v - resistance_ohm * high_a, high_a - low_a),
    )
    load = SupplyLoad(power_high_w=high_w, power_low_w=low_w, share_ratio=share, gpus=tuple(capped))
    return SupplyBasis(entity_id=finding.entity_id, path=path, load=load), ""


def _source(finding: Finding | None, node: NodeState, supply_id: str) -> tuple[float, float] | None:
    """Give open-circuit voltage and resistance: as measured now, else as found, on the safe side of their bounds."""
    live = node.supply(supply_id)
    if live is not None and live.open_circuit_v is not None and live.source_resistance_ohm is not None:
        found: tuple[float | None, float | None] = (live.open_circuit_v, live.source_resistance_ohm)
    elif finding is not None:
        found = (
            _first(finding, "open_circuit_low_v", "open_circuit_v"),
            _first(finding, "source_resistance_high_ohm", "source_resistance_ohm"),
        )
    else:
        return None
    open_circuit_v, resistance_ohm = found
    if open_circuit_v is None or resistance_ohm is None or not (open_circuit_v > 0.0 and resistance_ohm > 0.0):
        return None
    return open_circuit_v, resistance_ohm


def _currents(finding: Finding, node: NodeState) -> tuple[float | None, float | None]:
    """Give the currents of the high and the low phase: as measured now, else as found."""
    live = node.supply(finding.entity_id)
    if live is not None and live.current_high_a is not None:
        return live.current_high_a, live.current_low_a
    return finding.number("current_high_a"), finding.number("current_low_a")


def _first(finding: Finding, *names: str) -> float | None:
    return next((value for name in names if (value := finding.number(name)) is not None), None)


def _load(gpu: GpuState) -> GpuLoad | None:
    if gpu.power_high_w is None or not gpu.power_high_w > 0.0:
        return None
    low_w = gpu.power_high_w if gpu.power_low_w is None else min(gpu.power_low_w, gpu.power_high_w)
    clock_mhz = gpu.clock_mhz if gpu.clock_mhz is not None and gpu.clock_mhz > 0.0 else gpu.max_clock_mhz
    return GpuLoad(
        max_clock_mhz=gpu.max_clock_mhz,
        clock_mhz=min(clock_mhz, gpu.max_clock_mhz),
        power_high_w=gpu.power_high_w,
        power_low_w=low_w,
    )


def _share(swing_w: float, high_w: float, gpus: Sequence[GpuLoad], supplies: int) -> float:
    """Give the part of the GPUs' swing that the supply felt; an even share where the swing is too small to tell."""
    gpu_high_w = sum(gpu.power_high_w for gpu in gpus)
    gpu_swing_w = gpu_high_w - sum(gpu.power_low_w for gpu in gpus)
    even = 1.0 / supplies
    share = swing_w / gpu_swing_w if gpu_swing_w > SWING_RATIO_MIN * gpu_high_w else even
    if share < 0.5 * even:  # the two were not measured over the same load
        share = even
    return min(share, 1.0, high_w / gpu_high_w)


def _transient_ohm(finding: Finding, plateau_v: float, step_a: float) -> float:
    """Give the extra drop per ampere of a step: as found, else from the lowest voltage seen under the plateau's."""
    named = finding.number("transient_impedance_ohm")
    minimum_v = finding.number("minimum_v")
    if named is not None:
        return max(named, 0.0)
    if minimum_v is None or step_a < 1.0:
        return 0.0
    return max((plateau_v - minimum_v) / step_a, 0.0)
