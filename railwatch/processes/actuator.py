"""The actuator process: the only one that changes GPU settings, and the one that restores them.

Where `railwatch actuatord` does that, this process only copies its actions to the journal.
"""

import contextlib
import logging
from dataclasses import replace
from threading import Event, Thread

from agent.actuation.limits import DEFAULT_LIMITS, ActuatorSettings
from agent.actuation.server import serve_actuator
from agent.actuation.writer_lock import WriterLock
from agent.driver.port import Knob
from agent.scheduling import freeze_loaded_objects
from railwatch.operator.leftovers import has_leftovers, state_dir_of
from railwatch.processes.child import Ready, leave, run_child
from railwatch.processes.following import Counts, follow
from railwatch.run_context import RunContext
from railwatch.wiring.driver_watch import DRIVER_BACK, OPEN_LIMIT_S, DriverWatch
from railwatch.wiring.gpu_driver import OpenDriver
from rules.policy.model import ActionClass
from telemetry.clock import SystemClock
from telemetry.errors import NotSupportedError, RailwatchError, TransientError
from telemetry.gpu import KnobKind

logger = logging.getLogger(__name__)


class NoKnob:
    """Placeholder where no GPU has such a knob: every request is refused with the reason.

    A placeholder until the driver answers has no name, and every request fails.
    """

    readable = False

    def __init__(self, kind: KnobKind, why: str, *, until_it_answers: bool = False) -> None:
        self.kind = kind
        self.name = "" if until_it_answers else "none"
        self._why = why
        self._error: type[RailwatchError] = TransientError if until_it_answers else NotSupportedError

    def supported(self, uuid: str) -> tuple[float, ...]:
        """Refuse."""
        raise self._error(f"{uuid}: {self._why}")

    def read(self, uuid: str) -> float | None:
        """Refuse."""
        raise self._error(f"{uuid}: {self._why}")

    def write(self, uuid: str, setting: float | None) -> None:  # noqa: ARG002 -- the port's signature
        """Refuse."""
        raise self._error(f"{uuid}: {self._why}")


def main(context: RunContext, stop: Event, ready: Ready, *, open_limit_s: float = OPEN_LIMIT_S) -> None:
    """Serve requests until the request to stop, then release every cap.

    While the driver does not open, or is not there yet, requests fail at once. When it answers, this process exits and
    its successor opens it.
    """
    if context.privileged_socket is not None:
        follow(context, context.privileged_socket, stop, ready)
        return
    clock = SystemClock()
    settings = settings_of(context)
    # A simulated node ends with its run, and so do the settings in its journal.
    state_dir = state_dir_of(context.run_dir if context.simulated else context.config.data_dir)
    may_enforce = any(settings.may_enforce(kind) for kind in KnobKind)
    may_write = not context.simulated and (may_enforce or has_leftovers(state_dir))
    watch = DriverWatch(context, clock, open_limit_s=open_limit_s, process="actuator", on_open=OpenDriver.supported_mhz)
    with contextlib.ExitStack() as kept:

        def knobs() -> tuple[Knob, ...]:
            driver = watch.open()
            waits_for = watch.away or watch.absent
            if waits_for is not None:
                Thread(target=_leave_once_it_answers, args=(watch,), name="probe-driver", daemon=True).start()
                return tuple(NoKnob(kind, waits_for.why, until_it_answers=True) for kind in KnobKind)
            if not driver.knobs:
                return tuple(NoKnob(kind, driver.why or "no GPU has one that can be set") for kind in KnobKind)
            if may_write:
                kept.callback(WriterLock().close)
            return driver.knobs

        journal = context.journal_writer("actuator")
        kept.callback(journal.close)
        freeze_loaded_objects()
        serve_actuator(
            knobs,
            context.actuator_socket,
            state_dir,
            journal.append,
            clock,
            settings=settings,
            run_id=str(context.started_ns),
            stop=stop,
            ready=lambda: ready({}),
            note=Counts(context.actuator_status_path).keep,
        )


def _leave_once_it_answers(watch: DriverWatch) -> None:
    """Exit without releasing once the driver answers: the next process reads the claims from the journal."""
    answered = Event()
    watch.probe_until_back(answered)
    if answered.is_set():
        logger.warning("GPU driver answers; restarting the actuator to open it")
        leave(DRIVER_BACK)


def settings_of(context: RunContext) -> ActuatorSettings:
    """Return the limits of the actuator in a run: the modes that the configuration sets for the rules."""
    actions = context.config.actions
    modes = {kind: actions.of(ActionClass(kind)).resolve(simulated=context.simulated) for kind in KnobKind}
    knobs = {kind: replace(limits, highest_mode=modes[kind]) for kind, limits in DEFAULT_LIMITS.items()}
    return ActuatorSettings(knobs=knobs, unreadable=actions.unreadable_clocks)


if __name__ == "__main__":
    run_child(main)
