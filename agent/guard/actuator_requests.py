"""Requests to the actuator, with retries.

A retry is kept as incident and GPU, not as the decision: it requests what the rules want by then, so an outdated
decision is never carried out late.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from agent.actuation.claims import CapRequest, GpuTarget
from rules.engine.claims import CapClaim
from rules.engine.engine import Engine
from telemetry.clock import Clock
from telemetry.entities import EntityKind
from telemetry.errors import ActionRefusedError, TransientError
from telemetry.gpu import KnobKind
from telemetry.records import Action, ActionState, Decision

logger = logging.getLogger(__name__)

# Leases are renewed four times before they run out.
RENEWALS_PER_LEASE = 4
# An actuator that died is back within a second or two; one that hangs costs a time-out at each attempt.
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 5.0
OWNER = "railwatch"

# heuristic: caps of an earlier agent that the rules do not want are released after this time, as long as policies wait
# before they relax a cap: the cause may still be there, and this agent has to see it first.
ORPHAN_S = 600.0

# An incident's hold on one GPU: incident id, entity id.
Pair = tuple[str, str]
# On one knob of it.
Held = tuple[str, str, KnobKind]
# What one order has in common: the decision, the knob, the setting; no decision and no setting for a release.
_Request = tuple[str | None, KnobKind, float | None]


class CapActuator(Protocol):
    """Actuator of knobs: the actuator process through its client, or a fake."""

    def apply(self, request: CapRequest) -> tuple[Action, ...]:
        """Set the knobs of a request."""
        ...

    def renew(self, incident_id: str, *, lease_s: float) -> tuple[Action, ...]:
        """Renew the leases of an incident."""
        ...

    def release(
        self, incident_id: str, *, entity_id: str, reason: str, kind: KnobKind | None = None
    ) -> tuple[Action, ...]:
        """Release an incident's claims on one GPU, or on one of its knobs if a kind is given."""
        ...

    def in_force(self) -> tuple[Action, ...]:
        """Return the newest action of every claim that is in force."""
        ...


class ActuatorRequests:
    """Keeps the actuator in line with the engine; one thread owns it.

    Attributes
    ----------
    failures
        Number of requests with an unexpected error; the log has the tracebacks.
    """

    def __init__(self, actuator: CapActuator, engine: Engine, clock: Clock) -> None:
        self._actuator = actuator
        self._engine = engine
        self._clock = clock
        self._scheduled: dict[Pair, str] = {}
        self._refused: set[Held] = set()
        self._requested: set[Held] = set()
        self._orphans: set[Held] | None = None
        self._orphans_at_s = 0.0
        self._try_at_s = 0.0
        self._pause_s = 0.0
        self._renew_at_s: dict[str, float] = {}
        self.failures = 0

    def wanted(self, incident_id: str, entity_id: str, kind: KnobKind) -> tuple[CapClaim, ...]:
        """Return the claims of the rules for this incident on this knob of this GPU, the strictest first."""
        found = [claim for claim in self._engine.claims if claim.incident_id == incident_id and kind_of(claim) is kind]
        held = [(settings_of(claim)[entity_id], claim) for claim in found if entity_id in claim.gpus]
        ordered = sorted(held, key=lambda item: item[0], reverse=kind is KnobKind.FAN)
        return tuple(claim for _, claim in ordered)

    def carry_out(self, decision: Decision) -> tuple[Action, ...]:
        """Carry out a decision of the engine; return the actions."""
        return self._send(decision.incident_id, decision.targets, decision.reason)

    def schedule(self, pairs: Iterable[Pair], *, reason: str) -> None:
        """Schedule requests for these at the next step."""
        self._scheduled.update(dict.fromkeys(pairs, reason))

    def schedule_all(self, *, reason: str) -> None:
        """Schedule requests for everything that the rules want."""
        self.schedule(((claim.incident_id, gpu) for claim in self._engine.claims for gpu in claim.gpus), reason=reason)

    def catch_up(self) -> tuple[Action, ...]:
        """Send the scheduled requests that are due, as the rules want it by now."""
        if not self._scheduled or self._clock.monotonic_s() < self._try_at_s:
            return ()
        due, self._scheduled = self._scheduled, {}
        by_incident: dict[tuple[str, str], list[str]] = {}
        for (incident_id, entity_id), reason in due.items():
            by_incident.setdefault((incident_id, reason), []).append(entity_id)
        actions: list[Action] = []
        for (incident_id, reason), targets in by_incident.items():
            if (
                self._scheduled
            ):  # the actuator did not answer the one before: each further attempt would cost a time-out
                self.schedule(((incident_id, target) for target in targets), reason=reason)
            else:
                actions += self._send(incident_id, targets, reason)
        return tuple(actions)

    def renew(self) -> tuple[Action, ...]:
        """Renew the leases that are due, and schedule requests for caps that the actuator does not have."""
        now_s = self._clock.monotonic_s()
        leases_s: dict[str, float] = {}
        for claim in self._engine.claims:
            leases_s[claim.incident_id] = min(claim.lease_s, leases_s.get(claim.incident_id, claim.lease_s))
        for over in self._renew_at_s.keys() - leases_s.keys():
            del self._renew_at_s[over]
        actions: list[Action] = []
        for incident_id, lease_s in leases_s.items():
            pause_s = lease_s / RENEWALS_PER_LEASE
            if now_s >= self._renew_at_s.setdefault(incident_id, now_s + pause_s):
                self._renew_at_s[incident_id] = now_s + pause_s
                actions += self._renew(incident_id, lease_s)
        return (*actions, *self._release_orphans(now_s))

    def renew_now(self, incident_id: str) -> None:
        """Renew the leases of an incident at the next step, before they are due."""
        self._renew_at_s[incident_id] = self._clock.monotonic_s()

    def _renew(self, incident_id: str, lease_s: float) -> tuple[Action, ...]:
        try:
            actions = self._actuator.renew(incident_id, lease_s=lease_s)
        except (TransientError, ActionRefusedError) as err:
            logger.warning("cannot renew the lease of incident %s, will retry: %s", incident_id, err)
            return ()
        known = {(action.incident_id, action.entity_id, action.knob_kind) for action in actions}
        missing = [held for held in self._all_wanted() if held[0] == incident_id and held not in known]
        lost = [(incident_id, gpu) for _, gpu, kind in missing if (incident_id, gpu, kind) not in self._refused]
        self.schedule(lost, reason="the actuator had lost the cap")
        return actions

    def _all_wanted(self) -> list[Held]:
        return [(claim.incident_id, gpu, kind_of(claim)) for claim in self._engine.claims for gpu in claim.gpus]

    def _release_orphans(self, now_s: float) -> tuple[Action, ...]:
        """Release caps that an earlier agent left and that the rules never wanted since."""
        if self._orphans is None:
            self._find_orphans(now_s)
        if not self._orphans or now_s < self._orphans_at_s:
            return ()
        orphans, self._orphans = self._orphans - set(self._all_wanted()), set()
        actions: list[Action] = []
        for incident_id, gpu, kind in sorted(orphans):
            try:
                reason = "left by an earlier agent, not wanted since"
                actions += self._actuator.release(incident_id, entity_id=gpu, reason=reason, kind=kind)
            except (TransientError, ActionRefusedError) as err:
                logger.warning("cannot release a cap of an earlier agent, will retry: %s", err)
                self._orphans.add((incident_id, gpu, kind))
                self._orphans_at_s = now_s + LONGEST_PAUSE_S
        return tuple(actions)

    def _find_orphans(self, now_s: float) -> None:
        if now_s < self._orphans_at_s:
            return
        try:
            left = self._actuator.in_force()
        except (TransientError, ActionRefusedError) as err:
            logger.info("cannot list the caps in force, will retry: %s", err)
            self._orphans_at_s = now_s + LONGEST_PAUSE_S
            return
        kinds = [(action, action.knob_kind) for action in left if action.owner == OWNER]
        self._orphans = {(action.incident_id, action.entity_id, kind) for action, kind in kinds if kind is not None}
        self._orphans_at_s = now_s + ORPHAN_S

    def _send(self, incident_id: str, targets: Iterable[str], reason: str) -> tuple[Action, ...]:
        orders: dict[_Request, tuple[CapClaim | None, list[str]]] = {}
        for target in targets:
            self._scheduled.pop((incident_id, target), None)
            for kind in KnobKind:
                claim = next(iter(self.wanted(incident_id, target, kind)), None)
                if claim is not None:
                    wanted = claim.decision_id, kind, settings_of(claim)[target]
                    orders.setdefault(wanted, (claim, []))[1].append(target)
                elif kind is KnobKind.CLOCK or (incident_id, target, kind) in self._requested:
                    orders.setdefault((None, kind, None), (None, []))[1].append(target)
        actions: list[Action] = []
        for key, (claim, gpus) in orders.items():
            try:
                actions += self._order(incident_id, gpus, claim, key, reason)
            except TransientError as err:
                self._note_no_answer(incident_id, gpus, reason, err)
            except ActionRefusedError as err:
                logger.error("actuator refused a request of incident %s: %s", incident_id, err)  # noqa: TRY400 -- the reason suffices
            except Exception:  # supervisor of actions: one that fails must not block the others
                self.failures += 1
                logger.exception("request to the actuator failed, will retry")
                self.schedule(((incident_id, gpu) for gpu in gpus), reason=reason)
                self._pause()
        if not self._scheduled:
            self._pause_s = 0.0
        return tuple(actions)

    def _order(
        self,
        incident_id: str,
        gpus: list[str],
        claim: CapClaim | None,
        key: _Request,
        reason: str,
    ) -> tuple[Action, ...]:
        _, kind, setting = key
        if claim is None or setting is None:
            actions: list[Action] = []
            for gpu in gpus:
                actions += self._actuator.release(incident_id, entity_id=gpu, reason=reason, kind=kind)
                self._requested.discard((incident_id, gpu, kind))
            return tuple(actions)
        self._requested.update((incident_id, gpu, kind) for gpu in gpus)
        done = self._actuator.apply(request_of(claim, gpus, setting, reason=reason))
        for action in done:
            change = self._refused.add if action.state is ActionState.REFUSED else self._refused.discard
            change((incident_id, action.entity_id, kind))
        self._refused = {held for held in self._refused if self.wanted(*held)}
        return done

    def _note_no_answer(self, incident_id: str, gpus: list[str], reason: str, error: TransientError) -> None:
        if self._pause_s == 0.0:
            logger.error("actuator did not answer, retrying: %s", error)
        self.schedule(((incident_id, gpu) for gpu in gpus), reason=reason)
        self._pause()

    def _pause(self) -> None:
        self._pause_s = min(max(FIRST_PAUSE_S, 2.0 * self._pause_s), LONGEST_PAUSE_S)
        self._try_at_s = self._clock.monotonic_s() + self._pause_s


def request_of(
    claim: CapClaim,
    gpus: Sequence[str],
    setting: float,
    *,
    reason: str,
    incident_id: str | None = None,
    decision_id: str | None = None,
) -> CapRequest:
    """Return the request of a claim; with the ids of the claim unless others are given."""
    return CapRequest(
        incident_id=incident_id or claim.incident_id,
        decision_id=decision_id or claim.decision_id,
        gpus=tuple(GpuTarget(entity_id=gpu, uuid=_uuid(gpu)) for gpu in gpus),
        kind=kind_of(claim),
        setting=setting,
        safe_setting=claim.safe,
        lease_s=claim.lease_s,
        owner=OWNER,
        mode=claim.mode,
        reason=reason,
    )


def _uuid(entity_id: str) -> str:
    kind, _, key = entity_id.partition(":")
    if kind != EntityKind.GPU:
        raise ActionRefusedError(f"{entity_id} is not a GPU: no clock to cap")
    return key


def kind_of(claim: CapClaim) -> KnobKind:
    """Return the knob that a claim of the rules holds."""
    return claim.knob


def settings_of(claim: CapClaim) -> dict[str, float]:
    """Return the setting that a claim of the rules wants of each GPU."""
    return dict(claim.settings)
