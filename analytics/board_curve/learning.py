"""Learning of one board's curve from its windows: state and window in, state out.

A segment is a run of windows at one clock under one level of load. When the clock changes and the load does not, the
segments on both sides are a step of the curve. A load that changes at a constant clock begins a new segment and ends
no step; one that changes together with the clock is distinguished by its size alone, which the curve's own bounds
weigh (`BoardCurve.with_step`), and by the steps before and after it. Idle, memory-bound and capped windows are counted
separately: idle ones give the idle power, memory-bound ones a mean of their own.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from analytics.board_curve.windows import STEADY_RATIO, WINDOW_NS, LoadKind, LoadWindow
from physics.board_curve import RATIOS, SEEN_IDLE_SD_RATIO, BoardCurve
from telemetry.clock import NS_PER_S

# Windows over which the level of a segment is averaged. heuristic: half a minute; older ones had another temperature.
_LONG = 10
# heuristic: between two segments of a step; a job that pauses for longer may go on with another load.
_GAP_NS = 30 * NS_PER_S
# A level that moves by more at a constant clock is another load. heuristic: five standard errors, and no less than 5 %,
# by which the temperature may move it within a segment.
_JUMP_SIGMAS, _JUMP_LN = 5.0, 0.05
# Variance of the level from window to window: at first, the share of one window in its average, the most that a window
# adds as a multiple of the variance, and the most it can be. heuristic: 3 %, a memory of ten windows, three standard
# deviations, so that one change of load hardly counts and many do, and a factor of two.
_NOISE_VARIANCE, _NOISE_SHARE, _NOISE_MOST, _NOISE_MOST_LN = 0.03**2, 0.1, 9.0, math.log(2.0)
# Windows between the two segments of a step, in which the load may change as often as it did before: the one in which
# the clock changes, and the next.
_GAP_WINDOWS = 2.0
# heuristic: a minute of windows for the idle power and for the mean of memory-bound load.
_MEMORY = 20
# Two idle windows in a row that differ by no more are of a board that has come to rest. heuristic: the 10 % by which a
# board's idle power moves with heat; power that falls after a job, or is still averaged with it, moves by more.
_REST_RATIO = 0.1
# heuristic: power this far above idle is a load; below, gain and noise of the sensor decide.
_LEAST_LOAD_RATIO = 1.3
# heuristic: clocks by which seconds are counted; drivers list up to about 150.
CLOCKS_MOST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Windows at one clock under one load; `level` is the mean logarithm of the power above idle."""

    clock_ratio: float
    level: float
    windows: int
    end_ns: int

    def extended(self, level: float, end_ns: int) -> "Segment":
        """Return it with one more window, the oldest ones forgotten."""
        windows = min(self.windows + 1, _LONG)
        return replace(self, level=self.level + (level - self.level) / windows, windows=windows, end_ns=end_ns)

    def above_idle(self, from_idle_w: float, to_idle_w: float) -> "Segment | None":
        """Return it with another idle power; None if it draws no more than that."""
        above_w = math.exp(self.level) + from_idle_w - to_idle_w
        return replace(self, level=math.log(above_w)) if above_w > 0.0 else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoardState:
    """Everything that is known of one board.

    Parameters
    ----------
    model
        The driver's name of the GPU.
    max_mhz
        Highest clock, to which the shares of the curve refer.
    idle_most_w
        Power above which a board that reports no utilisation is not idle: its utilisation is renewed later.
    learnt
        Curve from the steps that are over; `curve` includes the step under way.
    idle_before
        The last idle window, whether or not it was at rest; None before any.
    load_w, load_ratio
        Plateau of its last compute load, and the clock then over the highest; None before any.
    other_w, other_ratio, other_kind
        The same of its last window in use that teaches nothing, and its kind: capped, or too near the idle power.
    noise_variance, jump_variance
        Of the level from window to window: its scatter within a segment, and by changes of the load between two.
    seen_s
        Seconds of compute load near each of `RATIOS`.
    clocks_mhz
        Clocks that can be set, ascending; empty if they are not known.
    clock_s
        Seconds of compute load by clock: the nearest of `clocks_mhz` within half a step, else in whole megahertz.
    kind_s
        Seconds by kind of load.
    memory_bound_w
        Mean plateau of memory-bound load; None before any.
    """

    model: str
    max_mhz: float
    idle_most_w: float
    learnt: BoardCurve
    curve: BoardCurve
    idle_windows: int = 0
    idle_before: LoadWindow | None = None
    noise_variance: float = _NOISE_VARIANCE
    jump_variance: float = 0.0
    before: Segment | None = None
    segment: Segment | None = None
    load_w: float | None = None
    load_ratio: float | None = None
    other_w: float | None = None
    other_ratio: float | None = None
    other_kind: LoadKind | None = None
    clocks_mhz: tuple[float, ...] = ()
    clock_s: Mapping[float, float] = field(default_factory=dict)
    seen_s: tuple[float, ...] = field(default=(0.0,) * len(RATIOS))
    kind_s: tuple[tuple[LoadKind, float], ...] = tuple((kind, 0.0) for kind in LoadKind)
    memory_bound_w: float | None = None


def begin(
    curve: BoardCurve, *, model: str, max_mhz: float, idle_most_w: float, clocks_mhz: tuple[float, ...] = ()
) -> BoardState:
    """Return the state of a board of which nothing was seen."""
    return BoardState(
        model=model, max_mhz=max_mhz, idle_most_w=idle_most_w, learnt=curve, curve=curve, clocks_mhz=clocks_mhz
    )


def learn(state: BoardState, window: LoadWindow) -> BoardState:
    """Return the state after a window; about 80 us at a change of clock or within ten windows of one, else 10 us."""
    kind = window.kind
    # Not above: without any power or clock, as a driver may report for a board that it just lost, there is no curve.
    is_load = window.power_w > _LEAST_LOAD_RATIO * state.curve.idle_w and window.clock_mhz > 0.0
    is_idle = 0.0 < window.power_w <= state.idle_most_w
    is_other = kind is LoadKind.CAPPED or (kind is LoadKind.COMPUTE and not is_load)
    if (kind is LoadKind.COMPUTE and not is_load) or (kind is LoadKind.IDLE and not is_idle):
        kind = LoadKind.CHANGING
    if is_other and window.power_w > 0.0 and window.clock_mhz > 0.0:
        ratio = min(window.clock_mhz / state.max_mhz, 1.0)
        state = replace(state, other_w=window.power_w, other_ratio=ratio, other_kind=kind)
    second = WINDOW_NS / NS_PER_S
    state = replace(
        state, kind_s=tuple((name, spent + (second if name is kind else 0.0)) for name, spent in state.kind_s)
    )
    if kind is LoadKind.COMPUTE:
        return _loaded(state, window)
    if kind is LoadKind.IDLE:
        return _idle(state, window)
    if kind is LoadKind.MEMORY_BOUND:
        was = window.power_w if state.memory_bound_w is None else state.memory_bound_w
        return replace(state, memory_bound_w=was + (window.power_w - was) / _MEMORY)
    return state


def _idle(state: BoardState, window: LoadWindow) -> BoardState:
    """Return the state with the idle power of the board in place of the table's, once it is at rest."""
    earlier, state = state.idle_before, replace(state, idle_before=window)
    if earlier is None or not _rests(earlier, window):
        return state
    windows = min(state.idle_windows + 1, _MEMORY)
    was = state.curve.idle_w
    idle_w = was + (window.power_w - was) / windows
    sd_w = SEEN_IDLE_SD_RATIO * idle_w
    before, segment = (None if one is None else one.above_idle(was, idle_w) for one in (state.before, state.segment))
    learnt, curve = (
        one.with_idle(idle_w, sd_w, load_w=state.load_w, load_ratio=state.load_ratio)
        for one in (state.learnt, state.curve)
    )
    return replace(state, idle_windows=windows, learnt=learnt, curve=curve, before=before, segment=segment)


def _rests(earlier: LoadWindow, window: LoadWindow) -> bool:
    """Return True for two idle windows in a row of the same power."""
    follows = 0 < window.end_ns - earlier.end_ns < 2 * WINDOW_NS
    return follows and abs(window.power_w - earlier.power_w) <= _REST_RATIO * earlier.power_w


def _loaded(state: BoardState, window: LoadWindow) -> BoardState:
    ratio = min(window.clock_mhz / state.max_mhz, 1.0)
    level = math.log(window.power_w - state.curve.idle_w)
    near = min(range(len(RATIOS)), key=lambda place: abs(RATIOS[place] - ratio))
    seen_s = tuple(spent + (WINDOW_NS / NS_PER_S if place == near else 0.0) for place, spent in enumerate(state.seen_s))
    state = replace(
        state, seen_s=seen_s, clock_s=_counted(state, window.clock_mhz), load_w=window.power_w, load_ratio=ratio
    )
    return _sorted(state, ratio, level, window.end_ns)


def _counted(state: BoardState, clock_mhz: float) -> dict[float, float]:
    """Return the seconds by clock with one more window."""
    clock_s = dict(state.clock_s)
    clock_mhz = listed_clock(state.clocks_mhz, clock_mhz) or float(round(clock_mhz))
    clock_s[clock_mhz] = clock_s.get(clock_mhz, 0.0) + WINDOW_NS / NS_PER_S
    if len(clock_s) > CLOCKS_MOST:
        del clock_s[min(clock_s, key=lambda one: (one == clock_mhz, clock_s[one]))]
    return clock_s


def listed_clock(clocks_mhz: tuple[float, ...], clock_mhz: float) -> float | None:
    """Return the nearest of ascending clocks, if it is within half of the smaller step beside it; else None."""
    if len(clocks_mhz) < 2:
        return None
    above = bisect_left(clocks_mhz, clock_mhz)
    places = range(max(above - 1, 0), min(above + 1, len(clocks_mhz)))
    nearest = min(places, key=lambda place: abs(clocks_mhz[place] - clock_mhz))
    steps = [high - low for low, high in pairwise(clocks_mhz[max(nearest - 1, 0) : nearest + 2])]
    return clocks_mhz[nearest] if abs(clocks_mhz[nearest] - clock_mhz) <= min(steps) / 2.0 else None


def _sorted(state: BoardState, ratio: float, level: float, end_ns: int) -> BoardState:
    """Return the state with the window added to its segment, or at the begin of another."""
    segment = state.segment
    fresh = Segment(clock_ratio=ratio, level=level, windows=1, end_ns=end_ns)
    if segment is None or not 0 < end_ns - segment.end_ns <= _GAP_NS:
        return replace(state, learnt=state.curve, before=None, segment=fresh)
    if abs(ratio - segment.clock_ratio) > STEADY_RATIO / 2.0:
        return _stepped(replace(state, learnt=state.curve, before=segment, segment=fresh))
    off = level - segment.level
    is_jump = abs(off) > max(_JUMP_SIGMAS * math.sqrt(state.noise_variance), _JUMP_LN)
    most = min(off**2, max(_NOISE_MOST * state.noise_variance, _JUMP_LN**2), _NOISE_MOST_LN**2)
    state = replace(
        state,
        noise_variance=state.noise_variance + _NOISE_SHARE * (most - state.noise_variance),
        jump_variance=state.jump_variance + _NOISE_SHARE * ((off**2 if is_jump else 0.0) - state.jump_variance),
    )
    if is_jump:
        state = _stepped(state)
        return replace(state, learnt=state.curve, before=None, segment=fresh)
    extended = segment.extended(level, end_ns)
    state = replace(state, segment=extended)
    return state if segment.windows == extended.windows else _stepped(state)


def _stepped(state: BoardState) -> BoardState:
    """Return the state whose curve includes the step under way, measured anew as its second segment grows."""
    before, segment = state.before, state.segment
    if before is None or segment is None:
        return state
    scatter = state.noise_variance * (1.0 / before.windows + 1.0 / segment.windows)
    sd = math.sqrt(scatter + _GAP_WINDOWS * state.jump_variance)
    change = segment.level - before.level
    per_idle_w = math.exp(-before.level) - math.exp(-segment.level)
    curve = state.learnt.with_step(before.clock_ratio, segment.clock_ratio, change, sd, ln_change_per_idle_w=per_idle_w)
    return replace(state, curve=curve)
