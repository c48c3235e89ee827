"""The control process: receives requests of fleet services, and requests caps from the actuator as the guard does.

A process of its own, so that neither TLS nor strangers cost the guard anything.
"""

import json
import logging
from collections.abc import Iterable
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Event as Flag

from agent.actuation.client import ActuatorClient
from analytics.incidents.book_settings import Silence
from fleet.certificates.identity import Expiry, authority_key, valid_until_ns
from fleet.control.admission import Admission, AdmissionSettings
from fleet.control.node_limits import NodeState
from fleet.control.replay_protection import ReplayProtection
from fleet.control.server import ControlServer
from railwatch.processes.child import Ready, run_child
from railwatch.run_context import RunContext, read_status
from rules.engine.memory import restore_memory
from rules.policy.model import ActionClass
from telemetry.clock import Clock, SystemClock
from telemetry.entities import Entity
from telemetry.errors import EnvironmentLacksError
from telemetry.gpu import KnobKind
from telemetry.json_text import json_text

logger = logging.getLogger(__name__)

# Longest delay before a request to stop is seen and counters are published.
LOOK_S = 0.2


def settings_of(context: RunContext) -> AdmissionSettings:
    """Return which fleet services may request what; EnvironmentLacksError if a certificate is missing."""
    config, control = context.config, context.config.control
    identity = control.identity
    if identity is None:
        raise EnvironmentLacksError("control: no certificates; expected control.authority, .certificate and .key")
    modes = {action: config.actions.of(action).resolve(simulated=context.simulated) for action in ActionClass}
    return AdmissionSettings(
        node=context.node.key,
        fleets=frozenset(control.fleets),
        authority=authority_key(identity.authority),
        limits=config.limits.node_limits(modes),
        revoked=frozenset(control.revoked),
        skew_s=control.skew,
        life_max_s=control.request_max,
        lease_max_s=control.lease_max,
    )


def look_at(context: RunContext, *, now_ns: int) -> NodeState:
    """Return the state of the node: settings that can be changed, and the counts of the guard's limits."""
    by_kind = {KnobKind.CLOCK.value: read_status(context.clocks_path), **read_status(context.ranges_path)}
    breaker, acted_ns = read_guard(context.guard_path)
    return NodeState(
        settings={
            KnobKind(kind): {f"gpu:{uuid}": tuple(sorted(values)) for uuid, values in by_gpu.items() if values}
            for kind, by_gpu in by_kind.items()
        },
        breaker=breaker,
        silence=_silence(context.config.incidents.silences, context.node, now_ns),
        acted_ns=acted_ns,
    )


def read_guard(path: Path) -> tuple[str | None, tuple[tuple[ActionClass, int], ...]]:
    """Return why the guard's breaker tripped and its recent actions; an unreadable file counts as tripped."""
    try:
        memory = restore_memory(json.loads(path.read_text(encoding="utf-8"))["engine"], policies=frozenset())
    except FileNotFoundError:
        return None, ()  # no guard has run here yet
    except (OSError, ValueError, KeyError, TypeError):
        return "state file of the guard cannot be read", ()
    breaker = memory.breaker
    return None if breaker is None else breaker.reason, tuple((one.action, one.time_ns) for one in memory.acted)


def _silence(silences: Iterable[Silence], node: Entity, now_ns: int) -> str | None:
    """Return the text of a silence of the whole node: the entity of a fleet's incident is not known here."""
    held = [
        one.text
        for one in silences
        if one.start_ns <= now_ns < one.until_ns
        and not one.causes
        and fnmatchcase(node.id if ":" in one.entity else node.name, one.entity)
    ]
    return held[0] if held else None


def main(context: RunContext, stop: Flag, ready: Ready, *, clock: Clock | None = None) -> None:
    """Serve fleet services until the request to stop."""
    clock = clock or SystemClock()
    control = context.config.control
    with ExitStack() as kept:
        # The clock is real on a simulated node as well, so its requests are remembered beyond the run.
        seen = ReplayProtection(context.config.data_dir / "control" / "seen.jsonl", now_ns=clock.utc_ns())
        kept.callback(seen.close)
        journal = context.journal_writer("control")
        kept.callback(journal.close)
        actuator = ActuatorClient(context.actuator_socket)
        kept.callback(actuator.close)
        settings = settings_of(context)
        admission = Admission(
            settings, actuator, seen, clock, lambda: look_at(context, now_ns=clock.utc_ns()), journal.append
        )
        identity = control.identity
        assert identity is not None  # noqa: S101 -- `settings_of` raises otherwise
        expiry = Expiry(until_ns=valid_until_ns(identity), what="the certificate of control", entity_id=context.node.id)
        server = ControlServer(admission, identity, host=control.host, port=control.port)
        server.start()
        kept.callback(server.close)
        ready({"port": server.port})
        published = ""
        while True:
            now_ns = clock.utc_ns()
            if (warning := expiry.due_warning(now_ns)) is not None:
                logger.warning("%s", warning.message)
                journal.append(warning)
            status = json_text(admission.status() | {"port": server.port, "days_left": expiry.days_left(now_ns)})
            if status != published:
                context.control_status_path.write_text(status, encoding="utf-8")
                published = status
            if stop.wait(LOOK_S):
                return


if __name__ == "__main__":
    run_child(main)
