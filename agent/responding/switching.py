"""Lifecycle of one switch: read, journal, write only a difference, read back, check again, release.

A knob of a GPU (`agent.actuation`) has a setting: the strictest claim wins, and the setting that was found is restored.
A switch is on or off, and a mark names its owner. If it was found off, it is switched off at the end; if someone else
had switched it on, it is left alone.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from agent.responding.pacing import FIRST_PAUSE_S, RateLimit, pause_s
from agent.responding.port import EvictingSwitch, EvictionProgress, Switch, SwitchOwner
from agent.responding.work import (
    ActuatorCounts,
    HeldSwitch,
    Stage,
    SwitchClaim,
    SwitchStep,
    Task,
    Work,
    action_of,
    claim_of,
    is_ours,
    plan,
)
from agent.responding.work_queue import WorkQueue, WorkResults
from telemetry.clock import Clock
from telemetry.commands import EVERYTHING
from telemetry.errors import (
    ActionRefusedError,
    NotPermittedError,
    NotSupportedError,
    RailwatchError,
    TransientError,
)
from telemetry.records import Action, ActionState

logger = logging.getLogger(__name__)

# heuristic: lease of a decision without one; a guard that restarts is back within seconds.
LEASE_S = 600.0
# heuristic: interval of checks whether someone else has changed a switch; a check costs a scheduler some milliseconds.
LOOK_EVERY_S = 30.0
# What kubectl drain waits where a budget blocks an eviction: evictPods in k8s.io/kubectl/pkg/drain/drain.go.
EMPTY_EVERY_S = 5.0
_LEFT_MAX = 3  # heuristic: so many remaining pods are named
CHANGED_BY_OTHERS = "changed by someone else; left as is"

_NEVER_MIND = (NotSupportedError, NotPermittedError, ActionRefusedError)


class SwitchKeeper:
    """Keeps one switch of one target in the state that its claims want. One thread owns it.

    Parameters
    ----------
    token
        Mark of our own changes; the same in every run.
    guard_age_s
        Returns the seconds since the guard last renewed the claims.
    pace
        Rate limit, shared by all that write to schedulers.
    """

    def __init__(
        self,
        switch: Switch,
        target: str,
        journal: WorkQueue,
        clock: Clock,
        *,
        token: str,
        guard_age_s: Callable[[], float],
        tally: ActuatorCounts,
        pace: RateLimit,
    ) -> None:
        self.name = switch.name
        self._switch = switch
        self._target = target
        self._journal = journal
        self._clock = clock
        self._guard_age_s = guard_age_s
        self._tally = tally
        self._pace = pace
        self._results = WorkResults(self.name, journal, clock, tally)
        self._empty_until_s: float | None = None
        found = next((hold for hold in journal.holds(switch.name) if hold.target == target), None)
        unclaimed = HeldSwitch(actuator=switch.name, target=target, token=token, stage=Stage.ENGAGING, claims=())
        self._hold = found or unclaimed
        self._at_s = clock.monotonic_s()  # what an earlier process left is checked first

    @property
    def hold(self) -> HeldSwitch:
        """Current state of the held switch."""
        return self._hold

    def step(self) -> float | None:
        """Do what is due; return the seconds until the next, None if nothing waits."""
        for work in self._results.due():
            self._take(work)
        self._watch_leases()
        if not self._hold.is_over and self._clock.monotonic_s() >= self._at_s:
            self._settle()
        waits_s = self._results.waits_s()
        if not self._hold.is_over:
            waits_s.append(max(0.0, self._at_s - self._clock.monotonic_s()))
        return min(waits_s, default=None)

    def release_all(self, reason: str) -> None:
        """Release every claim, in one attempt; a release that fails stays pending."""
        hold = self._hold
        for claim in hold.claims:
            hold = hold.without(claim.incident_id, reason=reason)
        if not hold.is_over:
            self._keep(hold)
            self._settle()

    # Requests.

    def _take(self, work: Work) -> None:
        try:
            if work.task is Task.ENGAGE:
                self._claim(work)
            else:
                self._unclaim(work)
        except TransientError as err:
            self._results.again(work, str(err))
        except _NEVER_MIND as err:
            self._results.end(work, ActionState.REFUSED, str(err))
        except Exception as err:  # supervisor of actions: a defect in one must not block the others
            logger.exception("%s of %s failed", self.name, self._target)
            self._results.end(work, ActionState.FAILED, f"unexpected error: {err}")

    def _claim(self, work: Work) -> None:
        if self._journal.is_barred(self.name, work.decision.incident_id):
            self._results.end(
                work, ActionState.REFUSED, f"released by someone else for this incident: {CHANGED_BY_OTHERS}"
            )
            return
        claim = claim_of(work, lease_s=work.decision.lease_s or LEASE_S)
        if self._hold.is_over or work.is_dry:
            standing = self._switch.read(self._target)
            if standing.held is not SwitchOwner.FREE and not is_ours(standing, self._hold.token):
                raise ActionRefusedError(f"{standing.summary}; left as is")
            if work.is_dry:
                self._results.end(
                    work, ActionState.DONE, f"nothing written: {self._target} is {standing.summary}; {claim.reason}"
                )
                return
        self._keep(self._hold.with_claim(claim), over=work)
        self._settle()

    def _unclaim(self, work: Work) -> None:
        by_hand, name = work.task is Task.TAKE_BACK, work.decision.incident_id
        everything = by_hand and name == EVERYTHING
        dropped: list[str] = []
        for earlier, _ in self._journal.waiting(self.name):
            if earlier.token == work.token:
                break
            if earlier.task is Task.ENGAGE and (everything or earlier.decision.incident_id == name):
                self._results.end(earlier, ActionState.RELEASED, "released before it was carried out")
                dropped.append(earlier.decision.incident_id)
        ending = [one for one in self._hold.claims if everything or one.incident_id == name]
        barred = {*dropped, *(one.incident_id for one in ending)} if by_hand else set()
        if not ending:
            self._keep(self._hold, over=work, barred=sorted(barred))
            return
        hold = self._hold
        for claim in ending:
            hold = hold.without(claim.incident_id, reason=work.decision.reason if by_hand else claim.reason)
        self._keep(hold, over=work, barred=sorted(barred))
        self._settle()

    # Current and wanted state.

    def _settle(self) -> None:
        """Read the switch and take the next step; a step that fails is retried."""
        self._at_s = self._clock.monotonic_s() + LOOK_EVERY_S
        try:
            self._carry(plan(self._hold, self._switch.read(self._target)))
        except TransientError as err:
            self._owe(str(err))
        except _NEVER_MIND as err:
            self._refused(err)
        except Exception as err:  # supervisor of actions: a defect in one must not block the others
            logger.exception("%s of %s failed", self.name, self._target)
            self._owe(f"unexpected error: {err}")

    def _carry(self, step: SwitchStep) -> None:
        if step in (SwitchStep.ENGAGE, SwitchStep.RELEASE) and (wait_s := self._pace.take(self._clock.monotonic_s())):
            self._at_s = self._clock.monotonic_s() + wait_s
            return
        match step:
            case SwitchStep.ENGAGE:
                self._engage()
            case SwitchStep.RELEASE:
                self._release()
            case SwitchStep.LANDED | SwitchStep.KEEP:
                self._landed()
            case SwitchStep.GONE:
                self._gone(CHANGED_BY_OTHERS if self._hold.stage is Stage.ENGAGED else "was off already")
            case SwitchStep.ABANDON:
                self._abandon()

    def _engage(self) -> None:
        self._keep(replace(self._hold, stage=Stage.ENGAGING, emptied=False))
        newest = self._hold.claims[-1]
        self._switch.engage(self._target, token=self._hold.token, reason=f"{newest.incident_id} {newest.reason}")
        standing = self._switch.read(self._target)
        if not is_ours(standing, self._hold.token):
            raise TransientError(f"read back: {standing.summary}")
        self._tally.engaged += 1
        self._landed()

    def _release(self) -> None:
        self._keep(replace(self._hold, stage=Stage.RELEASING))
        self._switch.release(self._target, token=self._hold.token)
        standing = self._switch.read(self._target)
        if is_ours(standing, self._hold.token):
            raise TransientError(f"read back: {standing.summary}")
        self._tally.released += 1
        self._gone("")

    def _landed(self) -> None:
        """Report that the switch is on, once per claim, after the eviction has ended."""
        remark = self._emptied()
        is_done = remark is not None
        fresh = [claim for claim in self._hold.claims if is_done and not claim.reported]
        reports = [self._report(claim, ActionState.APPLIED, f"{claim.reason}{remark}") for claim in fresh]
        reports += [
            self._report(claim, ActionState.RELEASED, f"{claim.reason}; other claims remain")
            for claim in self._hold.leaving
        ]
        claims = tuple(replace(claim, reported=claim.reported or is_done, failed=False) for claim in self._hold.claims)
        landed = replace(self._hold, stage=Stage.ENGAGED, claims=claims, leaving=(), tries=0, emptied=is_done)
        if landed != self._hold:
            self._keep(landed, actions=reports)

    def _emptied(self) -> str | None:
        """Evict what runs there; return a remark about what is left, None while the eviction goes on.

        Nothing is evicted before the work queue records that the switch is on: a change by someone else meanwhile is
        respected as at any other time, and a kill leaves nothing half done.
        """
        if self._hold.emptied or not isinstance(self._switch, EvictingSwitch):
            return ""
        now_s = self._clock.monotonic_s()
        if self._hold.stage is not Stage.ENGAGED:
            self._at_s, self._empty_until_s = now_s, None
            return None
        if self._empty_until_s is None:
            self._empty_until_s = now_s + self._switch.empty_within_s
        try:
            found = self._switch.empty(self._target)
        except TransientError as err:
            found = EvictionProgress(left=(str(err),), waits=True)
        except _NEVER_MIND as err:
            found = EvictionProgress(left=(str(err),), waits=False)
        if found.waits and now_s + EMPTY_EVERY_S <= self._empty_until_s:
            self._at_s = now_s + EMPTY_EVERY_S
            return None
        more = f" and {len(found.left) - _LEFT_MAX} more" if len(found.left) > _LEFT_MAX else ""
        return f"; not empty: {', '.join(found.left[:_LEFT_MAX])}{more}" if found.left else ""

    def _gone(self, remark: str) -> None:
        """Report the release of every leaving claim: the switch is off, or not ours."""
        reports = [
            self._report(claim, ActionState.RELEASED, f"{claim.reason}; {remark}" if remark else claim.reason)
            for claim in self._hold.leaving
        ]
        self._keep(replace(self._hold, stage=Stage.ENGAGING, leaving=(), tries=0), actions=reports)

    def _abandon(self) -> None:
        """End the hold because someone else changed the switch; its incidents may not switch it on again."""
        self._tally.given_up += 1
        held = (*self._hold.claims, *self._hold.leaving)
        reports = [self._report(claim, ActionState.RELEASED, CHANGED_BY_OTHERS) for claim in held]
        over = replace(self._hold, stage=Stage.ENGAGING, claims=(), leaving=(), tries=0)
        self._keep(over, actions=reports, barred=[claim.incident_id for claim in self._hold.claims])

    def _refused(self, err: RailwatchError) -> None:
        """Drop the claims that were refused; a release that was refused stays pending."""
        if self._hold.stage is not Stage.ENGAGING or not self._hold.claims:
            self._owe(str(err))
            return
        reports = [self._report(claim, ActionState.REFUSED, str(err)) for claim in self._hold.claims]
        # A refusal may follow a write that was accepted: what may be on is released, not forgotten.
        left = self._hold.claims if self._may_be_on() else ()
        left = tuple(replace(claim, reported=True, reason=str(err)) for claim in left)
        self._keep(replace(self._hold, claims=(), leaving=(*self._hold.leaving, *left)), actions=reports)
        self._at_s = self._clock.monotonic_s() + FIRST_PAUSE_S

    def _may_be_on(self) -> bool:
        try:
            return is_ours(self._switch.read(self._target), self._hold.token)
        except (TransientError, *_NEVER_MIND):
            return True

    def _owe(self, why: str) -> None:
        """Schedule a retry of what failed; report it once for each claim."""
        self._tally.retried += 1
        tries = self._hold.tries + 1
        self._at_s = self._clock.monotonic_s() + pause_s(tries)
        if self._hold.is_settled:
            if tries == 1:
                logger.warning("cannot check %s of %s, will retry: %s", self.name, self._target, why)
            self._hold = replace(self._hold, tries=tries)  # it is on, nothing has to be written
            return
        about = [claim for claim in (*self._hold.claims, *self._hold.leaving) if not (claim.reported or claim.failed)]
        about += [claim for claim in self._hold.leaving if claim.reported]
        reports = [self._report(claim, ActionState.FAILED, f"{why}; retrying") for claim in about]
        self._keep(
            replace(
                self._hold,
                tries=tries,
                claims=tuple(replace(claim, failed=True) for claim in self._hold.claims),
                leaving=tuple(replace(claim, failed=True, reported=False) for claim in self._hold.leaving),
            ),
            actions=reports,
        )

    def _watch_leases(self) -> None:
        """Report claims whose lease ran out, and those that are renewed again; the switch stays on."""
        age_s = self._guard_age_s()
        ended = [claim for claim in self._hold.claims if claim.reported and not claim.expired and age_s > claim.lease_s]
        back = [claim for claim in self._hold.claims if claim.expired and age_s <= claim.lease_s]
        reports = [
            self._report(
                claim,
                ActionState.EXPIRED,
                f"not renewed for {claim.lease_s:g} s and the cause is unresolved: stays on",
            )
            for claim in ended
        ]
        reports += [self._report(claim, ActionState.RENEWED, "renewed again") for claim in back]
        if reports:
            changed = {claim.incident_id for claim in (*ended, *back)}
            claims = tuple(
                replace(claim, expired=not claim.expired) if claim.incident_id in changed else claim
                for claim in self._hold.claims
            )
            self._keep(replace(self._hold, claims=claims), actions=reports)

    def _report(self, claim: SwitchClaim, state: ActionState, reason: str) -> Action:
        self._tally.count(state)
        level = logging.WARNING if state in (ActionState.FAILED, ActionState.REFUSED) else logging.INFO
        logger.log(level, "%s of %s %s: %s", self.name, self._target, state, reason)
        return action_of(knob=self.name, claim=claim, state=state, reason=reason, time_ns=self._clock.utc_ns())

    def _keep(
        self,
        hold: HeldSwitch,
        *,
        over: Work | None = None,
        actions: Sequence[Action] = (),
        barred: Sequence[str] = (),
    ) -> None:
        self._journal.keep_hold(hold, now_ns=self._clock.utc_ns(), over=over, actions=actions, barred=barred)
        self._hold = hold
