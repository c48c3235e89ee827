"""A responder's lanes over fakes of the outside, that record what was done to them and fail when a test sets it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from agent.responding.pacing import RateLimit
from agent.responding.port import EvictionProgress, MessageRequest, Receipt, Switch, SwitchOwner, SwitchState
from agent.responding.sending import DeliveryPolicy, MessageSender
from agent.responding.switching import SwitchKeeper
from agent.responding.work import ActuatorCounts, Task, Work, work_of
from agent.responding.work_queue import WorkQueue
from telemetry.errors import RailwatchError, TransientError
from telemetry.records import Action, Decision, Incident, IncidentState, Mode, Severity, Verdict
from tests import record_samples
from tests.agent.fakes import START_NS, FakeClock

TARGET = "gpu0"
TOKEN = "0123abcd"
PERSON = "a person"


class Killed(BaseException):
    """Stands for a kill: nothing that comes after it in this process happens."""


def decision(
    number: int = 1,
    *,
    incident: str = "i-1",
    action: str = "drain",
    mode: Mode = Mode.ENFORCE,
    verdict: Verdict = Verdict.EXECUTE,
    time_ns: int = START_NS,
    parameters: tuple[tuple[str, str], ...] = (),
) -> Decision:
    return Decision(
        id=f"policy:{incident}:{number}",
        time_ns=time_ns,
        rule="policy",
        incident_id=incident,
        action=action,
        targets=("node:box",),
        lease_s=None,
        mode=mode,
        verdict=verdict,
        reason="the rail sags",
        parameters=parameters,
    )


def incident(name: str = "i-1", *, state: IncidentState = IncidentState.OPEN, time_ns: int = START_NS) -> Incident:
    return replace(
        record_samples.INCIDENT,
        id=name,
        time_ns=time_ns,
        opened_ns=START_NS,
        closed_ns=time_ns if state is IncidentState.CLOSED else None,
        state=state,
        severity=Severity.CRITICAL,
        summary="the rail sags",
    )


class FakeSwitch:
    """Switch of one target. `foul` lists the changes that must never happen."""

    name = "fake_drain"

    def __init__(self) -> None:
        self.held = SwitchOwner.FREE
        self.summary = ""
        self.token: str | None = None
        self.writes = 0
        self.foul: list[str] = []
        self.error: RailwatchError | None = None
        self.late_error: BaseException | None = None

    def by_person(self, held: SwitchOwner) -> None:
        self.held, self.token, self.summary = held, None, PERSON if held is SwitchOwner.OTHERS else ""

    def read(self, target: str) -> SwitchState:
        if self.error is not None:
            raise self.error
        return SwitchState(held=self.held, summary=self.summary or self.held.value, token=self.token)

    def engage(self, target: str, *, token: str, reason: str) -> None:
        self._fail()
        if self.held is SwitchOwner.OTHERS:
            self.foul.append("engaged over a person")
        self.held, self.token, self.summary = SwitchOwner.OURS, token, reason
        self._changed()

    def release(self, target: str, *, token: str) -> None:
        self._fail()
        if self.held is not SwitchOwner.OURS or self.token != token:
            self.foul.append("released what is not ours")
        self.held, self.token, self.summary = SwitchOwner.FREE, None, ""
        self._changed()

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error

    def _changed(self) -> None:
        self.writes += 1
        error, self.late_error = self.late_error, None
        if error is not None:
            raise error


class FakeNode(FakeSwitch):
    """A switch behind which pods run; each look ends as many as `allowed`."""

    empty_within_s = 60.0

    def __init__(self, *pods: str, allowed: int = 1) -> None:
        super().__init__()
        self.pods, self.allowed = list(pods), allowed
        self.asked = 0
        self.empty_error: BaseException | None = None

    def empty(self, target: str) -> EvictionProgress:
        self.asked += 1
        del self.pods[: self.allowed]
        error, self.empty_error = self.empty_error, None
        if error is not None:
            raise error
        return EvictionProgress(left=tuple(self.pods), waits=bool(self.pods))


class FakeMessage:
    name = "fake_message"

    def __init__(self) -> None:
        self.sent: list[MessageRequest] = []
        self.errors: list[BaseException] = []
        self.receipt = Receipt(summary="said")
        self.checked = 0
        self.on_send: Callable[[], None] = lambda: None

    def check(self, order: MessageRequest) -> str:
        self.checked += 1
        return "would say"

    def send(self, order: MessageRequest) -> Receipt:
        if self.errors:
            raise self.errors.pop(0)
        self.sent.append(order)
        self.on_send()
        return self.receipt


class Rig:
    """Journal with one switch and one message on it; `restart` is what follows a kill."""

    def __init__(self, folder: Path, *, again: bool = False) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.switch = FakeSwitch()
        self._there: Switch = self.switch
        self.target = TARGET
        self.message = FakeMessage()
        self.manner = DeliveryPolicy(again=again, good_for_s=600.0)
        self.guard_age_s = 0.0
        self.numbers = iter(range(1, 1_000_000))
        self.reported: list[Action] = []
        self.journal = WorkQueue(folder)
        self._open()

    def _open(self) -> None:
        self.tally, self.pace, self.message_pace = ActuatorCounts(), RateLimit(), RateLimit()
        self.switching = SwitchKeeper(
            self._there,
            self.target,
            self.journal,
            self.clock,
            token=TOKEN,
            guard_age_s=lambda: self.guard_age_s,
            tally=self.tally,
            pace=self.pace,
        )
        self.sending = MessageSender(
            self.message, self.manner, self.journal, self.clock, tally=self.tally, pace=self.message_pace
        )

    def put(self, switch: Switch, *, target: str = TARGET) -> None:
        """Have another switch there."""
        self.target = target
        if isinstance(switch, FakeSwitch):
            self.switch = switch
        self._there = switch
        self._open()

    def restart(self) -> None:
        self.journal.close()
        self.journal = WorkQueue(self.folder)
        self._open()

    def ask(self, task: Task, *, incident: str = "i-1", mode: Mode = Mode.ENFORCE) -> Work:
        name = self.message.name if task in (Task.SEND, Task.RECOVER) else self._there.name
        made = decision(next(self.numbers), incident=incident, mode=mode, time_ns=self.clock.utc_ns())
        work = work_of(name, task, made, None)
        self.journal.take_in([work], (), journal="guard", position=(1, 2), now_ns=self.clock.utc_ns())
        return work

    def engage(self, incident: str = "i-1", mode: Mode = Mode.ENFORCE) -> list[str]:
        self.ask(Task.ENGAGE, incident=incident, mode=mode)
        return self.step()

    def release(self, incident: str = "i-1") -> list[str]:
        self.ask(Task.RELEASE, incident=incident)
        return self.step()

    def is_ours(self) -> bool:
        return self.switch.held is SwitchOwner.OURS

    def step(self) -> list[str]:
        """Do what is due; return the states that were reported since."""
        self.switching.step()
        self.sending.step()
        return self.news()

    def later(self, seconds: float) -> list[str]:
        self.clock.advance(seconds)
        return self.step()

    def news(self) -> list[str]:
        outbox = self.journal.outbox()
        if outbox:
            self.journal.note_published(outbox[-1][0])
        fresh = [action for _, action in outbox]
        self.reported += fresh
        return [action.state.value for action in fresh]


BUSY = TransientError("the controller does not answer")
