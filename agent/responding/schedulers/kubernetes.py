"""Cordon and taint of a Kubernetes node, optionally the eviction of its pods, and the pods that still work."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.responding.pacing import RateLimit
from agent.responding.port import EvictionProgress, SwitchOwner, SwitchState, require_ours
from agent.responding.schedulers.kubernetes_api import BlockedError, ConflictError, NodeView, Pod, Taint
from telemetry.clock import Clock
from telemetry.errors import ActionRefusedError

TAINT = "railwatch.io/incident"
# Marks a cordon as ours. Without it the node belongs to someone else: removing the mark keeps the cordon.
MARK = "railwatch.io/token"
REASON = "railwatch.io/reason"
NO_SCHEDULE = "NoSchedule"
# heuristic: a kubelet writes its node every ten seconds at most, so that a second conflict in a row is rare.
_TRIES = 5
_PAUSE_S = 0.2
# heuristic: a length that is readable in a table.
_REASON_MAX = 200


class Cluster(Protocol):
    """Requests to an API server."""

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
        """Change a node; ConflictError if it changed since it was read."""
        ...

    def pods(self, node: str) -> tuple[Pod, ...]:
        """Return every pod of a node."""
        ...

    def evict(self, pod: Pod, *, grace_s: int | None) -> None:
        """Request the eviction of one pod; BlockedError if a budget forbids it now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionSettings:
    """Settings of an eviction.

    Pods that remain after `within_s` are reported and stay; `grace_s` is the grace period of a pod, None for its own.
    """

    within_s: float = 120.0
    grace_s: int | None = None


class KubernetesDrain:
    """The switch of one node: cordoned and tainted with our mark, or not.

    A node that someone else cordoned is left alone. A change is refused by the server if the node changed since it was
    read, so that no other change is lost.

    `eviction` has the eviction of the pods of a cordoned node, None leaves them; `pace` limits the rate of evictions.
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
        """Time limit of the eviction."""
        return 0.0 if self._eviction is None else self._eviction.within_s

    def read(self, target: str) -> SwitchState:
        """Return the state of the cordon: off, ours or of others."""
        return switch_state_of(self._cluster.node(target))

    def engage(self, target: str, *, token: str, reason: str) -> None:
        """Cordon and taint the node."""
        self._change(target, lambda node: self._take(node, token, reason))

    def empty(self, target: str) -> EvictionProgress:
        """Evict the pods of the node, if that is configured.

        Pods of DaemonSets, mirror pods and pods that have ended are skipped. A pod without a controller, which nothing
        would restart, is left and reported.
        """
        if self._eviction is None:
            return EvictionProgress(left=(), waits=False)
        pods = [pod for pod in self._cluster.pods(target) if pod.works]
        left = tuple(f"{pod.summary}: {self._evicted(pod, self._eviction)}" for pod in pods)
        return EvictionProgress(left=left, waits=any(pod.controller or pod.leaving for pod in pods))

    def _evicted(self, pod: Pod, eviction: EvictionSettings) -> str:
        if pod.leaving:
            return "ending"
        if not pod.controller:
            return "no controller would restart it"
        if self._pace.take(self._clock.monotonic_s()):
            return "waiting for the rate limit"
        try:
            self._cluster.evict(pod, grace_s=eviction.grace_s)
        except BlockedError as err:
            return str(err)
        return "eviction requested"

    def release(self, target: str, *, token: str) -> None:
        """Remove mark, taint and cordon, if the mark is ours."""
        self._change(target, lambda node: self._give_back(node, token))

    def _take(self, node: NodeView, token: str, reason: str) -> None:
        standing = switch_state_of(node)
        if standing.held is SwitchOwner.OTHERS or standing.token not in (None, token):
            raise ActionRefusedError(f"{node.name} is {standing.summary}; left as is")
        others = tuple(taint for taint in node.taints if taint.key != TAINT)
        self._cluster.change_node(
            node,
            unschedulable=True,
            taints=(*others, Taint(key=TAINT, value=token, effect=NO_SCHEDULE)),
            annotations={MARK: token, REASON: " ".join(reason.split())[:_REASON_MAX]},
        )

    def _give_back(self, node: NodeView, token: str) -> None:
        require_ours(switch_state_of(node), token, node.name)
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
    """Return the state of a node's cordon: off, ours or of others."""
    token = node.annotations.get(MARK)
    tainted = any(taint.key == TAINT for taint in node.taints)
    if token is not None and (node.unschedulable or tainted):
        missing = [] if node.unschedulable else ["uncordoned by someone"]
        missing += [] if tainted else ["its taint removed by someone"]
        summary = f"drained by railwatch, {node.annotations.get(REASON, '')!r}"
        return SwitchState(held=SwitchOwner.OURS, summary=", ".join([summary, *missing]), token=token)
    if node.unschedulable:
        return SwitchState(held=SwitchOwner.OTHERS, summary="cordoned by someone else")
    return SwitchState(held=SwitchOwner.FREE, summary="schedulable")


class KubernetesWork:
    """Pods on the node that do not belong to it."""

    def __init__(self, cluster: Cluster, *, node: str) -> None:
        self._cluster = cluster
        self._node = node

    def busy(self) -> Sequence[str]:
        """Return the pods."""
        return [f"pod {pod.summary}" for pod in self._cluster.pods(self._node) if pod.works]
