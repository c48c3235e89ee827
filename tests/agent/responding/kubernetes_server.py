"""An API server for tests: nodes, pods and evictions over real HTTP, as far as railwatch uses them.

It keeps to the API conventions where they matter here: a bearer token, a resourceVersion that rises with each change
and has to fit where it is named (409), merge patches, field selectors, Status objects as errors, and evictions that a
PodDisruptionBudget blocks with 429. It has no scheduler, no controllers and no watch.
"""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.loopback import on_loopback

TOKEN = "k8s-token"
Object = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Kubernetes:
    """Objects of the server. `budgets` are evictions that a label still allows, `ends` how a pod goes."""

    nodes: dict[str, Object] = field(default_factory=dict)
    pods: dict[tuple[str, str], Object] = field(default_factory=dict)
    budgets: dict[str, int] = field(default_factory=dict)
    stubborn: set[str] = field(default_factory=set)
    evicted: list[Object] = field(default_factory=list)
    patched: list[Object] = field(default_factory=list)
    forbidden: set[str] = field(default_factory=set)
    rights: set[tuple[str, str]] = field(default_factory=set)
    before_patch: Callable[[], None] | None = None
    version: int = 100

    def add_node(self, name: str, **spec: Any) -> Object:
        node = {"metadata": {"name": name, "uid": f"u-{name}", "annotations": {"kept": "yes"}}, "spec": spec}
        self.nodes[name] = node
        self.touch(node)
        return node

    def add_pod(self, name: str, *, node: str = "node7", controller: str = "Job", **more: Any) -> Object:
        owners = [{"kind": controller, "name": "o", "uid": "o", "apiVersion": "v1", "controller": True}]
        pod: Object = {
            "metadata": {
                "name": name,
                "namespace": "ml",
                "uid": f"u-{name}",
                "labels": more.get("labels", {}),
                "annotations": more.get("annotations", {}),
                **({"ownerReferences": owners} if controller else {}),
            },
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": more.get("phase", "Running")},
        }
        self.pods["ml", name] = pod
        return pod

    def touch(self, node: Object) -> None:
        self.version += 1
        node["metadata"]["resourceVersion"] = str(self.version)

    def change(self, name: str, **spec: Any) -> None:
        """Change a node as another client does."""
        self.nodes[name]["spec"].update(spec)
        self.touch(self.nodes[name])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, cluster: Kubernetes, *of_the_connection: Any) -> None:
        self.cluster = cluster
        super().__init__(*of_the_connection)

    def do_GET(self) -> None:
        self._serve(self._get)

    def do_PATCH(self) -> None:
        self._serve(self._patch)

    def do_POST(self) -> None:
        self._serve(self._post)

    def _serve(self, answer: Callable[[list[str], dict[str, list[str]], Any], tuple[int, Any]]) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        url = urlsplit(self.path)
        parts = [unquote(part) for part in url.path.strip("/").split("/")]
        self.cluster.rights.add(_right(self.command, parts))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._answer(401, _status(401, "Unauthorized", "Unauthorized"))
        elif f"{self.command} {parts[-1]}" in self.cluster.forbidden:
            self._answer(403, _status(403, "Forbidden", f"cannot {self.command} {parts[-1]} at the cluster scope"))
        else:
            self._answer(*answer(parts, parse_qs(url.query), json.loads(body) if body else None))

    def _get(self, parts: list[str], query: dict[str, list[str]], _: Any) -> tuple[int, Any]:
        cluster = self.cluster
        if parts[:3] == ["api", "v1", "nodes"] and len(parts) == 4:
            node = cluster.nodes.get(parts[3])
            return (200, _object("Node", node)) if node else _missing("nodes", parts[3])
        if parts == ["api", "v1", "pods"]:
            wanted = query["fieldSelector"][0].removeprefix("spec.nodeName=")
            pods = [_object("Pod", pod) for pod in cluster.pods.values() if pod["spec"]["nodeName"] == wanted]
            return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods}
        return _missing("paths", self.path)

    def _patch(self, parts: list[str], _: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        cluster = self.cluster
        if self.headers.get("Content-Type") != "application/merge-patch+json":
            return 415, _status(415, "UnsupportedMediaType", "the body of the request was in an unknown format")
        if cluster.before_patch is not None:
            cluster.before_patch()
        node = cluster.nodes.get(parts[3])
        if node is None:
            return _missing("nodes", parts[3])
        named = body["metadata"].pop("resourceVersion", None)
        if named not in (None, node["metadata"]["resourceVersion"]):
            message = f'Operation cannot be fulfilled on nodes "{parts[3]}": the object has been modified'
            return 409, _status(409, "Conflict", message)
        cluster.patched.append(body)
        _merge(node, body)
        cluster.touch(node)
        return 200, _object("Node", node)

    def _post(self, parts: list[str], _: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        cluster = self.cluster
        if parts[-1] != "eviction" or body.get("kind") != "Eviction" or body.get("apiVersion") != "policy/v1":
            return 400, _status(400, "BadRequest", "no eviction")
        place = (parts[3], parts[5])
        pod = cluster.pods.get(place)
        if pod is None:
            return _missing("pods", parts[5])
        if body["deleteOptions"]["preconditions"]["uid"] != pod["metadata"]["uid"]:
            return 409, _status(409, "Conflict", "the UID in the precondition does not match")
        app = pod["metadata"]["labels"].get("app", "")
        if cluster.budgets.get(app, 1) <= 0:
            return 429, _status(
                429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget."
            )
        if app in cluster.budgets:
            cluster.budgets[app] -= 1
        cluster.evicted.append(body)
        if parts[5] in cluster.stubborn:
            pod["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
        else:
            del cluster.pods[place]
        return 201, _status(201, "", "", success=True)

    def _answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Report nothing."""


def serving(cluster: Kubernetes, certificate: Path | None = None) -> AbstractContextManager[int]:
    """Serve on loopback, with TLS where there is a certificate; return the port."""
    return on_loopback(partial(_Handler, cluster), certificate)


def kubeconfig(folder: Path, port: int, *, token: str = TOKEN) -> Path:
    """Write a kubeconfig for the server."""
    path = folder / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "railwatch"}}],
                "clusters": [{"name": "test", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "users": [{"name": "railwatch", "user": {"token": token}}],
            }
        )
    )
    return path


def _right(method: str, parts: list[str]) -> tuple[str, str]:
    """Return the verb and resource that RBAC would look for."""
    if parts[-1] == "eviction":
        return "create", "pods/eviction"
    if parts[-1] == "pods":
        return "list", "pods"
    return {"GET": "get", "PATCH": "patch"}[method], parts[2]


def _object(kind: str, of: Object) -> Object:
    return {"kind": kind, "apiVersion": "v1", **of}


def _status(code: int, reason: str, message: str, *, success: bool = False) -> Object:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success" if success else "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def _missing(kind: str, name: str) -> tuple[int, Object]:
    return 404, _status(404, "NotFound", f'{kind} "{name}" not found')


def _merge(into: Object, patch: Object) -> None:
    """Apply a merge patch: RFC 7396."""
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        else:
            into[key] = value
