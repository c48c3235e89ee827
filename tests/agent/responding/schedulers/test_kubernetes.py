"""Cordon, taint and eviction over real HTTP, against an API server of our own: never run on a real cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.responding.pacing import RateLimit
from agent.responding.port import EvictionProgress, Switch, SwitchOwner
from agent.responding.schedulers.kubernetes import MARK, TAINT, EvictionSettings, KubernetesDrain, KubernetesWork
from agent.responding.schedulers.kubernetes_api import ConflictError, KubernetesApi, KubernetesSettings
from telemetry.errors import ActionRefusedError, NotPermittedError, NotSupportedError, TransientError
from tests.agent.collectors.bmc.services import make_certificate
from tests.agent.fakes import FakeClock
from tests.agent.responding.kubernetes_server import TOKEN, Kubernetes, kubeconfig, serving
from tests.agent.responding.rig import Rig
from tests.services import require

OURS = {"key": TAINT, "value": "ab12", "effect": "NoSchedule"}
GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


class Setup:
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
def setup(tmp_path: Path) -> Iterator[Setup]:
    cluster = Kubernetes()
    with serving(cluster) as port:
        api = KubernetesApi(KubernetesSettings(kubeconfig=kubeconfig(tmp_path, port)))
        yield Setup(cluster, api)
        api.close()


def test_a_node_is_cordoned_tainted_and_marked_and_given_back_as_it_was(setup: Setup) -> None:
    switch: Switch = setup.switch()
    assert switch.read("node7").held is SwitchOwner.FREE
    setup.engage()
    assert setup.node["spec"] == {"taints": [GPU, OURS], "unschedulable": True}
    standing = switch.read("node7")
    assert (standing.held, standing.token) == (SwitchOwner.OURS, "ab12")
    assert standing.summary == "drained by railwatch, 'i-7 the rail sags under load'"
    setup.release()
    assert setup.node["spec"] == {"taints": [GPU]}
    assert setup.node["metadata"]["annotations"] == {"kept": "yes"}


def test_engaging_twice_is_engaging_once(setup: Setup) -> None:
    setup.engage()
    setup.engage()
    assert setup.node["spec"]["taints"] == [GPU, OURS]


def test_a_node_that_a_person_cordoned_stays_cordoned(setup: Setup) -> None:
    setup.cluster.change("node7", unschedulable=True)
    assert setup.switch().read("node7").held is SwitchOwner.OTHERS
    with pytest.raises(ActionRefusedError, match="node7 is cordoned by someone else; left as is"):
        setup.engage()
    with pytest.raises(ActionRefusedError, match="left as is"):
        setup.release()
    assert setup.node["spec"]["unschedulable"] is True
    assert setup.cluster.patched == []


def test_a_person_who_takes_the_mark_away_keeps_the_cordon(setup: Setup) -> None:
    setup.engage()
    del setup.node["metadata"]["annotations"][MARK]
    assert setup.switch().read("node7").held is SwitchOwner.OTHERS
    with pytest.raises(ActionRefusedError):
        setup.release()
    assert setup.node["spec"]["unschedulable"] is True


def test_what_a_person_took_back_is_not_written_again(setup: Setup) -> None:
    setup.engage()
    setup.cluster.change("node7", unschedulable=None)
    assert "uncordoned by someone" in setup.switch().read("node7").summary
    setup.release()
    assert setup.node["spec"] == {"taints": [GPU]}


def test_another_token_is_not_ours_to_give_back(setup: Setup) -> None:
    setup.engage()
    with pytest.raises(ActionRefusedError):
        setup.switch().release("node7", token="cd34")
    with pytest.raises(ActionRefusedError):
        setup.switch().engage("node7", token="cd34", reason="")
    assert setup.node["spec"]["unschedulable"] is True


def test_what_others_write_meanwhile_is_kept(setup: Setup) -> None:
    other = {"key": "other", "value": "", "effect": "NoExecute"}
    writes = [lambda: setup.cluster.change("node7", taints=[GPU, other])]
    setup.cluster.before_patch = lambda: writes.pop()() if writes else None
    setup.engage()
    assert {taint["key"] for taint in setup.node["spec"]["taints"]} == {GPU["key"], "other", TAINT}
    assert len(setup.cluster.patched) == 1


def test_a_person_who_cordons_in_the_same_moment_wins(setup: Setup) -> None:
    setup.cluster.before_patch = lambda: setup.cluster.change("node7", unschedulable=True)
    with pytest.raises(ActionRefusedError, match="cordoned by someone else"):
        setup.engage()
    assert setup.cluster.patched == []


def test_a_node_that_changes_all_the_time_is_left_for_later(setup: Setup) -> None:
    setup.cluster.before_patch = lambda: setup.cluster.change("node7", podCIDR="x")
    with pytest.raises(ConflictError, match="the object has been modified"):
        setup.engage()


def test_pods_are_evicted_and_those_of_the_node_itself_are_not(setup: Setup) -> None:
    setup.cluster.add_pod("train-0")
    setup.cluster.add_pod("exporter", controller="DaemonSet")
    setup.cluster.add_pod("kube-proxy", controller="Node", annotations={"kubernetes.io/config.mirror": "x"})
    setup.cluster.add_pod("done", phase="Succeeded")
    setup.cluster.add_pod("elsewhere", node="node8")
    assert KubernetesWork(setup.api, node="node7").busy() == ["pod ml/train-0"]
    switch = setup.switch(EvictionSettings(grace_s=30))
    assert switch.empty("node7") == EvictionProgress(left=("ml/train-0: eviction requested",), waits=True)
    assert switch.empty("node7") == EvictionProgress(left=(), waits=False)
    assert [body["metadata"]["name"] for body in setup.cluster.evicted] == ["train-0"]
    assert setup.cluster.evicted[0]["deleteOptions"]["gracePeriodSeconds"] == 30
    assert KubernetesWork(setup.api, node="node7").busy() == []


def test_without_eviction_nothing_is_asked_to_end(setup: Setup) -> None:
    setup.cluster.add_pod("train-0")
    assert setup.switch().empty("node7") == EvictionProgress(left=(), waits=False)
    assert setup.cluster.evicted == []


def test_a_budget_is_waited_for(setup: Setup) -> None:
    setup.cluster.add_pod("web-0", labels={"app": "web"})
    setup.cluster.budgets["web"] = 0
    switch = setup.switch(EvictionSettings())
    found = switch.empty("node7")
    assert found.waits
    assert "disruption budget" in found.left[0]
    assert ("ml", "web-0") in setup.cluster.pods
    setup.cluster.budgets["web"] = 1
    switch.empty("node7")
    assert len(setup.cluster.evicted) == 1
    assert "gracePeriodSeconds" not in setup.cluster.evicted[0]["deleteOptions"]


def test_a_pod_that_takes_its_time_is_waited_for_and_asked_once(setup: Setup) -> None:
    setup.cluster.add_pod("slow")
    setup.cluster.stubborn.add("slow")
    switch = setup.switch(EvictionSettings())
    switch.empty("node7")
    assert switch.empty("node7") == EvictionProgress(left=("ml/slow: ending",), waits=True)
    assert len(setup.cluster.evicted) == 1


def test_a_pod_that_nothing_would_start_again_is_left_and_reported_at_once(setup: Setup) -> None:
    setup.cluster.add_pod("by-hand", controller="")
    found = setup.switch(EvictionSettings()).empty("node7")
    assert found == EvictionProgress(left=("ml/by-hand: no controller would restart it",), waits=False)
    assert setup.cluster.evicted == []


def test_pods_are_asked_no_faster_than_the_pace_of_the_node(setup: Setup) -> None:
    for number in range(4):
        setup.cluster.add_pod(f"train-{number}")
    pace = RateLimit(burst=2.0)
    switch = KubernetesDrain(setup.api, clock=setup.clock, eviction=EvictionSettings(), pace=pace)
    assert sum(summary.endswith("waiting for the rate limit") for summary in switch.empty("node7").left) == 2
    setup.clock.advance(2.0)
    switch.empty("node7")
    assert len(setup.cluster.evicted) == 4


def test_who_may_not_evict_leaves_the_node_cordoned_and_states_so_and_returns_it_back(
    setup: Setup, tmp_path: Path
) -> None:
    setup.cluster.add_pod("train-0")
    setup.cluster.forbidden.add("POST eviction")
    rig = Rig(tmp_path)
    rig.put(setup.switch(EvictionSettings()), target="node7")
    assert rig.engage() == ["applied"]
    assert "not empty" in rig.reported[-1].reason
    assert rig.release() == ["released"]
    assert setup.node["spec"] == {"taints": [GPU]}


def test_what_may_not_be_done_states_so(setup: Setup, tmp_path: Path) -> None:
    setup.cluster.forbidden.add("PATCH node7")
    with pytest.raises(NotPermittedError, match="node node7: cannot PATCH node7 at the cluster scope"):
        setup.engage()
    with pytest.raises(NotSupportedError, match='nodes "node9" not found'):
        setup.switch().read("node9")


def test_a_wrong_token_and_a_missing_file_are_reported_without_secrets(tmp_path: Path) -> None:
    with serving(Kubernetes()) as port:
        api = KubernetesApi(KubernetesSettings(kubeconfig=kubeconfig(tmp_path, port, token="h1dden")))
        with pytest.raises(NotPermittedError) as caught:
            api.node("node7")
        assert "h1dden" not in str(caught.value)
        api.close()
    api = KubernetesApi(KubernetesSettings(kubeconfig=tmp_path / "kubeconfig"))
    with pytest.raises(TransientError, match="no reply from the API server"):
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
