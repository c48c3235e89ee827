"""Policies of the fleet from files; the cases of each run when it is loaded, and one that fails is refused."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from rules.fleet.engine import FleetEngine
from rules.fleet.memory import Awaited, FleetMemory
from rules.fleet.orders import FleetIncident, FleetView
from rules.fleet.policy import FLEET_ACTIONS, FleetCaseDocument, FleetPolicy, FleetPolicyDocument
from rules.limits.fleet import FleetLedger, FleetLimits
from rules.policy.loading import files_in, policy_problem, read_policy, taken_problem
from rules.policy.model import ActionClass, PolicyStatus
from telemetry.clock import NS_PER_S
from telemetry.documents import check_document
from telemetry.errors import ConfigError, Problem
from telemetry.records import Evidence, Finding, FindingStatus, Incident, IncidentState, Mode

# Arbitrary time of a case.
_AT_NS = 1_700_000_000 * NS_PER_S
_INCIDENT_ID = "i-case"


def load_fleet_policies(folders: Iterable[Path] = (), *, builtin: bool = True) -> tuple[FleetPolicy, ...]:
    """Load policies by name; one of a later folder replaces the one of its id, and in one folder no two share it.

    Raises
    ------
    ConfigError
        With every problem of every file.
    """
    own = (Path(__file__).parents[1] / "builtin_fleet",) if builtin else ()
    problems: list[Problem] = []
    found: dict[str, FleetPolicy] = {}
    for folder in (*own, *folders):
        try:
            files = files_in(folder)
        except ConfigError as err:
            problems.extend(err.problems)
            continue
        first_with: dict[str, str] = {}
        for path in files:
            try:
                policy, line = _load(path)
            except ConfigError as err:
                problems.extend(err.problems)
                continue
            if policy.id in first_with:
                problems.append(taken_problem(path, line, policy.id, first_with[policy.id]))
            first_with.setdefault(policy.id, str(path) if line is None else f"{path}:{line}")
            found[policy.id] = policy
    problems += _strangers(found.values())
    if problems:
        raise ConfigError(problems)
    return tuple(found.values())


def _strangers(policies: Collection[FleetPolicy]) -> Iterator[Problem]:
    """Yield the policies that come after one that never acts: no symptom check of it is made."""
    acting = {
        one.id
        for one in policies
        if one.then.action is not ActionClass.NOTIFY and one.status is not PolicyStatus.DEPRECATED
    }
    for policy in policies:
        others = acting - {policy.id}
        if policy.after is not None and policy.after not in others:
            expected = f"another one that acts: {', '.join(sorted(others)) or 'there is none'}"
            path = Path(policy.where)
            _, lines = read_policy(path)
            yield policy_problem(path, lines.get(("after",)), "after", f"got {policy.after!r}", expected)


def _load(path: Path) -> tuple[FleetPolicy, int | None]:
    data, lines = read_policy(path)
    document = check_document(FleetPolicyDocument, data, where=str(path), lines=lines)
    policy = document.policy(where=str(path))
    problems = []
    # A policy after itself never acts; that is reported instead of its failing cases.
    for number, case in enumerate(() if policy.after == policy.id else policy.cases):
        count = played(policy, case)
        if count != case.expect:
            line = lines.get(("cases", number))
            expected = f"it to act on {case.expect}: {case.name}"
            problems.append(policy_problem(path, line, f"cases[{number}]", f"acts on {count}", expected))
    if problems:
        raise ConfigError(problems)
    return policy, lines.get(("id",))


def played(policy: FleetPolicy, case: FleetCaseDocument) -> int:
    """Return on how many nodes a policy acts in a case, with default limits and all modes enforced."""
    memory = FleetMemory(ledger=FleetLedger(since_ns=0), shadow=FleetLedger(since_ns=0))
    limits = FleetLimits(modes=dict.fromkeys(FLEET_ACTIONS, Mode.ENFORCE))
    racks = {f"node{number:05d}": f"rack{number % case.racks}" for number in range(case.nodes)}
    engine = FleetEngine([replace(policy, status=PolicyStatus.STABLE)], limits, memory)  # a deprecated one is left out
    if policy.after is not None:  # which did not help
        went_before = Awaited(decision_id="case", due_ns=_AT_NS, before=None, helped=False)
        memory.awaited[policy.after, _INCIDENT_ID] = went_before
    met = FleetIncident(incident=_incident(case), nodes=tuple(racks))
    fleet = FleetView(racks=racks, reporting=frozenset(racks))
    engine.step([met], fleet, _AT_NS)
    engine.step([met], fleet, _AT_NS + round(policy.then.hold_s * NS_PER_S))
    began = sum(claim.policy_id == policy.id for claim in memory.claims.values())
    return began or len(memory.notified)


def _incident(case: FleetCaseDocument) -> Incident:
    entity_id = f"{case.incident.entity_kind}:it"
    finding = Finding(
        id="f",
        time_ns=_AT_NS,
        since_ns=_AT_NS,
        detector="case",
        cause=case.incident.cause,
        entity_id=entity_id,
        status=FindingStatus.RAISED,
        severity=case.incident.severity,
        score=1.0,
        summary=case.name,
        evidence=tuple(Evidence(name=name, value=value, unit="") for name, value in case.incident.numbers.items()),
    )
    return Incident(
        id=_INCIDENT_ID,
        time_ns=_AT_NS,
        opened_ns=_AT_NS,
        closed_ns=None,
        cause=case.incident.cause,
        entity_id=entity_id,
        affected=(entity_id,),
        state=IncidentState.OPEN,
        severity=case.incident.severity,
        impact_gpu_hours=0.0,
        summary=case.name,
        findings=(finding,),
    )
