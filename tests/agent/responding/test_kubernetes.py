"""Cordon, taint and eviction over real HTTP, against an API server of our own: never run on a real cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.responding.kubernetes import MARK, TAINT, EvictionSettings, KubernetesDrain
from agent.responding.kubernetes_api import ConflictError, KubernetesApi, KubernetesSettings
from agent.responding.occupancy import KubernetesWork
from agent.responding.port import EvictionProgress, Held, Switch
from agent.responding.rate_limit import RateLimit
from telemetry.errors import ActionRefusedError, NotPermittedError, NotSupportedError, TransientError
from tests.agent.collectors.bmc.services import make_certificate
from tests.agent.fakes import FakeClock
from tests.agent.responding.kubernetes_server import TOKEN, Kubernetes, kubeconfig, serving
from tests.agent.responding.rig import Rig
from tests.services import require

OURS = {"key": TAINT, "value": "ab12", "effect": "NoSchedule"}
GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


class Admission:
    """A cluster of one node and the switch that takes it out."""

    def __init__(self, cluster: Kubernetes, api: KubernetesApi) -> None:
        self.cluster, self.api, self.clock = cluster, api, FakeClock()
        self.node = cluster.add_node("node7", taints=[GPU])

    def switch(self, eviction: EvictionSettings | None = None) -> KubernetesDrain:
        return KubernetesDrain(self.api, clock=self.clock, eviction=eviction)

    def engage(self) -> None:
        self.switch().engage("node7", token="ab12", reason="i-7 the rail sags\nunder load")

    def release(self) -> None:
        self.switch().release("node7", token="ab12")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Admission]:
    cluster = Kubernetes()
    with serving(cluster) as port:
        api = KubernetesApi(KubernetesSettings(kubeconfig=kubeconfig(tmp_path, port)))
        yield Admission(cluster, api)
        api.close()


def test_a_node_is_cordoned_tainted_and_marked_and_given_back_as_it_was(desk: Admission) -> None:
    switch: Switch = desk.switch()
    assert switch.read("node7").held is Held.FREE
    desk.engage()
    assert desk.node["spec"] == {"taints": [GPU, OURS], "unschedulable": True}
    standing = switch.read("node7")
    assert (standing.held, standing.token) == (Held.OURS, "ab12")
    assert standing.words == "taken out by railwatch, 'i-7 the rail sags under load'"
    desk.release()
    assert desk.node["spec"] == {"taints": [GPU]}
    assert desk.node["metadata"]["annotations"] == {"kept": "yes"}


def test_engaging_twice_is_engaging_once(desk: Admission) -> None:
    desk.engage()
    desk.engage()
    assert desk.node["spec"]["taints"] == [GPU, OURS]


def test_a_node_that_a_person_cordoned_stays_cordoned(desk: Admission) -> None:
    desk.cluster.change("node7", unschedulable=True)
    assert desk.switch().read("node7").held is Held.OTHERS
    with pytest.raises(ActionRefusedError, match="node7 is cordoned by someone else; left as is"):
        desk.engage()
    with pytest.raises(ActionRefusedError, match="left as is"):
        desk.release()
    assert desk.node["spec"]["unschedulable"] is True
    assert desk.cluster.patched == []


def test_a_person_who_takes_the_mark_away_keeps_the_cordon(desk: Admission) -> None:
    desk.engage()
    del desk.node["metadata"]["annotations"][MARK]
    assert desk.switch().read("node7").held is Held.OTHERS
    with pytest.raises(ActionRefusedError):
        desk.release()
    assert desk.node["spec"]["unschedulable"] is True


def test_what_a_person_took_back_is_not_written_again(desk: Admission) -> None:
    desk.engage()
    desk.cluster.change("node7", unschedulable=None)
    assert "uncordoned by someone" in desk.switch().read("node7").words
    desk.release()
    assert desk.node["spec"] == {"taints": [GPU]}


def test_another_token_is_not_ours_to_give_back(desk: Admission) -> None:
    desk.engage()
    with pytest.raises(ActionRefusedError):
        desk.switch().release("node7", token="cd34")
    with pytest.raises(ActionRefusedError):
        desk.switch().engage("node7", token="cd34", reason="")
    assert desk.node["spec"]["unschedulable"] is True


def test_what_somebody_else_writes_meanwhile_is_kept(desk: Admission) -> None:
    other = {"key": "other", "value": "", "effect": "NoExecute"}
    writes = [lambda: desk.cluster.change("node7", taints=[GPU, other])]
    desk.cluster.before_patch = lambda: writes.pop()() if writes else None
    desk.engage()
    assert {taint["key"] for taint in desk.node["spec"]["taints"]} == {GPU["key"], "other", TAINT}
    assert len(desk.cluster.patched) == 1


def test_a_person_who_cordons_in_the_same_moment_wins(desk: Admission) -> None:
    desk.cluster.before_patch = lambda: desk.cluster.change("node7", unschedulable=True)
    with pytest.raises(ActionRefusedError, match="cordoned by someone else"):
        desk.engage()
    assert desk.cluster.patched == []


def test_a_node_that_changes_all_the_time_is_left_for_later(desk: Admission) -> None:
    desk.cluster.before_patch = lambda: desk.cluster.change("node7", podCIDR="x")
    with pytest.raises(ConflictError, match="the object has been modified"):
        desk.engage()


def test_pods_are_evicted_and_those_of_the_node_itself_are_not(desk: Admission) -> None:
    desk.cluster.add_pod("train-0")
    desk.cluster.add_pod("exporter", controller="DaemonSet")
    desk.cluster.add_pod("kube-proxy", controller="Node", annotations={"kubernetes.io/config.mirror": "x"})
    desk.cluster.add_pod("done", phase="Succeeded")
    desk.cluster.add_pod("elsewhere", node="node8")
    assert KubernetesWork(desk.api, node="node7").busy() == ["pod ml/train-0"]
    switch = desk.switch(EvictionSettings(grace_s=30))
    assert switch.empty("node7") == EvictionProgress(left=("ml/train-0: asked to end",), waits=True)
    assert switch.empty("node7") == EvictionProgress(left=(), waits=False)
    assert [body["metadata"]["name"] for body in desk.cluster.evicted] == ["train-0"]
    assert desk.cluster.evicted[0]["deleteOptions"]["gracePeriodSeconds"] == 30
    assert KubernetesWork(desk.api, node="node7").busy() == []


def test_without_eviction_nothing_is_asked_to_end(desk: Admission) -> None:
    desk.cluster.add_pod("train-0")
    assert desk.switch().empty("node7") == EvictionProgress(left=(), waits=False)
    assert desk.cluster.evicted == []


def test_a_budget_is_waited_for(desk: Admission) -> None:
    desk.cluster.add_pod("web-0", labels={"app": "web"})
    desk.cluster.budgets["web"] = 0
    switch = desk.switch(EvictionSettings())
    found = switch.empty("node7")
    assert found.waits
    assert "disruption budget" in found.left[0]
    assert ("ml", "web-0") in desk.cluster.pods
    desk.cluster.budgets["web"] = 1
    switch.empty("node7")
    assert len(desk.cluster.evicted) == 1
    assert "gracePeriodSeconds" not in desk.cluster.evicted[0]["deleteOptions"]


def test_a_pod_that_takes_its_time_is_waited_for_and_asked_once(desk: Admission) -> None:
    desk.cluster.add_pod("slow")
    desk.cluster.stubborn.add("slow")
    switch = desk.switch(EvictionSettings())
    switch.empty("node7")
    assert switch.empty("node7") == EvictionProgress(left=("ml/slow: ending",), waits=True)
    assert len(desk.cluster.evicted) == 1


def test_a_pod_that_nothing_would_start_again_is_left_and_reported_at_once(desk: Admission) -> None:
    desk.cluster.add_pod("by-hand", controller="")
    found = desk.switch(EvictionSettings()).empty("node7")
    assert found == EvictionProgress(left=("ml/by-hand: nothing would start it anew",), waits=False)
    assert desk.cluster.evicted == []


def test_pods_are_asked_no_faster_than_the_pace_of_the_node(desk: Admission) -> None:
    for number in range(4):
        desk.cluster.add_pod(f"train-{number}")
    pace = RateLimit(burst=2.0)
    switch = KubernetesDrain(desk.api, clock=desk.clock, eviction=EvictionSettings(), pace=pace)
    assert sum(words.endswith("not asked yet") for words in switch.empty("node7").left) == 2
    desk.clock.advance(2.0)
    switch.empty("node7")
    assert len(desk.cluster.evicted) == 4


def test_who_may_not_evict_leaves_the_node_cordoned_and_states_so_and_returns_it_back(
    desk: Admission, tmp_path: Path
) -> None:
    desk.cluster.add_pod("train-0")
    desk.cluster.forbidden.add("POST eviction")
    rig = Rig(tmp_path)
    rig.put(desk.switch(EvictionSettings()), target="node7")
    assert rig.engage() == ["applied"]
    assert "not empty" in rig.told[-1].reason
    assert rig.release() == ["released"]
    assert desk.node["spec"] == {"taints": [GPU]}


def test_what_may_not_be_done_states_so(desk: Admission, tmp_path: Path) -> None:
    desk.cluster.forbidden.add("PATCH node7")
    with pytest.raises(NotPermittedError, match="node node7: cannot PATCH node7 at the cluster scope"):
        desk.engage()
    with pytest.raises(NotSupportedError, match='nodes "node9" not found'):
        desk.switch().read("node9")


def test_a_wrong_token_and_a_missing_file_are_reported_without_secrets(tmp_path: Path) -> None:
    with serving(Kubernetes()) as port:
        api = KubernetesApi(KubernetesSettings(kubeconfig=kubeconfig(tmp_path, port, token="h1dden")))
        with pytest.raises(NotPermittedError) as caught:
            api.node("node7")
        assert "h1dden" not in str(caught.value)
        api.close()
    api = KubernetesApi(KubernetesSettings(kubeconfig=tmp_path / "kubeconfig"))
    with pytest.raises(TransientError, match="no answer of the API server"):
        api.node("node7")
    api.close()
    with pytest.raises(NotPermittedError, match="absent: no access to a cluster"):
        KubernetesApi(KubernetesSettings(kubeconfig=tmp_path / "absent")).node("node7")
    with pytest.raises(NotPermittedError, match="service account of this pod: no access"):
        KubernetesApi(KubernetesSettings(service_account=tmp_path / "none")).node("node7")


@pytest.mark.integration
def test_the_service_account_of_a_pod_is_used_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("openssl")
    certificate = make_certificate(tmp_path)
    cluster = Kubernetes()
    cluster.add_node("node7")
    account = tmp_path / "serviceaccount"
    account.mkdir()
    (account / "token").write_text(TOKEN)
    (account / "namespace").write_text("railwatch")
    (account / "ca.crt").write_bytes(certificate.read_bytes())
    with serving(cluster, certificate) as port:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(port))
        api = KubernetesApi(KubernetesSettings(service_account=account))
        assert api.node("node7").unschedulable is False
        api.close()
