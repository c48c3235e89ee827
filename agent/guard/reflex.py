"""Reflex: a cap that is prepared before a rail sags, and sent with the row that shows the sag.

The path from a row to a cap through detectors, incidents and rules takes milliseconds of Python. While the rails are
healthy the same rules compute once a second what they would do if a supply sagged now (`foresight`), and the request
is encoded in advance. The row that falls below the limit is judged by a few comparisons in the thread that wrote it,
and the bytes go to the actuator, with lease, journal and limits like any cap. The rules then judge the same row: once
their own cap is in force on the same GPUs, the reflex is released. One that the rules do not confirm is released as
well, and counted. If the rules would do nothing (mode, breaker, budget, cooldown, an operator's release), nothing is
prepared.
"""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent.actuation.claims import CapRequest
from agent.actuation.client import NonBlockingClient, apply_line, list_line, release_line
from agent.guard.actuator_requests import request_of
from agent.guard.foresight import is_reflex, reflex_id
from analytics.detectors.supply_limits import RailSagLimits
from physics.rail_classes import LEAST_PLAUSIBLE_RATIO, assumed_nominal_v, limit_scale
from rules.engine.claims import CapClaim
from telemetry.clock import Clock
from telemetry.entities import EntityKind
from telemetry.frames import CellView, TableSpec
from telemetry.gpu import KnobKind
from telemetry.records import Action, ActionState, Mode

logger = logging.getLogger(__name__)

# heuristic: interval of preparation; a training step is about a second, and a path ages over minutes.
PREPARE_EVERY_S = 1.0
# heuristic: the rules work once for each supply, 1 ms each. From four supplies on they do so a third as often.
MANY_SUPPLIES, MANY_EVERY_S = 4, 3.0
# heuristic: after a change of their input the rules prepare sooner, but not at each step of a storm.
PREPARE_AGAIN_S = 0.1
# heuristic: a prepared cap expires after this time: a guard that hangs reads no commands and confirms nothing. Twice
# the longest interval of preparation, so that a guard that is late by one keeps it, and longer than a request to an
# actuator that does not answer.
READY_FOR_S = 6.0
# heuristic: time limit of the rules to confirm a reflex; they see the same row within milliseconds.
CONFIRM_WITHIN_S = 1.0
# heuristic: a supply has no reflex for this time after one that was not confirmed.
AFTER_WRONG_S = 60.0
# heuristic: after this many in an hour, the supply has no reflex until the hour is over; as many as the failures that
# trip the breaker of the rules.
WRONG_MAX, WRONG_WITHIN_S = 3, 3600.0
# The rules requested a cap on that GPU: it is in force, or the actuator reported why not.
_ANSWERED = frozenset({ActionState.APPLIED, ActionState.REFUSED, ActionState.FAILED})
_LIST, _RELEASE = "list", "release "


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCap:
    """Cap that is sent if one supply sags: the request, and the encoded lines that apply and release it."""

    request: CapRequest
    supply_id: str
    gpus: frozenset[str]
    label: str
    apply: bytes
    release: bytes

    @property
    def incident_id(self) -> str:
        """The id under which the actuator holds it."""
        return self.request.incident_id


@dataclass(slots=True)
class _Fired:
    """Reflex in force, and the GPUs that the rules capped since; `over` once it ended, `release_sent` once released."""

    answer: PreparedCap
    at_s: float
    answered: frozenset[str] = frozenset()
    is_capped: bool = False
    over: bool = False
    release_sent: bool = False


class Reflex:
    """Keeps one prepared cap per supply; `look` is called by threads that write rows, the rest by the guard's.

    Attributes
    ----------
    fired, unconfirmed, unsent
        Number of reflexes that were sent, that the rules did not confirm, and that could not be sent.
    """

    def __init__(
        self, specs: Iterable[TableSpec], line: NonBlockingClient, clock: Clock, *, limits: RailSagLimits
    ) -> None:
        self._cells = {spec.name: places for spec in specs if (places := voltages_of(spec, limits.at_once_below_v))}
        self._supplies = tuple(dict.fromkeys(one for places in self._cells.values() for _, one, _, _ in places))
        self._line = line
        self._clock = clock
        self._ready: dict[str, PreparedCap] = {}
        self._out: list[_Fired] = []
        self._prepared_s = self._due_s = -math.inf
        self._unsent_logged = 0
        self._wrong_s: dict[str, tuple[float, ...]] = {}
        self.fired = 0
        self.unconfirmed = 0
        self.unsent = 0

    @property
    def ready(self) -> Mapping[str, PreparedCap]:
        """Prepared caps by supply."""
        return dict(self._ready)

    @property
    def out(self) -> tuple[str, ...]:
        """Ids of the reflexes in force."""
        return tuple(fired.answer.incident_id for fired in self._out)

    def look(self, name: str, row: CellView) -> None:
        """Check the newest row of a table and send the cap. It does not wait, log or raise."""
        ready = self._ready
        if not ready or name not in self._cells:
            return
        for cell, supply_id, least_plausible_v, below_v in self._cells[name]:
            if least_plausible_v < row[cell] < below_v:  # what is absent is not low
                answer = ready.pop(supply_id, None)
                if answer is not None and self._clock.monotonic_s() - self._prepared_s < READY_FOR_S:
                    self._fire(answer, ready)

    def _fire(self, answer: PreparedCap, ready: dict[str, PreparedCap]) -> None:
        if not self._line.send(answer.incident_id, answer.apply):
            self.unsent += 1
            return
        self._out.append(_Fired(answer, self._clock.monotonic_s()))
        self.fired += 1
        ready.clear()  # the others were prepared without this one: together they might exceed a budget

    def forget(self) -> None:
        """Drop the prepared caps until the next preparation, which is soon: the input of the rules changed."""
        self._ready = {}
        self._due_s = min(self._due_s, self._prepared_s + PREPARE_AGAIN_S)

    def prepare(self, foresee: Callable[[Sequence[str]], Mapping[str, CapClaim]], now_ns: int) -> None:
        """Prepare caps if that is due; `foresee` returns the claim of the rules for a sag of each supply."""
        now_s = self._clock.monotonic_s()
        if now_s < self._due_s:
            return
        self._due_s = now_s + (PREPARE_EVERY_S if len(self._supplies) < MANY_SUPPLIES else MANY_EVERY_S)
        if self._line.connect():
            self._begin_connection()
        if self._out:  # the rules do not know of it yet; their caps together with it might exceed a budget
            self._due_s = now_s + PREPARE_AGAIN_S
            return
        supplies = [supply_id for supply_id in self._supplies if self._trusted(supply_id, now_s)]
        replies = [
            _answer(supply_id, claim, now_ns, before=self._ready.get(supply_id))
            for supply_id, claim in foresee(supplies).items()
        ]
        self._prepared_s = now_s
        # One may have been sent meanwhile.
        self._ready = {} if self._out else {answer.supply_id: answer for answer in replies}

    def settle(self, actions: Sequence[Action]) -> None:
        """Release a reflex once the rules' own caps are in force on the same GPUs, or if they do not come in time."""
        for name, answered in self._line.replies():
            self._process_reply(name, answered)
        if self.unsent > self._unsent_logged:
            self._unsent_logged = self.unsent
            logger.warning("cannot send a reflex (%d so far), the rules handle the sag alone", self.unsent)
        if not self._out:
            return
        now_s = self._clock.monotonic_s()
        caps = [action for action in actions if action.mode is Mode.ENFORCE and action.knob_kind is KnobKind.CLOCK]
        answered_gpus = frozenset(action.entity_id for action in caps if action.state in _ANSWERED)
        capped_gpus = {action.entity_id for action in caps if action.state is ActionState.APPLIED}
        for fired in tuple(self._out):
            fired.answered |= answered_gpus
            fired.is_capped |= bool(fired.answer.gpus & capped_gpus)
            confirmed = fired.is_capped and fired.answer.gpus <= fired.answered
            if not fired.over and (confirmed or now_s - fired.at_s >= CONFIRM_WITHIN_S):
                fired.over = True
                self._log_end(fired.answer, confirmed=confirmed, now_s=now_s)
            if fired.over and not fired.release_sent:
                fired.release_sent = self._line.send(_RELEASE + fired.answer.incident_id, fired.answer.release)

    def _begin_connection(self) -> None:
        """Query the caps that an earlier guard, or a lost connection, left in force."""
        self._line.send(_LIST, list_line())
        for fired in self._out:
            fired.release_sent = False

    def _process_reply(self, name: str, actions: tuple[Action, ...] | None) -> None:
        if name == _LIST:
            own = {fired.answer.incident_id for fired in self._out}
            left = {action.incident_id for action in actions or () if is_reflex(action.incident_id)} - own
            for incident_id in sorted(left):
                line = release_line(incident_id, reason="left by an earlier guard")
                self._line.send(_RELEASE + incident_id, line)
        for fired in tuple(self._out):
            if name == _RELEASE + fired.answer.incident_id:
                fired.release_sent = actions is not None  # it failed there: sent again
                if fired.release_sent:
                    self._out.remove(fired)

    def _log_end(self, answer: PreparedCap, *, confirmed: bool, now_s: float) -> None:
        if confirmed:
            logger.info("reflex %s: released, the cap of the rules is in force", answer.label)
            return
        self.unconfirmed += 1
        recent = (*self._recent(answer.supply_id, now_s), now_s)
        self._wrong_s[answer.supply_id] = recent
        logger.warning("reflex %s: released, not confirmed by the rules", answer.label)
        if len(recent) == WRONG_MAX:
            logger.error("%s: reflex disabled for an hour, %d were not confirmed", answer.supply_id, WRONG_MAX)

    def _recent(self, supply_id: str, now_s: float) -> tuple[float, ...]:
        return tuple(at_s for at_s in self._wrong_s.get(supply_id, ()) if now_s - at_s < WRONG_WITHIN_S)

    def _trusted(self, supply_id: str, now_s: float) -> bool:
        recent = self._recent(supply_id, now_s)
        return not recent or (len(recent) < WRONG_MAX and now_s - recent[-1] >= AFTER_WRONG_S)


def _answer(supply_id: str, claim: CapClaim, now_ns: int, *, before: PreparedCap | None) -> PreparedCap:
    """Return the cap to prepare; the one from before, which was not sent, if it is the same."""
    # The depth of the sag is not known yet: use the clock that holds even behind a worse path.
    clock_mhz = claim.strictest if claim.safe is None else min(claim.strictest, claim.safe)
    label = f"of {claim.policy_id} for {supply_id}: {clock_mhz:g} MHz"
    incident_id = reflex_id(supply_id, now_ns) if before is None else before.incident_id
    request = request_of(
        claim,
        claim.gpus,
        clock_mhz,
        incident_id=incident_id,
        decision_id=f"{claim.policy_id}:{incident_id}",
        reason=f"reflex {label}, sent ahead of the rules",
    )
    if before is not None:
        return before if request == before.request else _answer(supply_id, claim, now_ns, before=None)
    return PreparedCap(
        request=request,
        supply_id=supply_id,
        gpus=frozenset(claim.gpus),
        label=label,
        apply=apply_line(request),
        release=release_line(
            incident_id, reason=f"reflex {label}: replaced by the cap of the rules, or not confirmed by them"
        ),
    )


def voltages_of(spec: TableSpec, below_v: float) -> tuple[tuple[int, str, float, float], ...]:
    """Return each voltage's cell in a row, its supply, the least plausible voltage and the one that counts at once.

    `below_v` is the latter at 12 V, and a rail without a nominal voltage is taken for one of 12 V. Empty for a table
    without voltages.
    """
    if spec.kind is not EntityKind.SUPPLY or "voltage_v" not in spec.signals:
        return ()
    column = spec.signals.index("voltage_v")
    cells = []
    for row, entity in enumerate(spec.entities):
        nominal_v = assumed_nominal_v(entity)
        least_v = LEAST_PLAUSIBLE_RATIO * nominal_v
        cells.append((row * len(spec.signals) + column, entity.id, least_v, below_v * limit_scale(nominal_v)))
    return tuple(cells)
