"""Real Slurm: drain with a reason, release of own drains alone, a requeued job, an unreachable controller."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.responding.pacing import RateLimit
from agent.responding.port import MessageRequest, SwitchOwner
from agent.responding.schedulers.slurm import SlurmCommands, SlurmDrain, SlurmRequeue, SlurmSettings
from agent.responding.switching import LOOK_EVERY_S, SwitchKeeper
from agent.responding.work import ActuatorCounts, Task, work_of
from agent.responding.work_queue import WorkQueue
from telemetry.clock import SystemClock
from telemetry.errors import ActionRefusedError, NotPermittedError, NotSupportedError, TransientError
from telemetry.records import ActionState
from tests.agent.fakes import FakeClock
from tests.agent.responding.rig import TOKEN, decision
from tests.slurm import NODE, Slurm, slurm

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
CLOCK = SystemClock()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with slurm(tmp_path_factory.mktemp("slurm")) as running:
        yield running


@pytest.fixture
def drain(cluster: Slurm) -> Iterator[SlurmDrain]:
    yield SlurmDrain(commands(cluster))
    cluster.by_hand("state=undrain")


def commands(cluster: Slurm, *, timeout_s: float = 20.0) -> SlurmCommands:
    return SlurmCommands(SlurmSettings(node=NODE, conf=cluster.conf, timeout_s=timeout_s), CLOCK)


class Life:
    """Drain of the node over its whole life; its polls and pauses follow a clock that the test moves."""

    def __init__(self, drain: SlurmDrain, folder: Path) -> None:
        self.clock = FakeClock()
        self.journal = WorkQueue(folder)
        self.numbers = iter(range(1, 100))
        self.lane = SwitchKeeper(
            drain,
            NODE,
            self.journal,
            self.clock,
            token=TOKEN,
            guard_age_s=lambda: 0.0,
            tally=ActuatorCounts(),
            pace=RateLimit(),
        )

    def ask(self, task: Task) -> None:
        work = work_of(self.lane.name, task, decision(next(self.numbers), time_ns=self.clock.utc_ns()), None)
        self.journal.take_in([work], (), journal="guard", position=(0, 0), now_ns=0)
        self.lane.step()

    def later(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.lane.step()

    def last(self) -> tuple[ActionState, str]:
        action = self.journal.outbox()[-1][1]
        return action.state, action.reason


@pytest.fixture
def life(drain: SlurmDrain, tmp_path: Path) -> Iterator[Life]:
    made = Life(drain, tmp_path)
    yield made
    made.journal.close()


def test_a_node_is_drained_with_a_reason_that_a_person_can_read_and_given_back(cluster: Slurm, life: Life) -> None:
    life.ask(Task.ENGAGE)
    assert cluster.node() == f"drained railwatch:{TOKEN} i-1 the rail sags"
    assert life.last()[0] is ActionState.APPLIED
    life.ask(Task.RELEASE)
    assert life.last()[0] is ActionState.RELEASED
    assert cluster.node() == "idle none"


def test_a_node_that_a_person_drained_is_neither_drained_over_nor_given_back(cluster: Slurm, life: Life) -> None:
    cluster.by_hand("state=drain", "reason=new fans [ordered]")
    life.ask(Task.ENGAGE)
    state, reason = life.last()
    assert state is ActionState.REFUSED
    assert "'new fans [ordered]' by root" in reason
    life.ask(Task.RELEASE)
    assert cluster.node() == "drained new fans [ordered]"


def test_a_reason_that_a_person_changed_makes_the_drain_his(cluster: Slurm, life: Life) -> None:
    life.ask(Task.ENGAGE)
    cluster.by_hand("state=drain", "reason=I look after it")
    life.later(LOOK_EVERY_S + 1)
    assert life.last() == (ActionState.RELEASED, "changed by someone else; left as is")
    life.ask(Task.RELEASE)
    assert cluster.node() == "drained I look after it"


def test_a_node_that_a_person_gave_back_is_not_drained_again_for_that_incident(cluster: Slurm, life: Life) -> None:
    life.ask(Task.ENGAGE)
    cluster.by_hand("state=resume")
    life.later(LOOK_EVERY_S + 1)
    life.ask(Task.ENGAGE)
    assert life.last()[0] is ActionState.REFUSED
    assert "drain" not in cluster.node()


def test_the_adapter_itself_returns_back_only_what_carries_the_token(cluster: Slurm, drain: SlurmDrain) -> None:
    drain.engage(NODE, token=TOKEN, reason="x" * 500)
    assert drain.read(NODE).token == TOKEN
    with pytest.raises(ActionRefusedError, match="left as is"):
        drain.release(NODE, token="ffff")
    assert drain.read(NODE).held is SwitchOwner.OURS


def test_what_slurm_refuses_is_stated_by_what_it_means(cluster: Slurm) -> None:
    with pytest.raises(NotSupportedError, match="not found"):
        SlurmDrain(commands(cluster)).read("nowhere")
    with pytest.raises(NotSupportedError, match="no such program"):
        SlurmCommands(SlurmSettings(node=NODE, folder="/nowhere"), CLOCK).run("scontrol", "ping")


def test_who_may_not_drain_is_reported_so(cluster: Slurm, tmp_path: Path) -> None:
    # scontrol as another user: a program of that name in front, that gives its rights away first.
    (tmp_path / "scontrol").write_text('#!/bin/sh\nexec setpriv --reuid 65534 --clear-groups /usr/bin/scontrol "$@"\n')
    (tmp_path / "scontrol").chmod(0o755)
    for folder in (cluster.home, *cluster.home.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o055)
    settings = SlurmSettings(node=NODE, folder=str(tmp_path), conf=cluster.conf)
    with pytest.raises(NotPermittedError, match="Invalid user id"):
        SlurmDrain(SlurmCommands(settings, CLOCK)).engage(NODE, token=TOKEN, reason="no")


def order(**parameters: str) -> MessageRequest:
    made = decision(action="requeue", parameters=tuple(parameters.items()))
    return MessageRequest(decision=made, incident=None, recovery=False, token="t")


def running_job(cluster: Slurm, *options: str) -> str:
    cluster.until("sinfo", "-h", "-N", "-o", "%T", shows="idle")
    reported = cluster.run("sbatch", *options, "-o", "/dev/null", "--wrap", "sleep 300")
    job = reported.split()[-1]
    cluster.until("squeue", "-h", "-j", job, "-o", "%T", shows="RUNNING")
    return job


def test_a_running_job_is_requeued_and_what_became_of_it_is_read_back(cluster: Slurm) -> None:
    requeue = SlurmRequeue(commands(cluster), node=NODE)
    with pytest.raises(ActionRefusedError, match=f"no job runs on {NODE}"):
        requeue.check(order())
    job = running_job(cluster, "--requeue")
    try:
        assert f"would requeue job {job}" in requeue.check(order())
        receipt = requeue.send(order(job=job))
        assert receipt.done, receipt.summary
        assert "Restarts=1" in cluster.run("scontrol", "show", "job", job, "-o")
        with pytest.raises(ActionRefusedError, match="does not run"):
            requeue.send(order(job="999999"))
    finally:
        cluster.run("scancel", job)
        cluster.until("squeue", "-h", "-o", "%A", shows="")


def test_a_job_that_may_not_be_requeued_is_refused_with_the_reason(cluster: Slurm) -> None:
    job = running_job(cluster, "--no-requeue")
    try:
        with pytest.raises(ActionRefusedError, match="--no-requeue"):
            SlurmRequeue(commands(cluster), node=NODE).send(order())
        assert "JobState=RUNNING" in cluster.run("scontrol", "show", "job", job, "-o")
    finally:
        cluster.run("scancel", job)


def test_a_controller_that_is_away_is_reported_and_asked_again(
    cluster: Slurm, drain: SlurmDrain, tmp_path: Path
) -> None:
    life = Life(SlurmDrain(commands(cluster, timeout_s=3.0)), tmp_path)
    cluster.end("slurmctld")
    try:
        life.ask(Task.ENGAGE)
        state, reason = life.last()
        assert state is ActionState.FAILED
        assert "; retrying" in reason
    finally:
        cluster.start_controller()
        cluster.until("sinfo", "-h", "-N", "-o", "%T", shows="idle")
    life.later(60.0)
    assert life.last()[0] is ActionState.APPLIED
    assert cluster.node().startswith(("drained railwatch:", "draining railwatch:"))
    life.journal.close()


def test_one_that_hangs_is_abandoned_in_time(cluster: Slurm, tmp_path: Path) -> None:
    (tmp_path / "scontrol").write_text("#!/bin/sh\nsleep 60\n")
    (tmp_path / "scontrol").chmod(0o755)
    settings = SlurmSettings(node=NODE, folder=str(tmp_path), timeout_s=0.3)
    with pytest.raises(TransientError, match=r"no reply within 0\.3 s"):
        SlurmDrain(SlurmCommands(settings, CLOCK)).read(NODE)
