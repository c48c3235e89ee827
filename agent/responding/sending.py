"""Lifecycle of a message: check, journal, send, report. A message is not reversible, so it is sent once.

A process that is killed between the journal entry and the reply leaves a message whose result is unknown. A message
that does no harm twice is then sent again; any other is reported as unknown and left to an operator.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from agent.responding.pacing import RateLimit
from agent.responding.port import CheckableMessage, Message, MessageRequest
from agent.responding.work import ActuatorCounts, Task, Work
from agent.responding.work_queue import WorkQueue, WorkResults
from rules.policy.model import ActionClass
from telemetry.clock import NS_PER_S, Clock
from telemetry.errors import ActionRefusedError, NotPermittedError, NotSupportedError, RailwatchError, TransientError
from telemetry.records import ActionState

logger = logging.getLogger(__name__)

_ERRORS = (TransientError, NotSupportedError, NotPermittedError, ActionRefusedError)
UNKNOWN = "result unknown: railwatch ended while it was being carried out; not repeated"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPolicy:
    """Delivery of a class of messages: whether twice does no harm, and how long sending is worthwhile."""

    again: bool
    good_for_s: float


# heuristic: a person rather reads a message twice than not at all, and a second checkpoint costs seconds. A hook may do
# anything; a second requeue would discard the work since the first. A power cycle usually ends the process that sends
# it: the second request reports the result of the first. After minutes the situation is no longer the one judged.
DELIVERY_POLICIES = {
    ActionClass.NOTIFY: DeliveryPolicy(again=True, good_for_s=86_400.0),
    ActionClass.CHECKPOINT: DeliveryPolicy(again=True, good_for_s=600.0),
    ActionClass.HOOK: DeliveryPolicy(again=False, good_for_s=600.0),
    ActionClass.REQUEUE: DeliveryPolicy(again=False, good_for_s=600.0),
    ActionClass.POWER_CYCLE: DeliveryPolicy(again=True, good_for_s=900.0),
}


class MessageSender:
    """Sends the waiting messages of one class, one at a time. One thread owns it."""

    def __init__(
        self,
        message: Message,
        policy: DeliveryPolicy,
        journal: WorkQueue,
        clock: Clock,
        *,
        tally: ActuatorCounts,
        pace: RateLimit,
    ) -> None:
        self.name = message.name
        self._message = message
        self._policy = policy
        self._journal = journal
        self._clock = clock
        self._tally = tally
        self._pace = pace
        self._results = WorkResults(self.name, journal, clock, tally)
        self._owed: Callable[[], None] | None = None
        for work in journal.begun(self.name):
            self._take_over(work)

    def step(self) -> float | None:
        """Send what is due; return the seconds until the next, None if nothing waits.

        TransientError if the work queue cannot be written: a message that was sent is not sent again, only noted late.
        """
        if self._owed is not None:
            self._owed()
            self._owed = None
        for work in self._results.due():
            wait_s = 0.0 if work.is_dry else self._pace.take(self._clock.monotonic_s())
            if wait_s:
                return wait_s
            self._process(work)
        return min(self._results.waits_s(), default=None)

    def release_all(self, reason: str) -> None:
        """Do nothing: a message holds nothing that could be released."""

    def _take_over(self, work: Work) -> None:
        """Retry or end a message that an earlier process had begun."""
        if self._policy.again:
            self._journal.put_back(work, due_ns=0, now_ns=self._clock.utc_ns())
            return
        self._tally.unknown += 1
        self._results.end(work, ActionState.FAILED, UNKNOWN)

    def _process(self, work: Work) -> None:
        try:
            summary = self._checked(work)
        except _ERRORS as err:
            self._went_wrong(work, err)
            return
        if summary is not None:
            self._results.end(work, ActionState.DONE, f"nothing sent: {summary}")
            return
        self._journal.begin(work, now_ns=self._clock.utc_ns())
        try:
            receipt = self._message.send(_order(work))
        except Exception as err:  # noqa: BLE001 -- supervisor of actions: a defect in one may not keep the others back
            self._note(partial(self._went_wrong, work, err))
            return
        state = ActionState.DONE if receipt.done else ActionState.FAILED
        self._note(partial(self._results.end, work, state, receipt.summary))

    def _checked(self, work: Work) -> str | None:
        """Check before sending; return the summary of a dry run, None if the message is to be sent."""
        if self._is_late(work):
            raise ActionRefusedError(f"expired: not carried out within {self._policy.good_for_s:g} s of its decision")
        summary = (
            self._message.check(_order(work)) if isinstance(self._message, CheckableMessage) else work.decision.reason
        )
        return summary if work.is_dry else None

    def _note(self, write: Callable[[], None]) -> None:
        """Record the result of a message; if that fails, again at the next step."""
        self._owed = write
        write()
        self._owed = None

    def _went_wrong(self, work: Work, err: Exception) -> None:
        if isinstance(err, TransientError):
            self._results.again(work, str(err))
        elif isinstance(err, RailwatchError):
            self._results.end(work, ActionState.REFUSED, str(err))
        else:
            logger.error("%s failed", self.name, exc_info=err)
            self._results.end(work, ActionState.FAILED, f"unexpected error: {err}")

    def _is_late(self, work: Work) -> bool:
        since_ns = work.decision.time_ns
        if work.task is Task.RECOVER and work.incident is not None:
            since_ns = work.incident.time_ns
        return self._clock.utc_ns() - since_ns > self._policy.good_for_s * NS_PER_S


def _order(work: Work) -> MessageRequest:
    recovery = work.task is Task.RECOVER
    return MessageRequest(decision=work.decision, incident=work.incident, recovery=recovery, token=work.token)
