"""What the actuator is asked for, and asked again where it did not hear.

Remembered is which GPU of which incident it has to be told of, not what was decided then: said again is what the
rules want by that time, so a decision that was overtaken is never carried out late.
"""

import logging
from collections.abc import Iterable
from typing import Protocol

from agent.actuation.hold import GpuTarget
from agent.actuation.request import CapRequest
from rules.claims import Claim
from rules.engine import Engine
from telemetry.clock import Clock
from telemetry.entities import EntityKind
from telemetry.errors import ActionRefusedError, TransientError
from telemetry.records import Action, ActionState, Decision

logger = logging.getLogger(__name__)

# Leases are renewed four times before they run out.
RENEWALS_PER_LEASE = 4
# An actuator that died is back within a second or two; one that hangs costs a time-out at each try.
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 5.0
OWNER = "railwatch"

# An incident's hold on one GPU: incident id, entity id.
Pair = tuple[str, str]


class CapActuator(Protocol):
    """Whoever moves clocks: the actuator process through its client, or a fake."""

    def apply(self, request: CapRequest) -> tuple[Action, ...]:
        """Cap the GPUs of a request."""
        ...

    def renew(self, incident_id: str, *, lease_s: float) -> tuple[Action, ...]:
        """Begin the leases of an incident anew."""
        ...

    def release(self, incident_id: str, *, entity_id: str, reason: str) -> tuple[Action, ...]:
        """Give up an incident's claim on one GPU."""
        ...


class Orders:
    """Keeps the actuator at what the engine wants; one thread owns it.

    Attributes
    ----------
    failures
        Orders that failed for a reason that nobody foresaw; the log has the tracebacks.
    """

    def __init__(self, actuator: CapActuator, engine: Engine, clock: Clock) -> None:
        self._actuator = actuator
        self._engine = engine
        self._clock = clock
        self._owed: dict[Pair, str] = {}
        self._refused: set[Pair] = set()
        self._try_at_s = 0.0
        self._pause_s = 0.0
        self._renew_at_s: dict[str, float] = {}
        self.failures = 0

    def wanted(self, incident_id: str, entity_id: str) -> tuple[Claim, ...]:
        """Give the claims of the rules for this incident on this GPU, the strictest first."""
        found = [claim for claim in self._engine.claims if claim.incident_id == incident_id]
        held = [(dict(claim.clocks)[entity_id], claim) for claim in found if entity_id in claim.gpus]
        return tuple(claim for _, claim in sorted(held, key=lambda item: item[0]))

    def carry_out(self, decision: Decision) -> tuple[Action, ...]:
        """Tell the actuator of a decision that the engine has just taken."""
        return self._say(decision.incident_id, decision.targets, decision.reason)

    def owe(self, pairs: Iterable[Pair], *, reason: str) -> None:
        """Note that the actuator has to be told of these at the next chance."""
        self._owed.update(dict.fromkeys(pairs, reason))

    def owe_all(self, *, reason: str) -> None:
        """Note that it has to be told of everything that the rules want."""
        self.owe(((claim.incident_id, gpu) for claim in self._engine.claims for gpu in claim.gpus), reason=reason)

    def catch_up(self) -> tuple[Action, ...]:
        """Say what is owed and due, as the rules want it by now."""
        if not self._owed or self._clock.monotonic_s() < self._try_at_s:
            return ()
        owed, self._owed = self._owed, {}
        by_incident: dict[tuple[str, str], list[str]] = {}
        for (incident_id, entity_id), reason in owed.items():
            by_incident.setdefault((incident_id, reason), []).append(entity_id)
        actions: list[Action] = []
        for (incident_id, reason), targets in by_incident.items():
            if self._owed:  # it did not hear the one before: each further try would cost a time-out
                self.owe(((incident_id, target) for target in targets), reason=reason)
            else:
                actions += self._say(incident_id, targets, reason)
        return tuple(actions)

    def renew(self) -> tuple[Action, ...]:
        """Renew the leases that are due, and owe the caps that the actuator turns out not to have."""
        now_s = self._clock.monotonic_s()
        claims = {claim.incident_id: claim for claim in self._engine.claims}
        for over in self._renew_at_s.keys() - claims.keys():
            del self._renew_at_s[over]
        actions: list[Action] = []
        for incident_id, claim in claims.items():
            pause_s = claim.lease_s / RENEWALS_PER_LEASE
            if now_s >= self._renew_at_s.setdefault(incident_id, now_s + pause_s):
                self._renew_at_s[incident_id] = now_s + pause_s
                actions += self._renew(claim)
        return tuple(actions)

    def renew_now(self, incident_id: str) -> None:
        """Renew the leases of an incident at the next chance, whenever they are due."""
        self._renew_at_s[incident_id] = self._clock.monotonic_s()

    def _renew(self, claim: Claim) -> tuple[Action, ...]:
        incident_id = claim.incident_id
        try:
            actions = self._actuator.renew(incident_id, lease_s=claim.lease_s)
        except (TransientError, ActionRefusedError) as err:
            logger.warning("lease not renewed: %s", err, extra={"incident": incident_id})
            return ()
        known = {action.entity_id for action in actions}
        missing = [(incident_id, gpu) for gpu in claim.gpus if gpu not in known]
        self.owe((pair for pair in missing if pair not in self._refused), reason="the actuator had lost the cap")
        return actions

    def _say(self, incident_id: str, targets: Iterable[str], reason: str) -> tuple[Action, ...]:
        orders: dict[tuple[str, float] | None, tuple[Claim | None, list[str]]] = {}
        for target in targets:
            self._owed.pop((incident_id, target), None)
            claim = next(iter(self.wanted(incident_id, target)), None)
            key = None if claim is None else (claim.decision_id, dict(claim.clocks)[target])
            orders.setdefault(key, (claim, []))[1].append(target)
        actions: list[Action] = []
        for key, (claim, gpus) in orders.items():
            clock_mhz = None if key is None else key[1]
            try:
                actions += self._order(incident_id, gpus, claim, clock_mhz, reason)
            except TransientError as err:
                self._unheard(incident_id, gpus, reason, err)
            except ActionRefusedError as err:
                logger.error("actuator refused: %s", err, extra={"incident": incident_id})  # noqa: TRY400 -- the reason says it all
            except Exception:  # supervisor of actions: one that fails may not keep the others back
                self.failures += 1
                logger.exception("an order to the actuator failed")
                self.owe(((incident_id, gpu) for gpu in gpus), reason=reason)
                self._pause()
        if not self._owed:
            self._pause_s = 0.0
        return tuple(actions)

    def _order(
        self, incident_id: str, gpus: list[str], claim: Claim | None, clock_mhz: float | None, reason: str
    ) -> tuple[Action, ...]:
        if claim is None or clock_mhz is None:
            return tuple(
                action for gpu in gpus for action in self._actuator.release(incident_id, entity_id=gpu, reason=reason)
            )
        actions = self._actuator.apply(_request(claim, gpus, clock_mhz, reason))
        for action in actions:
            change = self._refused.add if action.state is ActionState.REFUSED else self._refused.discard
            change((incident_id, action.entity_id))
        self._refused = {pair for pair in self._refused if self.wanted(*pair)}
        return actions

    def _unheard(self, incident_id: str, gpus: list[str], reason: str, error: TransientError) -> None:
        if self._pause_s == 0.0:
            logger.error("actuator did not answer, it is asked again: %s", error)
        self.owe(((incident_id, gpu) for gpu in gpus), reason=reason)
        self._pause()

    def _pause(self) -> None:
        self._pause_s = min(max(FIRST_PAUSE_S, 2.0 * self._pause_s), LONGEST_PAUSE_S)
        self._try_at_s = self._clock.monotonic_s() + self._pause_s


def _request(claim: Claim, gpus: list[str], clock_mhz: float, reason: str) -> CapRequest:
    return CapRequest(
        incident_id=claim.incident_id,
        decision_id=claim.decision_id,
        gpus=tuple(GpuTarget(entity_id=gpu, uuid=_uuid(gpu)) for gpu in gpus),
        clock_mhz=clock_mhz,
        safe_clock_mhz=claim.safe_mhz,
        lease_s=claim.lease_s,
        owner=OWNER,
        mode=claim.mode,
        reason=reason,
    )


def _uuid(entity_id: str) -> str:
    kind, _, key = entity_id.partition(":")
    if kind != EntityKind.GPU:
        raise ActionRefusedError(f"{entity_id} is no GPU, so it has no clock to cap")
    return key
