"""Experiments on a running node that show which supply feeds which GPU: by clocks, or by a person step by step."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from enum import StrEnum

from analytics.connectivity.load_response import LoadResponse, contrasts_around, contrasts_of
from railwatch.operator.wiring_dither import ClockDither, HeldLevel, plan_for, working_clock_mhz
from railwatch.operator.wiring_session import HISTORY_S, WiringSession
from telemetry.clock import NS_PER_S, Clock
from telemetry.entities import Entity
from telemetry.frames import Frame

# heuristic: long enough for some steps of a job, short enough to be what the GPU does now.
_NOW_S = 20.0
# heuristic: of two or three differences chance makes a small spread now and then, of four seldom.
_LEAST_PAIRS = 4
# heuristic: of what the GPU was moved by; a smaller error of each supply's response adds nothing.
_PRECISE_RATIO = 0.1
# heuristic: four stretches of 3 s, each longer than a step of most jobs.
_WATCH_S = 12.0
# heuristic: from the command to the load that follows it, with time to press Enter.
_TAKES_S = 1.0
_SEED = 1  # of the order of the levels

# Shows progress of so many seconds: title and total.
Progress = Callable[[str, float], AbstractContextManager[Callable[[float], None]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveNode:
    """Running node: samples from a time on, its clock, and where progress is shown."""

    frames: Callable[[int], Sequence[Frame]]
    clock: Clock
    report: Callable[[str], None]
    progress: Progress

    def last(self, seconds: float) -> Sequence[Frame]:
        """Return the samples of the last seconds."""
        return self.frames(self.clock.utc_ns() - round(seconds * NS_PER_S))

    def watch(self, title: str, seconds: float) -> tuple[int, int]:
        """Wait while samples come in; return from when to when."""
        start_ns, start_s = self.clock.utc_ns(), self.clock.monotonic_s()
        with self.progress(title, seconds) as show:
            while (passed_s := self.clock.monotonic_s() - start_s) < seconds:
                show(passed_s)
                self.clock.sleep_until(min(self.clock.monotonic_s() + 0.25, start_s + seconds))
        return start_ns, self.clock.utc_ns()


def move_by_clock(
    session: WiringSession, node: LiveNode, dither: ClockDither, supported_mhz: Mapping[str, Sequence[float]]
) -> None:
    """Move one unsure GPU after the other by its clock until every link is sure or each was tried.

    ActionRefusedError where the experiment may not go on; what was learnt until then stays.
    """
    while to_move := session.to_move():
        gpu = to_move[0]
        session.note_tried(gpu)
        clock_mhz = working_clock_mhz(node.last(_NOW_S), gpu)
        levels = () if clock_mhz is None else plan_for(gpu, clock_mhz, supported_mhz.get(gpu.key, ()), seed=_SEED)
        if clock_mhz is None:
            node.report(f"{gpu.label} is idle, so its clock moves no power: start a load on it and repeat")
        elif not levels:
            node.report(f"{gpu.label}: no supported clock 60 to 120 MHz below {clock_mhz:.0f} MHz")
        else:
            high, low = max(one.clock_mhz for one in levels), min(one.clock_mhz for one in levels)
            title = f"{gpu.label}, {len(to_move)} left: clock {high:.0f} and at most {low:.0f} MHz by turns"
            with node.progress(title, levels[-1].stop_s) as show, closing(dither.hold(gpu, levels)) as holding:
                response = _seen_in(holding, session, node, gpu, show)
            # The clock is restored by now: this takes seconds on a node with many GPUs.
            node.report(_learn(session, gpu, response) or f"{gpu.label}: its power did not follow its clock")


def _learn(session: WiringSession, gpu: Entity, response: LoadResponse | None) -> str:
    """Learn from a response and return what it showed, empty without one."""
    if response is None:
        return ""
    session.learn(gpu, response)
    return session.seen_line(gpu, response)


def _seen_in(
    holding: Iterator[HeldLevel], session: WiringSession, node: LiveNode, gpu: Entity, show: Callable[[float], None]
) -> LoadResponse | None:
    """Return what the supplies showed; the levels end as soon as that is precise."""
    start_ns, held, response = node.clock.utc_ns(), list[HeldLevel](), None
    for level in holding:
        held.append(level)
        show((level.stop_ns - start_ns) / NS_PER_S)
        if len(held) % 2 or len(held) < 2 * _LEAST_PAIRS:
            continue
        contrasts = contrasts_of([one.level(start_ns) for one in held])
        frames = node.frames(start_ns - round(HISTORY_S * NS_PER_S))
        response = session.response(gpu, frames, contrasts, start_ns=start_ns)
        if response is not None and response.error_w.max() <= _PRECISE_RATIO * response.gpu_w:
            break
    return response


class Reply(StrEnum):
    """Replies of a person to a step."""

    DONE = "done"
    SKIP = "skip"
    QUIT = "quit"


@dataclass(frozen=True, slots=True, kw_only=True)
class HandStep:
    """Change of one GPU's power by hand, and how to undo it; `mhz` is None where the GPU is idle."""

    gpu: Entity
    change: str
    undo: str


def hand_step(gpu: Entity, frames: Sequence[Frame], supported_mhz: Mapping[str, Sequence[float]]) -> HandStep:
    """Return what a person does to a GPU: lower its clock where it works, else start a load on it."""
    clock_mhz = working_clock_mhz(frames, gpu)
    levels = () if clock_mhz is None else plan_for(gpu, clock_mhz, supported_mhz.get(gpu.key, ()), seed=_SEED)
    if clock_mhz is None:
        return HandStep(
            gpu=gpu,
            change=f"start a load on {gpu.label} alone, with CUDA_VISIBLE_DEVICES={gpu.key}",
            undo="stop that load",
        )
    low_mhz = min((one.clock_mhz for one in levels), default=0.9 * clock_mhz)
    device = gpu.tag("pci") or gpu.key
    return HandStep(
        gpu=gpu,
        change=f"sudo nvidia-smi -i {device} -lgc 0,{low_mhz:.0f}",
        undo=f"sudo nvidia-smi -i {device} -rgc",
    )


def move_by_hand(
    session: WiringSession,
    node: LiveNode,
    ask: Callable[[str], Reply],
    supported_mhz: Mapping[str, Sequence[float]],
) -> None:
    """Lead a person from one unsure GPU to the next; `ask` prints a step and waits until it is done."""
    while to_move := session.to_move():
        gpu = to_move[0]
        reply = _move_one(session, node, ask, hand_step(gpu, node.last(_NOW_S), supported_mhz), left=len(to_move))
        if reply is Reply.QUIT:
            return
        if reply is Reply.SKIP:
            node.report(f"{gpu.label} skipped")
        session.note_tried(gpu)


def _move_one(
    session: WiringSession, node: LiveNode, ask: Callable[[str], Reply], step: HandStep, *, left: int
) -> Reply:
    """Watch one GPU before, during and after a change by hand, until its power followed or the person goes on."""
    label = step.gpu.label
    while True:
        # Nothing was changed for so long: the last watch was one without a change.
        before = node.clock.utc_ns() - round(_WATCH_S * NS_PER_S), node.clock.utc_ns()
        reply = ask(f"{label}, {left} left. Change its power, for instance:\n    {step.change}")
        if reply is not Reply.DONE:
            return reply
        try:
            changed = node.watch(f"{label}: changed", _WATCH_S + _TAKES_S)
            reply = ask(f"{label}: undo it:\n    {step.undo}")
        except KeyboardInterrupt:
            node.report(f"{label} may still be changed; to undo it: {step.undo}")
            raise
        if reply is not Reply.DONE:
            node.report(f"{label} may still be changed; to undo it: {step.undo}")
            return reply
        back = node.watch(f"{label}: as before", _WATCH_S + _TAKES_S)
        start_ns = before[0]
        stretches = [_later(one, _TAKES_S, start_ns) for one in (changed, back)]
        contrasts = contrasts_around(_later(before, 0.0, start_ns), *stretches)
        frames = node.frames(start_ns - round(HISTORY_S * NS_PER_S))
        response = session.response(step.gpu, frames, contrasts, start_ns=start_ns)
        if response is not None:
            node.report(_learn(session, step.gpu, response))
            return Reply.DONE
        node.report(f"{label}: its power did not change by more than it does by itself; once more, or skip it")


def _later(stretch: tuple[int, int], seconds: float, start_ns: int) -> tuple[float, float]:
    return (stretch[0] - start_ns) / NS_PER_S + seconds, (stretch[1] - start_ns) / NS_PER_S
