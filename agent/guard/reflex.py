"""The reflex: an answer to a sagging rail that is ready before it sags, and goes out with the row that shows it.

The ordinary way from a row to a cap runs through detectors, incidents and rules: milliseconds of Python. While the
rails are healthy the same rules are asked once a second what they would do if a supply sagged now (`foresight`), and
the request that follows is written down as bytes. The row that falls below the limit is judged by a few comparisons in
the thread that wrote it, and the bytes go to the actuator, with lease, journal and limits like any cap. Then the
ordinary way is gone: once its own cap stands on the same GPUs, the reflex lets go. One that the rules do not confirm
lets go as well, and is counted. Where the rules would do nothing (mode, breaker, budget, cooldown, a person's word),
nothing is ready.
"""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent.actuation.nonblocking_client import NonBlockingClient, apply_line, list_line, release_line
from agent.actuation.request import CapRequest
from agent.guard.foresight import is_reflex, reflex_id
from agent.guard.orders import request_of
from analytics.detectors.limits import RailSagLimits
from rules.engine.claims import CapClaim
from telemetry.cells import CellView
from telemetry.clock import Clock
from telemetry.entities import EntityKind
from telemetry.frames import TableSpec
from telemetry.knobs import KnobKind
from telemetry.records import Action, ActionState, Mode

logger = logging.getLogger(__name__)

# How often the rules are asked. Heuristic: a training step is about a second, and a path ages over minutes.
PREPARE_EVERY_S = 1.0
# Where what they know has changed they are asked sooner, and not at each step of a storm. Heuristic.
PREPARE_AGAIN_S = 0.1
# What is ready goes out of use where they were not asked for so long: a guard that hangs hears no person and confirms
# nothing. Heuristic: longer than an order to an actuator that does not answer.
READY_FOR_S = 3.0
# How long the rules have to confirm a reflex. Heuristic: they see the same row within milliseconds.
CONFIRM_WITHIN_S = 1.0
# A reflex that the rules did not confirm was wrong: so long nothing is ready for that supply. Heuristic.
AFTER_WRONG_S = 60.0
# More of them than this in an hour, and the supply has no reflex until the hour is over. Heuristic: as many as the
# failures that trip the breaker of the rules.
WRONG_MAX, WRONG_WITHIN_S = 3, 3600.0
# Half of 12 V: no load that still computes draws a rail down there, so the reading is wrong (as for the detector).
IMPLAUSIBLE_BELOW_V = 6.0
# The rules asked for a cap on that GPU; it stands, or the actuator said why it does not.
_ANSWERED = frozenset({ActionState.APPLIED, ActionState.REFUSED, ActionState.FAILED})
_LIST, _RELEASE = "list", "release "


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCap:
    """What goes out when one supply sags; `apply` and `release` are lines as the actuator reads them."""

    incident_id: str
    supply_id: str
    gpus: frozenset[str]
    words: str
    apply: bytes
    release: bytes


@dataclass(slots=True)
class _Fired:
    """A reflex that is out: over which GPUs the rules have answered; `over`, `asked` once it lets go, is told to."""

    answer: PreparedCap
    at_s: float
    answered: frozenset[str] = frozenset()
    stands: bool = False
    over: bool = False
    asked: bool = False


class Reflex:
    """Keeps one answer per supply ready; `look` belongs to the threads that write rows, the rest to the guard's.

    Attributes
    ----------
    fired, unconfirmed, unsent
        Reflexes that went out, those of them that the rules did not confirm, and those that the actuator could not be
        told of, so far.
    """

    def __init__(self, specs: Iterable[TableSpec], line: NonBlockingClient, clock: Clock, *, limits: RailSagLimits) -> None:
        self._cells = {spec.name: places for spec in specs if (places := _voltages(spec))}
        self._supplies = tuple(dict.fromkeys(one for places in self._cells.values() for _, one in places))
        self._line = line
        self._clock = clock
        self._below_v = limits.at_once_below_v
        self._ready: dict[str, PreparedCap] = {}
        self._out: list[_Fired] = []
        self._asked_s = self._due_s = -math.inf
        self._unsent_told = 0
        self._wrong_s: dict[str, tuple[float, ...]] = {}
        self.fired = 0
        self.unconfirmed = 0
        self.unsent = 0

    @property
    def ready(self) -> Mapping[str, PreparedCap]:
        """What would go out, by supply."""
        return dict(self._ready)

    @property
    def out(self) -> tuple[str, ...]:
        """The names of those that went out and have not let go yet."""
        return tuple(fired.answer.incident_id for fired in self._out)

    def look(self, name: str, row: CellView) -> None:
        """Judge the newest row of a table and answer it. It waits for nothing, logs nothing and raises nothing."""
        ready = self._ready
        if not ready or name not in self._cells:
            return
        for cell, supply_id in self._cells[name]:
            if IMPLAUSIBLE_BELOW_V < row[cell] < self._below_v:  # what is absent is not low
                answer = ready.pop(supply_id, None)
                if answer is not None and self._clock.monotonic_s() - self._asked_s < READY_FOR_S:
                    self._fire(answer, ready)

    def _fire(self, answer: PreparedCap, ready: dict[str, PreparedCap]) -> None:
        if not self._line.send(answer.incident_id, answer.apply):
            self.unsent += 1
            return
        self._out.append(_Fired(answer, self._clock.monotonic_s()))
        self.fired += 1
        ready.clear()  # the others were foreseen without this one: together they might be over a budget

    def forget(self) -> None:
        """Have nothing ready until the rules are asked anew, which is soon: what they know has changed."""
        self._ready = {}
        self._due_s = min(self._due_s, self._asked_s + PREPARE_AGAIN_S)

    def prepare(self, foresee: Callable[[Sequence[str]], Mapping[str, CapClaim]], now_ns: int) -> None:
        """Ask the rules anew where that is due; `foresee` gives their answers to a sag of each of some supplies."""
        now_s = self._clock.monotonic_s()
        if now_s < self._due_s:
            return
        self._due_s = now_s + PREPARE_EVERY_S
        if self._line.connect():
            self._begin_connection()
        if self._out:  # the rules do not know of it, and what they say without it may be too much beside it
            self._due_s = now_s + PREPARE_AGAIN_S
            return
        supplies = [supply_id for supply_id in self._supplies if self._trusted(supply_id, now_s)]
        replies = [_answer(supply_id, claim, now_ns) for supply_id, claim in foresee(supplies).items()]
        self._asked_s = now_s
        # One may have gone out while the rules were asked.
        self._ready = {} if self._out else {answer.supply_id: answer for answer in replies}

    def settle(self, actions: Sequence[Action]) -> None:
        """Let go where the rules' own caps, just carried out, stand on the same GPUs, or where they do not come."""
        for name, answered in self._line.replies():
            self._hear(name, answered)
        if self.unsent > self._unsent_told:
            self._unsent_told = self.unsent
            logger.warning("a reflex could not be sent (%d so far): the sag is answered the ordinary way", self.unsent)
        if not self._out:
            return
        now_s = self._clock.monotonic_s()
        caps = [action for action in actions if action.mode is Mode.ENFORCE and action.knob_kind is KnobKind.CLOCK]
        answered_gpus = frozenset(action.entity_id for action in caps if action.state in _ANSWERED)
        capped_gpus = {action.entity_id for action in caps if action.state is ActionState.APPLIED}
        for fired in tuple(self._out):
            fired.answered |= answered_gpus
            fired.stands |= bool(fired.answer.gpus & capped_gpus)
            confirmed = fired.stands and fired.answer.gpus <= fired.answered
            if not fired.over and (confirmed or now_s - fired.at_s >= CONFIRM_WITHIN_S):
                fired.over = True
                self._tell(fired.answer, confirmed=confirmed, now_s=now_s)
            if fired.over and not fired.asked:
                fired.asked = self._line.send(_RELEASE + fired.answer.incident_id, fired.answer.release)

    def _begin_connection(self) -> None:
        """Find out what an earlier guard, or a connection that broke, left behind."""
        self._line.send(_LIST, list_line())
        for fired in self._out:
            fired.asked = False

    def _hear(self, name: str, actions: tuple[Action, ...] | None) -> None:
        if name == _LIST:
            own = {fired.answer.incident_id for fired in self._out}
            left = {action.incident_id for action in actions or () if is_reflex(action.incident_id)} - own
            for incident_id in sorted(left):
                line = release_line(incident_id, reason="left by a guard that ended")
                self._line.send(_RELEASE + incident_id, line)
        for fired in tuple(self._out):
            if name == _RELEASE + fired.answer.incident_id:
                fired.asked = actions is not None  # it failed there: said again
                if fired.asked:
                    self._out.remove(fired)

    def _tell(self, answer: PreparedCap, *, confirmed: bool, now_s: float) -> None:
        if confirmed:
            logger.info("reflex %s: the rules' own cap stands, it lets go", answer.words)
            return
        self.unconfirmed += 1
        recent = (*self._recent(answer.supply_id, now_s), now_s)
        self._wrong_s[answer.supply_id] = recent
        logger.warning("reflex %s: not confirmed by the rules, it lets go", answer.words)
        if len(recent) == WRONG_MAX:
            logger.error("%s has no reflex for an hour: %d were not confirmed", answer.supply_id, WRONG_MAX)

    def _recent(self, supply_id: str, now_s: float) -> tuple[float, ...]:
        return tuple(at_s for at_s in self._wrong_s.get(supply_id, ()) if now_s - at_s < WRONG_WITHIN_S)

    def _trusted(self, supply_id: str, now_s: float) -> bool:
        recent = self._recent(supply_id, now_s)
        return not recent or (len(recent) < WRONG_MAX and now_s - recent[-1] >= AFTER_WRONG_S)


def _answer(supply_id: str, claim: CapClaim, now_ns: int) -> PreparedCap:
    incident_id = reflex_id(supply_id, now_ns)
    # How deep the sag will be is not known yet, so the clock that holds behind a worse path goes first.
    clock_mhz = claim.strictest if claim.safe is None else min(claim.strictest, claim.safe)
    words = f"of {claim.policy_id} for {supply_id}: {clock_mhz:g} MHz"
    request: CapRequest = request_of(
        claim,
        claim.gpus,
        clock_mhz,
        incident_id=incident_id,
        decision_id=f"{claim.policy_id}:{incident_id}",
        reason=f"reflex {words}, prepared ahead of the rules",
    )
    return PreparedCap(
        incident_id=incident_id,
        supply_id=supply_id,
        gpus=frozenset(claim.gpus),
        words=words,
        apply=apply_line(request),
        release=release_line(
            incident_id, reason=f"reflex {words}: the rules have answered by themselves, or did not confirm it"
        ),
    )


def _voltages(spec: TableSpec) -> tuple[tuple[int, str], ...]:
    """Return where the voltages lie in a row, each with its supply; nothing in a table without any."""
    if spec.kind is not EntityKind.SUPPLY or "voltage_v" not in spec.signals:
        return ()
    column = spec.signals.index("voltage_v")
    return tuple((row * len(spec.signals) + column, entity.id) for row, entity in enumerate(spec.entities))
