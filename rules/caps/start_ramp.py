"""Start ramp: while a supply is weak or not yet measured, the GPUs of a starting job go up in steps.

Until the supply path of a node has been measured under load, an incident of its own keeps ramps in force.
"""

from dataclasses import dataclass, replace

from physics.node_state import MeasuredNode, MeasuredSupply
from rules.caps.knobs import Scale
from rules.engine.claims import CapClaim
from rules.engine.memory import Memory
from rules.limits.node import NodeLimits, UnmeasuredStart
from rules.policy.model import Policy, SettingRule
from telemetry.clock import NS_PER_S
from telemetry.records import Cause, Incident, IncidentState, Severity

# heuristic: eight steps of a twentieth of the clock each, a load step of some per cent at a time.
STEPS = 8
# heuristic: a job that has run for longer has already drawn its full power.
BEGAN_WITHIN_S = 10.0
FIRST_START = "first-start"
# heuristic: swing of a current that distinguishes a job from other load of a node, the share that the power of GPUs
# needs as well (`supply_basis`).
STEP_RATIO_MIN = 0.2
# A supply that is read too seldom has no minimum of three seconds and can never be measured: no start waits for it.
# heuristic: three of these windows, the first of which begins with the cap.
GIVE_UP_AFTER_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RampStep:
    """The next setting, None if it is not due; `over` is True at the end of the ramp."""

    setting: float | None = None
    over: bool = False


def ramping(node: MeasuredNode, *, since_ns: int | None, now_ns: int) -> bool:
    """Return True if a job began in the last seconds and after the last ramp ended."""
    began_ns = node.job_started_ns
    if began_ns is None or not 0 <= now_ns - began_ns < BEGAN_WITHIN_S * NS_PER_S:
        return False
    return since_ns is None or began_ns > since_ns


def ramped(claim: CapClaim, rule: SettingRule, *, scale: Scale, target: float, now_ns: int) -> RampStep:
    """Return the step of a ramp: linear from its first setting to the target, in equal steps."""
    if claim.ramp_since_ns is None or rule.ramp_from is None:
        raise ValueError("no start ramp")
    done = min((now_ns - claim.ramp_since_ns) / (rule.ramp_s * NS_PER_S), 1.0)
    start = scale.snap(rule.ramp_from * scale.loosest)
    wanted = start + (target - start) * int(done * STEPS) / STEPS
    setting = scale.snap(wanted)
    if done >= 1.0 or not scale.stricter(start, target):
        return RampStep(over=True)
    return RampStep(setting=setting if scale.stricter(claim.strictest, setting) else None)


def watch_first_start(memory: Memory, node: MeasuredNode, limits: NodeLimits, now_ns: int) -> None:
    """Keep the incident of the first start until the path has been measured."""
    standing = memory.incidents.get(FIRST_START)
    ramps = limits.unmeasured_start is not UnmeasuredStart.FULL
    if ramps and not memory.path_measured:
        memory.path_measured = _is_over(memory, node.supplies, waits=standing is not None, now_ns=now_ns)
    if not ramps or memory.path_measured:
        if standing is not None and standing.state is not IncidentState.CLOSED:
            memory.incidents[FIRST_START] = replace(standing, state=IncidentState.CLOSED, closed_ns=now_ns)
    elif standing is None and node.supplies and node.gpus:
        memory.incidents[FIRST_START] = _incident(tuple(one.entity_id for one in node.supplies), now_ns)


def concerns(policy: Policy, incident: Incident) -> bool:
    """Return True if a policy applies to an incident; only start ramps apply to a first start."""
    rule = policy.then.setting
    return incident.id != FIRST_START or (rule is not None and rule.ramp_from is not None)


def _is_over(memory: Memory, supplies: tuple[MeasuredSupply, ...], *, waits: bool, now_ns: int) -> bool:
    """Return True once every path that can be measured was, while its load stepped; or if none can be.

    A supply whose voltage was read once can be measured: a sensor that is silent now, as after every change of a clock,
    does not end the wait. For one that was never read the wait is short, and starts again with every run.
    """
    since_ns = memory.waiting_since_ns
    if not waits or since_ns is None or since_ns > now_ns:  # the last if the clock was set back
        since_ns = memory.waiting_since_ns = now_ns
    memory.paths_read |= {one.entity_id for one in supplies if one.minimum_v is not None}
    readable = [one for one in supplies if one.entity_id in memory.paths_read]
    if not supplies and memory.paths_read:
        return False
    if (not supplies or len(readable) < len(supplies)) and now_ns - since_ns < GIVE_UP_AFTER_S * NS_PER_S:
        return False
    return all(_is_measured(one) for one in readable)


def _is_measured(supply: MeasuredSupply) -> bool:
    high_a, low_a = supply.current_high_a, supply.current_low_a
    if supply.source_resistance_ohm is None or high_a is None or low_a is None:
        return False
    return high_a - low_a >= STEP_RATIO_MIN * high_a


def _incident(supplies: tuple[str, ...], now_ns: int) -> Incident:
    return Incident(
        id=FIRST_START,
        time_ns=now_ns,
        opened_ns=now_ns,
        closed_ns=None,
        cause=Cause.SUPPLY_OVERLOAD,  # assumed until it is measured
        entity_id=supplies[0],
        affected=supplies,
        state=IncidentState.OPEN,
        severity=Severity.INFO,
        impact_gpu_hours=0.0,
        summary="supply path not yet measured under load: treated as weak",
        findings=(),
    )
