"""Kills an agent or an actuator at a point of an action and looks at what is left: a program of its own.

    python -m tests.agent.actuation.killing --points 200 --seed 1

Real processes over the real driver library; the hardware is the file of a simulated node, which outlives them. Each
point has one victim: the agent (killed after a random delay), the actuator (likewise), or the actuator at a named place
between reading, journalling, writing, reading back and keeping. One JSON line a point; exit status 1 where a knob is
neither as it was found nor held, or where the journal does not show which.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.actuation.actuator import KnobActuator
from agent.actuation.blocklist import Block
from agent.actuation.claims import CapRequest, GpuTarget
from agent.actuation.client import ActuatorClient
from agent.actuation.held_knob import HeldKnob
from agent.actuation.knob_log import KnobLog, held_knob_text
from agent.actuation.limits import ActuatorSettings
from agent.actuation.server import serve_actuator
from agent.driver.nvml import NvmlDriver
from agent.driver.port import Knob
from railwatch.wiring.gpu_driver import knobs_of
from simulator.driver.layout import STATE_VARIABLE
from telemetry.clock import NS_PER_S, SystemClock
from telemetry.errors import RailwatchError
from telemetry.gpu import KnobKind
from telemetry.records import Action, ActionState, Mode
from tests.agent.driver.plant_file import PlantFile, load_driver_library

# Where an actuator dies: before and after each thing that it does to the knob and to the journal.
PLACES = ("read", "journal", "torn", "journalled", "write", "written", "read_back", "kept")
ASKED = {KnobKind.CLOCK: (1200.0, 1050.0), KnobKind.POWER: (250.0, 200.0), KnobKind.FAN: (0.85, 0.95)}
FOUND = {KnobKind.CLOCK: None, KnobKind.POWER: 280.0, KnobKind.FAN: None}
SAFE = {KnobKind.CLOCK: 1005.0, KnobKind.POWER: 200.0, KnobKind.FAN: 1.0}
LEASE_S = 0.3
CLOCK = SystemClock()


@dataclass
class Doom:
    """Ends this process at the n-th time that a place is passed."""

    place: str
    left: int

    def pass_by(self, place: str) -> None:
        if place == self.place:
            self.left -= 1
            if self.left == 0:
                os._exit(9)


class DoomedKnob:
    """A real knob; passes the places around its calls."""

    def __init__(self, knob: Knob, doom: Doom) -> None:
        self.kind, self.name, self.readable = knob.kind, knob.name, knob.readable
        self.supported = knob.supported
        self._knob = knob
        self._doom = doom
        self._wrote = False

    def read(self, uuid: str) -> float | None:
        self._doom.pass_by("read_back" if self._wrote else "read")
        self._wrote = False
        return self._knob.read(uuid)

    def write(self, uuid: str, setting: float | None) -> None:
        self._doom.pass_by("write")
        self._knob.write(uuid, setting)
        self._doom.pass_by("written")
        self._wrote = True


def doom_journal(doom: Doom) -> None:
    """Have every journal of this process pass the places around an entry."""
    append = KnobLog.append

    def doomed(journal: KnobLog, holds: Sequence[HeldKnob], bars: Sequence[Block] = ()) -> None:
        doom.pass_by("journal")
        if doom.place == "torn" and doom.left == 1 and holds:
            data = held_knob_text(holds[0], journal._run_id)
            os.write(journal._file, data[: len(data) // 2])
        doom.pass_by("torn")
        append(journal, holds, bars)
        doom.pass_by("kept" if holds and all(hold.settled for hold in holds) else "journalled")

    KnobLog.append = doomed  # type: ignore[method-assign, assignment]


class Box:
    """Node of two GPUs whose power limits and nothing else a person has set."""

    def __init__(self, folder: Path, *, gpus: int = 2) -> None:
        self.folder = folder
        self.plant = PlantFile(folder / "plant", gpus, fans=2)
        self.plant.state.record["request"]["power_limit_mw"][:gpus] = 280_000
        uuids = (f"GPU-00000000-0000-0000-0000-{index:012d}" for index in range(gpus))
        self.gpus = tuple(GpuTarget(entity_id=f"gpu:{uuid}", uuid=uuid) for uuid in uuids)
        self.socket = folder / "actuator.sock"

    def stands(self) -> dict[tuple[KnobKind, str], float | None]:
        """Return the setting of every knob, read past every library."""
        found: dict[tuple[KnobKind, str], float | None] = {}
        for index, gpu in enumerate(self.gpus):
            request = self.plant.state.record["request"][index]
            fans = {int(by_hand) for by_hand in request["fan_by_hand"][:2]}
            found[KnobKind.CLOCK, gpu.uuid] = (
                float(request["app_sm_clock_mhz"]) if request["app_clock_is_set"] else None
            )
            found[KnobKind.POWER, gpu.uuid] = float(request["power_limit_mw"]) / 1000.0
            # Fans that differ were left so in the middle of a write.
            found[KnobKind.FAN, gpu.uuid] = None if fans == {0} else (max(fans) - 1) / 100.0
        return found

    def as_found(self) -> bool:
        return all(stands == FOUND[kind] for (kind, _), stands in self.stands().items())

    def knobs(self) -> tuple[Knob, ...]:
        os.environ[STATE_VARIABLE] = str(self.folder / "plant")
        load_driver_library(self.folder.parent / "library" / "for-all")
        return knobs_of(NvmlDriver(CLOCK))


def forked(work: Callable[[], None]) -> int:
    """Run `work` in a forked process; return its id."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    finally:
        os._exit(0)
    return 0


def serve(box: Box, run_id: str, doom: Doom | None, reported: Callable[[Action], None] = lambda _: None) -> None:
    """Run as the actuator."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    if doom is not None:
        doom_journal(doom)

    def open_knobs() -> tuple[Knob, ...]:
        return box.knobs() if doom is None else tuple(DoomedKnob(knob, doom) for knob in box.knobs())

    serve_actuator(
        open_knobs,
        box.socket,
        box.folder / "state",
        reported,
        CLOCK,
        settings=ActuatorSettings(),
        run_id=run_id,
        stop=stop,
    )


def act(box: Box) -> None:
    """Run as the agent: claim, tighten, renew and release all three knobs without end."""
    client = ActuatorClient(box.socket, timeout_s=60.0)
    while True:
        with contextlib.suppress(RailwatchError):
            for turn in range(2):
                for kind, asked in ASKED.items():
                    client.apply(
                        CapRequest(
                            incident_id="i", decision_id="d", gpus=box.gpus, kind=kind, setting=asked[turn],
                            lease_s=LEASE_S, owner="railwatch", mode=Mode.ENFORCE, reason="a point",
                        )
                    )  # fmt: skip
                client.renew("i", lease_s=LEASE_S)
            client.release_incident("i", reason="over")


def wait_for(condition: Callable[[], bool], what: str, *, within_s: float = 60.0) -> None:
    end_s = CLOCK.monotonic_s() + within_s
    while not condition():
        if CLOCK.monotonic_s() > end_s:
            raise AssertionError(f"{what}: not within {within_s:g} s")
        CLOCK.sleep_until(CLOCK.monotonic_s() + 0.002)


def answers(box: Box) -> bool:
    with contextlib.closing(ActuatorClient(box.socket, timeout_s=60.0)) as client, contextlib.suppress(RailwatchError):
        client.status()
        return True
    return False


def end(child: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, number)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)


def judge_left(box: Box) -> dict[str, int]:
    """Look at what a dead actuator left: each knob is as found, or the journal names its claims and its setting."""
    journal = KnobLog(box.folder / "state", run_id="a look")
    now_ns = CLOCK.utc_ns()
    left = {
        (hold.kind, hold.target.uuid): hold for _, hold in journal.leftovers(now_s=CLOCK.monotonic_s(), now_ns=now_ns)
    }
    journal.close()
    counts = {"as_found": 0, "held": 0, "in_doubt": 0}
    for (kind, uuid), stands in box.stands().items():
        hold = left.get((kind, uuid))
        if hold is None:
            assert stands == FOUND[kind], f"{kind} stands at {stands} and the journal knows nothing of it"
            counts["as_found"] += 1
            continue
        assert hold.found == FOUND[kind], f"the journal took {hold.found} for what was found"
        assert stands in (hold.before, hold.wanted), f"{kind} stands at {stands}, the journal says {hold}"
        leased = all((claim.lease_until_ns or 0) <= now_ns + LEASE_S * NS_PER_S for claim in hold.claims)
        assert leased, "a lease longer than was asked for"
        counts["held" if hold.settled else "in_doubt"] += 1
    return counts


def recovered(box: Box) -> None:
    """Take over as the next actuator: first of this run, then of another one; in the end all is as found."""
    for run_id in ("this run", "the next run"):
        journal = KnobLog(box.folder / "state", run_id=run_id)
        KnobActuator(box.knobs(), journal, CLOCK, sink=lambda _: None).recover(run_id=run_id)
        for _, hold in journal.leftovers(now_s=0.0, now_ns=0):
            assert run_id == "this run", f"{hold.kind} is still held after the next run took over"
            assert hold.settled, "still in doubt after it was taken over"
        journal.close()
    assert box.as_found(), f"not as found in the end: {box.stands()}"


def kill_agent(box: Box, delay_s: float) -> dict[str, int]:
    """The agent dies: what it claimed is held for its lease, then at the safe setting, until a release."""
    actuator = forked(lambda: serve(box, "this run", None))
    agent = -1
    try:
        wait_for(lambda: answers(box), "the actuator answers")
        agent = forked(lambda: act(box))
        CLOCK.sleep_until(CLOCK.monotonic_s() + delay_s)
        end(agent, signal.SIGKILL)
        with contextlib.closing(ActuatorClient(box.socket, timeout_s=60.0)) as client:
            held = {(action.knob, action.entity_id) for action in client.in_force()}
            wait_for(lambda: all(action.state is ActionState.EXPIRED for action in client.in_force()), "leases run out")
            still = {(action.knob, action.entity_id) for action in client.in_force()}
            assert still == held, "a claim went away though nobody released it"
            assert all(check.agrees for check in client.verify())
        safe = sum(stands == SAFE[kind] for (kind, _), stands in box.stands().items())
        at_safe = sum(stands not in (FOUND[kind], SAFE[kind]) for (kind, _), stands in box.stands().items())
        assert at_safe == 0, f"neither found nor safe: {box.stands()}"
        end(actuator, signal.SIGTERM)
        assert box.as_found(), f"not as found in the end: {box.stands()}"
        return {"held_safe": len(held), "at_safe_setting": safe}
    finally:
        end(agent, signal.SIGKILL) if agent > 0 else None
        end(actuator, signal.SIGKILL)


def kill_actuator(box: Box, delay_s: float, doom: Doom | None) -> dict[str, int]:
    """The actuator dies: knobs are as found or as in its journal, and the next actuator takes them over."""
    actuator = forked(lambda: serve(box, "this run", doom))
    agent = -1
    try:
        wait_for(lambda: answers(box), "the actuator answers")
        agent = forked(lambda: act(box))
        if doom is None:
            CLOCK.sleep_until(CLOCK.monotonic_s() + delay_s)
            end(actuator, signal.SIGKILL)
        else:
            _, status = os.waitpid(actuator, 0)
            assert os.waitstatus_to_exitcode(status) == 9, f"it did not die at {doom.place}"
        end(agent, signal.SIGKILL)
        counts = judge_left(box)
        recovered(box)
        return counts
    finally:
        end(agent, signal.SIGKILL) if agent > 0 else None
        end(actuator, signal.SIGKILL)


def one_point(number: int, chance: random.Random, root: Path) -> dict[str, object]:
    box = Box(Path(tempfile.mkdtemp(dir=root)))
    victim = ("agent", "actuator", "place")[number % 3]
    delay_s = chance.uniform(0.0, 0.25)
    if victim == "agent":
        return {"point": number, "victim": victim, "delay_ms": round(1000 * delay_s, 1), **kill_agent(box, delay_s)}
    doom = None
    if victim == "place":
        doom = Doom(PLACES[number // 3 % len(PLACES)], chance.randint(1, 12))
    about = {"delay_ms": round(1000 * delay_s, 1)} if doom is None else {"place": doom.place, "passes": doom.left}
    return {"point": number, "victim": victim, **about, **kill_actuator(box, delay_s, doom)}


def main() -> int:
    """Kill at as many points as are asked for."""
    return kill_at_points(__doc__ or "", one_point)


def kill_at_points(about: str, one_point: Callable[[int, random.Random, Path], dict[str, object]]) -> int:
    """Run the points that the command line requests, one after the other; return the exit status."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    chance = random.Random(wanted.seed)  # noqa: S311 -- chance that can be had again, no secret
    root = Path(tempfile.mkdtemp(prefix="railwatch-killing-"))
    wrong = 0
    try:
        for number in range(wanted.points):
            try:
                row = one_point(number, chance, root)
            except (AssertionError, RailwatchError) as err:
                wrong += 1
                row = {"point": number, "wrong": str(err)}
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()
    finally:
        shutil.rmtree(root)
    sys.stdout.write(json.dumps({"points": wanted.points, "seed": wanted.seed, "wrong": wrong}) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
