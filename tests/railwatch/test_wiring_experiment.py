"""Experiments on a running node: by clocks through the actuator, and led by a person, on a node that obeys both."""

import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from agent.actuation.claims import CapRequest
from railwatch.cli.interruption import held_back_interrupt
from railwatch.operator.wiring_dither import OWNER, ClockDither, obstacle_of
from railwatch.operator.wiring_experiment import LiveNode, Reply, hand_step, move_by_clock, move_by_hand
from railwatch.operator.wiring_proposal import measured_power
from railwatch.operator.wiring_session import WiringSession
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind
from telemetry.errors import ActionRefusedError, TransientError
from telemetry.frames import Frame, TableSpec
from telemetry.gpu import KnobKind
from telemetry.records import Action, ActionState, IncidentState, Mode, Severity
from tests.rules.scenes import incident

SUPPLIES = tuple(Entity(kind=EntityKind.SUPPLY, key=f"psu{n}", name=f"psu{n}") for n in range(3))
GPUS = tuple(
    Entity(kind=EntityKind.GPU, key=f"GPU-{n}", name=f"gpu{n}", tags=(("pci", f"0000:1{n}:00.0"),)) for n in range(4)
)
BUS_OF_SUPPLY, BUS_OF_GPU = (0, 0, 1), (0, 0, 0, 1)
WORKS_AT_MHZ, W_PER_MHZ = 1335.0, 0.35
SUPPORTED = {gpu.key: tuple(1530.0 - 15.0 * step for step in range(40)) for gpu in GPUS}
STEP_NS = NS_PER_S // 10
WARM_UP_S = 100.0


class LiveBox:
    """Node in steps of 0.1 s under a synchronous job; it is its own clock, and the actuator of its clocks."""

    def __init__(self, *, busy: bool = True, seed: int = 1) -> None:
        self._rng = np.random.default_rng(seed)
        self._busy = busy
        self._rows: list[tuple[list[float], list[float], list[float]]] = []
        self.caps_mhz: dict[str, float] = {}
        self.extra_w: dict[str, float] = {}
        self.held: dict[str, Action] = {}
        self.requests: list[CapRequest] = []
        self.reported: list[str] = []
        self.refuse = ""
        self.before_release: Callable[[], None] = lambda: None
        self.answers: dict[str, ActionState] = {}
        self.sleep_until(WARM_UP_S)

    def monotonic_s(self) -> float:
        return len(self._rows) * 0.1

    def utc_ns(self) -> int:
        return len(self._rows) * STEP_NS

    def sleep_until(self, monotonic_s: float) -> None:
        while self.monotonic_s() < monotonic_s - 1e-9:
            self._rows.append(self._row())

    def _row(self) -> tuple[list[float], list[float], list[float]]:
        common_w = 0.0
        if self._busy:
            common_w = 60.0 * np.sign(np.sin(2.0 * np.pi * self.monotonic_s() / 0.9)) + self._rng.normal(0.0, 8.0)
        clocks = [min(WORKS_AT_MHZ, self.caps_mhz.get(gpu.id, np.inf)) for gpu in GPUS]
        works_w = 250.0 if self._busy else 50.0
        power_w = [
            works_w + common_w + self.extra_w.get(gpu.id, 0.0) - W_PER_MHZ * (WORKS_AT_MHZ - mhz) * self._busy
            for gpu, mhz in zip(GPUS, clocks, strict=True)
        ]
        bus_w = [sum(w for w, own in zip(power_w, BUS_OF_GPU, strict=True) if own == bus) for bus in range(2)]
        amps = [bus_w[bus] / BUS_OF_SUPPLY.count(bus) / 12.0 + self._rng.normal(0.0, 0.2) for bus in BUS_OF_SUPPLY]
        return [w + self._rng.normal(0.0, 2.0) for w in power_w], clocks, amps

    def frames(self, start_ns: int) -> Sequence[Frame]:
        first = max(0, start_ns // STEP_NS)
        rows = self._rows[first:]
        times_ns = (np.arange(len(rows)) + first) * STEP_NS
        power_w, clocks, amps = (np.array([row[part] for row in rows]) for part in range(3))
        busy = np.full(power_w.shape, float(self._busy))
        tables = (
            ("gpu", EntityKind.GPU, GPUS, {"power_w": power_w, "sm_clock_mhz": clocks, "gpu_util_ratio": busy}),
            ("supply", EntityKind.SUPPLY, SUPPLIES, {"voltage_v": np.full(amps.shape, 12.0), "current_a": amps}),
        )
        found = []
        for name, kind, entities, columns in tables:
            values = np.stack([*columns.values()], axis=2)
            spec = TableSpec(name=name, kind=kind, entities=entities, signals=tuple(columns))
            found.append(Frame(spec=spec, time_ns=times_ns, values=values, fresh=np.isfinite(values)))
        return found

    def apply(self, request: CapRequest) -> tuple[Action, ...]:
        self.requests.append(request)
        gpu = request.gpus[0].entity_id
        state = ActionState.REFUSED if self.refuse else self.answers.get("apply", ActionState.APPLIED)
        action = self.action(request.incident_id, gpu, request.owner, state=state, reason=self.refuse)
        if not self.refuse:
            self.caps_mhz[gpu] = request.setting
            self.held[request.incident_id] = action
        return (action,)

    def release_incident(self, incident_id: str, *, reason: str) -> tuple[Action, ...]:
        self.before_release()
        action = self.held.pop(incident_id, None)
        if action is not None:
            self.caps_mhz.pop(action.entity_id, None)
            state = self.answers.get("release", ActionState.RELEASED)
            return (self.action(incident_id, action.entity_id, OWNER, state=state, reason="cannot be written"),)
        return ()

    def in_force(self) -> tuple[Action, ...]:
        return tuple(self.held.values())

    def action(
        self, incident_id: str, gpu: str, owner: str, *, state: ActionState = ActionState.APPLIED, reason: str = ""
    ) -> Action:
        return Action(
            id=incident_id,
            time_ns=self.utc_ns(),
            decision_id=incident_id,
            incident_id=incident_id,
            knob="application_clock",
            entity_id=gpu,
            unit="MHz",
            found=None,
            wanted=1200.0,
            read_back=1200.0,
            state=state,
            mode=Mode.ENFORCE,
            lease_until_ns=None,
            owner=owner,
            reason=reason,
            knob_kind=KnobKind.CLOCK,
        )

    @contextlib.contextmanager
    def progress(self, _title: str, _total: float) -> Iterator[Callable[[float], None]]:
        yield lambda _done: None

    def node(self) -> LiveNode:
        return LiveNode(frames=self.frames, clock=self, report=self.reported.append, progress=self.progress)

    def session(self) -> WiringSession:
        power = measured_power(self.frames(0))
        assert power is not None
        return WiringSession(power)


def _buses(session: WiringSession) -> list[int]:
    assert session.proposal is not None
    return [link.bus for _, link in session.proposal.links]


def _run(box: LiveBox, session: WiringSession, obstacle: Callable[[], str | None] = lambda: None) -> None:
    with ClockDither(box, box, obstacle=obstacle) as dither:
        move_by_clock(session, box.node(), dither, SUPPORTED)


@pytest.fixture
def box() -> LiveBox:
    return LiveBox()


def test_gpus_in_step_are_moved_one_after_the_other_until_every_link_is_sure(box: LiveBox) -> None:
    session = box.session()
    assert session.proposal is not None
    assert not session.proposal.identifiable
    _run(box, session)
    assert _buses(session) == [0, 0, 1, 0, 0, 0, 1]
    assert session.proposal.unsure == ()
    assert [text.partition(" moved by")[0] for text in box.reported] == ["GPU 0", "GPU 1", "GPU 2", "GPU 3"]
    assert "PSU 2 by" in box.reported[-1]
    assert box.reported[-1].endswith("W with it")


def test_each_lowering_stays_near_the_clock_at_work_and_ends_with_its_lease(box: LiveBox) -> None:
    _run(box, box.session())
    assert box.requests
    assert all(60.0 <= WORKS_AT_MHZ - request.setting <= 120.0 for request in box.requests)
    assert all(request.ends_with_lease and request.lease_s <= 15.0 for request in box.requests)
    assert all(len(request.gpus) == 1 for request in box.requests)
    assert box.held == {}


def test_an_obstacle_ends_the_experiment_restores_the_clock_and_keeps_what_was_learnt(box: LiveBox) -> None:
    session = box.session()
    until_s = box.monotonic_s() + 40.0

    def obstacle() -> str | None:
        return "incident i-1 is open" if box.monotonic_s() > until_s else None

    with pytest.raises(ActionRefusedError, match="incident i-1 is open"):
        _run(box, session, obstacle)
    assert box.held == {}
    assert session.proposal is not None
    assert session.proposal.learnt.n_experiments >= 1
    assert "GPU 3" in session.proposal.unsure


def test_ctrl_c_in_the_middle_of_a_level_restores_the_clock(box: LiveBox) -> None:
    until_s = box.monotonic_s() + 10.0

    def interrupt() -> str | None:
        if box.monotonic_s() > until_s:
            raise KeyboardInterrupt
        return None

    with pytest.raises(KeyboardInterrupt):
        _run(box, box.session(), interrupt)
    assert box.held == {}
    assert box.caps_mhz == {}


def test_ctrl_c_pressed_again_while_the_clock_is_restored_leaves_no_clock_set(box: LiveBox) -> None:
    until_s = box.monotonic_s() + 10.0
    box.before_release = lambda: signal.raise_signal(signal.SIGINT) if box.held else None
    with held_back_interrupt() as raise_if_pressed:

        def interrupt() -> str | None:
            if box.monotonic_s() > until_s:
                raise_if_pressed()
            return None

        with pytest.raises(KeyboardInterrupt):
            _run(box, box.session(), interrupt)
    assert box.requests
    assert box.held == {}
    assert box.caps_mhz == {}


def test_ctrl_c_interrupts_again_once_it_is_not_held_back_any_more() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a run in the background
    with held_back_interrupt():
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def test_a_refusal_of_the_actuator_ends_the_experiment_with_its_reason(box: LiveBox) -> None:
    box.refuse = "the driver cannot read locked clocks back"
    with pytest.raises(ActionRefusedError, match="GPU 0: the driver cannot read locked clocks back"):
        _run(box, box.session())


def test_a_clock_that_someone_else_set_meanwhile_ends_the_experiment(box: LiveBox) -> None:
    box.answers["apply"] = ActionState.RELEASED
    with pytest.raises(ActionRefusedError, match="GPU 0: "):
        _run(box, box.session())
    assert box.held == {}


def test_a_clock_that_could_not_be_restored_ends_the_experiment_and_is_named(box: LiveBox) -> None:
    box.answers["release"] = ActionState.FAILED
    with pytest.raises(TransientError, match="GPU-0: cannot be written"):
        _run(box, box.session())
    assert len({request.gpus for request in box.requests}) == 1


def test_a_second_experiment_on_the_same_node_ends_the_first(box: LiveBox) -> None:
    begun_s = box.monotonic_s()

    def second() -> None:
        if box.monotonic_s() > begun_s + 10.0:
            box.held["wiring-learn-2"] = box.action("wiring-learn-2", GPUS[3].id, OWNER)

    with pytest.raises(ActionRefusedError, match="another railwatch wiring learn"):
        _run(box, box.session(), second)
    assert set(box.held) == {"wiring-learn-2"}


def test_a_cap_of_someone_else_forbids_the_experiment_and_its_own_does_not(box: LiveBox) -> None:
    box.held["wiring-learn-1"] = box.action("wiring-learn-1", GPUS[2].id, OWNER)
    assert obstacle_of(box, (), breaker_tripped=False) is None
    box.held["i-7"] = box.action("i-7", GPUS[0].id, "railwatch")
    assert obstacle_of(box, (), breaker_tripped=False) == "incident i-7 has set the application clock"


@pytest.mark.parametrize(
    ("severity", "state", "forbids"),
    [
        (Severity.CRITICAL, IncidentState.OPEN, True),
        (Severity.WARNING, IncidentState.OPEN, True),
        (Severity.INFO, IncidentState.OPEN, False),
        (Severity.CRITICAL, IncidentState.CLOSED, False),
    ],
)
def test_an_open_incident_above_info_forbids_the_experiment(
    box: LiveBox, severity: Severity, state: IncidentState, *, forbids: bool
) -> None:
    found = obstacle_of(box, [incident(severity=severity, state=state, name="i-1")], breaker_tripped=False)
    assert (found is not None and found.startswith("incident i-1 is open: ")) is forbids


def test_a_tripped_breaker_forbids_the_experiment(box: LiveBox) -> None:
    assert "reset-breaker" in (obstacle_of(box, (), breaker_tripped=True) or "")


def test_what_a_killed_experiment_left_is_released_first(box: LiveBox) -> None:
    box.held["wiring-learn-1"] = box.action("wiring-learn-1", GPUS[2].id, OWNER)
    with ClockDither(box, box, obstacle=lambda: None):
        assert box.held == {}


def test_idle_gpus_are_named_and_their_clocks_left_alone() -> None:
    box = LiveBox(busy=False)
    _run(box, box.session())
    assert box.requests == []
    assert box.reported[0] == "GPU 0 is idle, so its clock moves no power: start a load on it and repeat"


def _person(box: LiveBox, replies: dict[str, Reply]) -> tuple[Callable[[str], Reply], list[str]]:
    """Return a person who carries each step out but for GPUs with a reply of their own, and what was asked."""
    asked: list[str] = []

    def ask(step: str) -> Reply:
        asked.append(step)
        gpu = next(one for one in GPUS if step.startswith(one.label))
        reply = replies.get(gpu.label, Reply.DONE)
        if reply is not Reply.DONE:
            return reply
        if "-lgc" in step:
            box.caps_mhz[gpu.id] = float(step.rpartition(",")[2])
        elif "start a load" in step:
            box.extra_w[gpu.id] = 200.0
        else:
            box.caps_mhz.pop(gpu.id, None)
            box.extra_w.pop(gpu.id, None)
        return Reply.DONE

    return ask, asked


def test_a_person_lowers_and_restores_the_clock_of_one_gpu_after_the_other(box: LiveBox) -> None:
    session = box.session()
    ask, asked = _person(box, {})
    move_by_hand(session, box.node(), ask, SUPPORTED)
    assert _buses(session) == [0, 0, 1, 0, 0, 0, 1]
    assert session.proposal is not None
    assert session.proposal.unsure == ()
    assert asked[0].endswith("sudo nvidia-smi -i 0000:10:00.0 -lgc 0,1215")
    assert asked[1].endswith("sudo nvidia-smi -i 0000:10:00.0 -rgc")
    assert box.requests == []


def test_a_person_starts_a_load_on_each_idle_gpu() -> None:
    box = LiveBox(busy=False)
    session = box.session()
    ask, asked = _person(box, {})
    move_by_hand(session, box.node(), ask, SUPPORTED)
    assert asked[0].endswith("start a load on GPU 0 alone, with CUDA_VISIBLE_DEVICES=GPU-0")
    assert _buses(session) == [0, 0, 1, 0, 0, 0, 1]


def test_a_gpu_that_a_person_skips_stays_not_sure(box: LiveBox) -> None:
    session = box.session()
    ask, _ = _person(box, {"GPU 1": Reply.SKIP})
    move_by_hand(session, box.node(), ask, SUPPORTED)
    assert session.proposal is not None
    assert session.proposal.unsure == ("GPU 1",)
    assert "GPU 1 skipped" in box.reported


def test_a_person_who_ends_it_keeps_what_was_learnt(box: LiveBox) -> None:
    session = box.session()
    ask, _ = _person(box, {"GPU 2": Reply.QUIT})
    move_by_hand(session, box.node(), ask, SUPPORTED)
    assert session.proposal is not None
    assert session.proposal.learnt.n_experiments == 2
    assert {"GPU 2", "GPU 3"} <= set(session.proposal.unsure)


def test_a_person_who_ends_it_before_the_undo_reads_how_to_undo_it(box: LiveBox) -> None:
    replies = iter([Reply.DONE, Reply.QUIT])
    move_by_hand(box.session(), box.node(), lambda _step: next(replies), SUPPORTED)
    assert box.reported == ["GPU 0 may still be changed; to undo it: sudo nvidia-smi -i 0000:10:00.0 -rgc"]


def test_the_step_of_a_gpu_without_lower_clocks_is_a_tenth_lower(box: LiveBox) -> None:
    step = hand_step(GPUS[0], box.frames(0), {})
    assert step.change == "sudo nvidia-smi -i 0000:10:00.0 -lgc 0,1202"
