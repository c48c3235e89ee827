"""The life of a message: look, journal, send, tell. What was sent cannot be taken back, so it is sent once.

A process that is killed between the journal and the answer leaves a message of which nobody knows whether it was sent.
What does no harm twice is then sent again; everything else is told as unknown and left to a person.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from agent.responding.counts import ActuatorCounts
from agent.responding.port import Checked, Message, MessageRequest
from agent.responding.rate_limit import RateLimit
from agent.responding.retries import is_due, pause_s
from agent.responding.work import Task, Work, action_of, claim_of
from agent.responding.work_queue import WorkQueue
from rules.policy.model import ActionClass
from telemetry.clock import NS_PER_S, Clock
from telemetry.errors import ActionRefusedError, NotPermittedError, NotSupportedError, RailwatchError, TransientError
from telemetry.records import Action, ActionState

logger = logging.getLogger(__name__)

_ERRORS = (TransientError, NotSupportedError, NotPermittedError, ActionRefusedError)
UNKNOWN = "unknown whether it was carried out: railwatch ended in the middle of it; it is not done again"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPolicy:
    """How a class of messages is treated: whether twice does no harm, and how long it is worth sending."""

    again: bool
    good_for_s: float


# Heuristic, all of it. A person rather reads twice than not at all, and a second checkpoint costs its seconds. What a
# program of somebody's own does twice nobody knows; a second requeue would throw away what the job did since. A power
# cycle most often ends the process that asks for it: asked again, it tells what came of it and does nothing. What is
# not done within minutes meets another situation than the one that was judged.
DELIVERY_POLICIES = {
    ActionClass.NOTIFY: DeliveryPolicy(again=True, good_for_s=86_400.0),
    ActionClass.CHECKPOINT: DeliveryPolicy(again=True, good_for_s=600.0),
    ActionClass.HOOK: DeliveryPolicy(again=False, good_for_s=600.0),
    ActionClass.REQUEUE: DeliveryPolicy(again=False, good_for_s=600.0),
    ActionClass.POWER_CYCLE: DeliveryPolicy(again=True, good_for_s=900.0),
}


class Sending:
    """Sends what waits for one kind of message, one at a time. One thread owns it."""

    def __init__(
        self,
        message: Message,
        manner: DeliveryPolicy,
        journal: WorkQueue,
        clock: Clock,
        *,
        tally: ActuatorCounts,
        pace: RateLimit,
    ) -> None:
        self.name = message.name
        self._message = message
        self._manner = manner
        self._journal = journal
        self._clock = clock
        self._tally = tally
        self._pace = pace
        self._owed: Callable[[], None] | None = None
        for work in journal.begun(self.name):
            self._left(work)

    def step(self) -> float | None:
        """Send what is due; gives how many seconds there are until the next is, None where nothing waits.

        TransientError where the journal cannot be written: what is sent by then is not sent again, only noted late.
        """
        if self._owed is not None:
            self._owed()
            self._owed = None
        for work, due_ns in self._journal.waiting(self.name):
            if not is_due(due_ns, self._clock.utc_ns()):
                continue
            wait_s = 0.0 if work.is_dry else self._pace.take(self._clock.monotonic_s())
            if wait_s:
                return wait_s
            self._deal_with(work)
        now_ns = self._clock.utc_ns()
        waits_s = [max(0.0, (due - now_ns) / NS_PER_S) for _, due in self._journal.waiting(self.name)]
        return min(waits_s, default=None)

    def let_go(self, reason: str) -> None:
        """Nothing of a message is in force that could be given back."""

    def _left(self, work: Work) -> None:
        """Deal with a message that an earlier process had begun."""
        if self._manner.again:
            self._journal.put_back(work, due_ns=0, now_ns=self._clock.utc_ns())
            return
        self._tally.unknown += 1
        self._end(work, ActionState.FAILED, UNKNOWN)

    def _deal_with(self, work: Work) -> None:
        try:
            words = self._looked_at(work)
        except _ERRORS as err:
            self._went_wrong(work, err)
            return
        if words is not None:
            self._end(work, ActionState.DONE, f"nothing sent: {words}")
            return
        self._journal.begin(work, now_ns=self._clock.utc_ns())
        try:
            receipt = self._message.send(_order(work))
        except Exception as err:  # noqa: BLE001 -- supervisor of actions: a defect in one may not keep the others back
            self._note(partial(self._went_wrong, work, err))
            return
        state = ActionState.DONE if receipt.done else ActionState.FAILED
        self._note(partial(self._end, work, state, receipt.words))

    def _looked_at(self, work: Work) -> str | None:
        """Look before sending; gives what a dry run says, None where it is to be sent."""
        if self._is_late(work):
            raise ActionRefusedError(
                f"not carried out within {self._manner.good_for_s:g} s of its decision; it is left out"
            )
        words = self._message.check(_order(work)) if isinstance(self._message, Checked) else work.decision.reason
        return words if work.is_dry else None

    def _note(self, write: Callable[[], None]) -> None:
        """Write down what became of something that was sent; once more at the next step where that fails."""
        self._owed = write
        write()
        self._owed = None

    def _went_wrong(self, work: Work, err: Exception) -> None:
        if isinstance(err, TransientError):
            self._again(work, str(err))
        elif isinstance(err, RailwatchError):
            self._end(work, ActionState.REFUSED, str(err))
        else:
            logger.error("%s failed", self.name, exc_info=err)
            self._end(work, ActionState.FAILED, f"an unforeseen error: {err}")

    def _is_late(self, work: Work) -> bool:
        since_ns = work.decision.time_ns
        if work.task is Task.RECOVER and work.incident is not None:
            since_ns = work.incident.time_ns
        return self._clock.utc_ns() - since_ns > self._manner.good_for_s * NS_PER_S

    def _again(self, work: Work, why: str) -> None:
        failed = replace(work, tries=work.tries + 1)
        self._tally.retried += 1
        logger.warning("%s is tried again: %s", self.name, why)
        now_ns = self._clock.utc_ns()
        due_ns = now_ns + round(pause_s(failed.tries) * NS_PER_S)
        told = () if work.tries else (self._action(work, ActionState.FAILED, f"{why}; it is tried again"),)
        self._journal.put_back(failed, due_ns=due_ns, now_ns=now_ns, actions=told)

    def _end(self, work: Work, state: ActionState, reason: str) -> None:
        self._tally.count(state)
        level = logging.INFO if state is ActionState.DONE else logging.WARNING
        logger.log(level, "%s %s: %s", self.name, state, reason)
        self._journal.end(work, now_ns=self._clock.utc_ns(), actions=(self._action(work, state, reason),))

    def _action(self, work: Work, state: ActionState, reason: str) -> Action:
        return action_of(
            knob=self.name,
            claim=claim_of(work, lease_s=0.0),
            state=state,
            reason=reason,
            time_ns=self._clock.utc_ns(),
            mode=work.decision.mode,
        )


def _order(work: Work) -> MessageRequest:
    recovery = work.task is Task.RECOVER
    return MessageRequest(decision=work.decision, incident=work.incident, recovery=recovery, token=work.token)
