"""Actuator that receives requests and does not answer, and the guard's requests to it."""

from agent.actuation.claims import CapRequest
from agent.guard.actuator_requests import ActuatorRequests
from telemetry.errors import TransientError
from telemetry.gpu import KnobKind
from telemetry.records import Action, Decision
from tests.agent.fakes import FakeClock
from tests.agent.guard.box import Box, make_pipeline


class DeafActuator:
    """Actuator that receives nothing while it is deaf; records what it received."""

    def __init__(self) -> None:
        self.deaf = False
        self.received: list[tuple[str, float | None]] = []
        self.asked = 0

    def apply(self, request: CapRequest) -> tuple[Action, ...]:
        self._listen()
        self.received += [(gpu.entity_id, request.setting) for gpu in request.gpus]
        return ()

    def renew(self, incident_id: str, *, lease_s: float) -> tuple[Action, ...]:
        self._listen()
        return ()

    def in_force(self) -> tuple[Action, ...]:
        return ()

    def release(
        self, incident_id: str, *, entity_id: str, reason: str, kind: KnobKind | None = None
    ) -> tuple[Action, ...]:
        self._listen()
        self.received.append((entity_id, None))
        return ()

    def _listen(self) -> None:
        self.asked += 1
        if self.deaf:
            raise TransientError("deaf")


def decided() -> tuple[ActuatorRequests, DeafActuator, FakeClock, Decision]:
    """Orders for an engine that has just decided on a cap."""
    pipeline, box, actuator, clock = make_pipeline(), Box(resistance_ohm=0.017), DeafActuator(), FakeClock()
    while True:
        step = pipeline.step(box.frames(1), (), box.time_ns)
        if step.to_execute:
            return ActuatorRequests(actuator, pipeline.engine, clock), actuator, clock, step.to_execute[0]
