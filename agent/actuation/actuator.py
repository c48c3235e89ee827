"""Actuator of a node's GPUs: clocks, power limits and fans, every change reversible.

Each change reads the knob, journals the setting found and the one wanted, writes only a difference, reads back and
reports one `Action`. Several incidents may claim one knob (`claims`); a setting by someone else is left alone.
One thread owns an actuator.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from agent.actuation.blocklist import Block, block_of
from agent.actuation.claims import (
    CapRequest,
    GpuTarget,
    KnobClaim,
    KnobClaims,
    claim_of,
    overdue,
    with_claim,
    without_claim,
)
from agent.actuation.held_knob import HeldKnob, KnobChange, KnobKey
from agent.actuation.knob_log import KnobLog
from agent.actuation.knobs import KnobCheck, Knobs, checked
from agent.actuation.limits import ActuatorSettings, bounded_claim
from agent.actuation.report import ActionsInForce, action_of, log_action
from agent.driver.port import Knob
from telemetry.clock import Clock
from telemetry.errors import ActionRefusedError, DeviceLostError, NotPermittedError, NotSupportedError, RailwatchError
from telemetry.gpu import KnobKind, ReleasedBy
from telemetry.records import Action, ActionState, Mode

logger = logging.getLogger(__name__)

CHANGED_BY_OTHERS = "changed by someone else; left as is"
LEFT_BEHIND = "left by a run that ended without releasing it"

# A change to make, or its actions if it ended before that.
_Planned = KnobChange | tuple[Action, ...]
_Choice = Callable[[HeldKnob, KnobClaim], bool]


class KnobActuator:
    """Sets the knobs of GPUs for incidents, and restores them.

    Parameters
    ----------
    knobs
        The settings that can be changed, at most one of a kind. One without a name is that of a driver that does not
        answer yet: what an earlier run left stays pending.
    journal
        Write-ahead log of found settings; the actuator's own.
    sink
        Receives every `Action`, also those without a request: an expiry, a GPU that came back.
    """

    def __init__(
        self,
        knobs: Iterable[Knob],
        journal: KnobLog,
        clock: Clock,
        *,
        sink: Callable[[Action], None],
        settings: ActuatorSettings | None = None,
    ) -> None:
        self._knobs = Knobs(knobs)
        self._journal = journal
        self._clock = clock
        self._sink = sink
        self._settings = settings or ActuatorSettings()
        self._holds: dict[KnobKey, HeldKnob] = {}
        self._in_force = ActionsInForce()

    def recover(self, *, run_id: str) -> tuple[Action, ...]:
        """Take over or release what the journal still holds: once, before anything else.

        Claims of this same run (the process died and was restarted) are taken over with the rest of their leases, if
        the limits still allow it. Those of an earlier run are released: the knobs are restored to what that run found.
        A GPU that fails stays pending and does not block the others.
        """
        actions: list[Action] = []
        now_s, now_ns = self._clock.monotonic_s(), self._clock.utc_ns()
        for left_by, hold in self._journal.leftovers(now_s=now_s, now_ns=now_ns):
            if not self._knobs.has(hold.kind, hold.knob):
                found = hold.kind.text(hold.found)
                reason = f"cannot restore {found}: it was set through {hold.knob}, which this run does not use"
                actions += self._carry_out([(self._report(hold, hold.subject, ActionState.FAILED, reason),)])
                continue
            self._holds[hold.key] = hold
            if hold.claims and left_by == run_id and self._settings.may_go_on(hold):
                actions += self._supervised(hold.key, lambda held: self._adopt(held.key, held.claims))
            else:
                release = partial(self._release_held, reason=LEFT_BEHIND, by=ReleasedBy.ACTUATOR, quiet=False)
                actions += self._supervised(hold.key, release)
        return tuple(actions)

    def apply(self, request: CapRequest) -> tuple[Action, ...]:
        """Set the knobs of a request; return one action per GPU, in order.

        If the incident already has a claim, the request changes it, to a stricter or a looser setting.
        """
        for gpu in request.gpus:
            other_mode = self._holds.get((request.kind, gpu.uuid, request.mode is not Mode.ENFORCE))
            claim = claim_of(other_mode.claims, request.incident_id) if other_mode else None
            if other_mode and claim:
                self._carry_out([self._plan_release(other_mode, claim, f"continues in mode {request.mode}")])
        return self._carry_out(self._plan_cap(request, gpu) for gpu in request.gpus)

    def renew(self, incident_id: str, *, lease_s: float) -> tuple[Action, ...]:
        """Renew the leases of an incident and check that its caps are in force; do nothing if it has none."""
        now_s, now_ns = self._clock.monotonic_s(), self._clock.utc_ns()
        lease_s = min(lease_s, self._settings.longest_lease_s)
        planned = []
        for hold in list(self._holds.values()):
            claim = claim_of(hold.claims, incident_id)
            if claim is None:
                continue
            fresh = claim.leased(lease_s, now_s=now_s, now_ns=now_ns)
            state = ActionState.RELAXED if claim.is_stricter_than(fresh) else ActionState.RENEWED
            plan = self._plan(hold, with_claim(hold.claims, fresh), fresh, state, claim.reason)
            if isinstance(plan, KnobChange):  # a knob that cannot be read is written again instead
                plan = replace(plan, again=not self._knobs.of(hold.kind).readable)
            planned.append(plan)
        return self._carry_out(planned)

    def release(
        self, incident_id: str, *, entity_id: str, reason: str, kind: KnobKind | None = None
    ) -> tuple[Action, ...]:
        """Release an incident's claims on one GPU, or on one of its knobs if a kind is given."""

        def chosen(hold: HeldKnob, claim: KnobClaim) -> bool:
            named = hold.target.entity_id, claim.incident_id
            return named == (entity_id, incident_id) and kind in (None, hold.kind)

        return self._release_where(chosen, reason=reason)

    def release_incident(self, incident_id: str, *, reason: str, bar: bool = False) -> tuple[Action, ...]:
        """Release every claim of an incident; `bar` blocks it from those knobs: an operator released it."""
        if bar:
            held = (hold for hold in self._holds.values() if claim_of(hold.claims, incident_id))
            self._journal.append_after((), [block_of(hold, incident_id, reason) for hold in held])
        return self._release_where(lambda _, claim: claim.incident_id == incident_id, reason=reason)

    def release_all(self, *, reason: str, by: ReleasedBy = ReleasedBy.REQUEST) -> tuple[Action, ...]:
        """Release every claim, so that every GPU is restored; a failure does not block the others."""
        release = partial(self._release_held, reason=reason, by=by)
        done = [self._supervised(key, release) for key in list(self._holds)]
        return tuple(action for actions in done for action in actions)

    @property
    def holds_hardware(self) -> bool:
        """True if a knob is still not restored."""
        return any(hold.enforcing for hold in self._holds.values())

    def tick(self) -> tuple[Action, ...]:
        """End leases that ran out and retry pending writes; cheap if nothing is due."""
        now_s = self._clock.monotonic_s()
        actions: list[Action] = []
        for key in list(self._holds):
            hold = self._holds[key]
            if hold.owed and hold.retry_at_s <= now_s:
                actions += self._retry(hold)
            while (current := self._holds.get(key)) and (ended := overdue(current.claims, now_s)):
                actions += self._carry_out([self._plan_expiry(current, ended[0])])
        self._journal.end_turn()
        return tuple(actions)

    def next_wake_s(self) -> float | None:
        """Return the monotonic time at which `tick` has work, None if there is none."""
        return min((at_s for hold in self._holds.values() if (at_s := hold.due_at_s) is not None), default=None)

    @property
    def journal(self) -> KnobLog:
        """Write-ahead log of the actuator, with its counts."""
        return self._journal

    def in_force(self) -> tuple[Action, ...]:
        """Return the newest action of every claim that is in force, or that could not be released yet."""
        return self._in_force.of(
            (claim, hold) for hold in self._holds.values() for claim in hold.claims or (hold.subject,)
        )

    def verify(self) -> tuple[KnobCheck, ...]:
        """Read back every knob that the journal holds, and compare; write nothing."""
        now_s, now_ns = self._clock.monotonic_s(), self._clock.utc_ns()
        return checked((hold for _, hold in self._journal.leftovers(now_s=now_s, now_ns=now_ns)), self._knobs)

    # Planning: reads the knob, writes nothing.

    def _plan_cap(self, request: CapRequest, gpu: GpuTarget) -> _Planned:
        enforcing, kind = request.mode is Mode.ENFORCE, request.kind
        hold = self._holds.get((kind, gpu.uuid, enforcing))
        draft = request.claim(setting=request.setting, safe_setting=request.setting, reason=request.reason)
        stranger = HeldKnob.begin(gpu, knob=self._knobs.name(kind), found=None, claim=draft, enforcing=enforcing)
        barred = self._journal.barred.reason(kind, gpu.uuid, request.incident_id)
        if barred is not None:
            return (self._report(stranger, draft, ActionState.REFUSED, barred),)
        try:
            knob, supported = self._knobs.of(kind), self._knobs.supported(kind, gpu.uuid)
            now_s, now_ns = self._clock.monotonic_s(), self._clock.utc_ns()
            limits = self._settings.check(request, gpu.uuid, hold=hold, readable=knob.readable)
            claim = bounded_claim(request, supported, limits, now_s=now_s, now_ns=now_ns)
            found = None if hold else knob.read(gpu.uuid)
        except (ActionRefusedError, NotPermittedError, NotSupportedError, ValueError) as err:
            return (self._report(stranger, draft, ActionState.REFUSED, str(err)),)
        except RailwatchError as err:
            return (self._report(stranger, draft, ActionState.FAILED, str(err)),)
        if hold is None:
            begun = HeldKnob.begin(gpu, knob=knob.name, found=found, claim=claim, enforcing=enforcing)
            return KnobChange(hold=begun, earlier=None, in_force=found, state=ActionState.APPLIED, reason=claim.reason)
        earlier = claim_of(hold.claims, request.incident_id)
        looser = earlier is not None and earlier.is_stricter_than(claim)
        state = ActionState.RELAXED if looser else ActionState.APPLIED
        planned = self._plan(hold, with_claim(hold.claims, claim), claim, state, claim.reason)
        if isinstance(planned, tuple) and earlier is None and hold.key not in self._holds:
            self._publish(planned)  # set from outside under the older claims: a new incident begins there
            return self._plan_cap(request, gpu)
        return planned

    def _plan_release(
        self, hold: HeldKnob, claim: KnobClaim, reason: str, by: ReleasedBy = ReleasedBy.REQUEST
    ) -> _Planned:
        rest = without_claim(hold.claims, claim.incident_id)
        noted = f"{reason}; other claims remain" if rest else reason
        return self._plan(hold, rest, claim, ActionState.RELEASED, noted, by=by)

    def _plan_expiry(self, hold: HeldKnob, claim: KnobClaim) -> _Planned:
        if claim.ends_with_lease:
            return self._plan_release(hold, claim, f"lease of {claim.lease_s:g} s expired", ReleasedBy.ACTUATOR)
        ended = claim.expired()
        reason = f"lease of {claim.lease_s:g} s expired and the cause is unresolved: safe {claim.kind.label}"
        return self._plan(hold, with_claim(hold.claims, ended), ended, ActionState.EXPIRED, reason)

    def _plan(
        self,
        hold: HeldKnob,
        claims: KnobClaims,
        subject: KnobClaim,
        state: ActionState,
        reason: str,
        *,
        by: ReleasedBy | None = None,
    ) -> _Planned:
        """Read the knob and return the change; the end of the hold if someone else has set the knob."""
        changed, again = replace(hold, claims=claims, subject=subject, released_by=by), False
        try:
            in_force = self._knobs.of(hold.kind).read(hold.target.uuid)
            ours = hold.is_ours(in_force) or (claims and self._knobs.was_reset(hold, in_force))
        except ActionRefusedError:  # no single setting is in force: someone else set it, or our write was interrupted
            if hold.settled and hold.enforcing:
                return self._abandon(hold, None)
            in_force, again = None, True
        except RailwatchError as err:
            return (self._owe(changed, str(err), lost=isinstance(err, DeviceLostError)),)
        else:
            if not ours:
                return self._abandon(hold, in_force)
        return KnobChange(
            hold=changed, earlier=hold, in_force=in_force, state=state, reason=reason, again=again, released_by=by
        )

    # Execution.

    def _carry_out(self, planned: Iterable[_Planned], *, quiet: bool = False) -> tuple[Action, ...]:
        """Journal all changes, write all knobs, then read each back; `quiet` does not publish failures."""
        plans = list(planned)
        changes = [plan for plan in plans if isinstance(plan, KnobChange)]
        trouble = self._journal.append_ahead([change for change in changes if change.writes])
        held_back = {id(change) for change in changes if trouble is not None and change.writes and change.hold.claims}
        errors = {id(change): self._knobs.carry_out(change) for change in changes if id(change) not in held_back}
        actions: list[Action] = []
        for plan in plans:
            if not isinstance(plan, KnobChange):
                actions += plan
            elif id(plan) in held_back:
                actions.append(self._owe(plan.hold, f"cannot write the journal: {trouble}", lost=False))
            else:
                actions.append(self._land(plan, errors[id(plan)]))
        published = tuple(action for action in actions if not (quiet and action.state is ActionState.FAILED))
        self._publish(published)
        return published

    def _land(self, change: KnobChange, error: RailwatchError | None) -> Action:
        """Read back what was written, and return the action."""
        hold, subject = change.hold.aiming(change.in_force), change.hold.subject
        if not change.writes:
            self._keep(hold.landed(change.in_force))
            reason = change.reason if hold.enforcing else f"nothing written: {change.reason}"
            return self._report(hold, subject, change.state, reason, change.in_force, by=change.released_by)
        try:
            if error is not None:
                raise error
            read_back = self._knobs.read_back(hold)
        except (ActionRefusedError, NotPermittedError, NotSupportedError) as err:
            again = change.state is not ActionState.APPLIED or (change.earlier and change.earlier.owed)
            if again or not self._knobs.reads_as(change.hold, change.in_force):
                return self._owe(hold, str(err), lost=False)
            self._keep(change.earlier or replace(hold.landed(change.in_force), claims=()))
            return self._report(hold, subject, ActionState.REFUSED, str(err), change.in_force)
        except RailwatchError as err:
            return self._owe(hold, str(err), lost=isinstance(err, DeviceLostError))
        if hold.confirms(read_back, readable=self._knobs.of(hold.kind).readable):
            self._keep(hold.landed(read_back))
            return self._report(hold, subject, change.state, change.reason, read_back, by=change.released_by)
        reason = f"read back {hold.kind.text(read_back)}, wanted {hold.kind.text(hold.wanted)}"
        return self._owe(replace(hold.landed(read_back), tries=hold.tries), reason, lost=False, read_back=read_back)

    def _retry(self, hold: HeldKnob, *, quiet: bool = True) -> tuple[Action, ...]:
        """Retry a pending write; report when it is done, or when someone else has set the knob."""
        by = None if claim_of(hold.claims, hold.subject.incident_id) else hold.released_by or ReleasedBy.REQUEST
        state = ActionState.RELEASED if by else ActionState.APPLIED
        plan = self._plan(hold, hold.claims, hold.subject, state, f"retried: {hold.subject.reason}", by=by)
        return self._carry_out([plan], quiet=quiet)

    def _adopt(self, key: KnobKey, claims: KnobClaims) -> tuple[Action, ...]:
        actions: list[Action] = []
        for claim in claims:
            hold = self._holds.get(key)
            if hold is not None:
                plan = self._plan(hold, hold.claims, claim, ActionState.RENEWED, "taken over after a restart")
                actions += self._carry_out([plan])
        return tuple(actions)

    def _release_held(self, held: HeldKnob, *, reason: str, by: ReleasedBy, quiet: bool = True) -> tuple[Action, ...]:
        """Release the claims of one GPU, or retry if only its restore is pending."""
        if not held.claims:
            return self._retry(held, quiet=quiet)
        return self._release_where(lambda hold, _: hold.key == held.key, reason=reason, by=by)

    def _supervised(self, key: KnobKey, follow: Callable[[HeldKnob], tuple[Action, ...]]) -> tuple[Action, ...]:
        """Process one held knob; an error is logged and retried, never raised."""
        try:
            return follow(self._holds[key])
        except Exception:  # supervisor of actions: a defect in one must not block the others
            logger.exception("cannot restore a GPU setting, will retry", extra={"knob": key[0], "gpu": key[1]})
        hold = self._holds.get(key)
        if hold is not None:
            retry_at_s = self._clock.monotonic_s() + self._settings.pause_s(hold.tries)
            self._holds[key] = hold.owing(retry_at_s=retry_at_s, lost=False)
        return ()

    def _release_where(
        self, chosen: _Choice, *, reason: str, by: ReleasedBy = ReleasedBy.REQUEST
    ) -> tuple[Action, ...]:
        """Release the chosen claims, one of each GPU at a time."""
        actions: list[Action] = []
        while True:
            pairs = [
                (hold, claim)
                for hold in self._holds.values()
                if (claim := next((claim for claim in hold.claims if chosen(hold, claim)), None))
            ]
            if not pairs:
                return tuple(actions)
            actions += self._carry_out([self._plan_release(hold, claim, reason, by) for hold, claim in pairs])

    def _abandon(self, hold: HeldKnob, in_force: float | None) -> tuple[Action, ...]:
        """End a hold whose knob someone else has set; its incidents may not set it again."""
        ended = replace(hold, claims=()).landed(in_force)
        self._keep(ended, [block_of(hold, claim.incident_id, CHANGED_BY_OTHERS) for claim in hold.claims])
        return tuple(
            self._report(ended, claim, ActionState.RELEASED, CHANGED_BY_OTHERS, in_force, by=ReleasedBy.OTHERS)
            for claim in hold.claims or (hold.subject,)
        )

    def _owe(self, hold: HeldKnob, reason: str, *, lost: bool, read_back: float | None = None) -> Action:
        """Keep a hold whose write failed, for a retry."""
        retry_at_s = self._clock.monotonic_s() + self._settings.pause_s(hold.tries)
        self._keep(hold.owing(retry_at_s=retry_at_s, lost=lost))
        return self._report(hold, hold.subject, ActionState.FAILED, reason, read_back)

    def _keep(self, hold: HeldKnob, bars: Sequence[Block] = ()) -> None:
        """Keep a hold, or drop it if no claim and no pending write is left."""
        if hold.is_over:
            self._holds.pop(hold.key, None)
            self._in_force.forget(hold)
        else:
            self._holds[hold.key] = hold
        self._journal.append_after([hold] if hold.enforcing else (), bars)

    def _report(
        self,
        hold: HeldKnob,
        claim: KnobClaim,
        state: ActionState,
        reason: str,
        read_back: float | None = None,
        *,
        by: ReleasedBy | None = None,
    ) -> Action:
        action = action_of(hold, claim, state, reason=reason, read_back=read_back, time_ns=self._clock.utc_ns(), by=by)
        self._in_force.note(action, held=hold.key in self._holds)
        return action

    def _publish(self, actions: Iterable[Action]) -> None:
        for action in actions:
            log_action(action)
            self._sink(action)
