"""Actions of a fleet service: from incidents to decisions, requests to agents, pages to operators, and records.

The memory is on disk before the first request is sent, so a service that was killed at any point knows what it may have
begun: it counts it, sends the request again where it had no reply, and releases it when the incident is over.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.responding.port import Message, MessageRequest, Switch
from fleet.agent_client import AgentClient, OrderReply
from fleet.certificates.identity import Expiry
from fleet.ledger_file import CommandReader, LedgerFile
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
    """Actuators of a fleet: agents, a scheduler, messages to operators; None or empty where there is none."""

    client: AgentClient | None = None
    drain: Switch | None = None
    messages: Sequence[Message] = ()


class FleetActing:
    """Carries out the decisions of one fleet service; one thread owns it."""

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
        self._engine, self._actuators, self._ledger = engine, actuators, ledger
        self._outbox, self._clock, self._commands, self._simulated = outbox, clock, commands, simulated
        self._expiry = expiry
        self._reported_refusals: set[tuple[str, str]] = set()
        self._kept = b""
        self.counts: Counter[str] = Counter()

    @property
    def claimed(self) -> frozenset[str]:
        """Incidents with an action of the fleet in force."""
        return frozenset(claim.incident_id for claim in self._engine.memory.claims.values())

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the service itself."""
        memory = self._engine.memory
        return {
            "fleet_asked": self.counts[OrderResult.DONE],
            "fleet_refused": self.counts[OrderResult.REFUSED] + self.counts[OrderResult.LOST],
            "fleet_unanswered": self.counts[OrderResult.SILENT],
            "fleet_held_nodes": len({claim.node for claim in memory.claims.values()}),
            "fleet_breaker": float(memory.ledger.breaker is not None),
        } | ({} if self._expiry is None else {"fleet_days_left": float(self._expiry.days_left(self._clock.utc_ns()))})

    def step(self, cases: Sequence[FleetIncident], fleet: FleetView) -> None:
        """Carry out what is due; no request is sent while the memory cannot be written."""
        audited: list[Audited] = [*self._take_commands(), *self._expiring()]
        was_whole = self._engine.memory.ledger.breaker is None
        made = self._engine.step(cases, fleet, self._clock.utc_ns())
        audited += [*made.decisions, *made.outcomes]
        if was_whole and self._engine.memory.ledger.breaker is not None:
            audited.append(self._tripped(self._engine.memory.ledger.breaker.reason))
        # Each record is published before the memory of it is saved: after a kill it may come twice, and is never lost.
        self._audit(audited)
        if self._is_kept():
            replies = self._carry_out_orders(made.orders)
            pairs = zip(made.orders, replies, strict=True)
            self._audit([action for order, reply in pairs for action in self._note_reply(order, reply)])
            self._send_pages()
            self._is_kept()

    def _audit(self, records: Sequence[Audited]) -> None:
        if records:
            self._outbox.audit(records, simulated=self._simulated)

    def _expiring(self) -> tuple[Event, ...]:
        warning = None if self._expiry is None else self._expiry.due_warning(self._clock.utc_ns())
        if warning is None:
            return ()
        logger.warning("%s", warning.message)
        return (warning,)

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
        """Save the memory if it has changed; False where that fails."""
        body = self._engine.memory.to_json()
        if body == self._kept:
            return True
        try:
            self._ledger.save(body)
        except OSError as err:
            self.counts["unkept"] += 1
            logger.error("cannot save fleet memory, sending no requests: %s", err)  # noqa: TRY400 -- the reason suffices
            return False
        self._kept = body
        return True

    def _carry_out_orders(self, orders: Sequence[FleetOrder]) -> tuple[OrderReply, ...]:
        """Send requests to all agents at a time, and those to the scheduler one after the other."""
        to_agents = [order for order in orders if order.claim.action in KNOB_OF]
        if self._actuators.client is None:
            answers = [
                OrderReply(result=OrderResult.REFUSED, reason="cannot send requests to agents: fleet.act is off")
            ] * len(to_agents)
        else:
            answers = list(self._actuators.client.send_all([(order.order_kind, order.claim) for order in to_agents]))
        by_order = {id(order): reply for order, reply in zip(to_agents, answers, strict=True)}
        return tuple(by_order[id(order)] if id(order) in by_order else self._drained(order) for order in orders)

    def _drained(self, order: FleetOrder) -> OrderReply:
        drain, claim = self._actuators.drain, order.claim
        if drain is None:
            return OrderReply(result=OrderResult.REFUSED, reason="no scheduler is configured")
        try:
            if order.order_kind is OrderKind.BEGIN:
                drain.engage(claim.node, token=claim.decision_id, reason=claim.reason)
            elif order.order_kind is OrderKind.END:
                drain.release(claim.node, token=claim.decision_id)
        except TransientError as err:
            return OrderReply(result=OrderResult.SILENT, reason=str(err))
        except RailwatchError as err:
            return OrderReply(
                result=OrderResult.REFUSED if order.order_kind is OrderKind.BEGIN else OrderResult.LOST, reason=str(err)
            )
        return OrderReply(result=OrderResult.DONE)

    def _note_reply(self, order: FleetOrder, reply: OrderReply) -> tuple[Action, ...]:
        """Note the reply to an order and return the actions to record: every change, and a failure once."""
        claim = order.claim
        self.counts[reply.result] += 1
        self._engine.note(claim, order.order_kind, reply.result, self._clock.utc_ns())
        if reply.result is OrderResult.DONE:
            self._reported_refusals.discard((claim.node, order.order_kind))
            if order.order_kind is OrderKind.RENEW:
                return ()
            return tuple(self._acted(order, action) for action in reply.actions) or (self._did(order, reply),)
        if (claim.node, order.order_kind) in self._reported_refusals:
            return ()
        self._reported_refusals.add((claim.node, order.order_kind))
        logger.warning("%s on %s: %s, %s", order.order_kind, claim.node, reply.result, reply.reason)
        return (self._did(order, reply),)

    def _acted(self, order: FleetOrder, action: Action) -> Action:
        """Return an action of an agent as the fleet records it: at the node, with the GPU in its knob."""
        return replace(
            action,
            id=f"fleet/{order.claim.node}/{action.id}",
            decision_id=order.claim.decision_id,
            incident_id=order.claim.incident_id,
            knob=f"{action.entity_id}/{action.knob}",
            entity_id=f"node:{order.claim.node}",
            released_by=None,  # the cause of a release is in the record of the node
        )

    def _did(self, order: FleetOrder, reply: OrderReply) -> Action:
        claim = order.claim
        done = ActionState.RELEASED if order.order_kind is OrderKind.END else ActionState.APPLIED
        failed = ActionState.FAILED if reply.result is OrderResult.SILENT else ActionState.REFUSED
        client = self._actuators.client
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
            owner=f"fleet:{self._engine.limits.me if client is None else client.fleet}",
            reason=f"{order.order_kind}: {reply.reason or claim.reason}",
        )

    def _send_pages(self) -> None:
        """Send the pages that wait; a page that cannot be sent now is sent at the next step."""
        for page in tuple(self._engine.memory.unsent):
            if self._is_sent(page):
                self._engine.note_sent(page.decision.id)

    def _is_sent(self, page: UnsentPage) -> bool:
        token = f"{page.decision.rule}:{page.decision.incident_id}:{'over' if page.recovery else 'begun'}"
        order = MessageRequest(decision=page.decision, incident=page.incident, recovery=page.recovery, token=token)
        sent = True
        for message in self._actuators.messages:
            try:
                message.send(order)
            except TransientError as err:
                logger.warning("%s: %s", message.name, err)
                sent = False
            except RailwatchError as err:
                logger.error("%s cannot send a page: %s", message.name, err)  # noqa: TRY400 -- the reason suffices
        if sent:
            self.counts["recoveries" if page.recovery else "pages"] += 1
            logger.warning("%s: %s", "over" if page.recovery else "page", page.decision.reason)
        return sent

    def _tripped(self, reason: str) -> Event:
        now_ns = self._clock.utc_ns()
        logger.error("fleet breaker tripped: %s; reset it with railwatch fleet reset-breaker --reason TEXT", reason)
        return Event(
            id=f"fleet-breaker:{now_ns}",
            time_ns=now_ns,
            kind=EventKind.CONTROL,
            entity_id=None,
            code=None,
            severity=Severity.CRITICAL,
            message=f"fleet breaker tripped: {reason}",
            sources=("fleet",),
        )
