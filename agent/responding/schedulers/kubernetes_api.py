"""Client of a Kubernetes API server, through lightkube; the one module that imports it.

lightkube is loaded with the first request. Every failure is one of `telemetry.errors`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from telemetry.errors import ActionRefusedError, NotPermittedError, NotSupportedError, TransientError

_MIRROR = "kubernetes.io/config.mirror"
_FIELD_MANAGER = "railwatch"
# heuristic: a healthy API server answers within a second; the actuator waits this long.
_TIMEOUT_S = 10.0
# Where Kubernetes mounts it: kubernetes.io/docs/tasks/run-application/access-api-from-pod.
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_OVER = ("Succeeded", "Failed")


class ConflictError(TransientError):
    """The object changed since it was read."""


class BlockedError(TransientError):
    """A PodDisruptionBudget does not allow the eviction now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """Access to the API server: a kubeconfig and its context, or the service account of this pod."""

    kubeconfig: Path | None = None
    context: str = ""
    service_account: Path = SERVICE_ACCOUNT


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """Taint of a node."""

    key: str
    value: str
    effect: str
    added: str = ""

    def body(self) -> dict[str, str]:
        """Return the taint in the form of the API."""
        fields = {"key": self.key, "value": self.value, "effect": self.effect, "timeAdded": self.added}
        return {name: text for name, text in fields.items() if text}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """Fields of a node that are used here; a change has to name `version`."""

    name: str
    version: str
    unschedulable: bool
    taints: tuple[Taint, ...]
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """Pod of a node. `controller` is the kind of its owner that would restart it, empty if there is none."""

    namespace: str
    name: str
    uid: str
    controller: str
    mirror: bool
    over: bool
    leaving: bool

    @property
    def summary(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def works(self) -> bool:
        """True if its work would be lost: not a pod of the node itself, not one that has ended."""
        return not (self.over or self.mirror or self.controller == "DaemonSet")


class KubernetesApi:
    """The API server of one cluster; used from one thread."""

    def __init__(self, settings: KubernetesSettings) -> None:
        self._settings = settings
        self._client: Any = None

    def node(self, name: str) -> NodeView:
        """Return a node as it is now."""
        client = self._connected()
        from lightkube.resources.core_v1 import Node  # noqa: PLC0415

        with _answers(f"node {name}"):
            found = client.get(Node, name)
        spec = found.spec
        taints = (spec.taints if spec is not None else None) or ()
        return NodeView(
            name=name,
            version=found.metadata.resourceVersion or "",
            unschedulable=bool(spec is not None and spec.unschedulable),
            taints=tuple(
                Taint(key=one.key, value=one.value or "", effect=one.effect, added=_text(one.timeAdded))
                for one in taints
            ),
            annotations=found.metadata.annotations or {},
        )

    def change_node(
        self,
        seen: NodeView,
        *,
        unschedulable: bool | None,
        taints: tuple[Taint, ...],
        annotations: Mapping[str, str | None],
    ) -> None:
        """Change a node; ConflictError if it changed since it was read. An annotation of None is removed.

        None for `unschedulable` leaves it alone.
        """
        client = self._connected()
        from lightkube.resources.core_v1 import Node  # noqa: PLC0415
        from lightkube.types import PatchType  # noqa: PLC0415

        spec: dict[str, Any] = {"taints": [taint.body() for taint in taints] or None}
        if unschedulable is not None:
            spec["unschedulable"] = unschedulable or None  # as kubectl leaves it: absent, not false
        body = {"metadata": {"resourceVersion": seen.version, "annotations": dict(annotations)}, "spec": spec}
        with _answers(f"node {seen.name}"):
            client.patch(Node, seen.name, body, patch_type=PatchType.MERGE)

    def pods(self, node: str) -> tuple[Pod, ...]:
        """Return every pod of a node."""
        client = self._connected()
        from lightkube.resources.core_v1 import Pod as PodResource  # noqa: PLC0415

        with _answers(f"pods of {node}"):
            listed = client.list(PodResource, namespace="*", fields={"spec.nodeName": node})
            return tuple(_pod(found) for found in listed)

    def evict(self, pod: Pod, *, grace_s: int | None) -> None:
        """Request the eviction of one pod; a pod that is gone is no error.

        BlockedError where a budget forbids it now.
        """
        client = self._connected()
        from lightkube.models.meta_v1 import DeleteOptions, ObjectMeta, Preconditions  # noqa: PLC0415
        from lightkube.resources.core_v1 import Pod as PodResource  # noqa: PLC0415

        # With the uid: a new pod of the same name is not evicted.
        options = DeleteOptions(gracePeriodSeconds=grace_s, preconditions=Preconditions(uid=pod.uid))
        body = PodResource.Eviction(metadata=ObjectMeta(name=pod.name, namespace=pod.namespace), deleteOptions=options)
        try:
            with _answers(f"eviction of {pod.summary}"):
                client.create(body, pod.name, namespace=pod.namespace)
        except (NotSupportedError, ConflictError):
            return  # gone meanwhile, or another pod has its name

    def close(self) -> None:
        """Close the connection; a later request opens it again."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self) -> Any:
        if self._client is None:
            self._client = _client(self._settings)
        return self._client


def _client(settings: KubernetesSettings) -> Any:
    try:
        import httpx2  # noqa: PLC0415
        from lightkube import Client, KubeConfig  # noqa: PLC0415
        from lightkube.core.exceptions import ConfigError  # noqa: PLC0415
    except ImportError as err:
        raise NotSupportedError(
            f"the Python package {err.name} is not installed; pip install 'railwatch[kubernetes]'"
        ) from err
    try:
        if settings.kubeconfig is not None:
            config = KubeConfig.from_file(settings.kubeconfig).get(context_name=settings.context or None)
        else:
            config = KubeConfig.from_service_account(settings.service_account).get()
        return Client(config=config, timeout=httpx2.Timeout(_TIMEOUT_S), field_manager=_FIELD_MANAGER)
    except (ConfigError, OSError, ValueError, KeyError) as err:
        place = settings.kubeconfig or "the service account of this pod"
        raise NotPermittedError(f"{place}: no access to a cluster ({err})") from err


@contextmanager
def _answers(what: str) -> Iterator[None]:
    """Translate errors of the API server by status: Kubernetes API conventions, HTTP status codes."""
    import httpx2  # noqa: PLC0415

    try:
        yield
    except httpx2.HTTPStatusError as err:
        raise _error_of(err.response.status_code, f"{what}: {_message_of(err)}") from err
    except httpx2.HTTPError as err:
        raise TransientError(f"{what}: no reply from the API server ({type(err).__name__})") from err


def _error_of(status: int, summary: str) -> Exception:
    match status:
        case 401 | 403:
            return NotPermittedError(summary)
        case 404 | 410:
            return NotSupportedError(summary)
        case 409:
            return ConflictError(summary)
        case 429:
            return BlockedError(summary)
        case 400 | 405 | 415 | 422:
            return ActionRefusedError(summary)
        case _:
            return TransientError(summary)


def _message_of(err: Any) -> str:
    message = getattr(getattr(err, "status", None), "message", None)
    return message if isinstance(message, str) and message else f"HTTP {err.response.status_code}"


def _pod(found: Any) -> Pod:
    metadata = found.metadata
    owners = [owner for owner in metadata.ownerReferences or () if owner.controller]
    phase = found.status.phase if found.status is not None else ""
    return Pod(
        namespace=metadata.namespace or "",
        name=metadata.name or "",
        uid=metadata.uid or "",
        controller=owners[0].kind if owners else "",
        mirror=_MIRROR in (metadata.annotations or {}),
        over=phase in _OVER,
        leaving=metadata.deletionTimestamp is not None,
    )


def _text(stamp: Any) -> str:
    if stamp is None:
        return ""
    return stamp.strftime("%Y-%m-%dT%H:%M:%SZ") if hasattr(stamp, "strftime") else str(stamp)
