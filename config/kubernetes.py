"""Cordon, taint and eviction of this node in Kubernetes."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from agent.responding.schedulers.kubernetes import EvictionSettings
from agent.responding.schedulers.kubernetes_api import KubernetesSettings
from config.section import Section, UserPath, at_least
from telemetry.durations import DurationS

# A DNS subdomain, what Kubernetes allows: kubernetes.io/docs/concepts/overview/working-with-objects/names.
_NODE = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


def _node(text: str) -> str:
    if text and not _NODE.fullmatch(text):
        raise ValueError("the name of one node as kubectl get nodes prints it, such as gpu017")
    return text


class Evict(StrEnum):
    """Eviction of the pods of a cordoned node."""

    NEVER = "never"
    PODS = "pods"


class Kubernetes(Section):
    """Cordon, taint and eviction through the API server; inside a pod with its service account."""

    node: Annotated[str, AfterValidator(_node)] = Field(
        default="", description="Name of this node in Kubernetes; empty: the host name."
    )
    kubeconfig: UserPath | None = Field(
        default=None, description="Path of a kubeconfig; unset: the service account of the pod."
    )
    context: str = Field(default="", description="Context of the kubeconfig; empty: the current one.")
    evict: Evict = Field(
        default=Evict.NEVER,
        description="Whether pods are evicted once the node is cordoned; PodDisruptionBudgets are respected.",
    )
    evict_within: Annotated[DurationS, at_least(1, "1s"), Field(le=3600)] = Field(
        default=120.0, description="Time limit of the eviction; pods that remain are reported and stay."
    )
    grace: Annotated[DurationS, at_least(0, "0s")] | None = Field(
        default=None, description="Grace period of a pod; unset: its own."
    )

    def node_of(self, host: str) -> str:
        """Return the node's name in Kubernetes."""
        return self.node or host.lower()

    def settings(self) -> KubernetesSettings:
        """Return the settings of the connection."""
        kubeconfig = None if self.kubeconfig is None else Path(self.kubeconfig)
        return KubernetesSettings(kubeconfig=kubeconfig, context=self.context)

    def eviction(self) -> EvictionSettings | None:
        """Return the settings of the eviction, None if pods are not evicted."""
        if self.evict is Evict.NEVER:
            return None
        grace_s = None if self.grace is None else round(self.grace)
        return EvictionSettings(within_s=self.evict_within, grace_s=grace_s)
