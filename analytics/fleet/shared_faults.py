"""The common-mode rule over nodes: nodes that deviate together point to the feed or the air that they share.

A node measures itself alone. Only a view of several shows that two of them sagged at the same time, and that those on
another feed did not.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from analytics.connectivity import Kinship
from analytics.connectivity.kinship import ByIdentity
from analytics.detectors.statements import evidence, finding_id
from analytics.incidents.families import finding_key
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.records import Cause, Finding, FindingStatus, Severity

NAME = "common_mode"
# A condition without a report for so long has lost its node. heuristic: an hour, as long as a repair takes.
_FORGET_NS = 3600 * NS_PER_S
_LEAST_NODES, _MOST = 2, 0.5
_MAX_NAMES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFault:
    """Kind of shared fault: the causes that follow from it, its own cause, and how far apart they may begin."""

    kind: EntityKind
    follows: frozenset[Cause]
    cause: Cause
    together_ns: int
    text: str


# What the mains do reaches all supplies within a cycle; heuristic: nodes see it within seconds, each after its own
# hold, and one that is read every ten seconds still counts. Air that fails warms one node after the other: heuristic.
SHARED_FAULTS: tuple[SharedFault, ...] = (
    SharedFault(
        kind=EntityKind.SUPPLY,
        follows=frozenset({Cause.INPUT_SAG, Cause.SUPPLY_SAG, Cause.SUPPLY_LOST, Cause.POWER_BRAKE}),
        cause=Cause.INPUT_SAG,
        together_ns=30 * NS_PER_S,
        text="sag or lose power",
    ),
    SharedFault(
        kind=EntityKind.FAN,
        follows=frozenset({Cause.AIRFLOW, Cause.THERMAL_MARGIN}),
        cause=Cause.AIRFLOW,
        together_ns=600 * NS_PER_S,
        text="run warm",
    ),
)


# By cause: the signals on which a node shows it. One that has none of them is no witness that nothing happened there.
SHOWN_BY: dict[Cause, tuple[tuple[EntityKind, str], ...]] = {
    Cause.INPUT_SAG: ((EntityKind.SUPPLY, "voltage_v"),),
    Cause.SUPPLY_SAG: ((EntityKind.SUPPLY, "voltage_v"),),
    Cause.SUPPLY_LOST: ((EntityKind.SUPPLY, "voltage_v"),),
    Cause.POWER_BRAKE: ((EntityKind.GPU, "throttle_reasons"),),
    Cause.AIRFLOW: ((EntityKind.NODE, "inlet_temp_c"), (EntityKind.GPU, "gpu_temp_c"), (EntityKind.FAN, "fan_rpm")),
    Cause.THERMAL_MARGIN: ((EntityKind.GPU, "gpu_temp_c"),),
}
_FOLLOWS = {str(shared.kind): shared.follows for shared in SHARED_FAULTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDeviation:
    """Active condition on one node, by the key of its finding."""

    key: str
    node: str
    cause: Cause
    severity: Severity
    since_ns: int
    time_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonMode:
    """Conditions on nodes that could come from above, and the findings on the entities above."""

    deviations: tuple[NodeDeviation, ...] = ()
    reported: tuple[Finding, ...] = ()

    def step(
        self, findings: Iterable[Finding], now_ns: int, kinship: Kinship, *, seen: Mapping[Cause, frozenset[str]]
    ) -> tuple["CommonMode", tuple[Finding, ...]]:
        """Process findings on parts of nodes; return findings on feeds and racks.

        `seen` are by cause the nodes that would show it now: a silent one is no witness.
        """
        after = self._after(findings, now_ns, kinship)
        reported = {one.entity_id: one for one in self.reported}
        news: list[Finding] = []
        for shared in SHARED_FAULTS:
            for above, group, n_nodes in _groups(after, shared, kinship, seen):
                before = reported.get(above)
                made = _worded(above, shared, group, n_nodes, before, now_ns=now_ns, kinship=kinship)
                if before is None or made.number("nodes") != before.number("nodes"):
                    reported[above] = made
                    news.append(made)
        for above, one in tuple(reported.items()):
            still = {other.node for other in after if other.cause in _FOLLOWS[above.partition(":")[0]]}
            if len(still & _nodes_under(above, kinship)) < _LEAST_NODES:
                del reported[above]
                news.append(_over(one, now_ns, kinship))
        return CommonMode(deviations=after, reported=tuple(reported.values())), tuple(news)

    def explained(self, kinship: Kinship) -> dict[str, tuple[tuple[frozenset[str], int], ...]]:
        """Return by node what the entities above it explain: causes that follow, and their earliest begin."""
        found: dict[str, tuple[tuple[frozenset[str], int], ...]] = {}
        for one in self.reported:
            shared = next(shared for shared in SHARED_FAULTS if one.entity_id.startswith(f"{shared.kind}:"))
            causes, since_ns = frozenset(cause.value for cause in shared.follows), one.since_ns - shared.together_ns
            for node in _nodes_under(one.entity_id, kinship):
                found[node] = (*found.get(node, ()), (causes, since_ns))
        return found

    def _after(self, findings: Iterable[Finding], now_ns: int, kinship: Kinship) -> tuple[NodeDeviation, ...]:
        holds = {one.key: one for one in self.deviations if now_ns - one.time_ns <= _FORGET_NS}
        for finding in sorted(findings, key=lambda one: one.time_ns):
            key = finding_key(finding)
            if finding.status is FindingStatus.CLEARED:
                holds.pop(key, None)
            elif any(finding.cause in shared.follows for shared in SHARED_FAULTS):
                holds[key] = NodeDeviation(
                    key=key,
                    node=kinship.top(finding.entity_id).partition(":")[2],
                    cause=finding.cause,
                    severity=finding.severity,
                    since_ns=finding.since_ns,
                    time_ns=finding.time_ns,
                )
        return tuple(holds.values())


def _groups(
    deviations: Sequence[NodeDeviation], shared: SharedFault, kinship: Kinship, shown: Mapping[Cause, frozenset[str]]
) -> Iterator[tuple[str, list[NodeDeviation], int]]:
    """Yield the entity above several nodes that began together, those nodes, and the number of its nodes with data.

    Most of the nodes under it must have begun, and twice the share of the others with data: what happens
    everywhere alike is no fault of one feed.
    """
    own = [one for one in deviations if one.cause in shared.follows]
    if len({one.node for one in own}) < _LEAST_NODES:
        return
    seen = frozenset[str]().union(*(shown.get(one.cause, frozenset()) for one in own))
    candidates = {above for one in own for above in _above(one.node, shared.kind, kinship)}
    for above in sorted(candidates):
        under = _nodes_under(above, kinship)
        group = _together([one for one in own if one.node in under], shared.together_ns)
        nodes, witnesses = {one.node for one in group}, seen & under | {one.node for one in group}
        others = seen - under
        elsewhere = len({one.node for one in own} & others) / len(others) if others else 0.0
        share = len(nodes) / max(len(witnesses), 1)
        if len(nodes) >= _LEAST_NODES and share > _MOST and share >= 2 * elsewhere:
            yield above, group, len(witnesses)


def _together(deviations: Sequence[NodeDeviation], together_ns: int) -> list[NodeDeviation]:
    """Return the largest run that began within one window, the earliest of equals; one a node."""
    ordered = sorted(deviations, key=lambda one: (one.since_ns, one.key))
    counts: Counter[str] = Counter()
    begin, best = 0, (0, 0, 0)
    for end, last in enumerate(ordered):
        counts[last.node] += 1
        while last.since_ns - ordered[begin].since_ns > together_ns:
            first = ordered[begin].node
            counts[first] -= 1
            if not counts[first]:
                del counts[first]
            begin += 1
        if len(counts) > best[0]:
            best = len(counts), begin, end + 1
    run: dict[str, NodeDeviation] = {}
    for one in ordered[best[1] : best[2]]:
        run.setdefault(one.node, one)
    return list(run.values())


def _above(node: str, kind: EntityKind, kinship: Kinship) -> set[str]:
    """Return the entities of a kind above a node or above its parts, which are no parts of it."""
    node_id = f"{EntityKind.NODE}:{node}"
    below = kinship.descendants(node_id)
    lines = kinship.ancestors(node_id).union(*(kinship.ancestors(one) for one in below if one.startswith("supply:")))
    return {one for one in lines if one.startswith(f"{kind}:") and one not in below}


def _nodes_under(above: str, kinship: Kinship) -> frozenset[str]:
    return nodes_under(above, ByIdentity(kinship))


@lru_cache(maxsize=1024)
def nodes_under(entity_id: str, kinship: ByIdentity[Kinship]) -> frozenset[str]:
    """Return the nodes that an entity feeds, cools or is part of, by name; none for an unknown entity."""
    if not kinship.it.knows(entity_id):
        return frozenset()
    prefix = f"{EntityKind.NODE}:"
    top = kinship.it.top(entity_id)
    tops = {top} if top.startswith(prefix) else {kinship.it.top(one) for one in kinship.it.descendants(entity_id)}
    return frozenset(one.removeprefix(prefix) for one in tops if one.startswith(prefix))


def _worded(
    above: str,
    shared: SharedFault,
    group: Sequence[NodeDeviation],
    n_nodes: int,
    before: Finding | None,
    *,
    now_ns: int,
    kinship: Kinship,
) -> Finding:
    first, last = min(one.since_ns for one in group), max(one.since_ns for one in group)
    since_ns = first if before is None else before.since_ns
    names = sorted(one.node for one in group)
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    apart_s = (last - first) / NS_PER_S
    return Finding(
        id=finding_id(NAME, above, since_ns),
        time_ns=now_ns,
        since_ns=since_ns,
        detector=NAME,
        cause=shared.cause,
        entity_id=above,
        status=FindingStatus.RAISED if before is None else FindingStatus.UPDATED,
        severity=max((one.severity for one in group), key=lambda one: one.rank),
        score=len(names) / n_nodes,
        summary=(
            f"{len(names)} of {n_nodes} nodes on {kinship.label(above)} {shared.text} within {apart_s:.0f} s: "
            f"{', '.join(names[:_MAX_NAMES])}{more}"
        ),
        evidence=evidence(("nodes", len(names), ""), ("of_nodes", n_nodes, ""), ("apart_s", apart_s, "s")),
    )


def _over(reported: Finding, now_ns: int, kinship: Kinship) -> Finding:
    text = f"fewer than {_LEAST_NODES} nodes on {kinship.label(reported.entity_id)} deviate"
    return replace(reported, time_ns=now_ns, status=FindingStatus.CLEARED, summary=text)
