"""Policies of the fleet from files; each one's cases are played when it is loaded, and one that fails is refused."""

from collections.abc import Iterable
from pathlib import Path

from rules.fleet_engine import FleetEngine
from rules.fleet_memory import FleetMemory
from rules.fleet_orders import FleetIncident, FleetView
from rules.fleet_policy import FLEET_ACTIONS, FleetCase, FleetPolicy, FleetPolicyDocument
from rules.fleet_rails import FleetLedger, FleetRails
from rules.policy_files import files_in, policy_problem, read_policy
from telemetry.clock import NS_PER_S
from telemetry.documents import check_document
from telemetry.errors import ConfigError, Problem
from telemetry.records import Evidence, Finding, FindingStatus, Incident, IncidentState, Mode

# A case plays at some moment; which one does not matter.
_AT_NS = 1_700_000_000 * NS_PER_S


def load_fleet_policies(folders: Iterable[Path] = (), *, builtin: bool = True) -> tuple[FleetPolicy, ...]:
    """Load policies by name; one of a later folder replaces the one of its id.

    Raises
    ------
    ConfigError
        With every problem of every file.
    """
    own = (Path(__file__).parent / "builtin_fleet",) if builtin else ()
    problems: list[Problem] = []
    found: dict[str, FleetPolicy] = {}
    for folder in (*own, *folders):
        try:
            files = files_in(folder)
        except ConfigError as err:
            problems.extend(err.problems)
            continue
        for path in files:
            try:
                policy = _load(path)
            except ConfigError as err:
                problems.extend(err.problems)
            else:
                found[policy.id] = policy
    strangers = [policy for policy in found.values() if policy.after is not None and policy.after not in found]
    problems += [
        policy_problem(Path(policy.where), None, "after", f"got {policy.after!r}", f"one of {', '.join(sorted(found))}")
        for policy in strangers
    ]
    if problems:
        raise ConfigError(problems)
    return tuple(found.values())


def _load(path: Path) -> FleetPolicy:
    _, data, lines = read_policy(path)
    document = check_document(FleetPolicyDocument, data, where=str(path), lines=lines)
    policy = document.policy(where=str(path))
    problems = []
    for number, case in enumerate(policy.cases):
        count = played(policy, case)
        if count != case.expect:
            line = lines.get(("cases", number))
            expected = f"it to act on {case.expect}: {case.name}"
            problems.append(policy_problem(path, line, f"cases[{number}]", f"acts on {count}", expected))
    if problems:
        raise ConfigError(problems)
    return policy


def played(policy: FleetPolicy, case: FleetCase) -> int:
    """Give on how many nodes a policy acts in a case, with the rails as they are by default and all modes enforced."""
    memory = FleetMemory(ledger=FleetLedger(since_ns=0), shadow=FleetLedger(since_ns=0))
    rails = FleetRails(modes=dict.fromkeys(FLEET_ACTIONS, Mode.ENFORCE))
    racks = {f"node{number:05d}": f"rack{number % case.racks}" for number in range(case.nodes)}
    engine = FleetEngine([policy], rails, memory)
    if policy.after is not None:
        return case.expect  # what went before is another policy's
    met = FleetIncident(incident=_incident(case), nodes=tuple(racks))
    fleet = FleetView(racks=racks, heard=frozenset(racks))
    engine.step([met], fleet, _AT_NS)
    engine.step([met], fleet, _AT_NS + round(policy.then.hold_s * NS_PER_S))
    began = sum(claim.policy_id == policy.id for claim in memory.claims.values())
    return began or len(memory.told)


def _incident(case: FleetCase) -> Incident:
    entity_id = f"{case.entity_kind}:it"
    finding = Finding(
        id="f",
        time_ns=_AT_NS,
        since_ns=_AT_NS,
        detector="case",
        cause=case.cause,
        entity_id=entity_id,
        status=FindingStatus.RAISED,
        severity=case.severity,
        score=1.0,
        summary=case.name,
        evidence=tuple(Evidence(name=name, value=value, unit="") for name, value in case.numbers),
    )
    return Incident(
        id="i-case",
        time_ns=_AT_NS,
        opened_ns=_AT_NS,
        closed_ns=None,
        cause=case.cause,
        entity_id=entity_id,
        affected=(entity_id,),
        state=IncidentState.OPEN,
        severity=case.severity,
        impact_gpu_hours=0.0,
        summary=case.name,
        findings=(finding,),
    )
