"""A node of Kubernetes taken out and given back: cordon and taint, and on request the eviction of its pods."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from agent.responding.kubernetes_api import BlockedError, ConflictError, NodeView, Pod, Taint
from agent.responding.port import EvictionProgress, Held, SwitchState
from agent.responding.rate_limit import RateLimit
from telemetry.clock import Clock
from telemetry.errors import ActionRefusedError

TAINT = "railwatch.io/incident"
# What marks a cordon as ours. Without it the node is somebody else's: whoever takes the mark away keeps the cordon.
MARK = "railwatch.io/token"
REASON = "railwatch.io/reason"
NO_SCHEDULE = "NoSchedule"
# Heuristic: a kubelet writes its node every ten seconds at most, so that a second conflict in a row is rare.
_TRIES = 5
_PAUSE_S = 0.2
# Heuristic: what a person reads in a table.
_REASON_MAX = 200


class Cluster(Protocol):
    """What is asked of an API server."""

    def node(self, name: str) -> NodeView:
        """Return a node as it is now."""
        ...

    def change_node(
        self,
        seen: NodeView,
        *,
        unschedulable: bool | None,
        taints: tuple[Taint, ...],
        annotations: Mapping[str, str | None],
    ) -> None:
        """Change a node as it was seen; ConflictError where it is no longer so."""
        ...

    def pods(self, node: str) -> tuple[Pod, ...]:
        """Return every pod of a node."""
        ...

    def evict(self, pod: Pod, *, grace_s: int | None) -> None:
        """Ask for the eviction of one pod; BlockedError where a budget forbids it now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionSettings:
    """How pods are evicted.

    Parameters
    ----------
    within_s
        How long it is tried; what is there then is told and stays.
    grace_s
        Time that a pod gets to end; None leaves it to the pod.
    """

    within_s: float = 120.0
    grace_s: int | None = None


class KubernetesDrain:
    """The switch of one node: cordoned and tainted with our mark, or not.

    A node that a person cordoned is left alone. A change is only written onto the node as it was read, so that nothing
    which somebody else writes meanwhile is lost.

    Parameters
    ----------
    eviction
        How the pods of a node that is out are evicted; None leaves them.
    pace
        How often one may be evicted.
    """

    name = "kubernetes_drain"

    def __init__(
        self,
        cluster: Cluster,
        *,
        clock: Clock,
        eviction: EvictionSettings | None = None,
        pace: RateLimit | None = None,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._eviction = eviction
        self._pace = RateLimit() if pace is None else pace

    @property
    def empty_within_s(self) -> float:
        """How long pods are asked to end."""
        return 0.0 if self._eviction is None else self._eviction.within_s

    def read(self, target: str) -> SwitchState:
        """Return who has taken the node out."""
        return switch_state_of(self._cluster.node(target))

    def engage(self, target: str, *, token: str, reason: str) -> None:
        """Cordon and taint the node."""
        self._change(target, lambda node: self._take(node, token, reason))

    def empty(self, target: str) -> EvictionProgress:
        """Evict its pods, where that is asked for.

        Pods of DaemonSets, mirror pods and what has ended are none of it. A pod that nothing would start anew is left
        where it is, and told.
        """
        if self._eviction is None:
            return EvictionProgress(left=(), waits=False)
        pods = [pod for pod in self._cluster.pods(target) if pod.works]
        left = tuple(f"{pod.words}: {self._evicted(pod, self._eviction)}" for pod in pods)
        return EvictionProgress(left=left, waits=any(pod.controller or pod.leaving for pod in pods))

    def _evicted(self, pod: Pod, eviction: EvictionSettings) -> str:
        if pod.leaving:
            return "ending"
        if not pod.controller:
            return "nothing would start it anew"
        if self._pace.take(self._clock.monotonic_s()):
            return "not asked yet"
        try:
            self._cluster.evict(pod, grace_s=eviction.grace_s)
        except BlockedError as err:
            return str(err)
        return "asked to end"

    def release(self, target: str, *, token: str) -> None:
        """Take mark, taint and cordon away, if the mark is ours."""
        self._change(target, lambda node: self._give_back(node, token))

    def _take(self, node: NodeView, token: str, reason: str) -> None:
        standing = switch_state_of(node)
        if standing.held is Held.OTHERS or standing.token not in (None, token):
            raise ActionRefusedError(f"{node.name} is {standing.words}; left as is")
        others = tuple(taint for taint in node.taints if taint.key != TAINT)
        self._cluster.change_node(
            node,
            unschedulable=True,
            taints=(*others, Taint(key=TAINT, value=token, effect=NO_SCHEDULE)),
            annotations={MARK: token, REASON: " ".join(reason.split())[:_REASON_MAX]},
        )

    def _give_back(self, node: NodeView, token: str) -> None:
        standing = switch_state_of(node)
        if standing.held is not Held.OURS or standing.token != token:
            raise ActionRefusedError(f"{node.name} is {standing.words}; left as is")
        self._cluster.change_node(
            node,
            unschedulable=False,
            taints=tuple(taint for taint in node.taints if taint.key != TAINT),
            annotations={MARK: None, REASON: None},
        )

    def _change(self, target: str, write: Callable[[NodeView], None]) -> None:
        for last in [False] * (_TRIES - 1) + [True]:
            try:
                write(self._cluster.node(target))
            except ConflictError:
                if last:
                    raise
                self._clock.sleep_until(self._clock.monotonic_s() + _PAUSE_S)
            else:
                return


def switch_state_of(node: NodeView) -> SwitchState:
    """Return who has taken a node out."""
    token = node.annotations.get(MARK)
    tainted = any(taint.key == TAINT for taint in node.taints)
    if token is not None and (node.unschedulable or tainted):
        missing = [] if node.unschedulable else ["uncordoned by someone"]
        missing += [] if tainted else ["its taint removed by someone"]
        words = f"taken out by railwatch, {node.annotations.get(REASON, '')!r}"
        return SwitchState(held=Held.OURS, words=", ".join([words, *missing]), token=token)
    if node.unschedulable:
        return SwitchState(held=Held.OTHERS, words="cordoned by someone else")
    return SwitchState(held=Held.FREE, words="schedulable")
