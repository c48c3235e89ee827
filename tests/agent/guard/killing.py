"""Kills an agent's guard at a point of its answer to a sag and looks at what is left: a program of its own.

    python -m tests.agent.guard.killing --points 200 --seed 1

The guard with its reflex, detectors, rules and rails is the real one, in a process of its own that writes its ring as a
sampler does; so are the actuator process and the driver library. The rail follows the clocks that stand in the file of
the simulated GPUs, which outlives everybody. Each point kills the guard in one of three stages: while it answers the
sag, while the next one starts over what it left, or after a person has taken the cap back. Then the next guard lives.
"""

import contextlib
import os
import random
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from agent.actuation.client import ActuatorClient, NonBlockingClient
from agent.guard.foresight import is_reflex
from agent.guard.guard import Guard
from agent.guard.reflex import Reflex
from agent.guard.waking import Waking
from agent.ring.ring import Ring
from analytics.detectors.supply_limits import RailSagLimits
from telemetry.clock import NS_PER_S
from telemetry.gpu import KnobKind
from telemetry.record_journal import RecordJournalReader, RecordJournalWriter
from telemetry.records import Action, ActionState
from tests.agent.actuation import killing
from tests.agent.actuation.killing import CLOCK, FOUND, SAFE, end, forked, wait_for
from tests.agent.guard import box as node

# The guard's answer takes milliseconds with the reflex and some ten with the rules; a start about as long, and commands
# of operators are read once a second.
STAGES = {"sag": 0.08, "start": 0.15, "taken_back": 1.2}
ROW_S = 0.02
HISTORY_ROWS = 60
# Of the policy that caps.
LEASE_S = 120.0
PATIENCE_S = 60.0


class Steps:
    """Marks in a file that some steps were taken: by then leftovers are handled."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = 0

    def note(self, now_ns: int, nexts: Mapping[str, int], events: int) -> None:
        del now_ns, nexts, events
        self._count += 1
        if self._count == 5:
            self._path.touch()


def guard(box: killing.Box) -> None:
    """Run as the agent: write rows and guard over them without end. Print when ready, and when the first row sags."""
    path, limits = box.folder / f"ring-{os.getpid()}", RailSagLimits()
    ring = Ring.create(
        path, node.SPECS, node="node0", topology=node.TOPOLOGY, simulated=True, rows=dict.fromkeys(box_tables(), 400)
    )
    line = NonBlockingClient(box.socket)
    reflex = Reflex(node.SPECS, line, CLOCK, limits=limits)
    made = Guard(
        ring.tables,
        node.make_pipeline(),
        ActuatorClient(box.socket, timeout_s=2.0),
        RecordJournalWriter(box.folder / "guard.jsonl"),
        CLOCK,
        snapshot_path=box.folder / "guard.json",
        actions_path=box.folder / "actuator.jsonl",
        steps=Steps(box.folder / "steps"),
        reflex=reflex,
    )
    waking = Waking(ring.tables, made.wake, CLOCK, low_v=limits.minimum_v, on_low=reflex.look)
    rows = node.Box(clock_mhz=lambda uuid: box.stands()[KnobKind.CLOCK, uuid])
    rows.time_ns = CLOCK.utc_ns() - HISTORY_ROWS * node.ROW_NS
    for _ in range(HISTORY_ROWS):
        rows.append_to(ring)
    threading.Thread(target=made.run, args=(threading.Event(),), daemon=True).start()
    while True:
        sags = (box.folder / "sag").exists()
        rows.resistance_ohm = node.WEAK_OHM if sags else node.GOOD_OHM
        rows.time_ns = CLOCK.utc_ns() - node.ROW_NS
        rows.append_to(ring)
        for name in ring.tables:
            waking.note(name)
        if reflex.ready:
            (box.folder / "ready").touch()
        if sags and limits.at_once_below_v > ring.tables["supply"].newest()[0]:
            (box.folder / "sagged").touch()
        CLOCK.sleep_until(CLOCK.monotonic_s() + ROW_S)


def box_tables() -> tuple[str, ...]:
    return tuple(spec.name for spec in node.SPECS)


def serve(box: killing.Box) -> None:
    """Run as the actuator, which records what it does."""
    records = RecordJournalWriter(box.folder / "actuator.jsonl")
    killing.serve(box, "this run", None, records.append)


def judge_left(box: killing.Box, client: ActuatorClient) -> dict[str, int]:
    """Look at what a dead guard left: each knob is as found, or held by a lease that ends; the journals show which."""
    now_ns = CLOCK.utc_ns()
    held = {(action.unit, action.entity_id): action for action in client.in_force()}
    assert all(check.agrees for check in client.verify()), "a knob does not stand where the journal says"
    reported = {record.id for record in actions_of_actuator(box) if record.state is ActionState.APPLIED}
    counts = {"as_found": 0, "held": 0}
    for (kind, uuid), stands in box.stands().items():
        action = held.get((kind.unit, f"gpu:{uuid}"))
        if action is None:
            assert stands == FOUND[kind], f"{kind} stands at {stands} and nobody holds it"
            counts["as_found"] += 1
            continue
        assert action.id in reported, f"{kind} is held and no record tells of it"
        assert action.reason, "held without a reason"
        assert action.owner == "railwatch"
        until_ns = action.lease_until_ns
        leased = until_ns is not None and now_ns < until_ns <= now_ns + (LEASE_S + PATIENCE_S) * NS_PER_S
        assert leased or stands == SAFE[kind], f"{kind} stands at {stands} without a lease"
        counts["held"] += 1
    return counts


def actions_of_actuator(box: killing.Box) -> list[Action]:
    return [
        record for record in RecordJournalReader(box.folder / "actuator.jsonl").read() if isinstance(record, Action)
    ]


def is_capped(client: ActuatorClient) -> bool:
    """Return True if the rules themselves hold every GPU, and no reflex is left."""
    held = client.in_force()
    gpus = {action.entity_id for action in held if not is_reflex(action.incident_id)}
    return len(gpus) == len(node.GPUS) and not any(is_reflex(action.incident_id) for action in held)


class Point:
    """Node with its actuator, and one guard after the other."""

    def __init__(self, box: killing.Box, client: ActuatorClient) -> None:
        self.box = box
        self.client = client
        self.guard = -1

    def start_guard(self) -> None:
        (self.box.folder / "steps").unlink(missing_ok=True)
        self.guard = forked(lambda: guard(self.box))

    def kill_guard(self, after_s: float) -> None:
        CLOCK.sleep_until(CLOCK.monotonic_s() + after_s)
        self.end_guard()

    def end_guard(self) -> None:
        if self.guard > 0:
            end(self.guard, signal.SIGKILL)
            self.guard = -1

    def sag(self) -> None:
        """Make the rail sag under a guard that is ready; return at the first row that may show it."""
        wait_for((self.box.folder / "ready").exists, "the guard is ready", within_s=PATIENCE_S)
        (self.box.folder / "sag").touch()
        wait_for((self.box.folder / "sagged").exists, "the rail sags", within_s=PATIENCE_S)

    def kill(self, stage: str, after_s: float) -> None:
        """Kill the guard in a stage, so long after it has begun."""
        self.start_guard()
        self.sag()
        if stage != "sag":
            wait_for(lambda: is_capped(self.client), "the sag is answered", within_s=PATIENCE_S)
        if stage == "start":
            self.end_guard()
            self.start_guard()
        elif stage == "taken_back":
            (self.box.folder / "sag").unlink()
            for incident_id in {action.incident_id for action in self.client.in_force()}:
                self.client.release_incident(incident_id, reason="released by a person", bar=True)
        self.kill_guard(after_s)

    def let_the_next_one_live(self, stage: str) -> None:
        """The next guard holds what the sag still needs, takes the dead one's reflex away, and minds a person."""
        self.start_guard()
        if stage != "taken_back":
            wait_for(lambda: is_capped(self.client), "the next guard holds every GPU", within_s=PATIENCE_S)
        else:
            wait_for((self.box.folder / "steps").exists, "the next guard is at work", within_s=PATIENCE_S)
            wait_for(lambda: not self.client.in_force(), "what a person took back stays away", within_s=PATIENCE_S)
            assert self.box.as_found(), f"not as a person left it: {self.box.stands()}"


def one_point(number: int, chance: random.Random, root: Path) -> dict[str, object]:
    box = killing.Box(Path(tempfile.mkdtemp(dir=root)), gpus=len(node.GPUS))
    stage = tuple(STAGES)[number % len(STAGES)]
    after_s = chance.uniform(0.0, STAGES[stage])
    actuator = forked(lambda: serve(box))
    with contextlib.closing(ActuatorClient(box.socket, timeout_s=PATIENCE_S)) as client:
        point = Point(box, client)
        try:
            wait_for(lambda: killing.answers(box), "the actuator answers", within_s=PATIENCE_S)
            point.kill(stage, after_s)
            counts = judge_left(box, client)
            point.let_the_next_one_live(stage)
            judge_left(box, client)
            point.end_guard()
            end(actuator, signal.SIGTERM)
            assert box.as_found(), f"not as found in the end: {box.stands()}"
            return {"point": number, "stage": stage, "after_ms": round(1000 * after_s, 1), **counts}
        finally:
            point.end_guard()
            end(actuator, signal.SIGKILL)


def main() -> int:
    """Kill at as many points as are asked for."""
    return killing.kill_at_points(__doc__ or "", one_point)


if __name__ == "__main__":
    sys.exit(main())
