"""Experiment on one GPU of a run: its clock lowered and restored by turns, through the actuator.

Every lowering is a claim of its own on the clock, journalled, read back, and with a short lease: it ends also where
this process does not live to release it.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from agent.actuation.claims import CapRequest, GpuTarget
from analytics.connectivity.dither import DitherLevel, plan_dither
from telemetry.clock import NS_PER_S, Clock
from telemetry.entities import Entity, EntityKind, label_of_id
from telemetry.errors import ActionRefusedError, TransientError
from telemetry.frames import Frame
from telemetry.gpu import KnobKind
from telemetry.records import IN_FORCE, Action, ActionState, Incident, IncidentState, Mode, Severity
from telemetry.series import series_of

OWNER = "railwatch wiring learn"
# heuristic: longer than a level, so that it never ends within one, and short for a cap whose process was killed.
LEASE_S = 15.0
# heuristic: obstacles are looked for so often: an incident opens within a second or two of its cause.
CHECK_S = 0.5
# heuristic: of the clock while the GPU works: a GPU at its power limit moves its clock by a tenth up and down, and only
# a clock below all of that lowers its power at every moment.
_LOW_PERCENTILE = 10.0
# heuristic: a GPU above this share of time at work is busy.
_BUSY_RATIO = 0.2
_LEAST_SAMPLES = 5


class DitherActuator(Protocol):
    """Actuator of clocks: the actuator process through its client, or a fake."""

    def apply(self, request: CapRequest) -> tuple[Action, ...]:
        """Set the knobs of a request."""
        ...

    def release_incident(self, incident_id: str, *, reason: str) -> tuple[Action, ...]:
        """Release every claim of an incident."""
        ...

    def in_force(self) -> tuple[Action, ...]:
        """Return the newest action of every claim that is in force."""
        ...


def obstacle_of(actuator: DitherActuator, incidents: Iterable[Incident], *, breaker_tripped: bool) -> str | None:
    """Return what forbids an experiment now: a cap, the breaker, an incident of warning or critical; None if nothing.

    A dry run holds no knob, and an incident of info asks for nothing.
    """
    held = (one for one in actuator.in_force() if one.mode is Mode.ENFORCE and one.state in IN_FORCE)
    cap = next((one for one in held if one.owner != OWNER), None)
    if cap is not None:
        return f"incident {cap.incident_id} has set the {cap.knob.replace('_', ' ')}"
    if breaker_tripped:
        return "the circuit breaker has tripped; see railwatch actions reset-breaker"
    for one in incidents:
        if one.state is not IncidentState.CLOSED and one.severity is not Severity.INFO:
            return f"incident {one.id} is open: {one.summary}"
    return None


def working_clock_mhz(frames: Sequence[Frame], gpu: Entity) -> float | None:
    """Return the lowest usual clock of a GPU while it works; None where it is idle, or its clock is not read."""
    busy = _of_gpu(frames, gpu, "gpu_util_ratio")
    clocks_mhz = _of_gpu(frames, gpu, "sm_clock_mhz")
    if len(clocks_mhz) < _LEAST_SAMPLES or (len(busy) and float(busy.mean()) < _BUSY_RATIO):
        return None
    return float(np.percentile(clocks_mhz, _LOW_PERCENTILE))


def _of_gpu(frames: Sequence[Frame], gpu: Entity, signal: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    merged = series_of(frames, EntityKind.GPU, (signal,))
    places = [place for place, one in enumerate(merged.spec.entities) if one.id == gpu.id]
    if not places or not len(merged):
        return np.empty(0)
    values = merged.values[:, places[0], 0]
    found: np.ndarray[tuple[int], np.dtype[np.float64]] = values[np.isfinite(values)]
    return found


def plan_for(gpu: Entity, clock_mhz: float, supported_mhz: Sequence[float], *, seed: int) -> tuple[DitherLevel, ...]:
    """Return the levels to hold on a GPU that works at a clock; empty where no lower clock is near enough."""
    at_or_below = [mhz for mhz in supported_mhz if mhz <= clock_mhz]
    if not at_or_below:
        return ()
    plan = plan_dither(gpu.id, clock_mhz=max(at_or_below), supported_mhz=supported_mhz, seed=seed)
    return () if plan is None else plan.levels


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLevel:
    """Level that was held, with the time at which it began to be in force."""

    start_ns: int
    stop_ns: int
    is_high: bool

    def level(self, start_ns: int) -> DitherLevel:
        """Return it in seconds from a time."""
        start_s, stop_s = ((at_ns - start_ns) / NS_PER_S for at_ns in (self.start_ns, self.stop_ns))
        return DitherLevel(start_s=start_s, stop_s=stop_s, clock_mhz=0.0, is_high=self.is_high)


class ClockDither:
    """Lowers and restores the clock of GPUs; used as a context, it releases whatever it holds on every exit.

    Parameters
    ----------
    obstacle
        Returns why the experiment must not go on, or None; called before each change and while a level is held.
    """

    def __init__(self, actuator: DitherActuator, clock: Clock, *, obstacle: Callable[[], str | None]) -> None:
        self._actuator = actuator
        self._clock = clock
        self._obstacle = obstacle
        self._incident_id = f"wiring-learn-{clock.utc_ns()}"
        self._lowered = 0

    def __enter__(self) -> Self:
        """Release what an earlier experiment left."""
        left = {one.incident_id for one in self._actuator.in_force() if one.owner == OWNER}
        for incident_id in sorted(left):
            self._actuator.release_incident(incident_id, reason="left by an earlier experiment")
        return self

    def __exit__(self, *_: object) -> None:
        """Release the clock."""
        self._release("the experiment ended")

    def hold(self, gpu: Entity, levels: Sequence[DitherLevel]) -> Generator[HeldLevel]:
        """Hold each level and yield it once it is over; at the end the clock is restored.

        Raises
        ------
        ActionRefusedError
            The actuator refused a change, or something came in the way; the clock is restored.
        TransientError
            The actuator is away, or could not restore the clock and retries.
        """
        try:
            for level in levels:
                self._check()
                if level.is_high:
                    self._release("higher level of the experiment")
                else:
                    self._lower(gpu, level.clock_mhz)
                start_ns = self._clock.utc_ns()
                self._wait(level.stop_s - level.start_s)
                yield HeldLevel(start_ns=start_ns, stop_ns=self._clock.utc_ns(), is_high=level.is_high)
        finally:
            self._release("the GPU was moved often enough")

    def _lower(self, gpu: Entity, clock_mhz: float) -> None:
        self._lowered += 1
        action, *_ = self._actuator.apply(
            CapRequest(
                incident_id=self._incident_id,
                decision_id=f"{self._incident_id}-{self._lowered}",
                gpus=(GpuTarget(entity_id=gpu.id, uuid=gpu.key),),
                kind=KnobKind.CLOCK,
                setting=clock_mhz,
                safe_setting=clock_mhz,
                lease_s=LEASE_S,
                owner=OWNER,
                mode=Mode.ENFORCE,
                reason="lower level of the experiment that shows which supply feeds the GPU",
                ends_with_lease=True,
            )
        )
        if action.state not in IN_FORCE:  # refused, failed, or released since someone else has set the clock
            raise ActionRefusedError(f"{gpu.label}: {action.reason}")

    def _wait(self, seconds: float) -> None:
        end_s = self._clock.monotonic_s() + seconds
        while (now_s := self._clock.monotonic_s()) < end_s:
            self._clock.sleep_until(min(end_s, now_s + CHECK_S))
            self._check()

    def _check(self) -> None:
        why = self._obstacle()
        if why is not None:
            raise ActionRefusedError(why)
        if any(one.owner == OWNER and one.incident_id != self._incident_id for one in self._actuator.in_force()):
            raise ActionRefusedError("another railwatch wiring learn holds a clock of this node")

    def _release(self, reason: str) -> None:
        done = self._actuator.release_incident(self._incident_id, reason=reason)
        failed = next((one for one in done if one.state is ActionState.FAILED), None)
        if failed is not None:
            raise TransientError(f"{label_of_id(failed.entity_id)}: {failed.reason}")
