"""From the fleet's incidents to what agents and people are asked: decide, write down, ask, take in, tell the store.

The memory is on disk before the first agent is asked, so a service that was killed anywhere knows what it may have
begun: it counts it, asks again where it had no answer, and gives it back when the incident is over.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from agent.responding.port import Message, MessageRequest, Switch
from fleet.agent_client import AgentClient, OrderReply
from fleet.control.expiry import Expiry
from fleet.ledger_file import LedgerFile
from fleet.operator_commands import CommandReader
from fleet.outbox import Audited, Outbox
from rules.caps.knobs import KNOB_OF
from rules.fleet.engine import FleetEngine
from rules.fleet.memory import UnsentPage
from rules.fleet.orders import FleetIncident, FleetOrder, FleetView, OrderKind, OrderResult
from telemetry.clock import Clock
from telemetry.commands import Command, CommandVerb
from telemetry.errors import RailwatchError, TransientError
from telemetry.records import Action, ActionState, Event, EventKind, Mode, Severity

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetActuators:
    """Through what a fleet acts: agents, a scheduler, people; None or nothing where there is none."""

    asker: AgentClient | None = None
    drain: Switch | None = None
    messages: Sequence[Message] = ()


class FleetActing:
    """Acts for one fleet service; one thread owns it."""

    def __init__(
        self,
        engine: FleetEngine,
        actuators: FleetActuators,
        ledger: LedgerFile,
        outbox: Outbox,
        clock: Clock,
        *,
        commands: CommandReader,
        simulated: bool = False,
        expiry: Expiry | None = None,
    ) -> None:
        self._engine, self._hands, self._ledger = engine, actuators, ledger
        self._outbox, self._clock, self._commands, self._simulated = outbox, clock, commands, simulated
        self._expiry = expiry
        self._told_refusals: set[tuple[str, str]] = set()
        self._kept = b""
        self.counts: Counter[str] = Counter()

    @property
    def claimed(self) -> frozenset[str]:
        """Incidents that an action of the fleet holds down."""
        return frozenset(claim.incident_id for claim in self._engine.memory.claims.values())

    @property
    def figures(self) -> dict[str, float]:
        """Return what it tells of itself."""
        memory = self._engine.memory
        return {
            "fleet_asked": self.counts[OrderResult.DONE],
            "fleet_refused": self.counts[OrderResult.REFUSED] + self.counts[OrderResult.LOST],
            "fleet_unanswered": self.counts[OrderResult.SILENT],
            "fleet_held_nodes": len({claim.node for claim in memory.claims.values()}),
            "fleet_breaker": float(memory.ledger.breaker is not None),
        } | ({} if self._expiry is None else {"fleet_days_left": float(self._expiry.days_left(self._clock.utc_ns()))})

    def step(self, cases: Sequence[FleetIncident], fleet: FleetView) -> None:
        """Do what is due now; nothing is asked while the memory cannot be written."""
        audited: list[Audited] = [*self._take_commands(), *self._expiring()]
        was_whole = self._engine.memory.ledger.breaker is None
        made = self._engine.step(cases, fleet, self._clock.utc_ns())
        audited += [*made.decisions, *made.outcomes]
        if was_whole and self._engine.memory.ledger.breaker is not None:
            audited.append(self._tripped(self._engine.memory.ledger.breaker.reason))
        # Each record goes out before the memory of it is kept: after a kill it may be told again, and is never lost.
        self._audit(audited)
        if self._is_kept():
            replies = self._carry_out(made.orders)
            pairs = zip(made.orders, replies, strict=True)
            self._audit([action for order, reply in pairs for action in self._taken_in(order, reply)])
            self._say_words()
            self._is_kept()

    def _audit(self, records: Sequence[Audited]) -> None:
        if records:
            self._outbox.audit(records, simulated=self._simulated)

    def _expiring(self) -> tuple[Event, ...]:
        news = None if self._expiry is None else self._expiry.news(self._clock.utc_ns())
        if news is None:
            return ()
        logger.warning(news.message)
        return (news,)

    def _take_commands(self) -> tuple[Command, ...]:
        """Carry out the commands of operators since the last step and return them for the record."""
        memory, now_ns = self._engine.memory, self._clock.utc_ns()
        commands = self._commands.read()
        for command in commands:
            match command.verb:
                case CommandVerb.RESET_BREAKER:
                    if memory.ledger.breaker is not None and command.time_ns >= memory.ledger.breaker.tripped_ns:
                        memory.ledger.reset()
                        logger.warning("fleet breaker reset by %s", command.who)
                case CommandVerb.APPROVE | CommandVerb.REJECT:
                    approved = command.verb is CommandVerb.APPROVE
                    if not self._engine.answer_person(command.subject, approved=approved, now_ns=now_ns):
                        logger.warning("cannot %s decision %s: not pending", command.verb, command.subject)
                case _:
                    logger.warning("command %s is not for a fleet service; ignored", command.verb)
        memory.person = tuple(self._commands.position)
        return commands

    def _is_kept(self) -> bool:
        """Write the memory down where it has changed."""
        body = self._engine.memory.to_json()
        if body == self._kept:
            return True
        try:
            self._ledger.save(body)
        except OSError as err:
            self.counts["unkept"] += 1
            logger.error("nothing is asked, for what is asked cannot be written down: %s", err)  # noqa: TRY400 -- the reason says it all
            return False
        self._kept = body
        return True

    def _carry_out(self, orders: Sequence[FleetOrder]) -> tuple[OrderReply, ...]:
        """Ask agents all together, and the scheduler one after the other."""
        asked = [order for order in orders if order.claim.action in KNOB_OF]
        if self._hands.asker is None:
            answers = [OrderReply(result=OrderResult.REFUSED, words="no agent can be asked: fleet.act is off")] * len(
                asked
            )
        else:
            answers = list(self._hands.asker.ask_all([(order.order_kind, order.claim) for order in asked]))
        by_order = {id(order): reply for order, reply in zip(asked, answers, strict=True)}
        return tuple(by_order[id(order)] if id(order) in by_order else self._drained(order) for order in orders)

    def _drained(self, order: FleetOrder) -> OrderReply:
        drain, claim = self._hands.drain, order.claim
        if drain is None:
            return OrderReply(result=OrderResult.REFUSED, words="no scheduler is configured")
        try:
            if order.order_kind is OrderKind.BEGIN:
                drain.engage(claim.node, token=claim.decision_id, reason=claim.reason)
            elif order.order_kind is OrderKind.END:
                drain.release(claim.node, token=claim.decision_id)
        except TransientError as err:
            return OrderReply(result=OrderResult.SILENT, words=str(err))
        except RailwatchError as err:
            return OrderReply(
                result=OrderResult.REFUSED if order.order_kind is OrderKind.BEGIN else OrderResult.LOST, words=str(err)
            )
        return OrderReply(result=OrderResult.DONE)

    def _taken_in(self, order: FleetOrder, reply: OrderReply) -> tuple[Action, ...]:
        """Learn what came of an order; gives what is worth telling: every change, and a failure once."""
        claim = order.claim
        self.counts[reply.result] += 1
        self._engine.note(claim, order.order_kind, reply.result, self._clock.utc_ns())
        if reply.result is OrderResult.DONE:
            self._told_refusals.discard((claim.node, order.order_kind))
            if order.order_kind is OrderKind.RENEW:
                return ()
            return tuple(self._acted(order, action) for action in reply.actions) or (self._did(order, reply),)
        if (claim.node, order.order_kind) in self._told_refusals:
            return ()
        self._told_refusals.add((claim.node, order.order_kind))
        logger.warning("%s on %s: %s, %s", order.order_kind, claim.node, reply.result, reply.words)
        return (self._did(order, reply),)

    def _acted(self, order: FleetOrder, action: Action) -> Action:
        """Return what an agent did as the fleet tells of it: beside the node, with before, after and who asked."""
        return Action(
            id=f"fleet/{order.claim.node}/{action.id}",
            time_ns=action.time_ns,
            decision_id=order.claim.decision_id,
            incident_id=order.claim.incident_id,
            knob=f"{action.entity_id}/{action.knob}",
            knob_kind=action.knob_kind,
            entity_id=f"node:{order.claim.node}",
            unit=action.unit,
            found=action.found,
            wanted=action.wanted,
            read_back=action.read_back,
            state=action.state,
            mode=action.mode,
            lease_until_ns=action.lease_until_ns,
            owner=action.owner,
            reason=action.reason,
        )

    def _did(self, order: FleetOrder, reply: OrderReply) -> Action:
        claim = order.claim
        done = ActionState.RELEASED if order.order_kind is OrderKind.END else ActionState.APPLIED
        failed = ActionState.FAILED if reply.result is OrderResult.SILENT else ActionState.REFUSED
        asker = self._hands.asker
        return Action(
            id=f"fleet/{claim.node}/{claim.decision_id}",
            time_ns=self._clock.utc_ns(),
            decision_id=claim.decision_id,
            incident_id=claim.incident_id,
            knob=claim.action.value,
            entity_id=f"node:{claim.node}",
            unit="",
            found=None,
            wanted=None,
            read_back=None,
            state=done if reply.result is OrderResult.DONE else failed,
            mode=Mode.ENFORCE,
            lease_until_ns=None,
            owner=f"fleet:{self._engine.rails.me if asker is None else asker.fleet}",
            reason=f"{order.order_kind}: {reply.words or claim.reason}",
        )

    def _say_words(self) -> None:
        """Report people what waits to be told; what cannot be said now is said at the next step."""
        for word in tuple(self._engine.memory.unsent):
            if self._is_said(word):
                self._engine.note_sent(word.decision.id)

    def _is_said(self, word: UnsentPage) -> bool:
        token = f"{word.decision.rule}:{word.decision.incident_id}:{'over' if word.recovery else 'begun'}"
        order = MessageRequest(decision=word.decision, incident=word.incident, recovery=word.recovery, token=token)
        said = True
        for message in self._hands.messages:
            try:
                message.send(order)
            except TransientError as err:
                logger.warning("%s: %s", message.name, err)
                said = False
            except RailwatchError as err:
                logger.error("%s cannot tell anybody: %s", message.name, err)  # noqa: TRY400 -- the reason says it all
        if said:
            self.counts["recoveries" if word.recovery else "pages"] += 1
            logger.warning("%s: %s", "over" if word.recovery else "page", word.decision.reason)
        return said

    def _tripped(self, reason: str) -> Event:
        now_ns = self._clock.utc_ns()
        logger.error("the fleet's breaker tripped: %s; railwatch fleet reset-breaker --reason TEXT closes it", reason)
        return Event(
            id=f"fleet-breaker:{now_ns}",
            time_ns=now_ns,
            kind=EventKind.CONTROL,
            entity_id=None,
            code=None,
            severity=Severity.CRITICAL,
            message=f"the fleet's breaker tripped: {reason}",
            sources=("fleet",),
        )
