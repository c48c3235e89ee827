"""The rights in deploy/kubernetes are those that are used, and no others."""

from pathlib import Path

from lightkube.codecs import load_all_yaml

from agent.responding.schedulers.kubernetes import EvictionSettings, KubernetesDrain, KubernetesWork
from agent.responding.schedulers.kubernetes_api import KubernetesApi, KubernetesSettings
from tests.agent.fakes import FakeClock
from tests.agent.responding.kubernetes_server import Kubernetes, kubeconfig, serving

MANIFEST = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes" / "rbac.yaml"


def test_every_right_that_is_given_is_used_and_none_is_missing(tmp_path: Path) -> None:
    objects = load_all_yaml(MANIFEST.read_text(encoding="utf-8"))
    assert [type(item).__name__ for item in objects] == [
        "Namespace",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
    ]
    _, account, role, binding = objects
    assert role.metadata is not None
    assert account.metadata is not None
    given = {(verb, name) for rule in role.rules for verb in rule.verbs for name in rule.resources}
    assert all(rule.apiGroups == [""] for rule in role.rules)
    assert binding.roleRef.name == role.metadata.name
    assert (binding.subjects[0].name, binding.subjects[0].namespace) == (
        account.metadata.name,
        account.metadata.namespace,
    )

    cluster = Kubernetes()
    cluster.add_node("node7")
    cluster.add_pod("train-0")
    with serving(cluster) as port:
        api = KubernetesApi(KubernetesSettings(kubeconfig=kubeconfig(tmp_path, port)))
        switch = KubernetesDrain(api, clock=FakeClock(), eviction=EvictionSettings())
        switch.engage("node7", token="ab", reason="")
        switch.empty("node7")
        switch.release("node7", token="ab")
        assert KubernetesWork(api, node="node7").busy() == []
        api.close()
    assert cluster.rights == given
