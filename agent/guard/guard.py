"""The live guard: wakes with every fast row, lets the pipeline judge, and carries out what it decides."""

import json
import logging
import os
import queue
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from agent.actuation.hold import GpuTarget
from agent.actuation.request import CapRequest
from agent.guard.pipeline import Pipeline, Step
from agent.ring import RingTable
from rules.policy import Verb
from telemetry.clock import Clock
from telemetry.entities import EntityKind
from telemetry.errors import ActionRefusedError, TransientError
from telemetry.frames import Frame
from telemetry.records import Action, Decision, Event, Mode, Record, Verdict

logger = logging.getLogger(__name__)

# Without a row for this long the guard still looks at events and at the passing of time.
IDLE_WAKE_S = 0.25
# Events that wait for the guard; a storm beyond that is counted, not kept.
MAX_EVENTS = 10_000
# Leases are renewed four times before they run out.
RENEWALS_PER_LEASE = 4
OWNER = "railwatch"


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


class RecordSink(Protocol):
    """Where records go."""

    def append(self, record: Record) -> None:
        """Keep one record."""
        ...


class Guard:
    """Runs one pipeline over the tables of a ring.

    Parameters
    ----------
    snapshot_path
        Where the open incidents and the claims are kept for a restart.
    """

    def __init__(
        self,
        tables: Mapping[str, RingTable],
        pipeline: Pipeline,
        actuator: CapActuator,
        sink: RecordSink,
        clock: Clock,
        *,
        snapshot_path: Path,
    ) -> None:
        self._tables = tuple(tables.values())
        self._next = {table.spec.name: table.count for table in self._tables}
        self._pipeline = pipeline
        self._actuator = actuator
        self._sink = sink
        self._clock = clock
        self._snapshot_path = snapshot_path
        self._events: queue.Queue[Event] = queue.Queue(MAX_EVENTS)
        self._rows = threading.Event()
        self._renew_at_s: dict[str, float] = {}
        self._unheard: list[tuple[Decision, float]] = []
        self.events_dropped = 0
        self.failures = 0

    def wake(self) -> None:
        """Tell it that rows came; any thread may."""
        self._rows.set()

    def tell(self, event: Event) -> None:
        """Hand it an event; any thread may."""
        try:
            self._events.put_nowait(event)
        except queue.Full:
            self.events_dropped += 1
        self._rows.set()

    def run(self, stop: threading.Event) -> None:
        """Guard until told to stop. A step that fails is counted and logged, and the next one goes on."""
        self._restore()
        while not stop.is_set():
            self._rows.wait(IDLE_WAKE_S)
            self._rows.clear()
            try:
                self.step()
            except Exception:  # supervisor of the pipeline: a defect in one detector must not end the guard
                self.failures += 1
                logger.exception("guard step failed")

    def step(self) -> Step:
        """Judge what came since the last step, and act on it."""
        now_ns = self._clock.utc_ns()
        step = self._pipeline.step(self._new_rows(), self._new_events(), now_ns)
        # The act first: writing records down can wait the microseconds that a sagging rail cannot.
        actions = [action for decision in step.to_execute for action in self._carry_out(decision)]
        actions += self._try_again()
        changed = self._pipeline.note_actions(actions, now_ns)
        for record in (*step.records, *changed):
            self._sink.append(record)
        self._renew()
        if step.incidents or step.decisions or changed:
            self._save()
        return step

    def _new_rows(self) -> list[Frame]:
        frames = []
        for table in self._tables:
            read = table.read(self._next[table.spec.name])
            self._next[table.spec.name] = read.next
            if len(read.frame):
                frames.append(read.frame)
        return frames

    def _new_events(self) -> list[Event]:
        events = []
        while True:
            try:
                events.append(self._events.get_nowait())
            except queue.Empty:
                return events

    def _carry_out(self, decision: Decision) -> tuple[Action, ...]:
        try:
            if decision.action == Verb.CLOCK_RELEASE:
                return tuple(
                    action
                    for target in decision.targets
                    for action in self._actuator.release(decision.incident_id, entity_id=target, reason=decision.reason)
                )
            return self._actuator.apply(_request(decision, safe_mhz=self._safe_mhz(decision)))
        except TransientError as err:
            logger.error("actuator did not answer; the decision is tried again", extra={"reason": str(err)})  # noqa: TRY400 -- expected while it starts again
            self._unheard.append((decision, self._clock.monotonic_s()))
        except (ActionRefusedError, ValueError) as err:
            logger.error("actuator refused", extra={"decision": decision.id, "reason": str(err)})  # noqa: TRY400 -- the reason says it all
        return ()

    def _safe_mhz(self, decision: Decision) -> float | None:
        claims = self._pipeline.engine.claims
        return next((claim.safe_mhz for claim in claims if claim.decision_id == decision.id), None)

    def _try_again(self) -> list[Action]:
        """Say again what a dead actuator did not hear; all its verbs can be said twice."""
        now_s = self._clock.monotonic_s()
        due = [decision for decision, asked_s in self._unheard if now_s - asked_s >= IDLE_WAKE_S]
        self._unheard = [pair for pair in self._unheard if now_s - pair[1] < IDLE_WAKE_S]
        return [action for decision in due for action in self._carry_out(decision)]

    def _renew(self) -> None:
        now_s = self._clock.monotonic_s()
        claims = {claim.incident_id: claim.lease_s for claim in self._pipeline.engine.claims}
        for incident_id, lease_s in claims.items():
            due_s = self._renew_at_s.setdefault(incident_id, now_s + lease_s / RENEWALS_PER_LEASE)
            if now_s < due_s:
                continue
            self._renew_at_s[incident_id] = now_s + lease_s / RENEWALS_PER_LEASE
            try:
                self._actuator.renew(incident_id, lease_s=lease_s)
            except (TransientError, ActionRefusedError) as err:
                logger.warning("lease not renewed", extra={"incident": incident_id, "reason": str(err)})
        for over in self._renew_at_s.keys() - claims.keys():
            del self._renew_at_s[over]

    def _save(self) -> None:
        text = json.dumps(self._pipeline.snapshot())
        fresh = self._snapshot_path.with_suffix(".new")
        try:
            fresh.write_text(text, encoding="utf-8")
            os.replace(fresh, self._snapshot_path)  # noqa: PTH105 -- the same thing, said as what it is: atomic
        except OSError as err:
            logger.error("incidents cannot be kept for a restart", extra={"reason": err.strerror})  # noqa: TRY400 -- a full disk needs no traceback

    def _restore(self) -> None:
        try:
            state = json.loads(self._snapshot_path.read_text(encoding="utf-8"))
            self._pipeline.restore(state, self._clock.utc_ns())
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as err:
            logger.warning("open incidents of the last run cannot be read", extra={"reason": str(err)})
            return
        self._reassert()

    def _reassert(self) -> None:
        """Set again the caps that the rules still want: the cause outlives a restart, the setting did not."""
        now_ns = self._clock.utc_ns()
        for claim in self._pipeline.engine.claims:
            for clock_mhz in sorted({clock for _, clock in claim.clocks}):
                decision = Decision(
                    id=claim.decision_id,
                    time_ns=now_ns,
                    rule=claim.policy_id,
                    incident_id=claim.incident_id,
                    action=Verb.CLOCK_CAP,
                    targets=tuple(gpu for gpu, clock in claim.clocks if clock == clock_mhz),
                    clock_mhz=clock_mhz,
                    lease_s=claim.lease_s,
                    mode=claim.mode,
                    verdict=Verdict.EXECUTE,
                    reason="still wanted after a restart",
                )
                self._pipeline.note_actions(self._carry_out(decision), now_ns)


def _request(decision: Decision, *, safe_mhz: float | None) -> CapRequest:
    if decision.clock_mhz is None or decision.lease_s is None:
        raise ValueError(f"decision {decision.id} names no clock or no lease")
    return CapRequest(
        incident_id=decision.incident_id,
        decision_id=decision.id,
        gpus=tuple(GpuTarget(entity_id=target, uuid=_uuid(target)) for target in decision.targets),
        clock_mhz=decision.clock_mhz,
        safe_clock_mhz=safe_mhz,
        lease_s=decision.lease_s,
        owner=OWNER,
        mode=Mode.ENFORCE,
        reason=decision.reason,
    )


def _uuid(entity_id: str) -> str:
    kind, _, key = entity_id.partition(":")
    if kind != EntityKind.GPU:
        raise ValueError(f"{entity_id} is no GPU, so it has no clock to cap")
    return key
