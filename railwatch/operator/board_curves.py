"""Power curves of the boards of a run or of a recording, for people."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np

from analytics.board_curve.kept import read_boards
from analytics.board_curve.learner import BoardLearner
from analytics.board_curve.learning import BoardState
from analytics.board_curve.windows import LoadKind
from physics.board_curve import RATIOS, PowerBounds
from physics.board_parts import part_of
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind
from telemetry.errors import EnvironmentLacksError
from telemetry.frames import Frame, TableSpec
from telemetry.recording import Recording
from telemetry.series import END_NS, SampleReader

_SIGNALS = ("power_w", "sm_clock_mhz", "gpu_util_ratio", "mem_util_ratio", "throttle_reasons")
# heuristic: the newest hour of a store; a curve needs minutes, and full-rate samples of days take long to read.
_STORED_NS, _COARSE_NS = 3600 * NS_PER_S, 600 * NS_PER_S
_HIGHEST = "max_sm_clock_mhz"
# Rows of a curve: the clocks of the grid, and clocks seen beside them. heuristic: a plot of under 80 columns.
CLOCKS_SHOWN_MOST = 23
# Steps between clocks of NVIDIA boards; the last one fits every clock. heuristic: one window in ten may average two.
_STEPS_MHZ, _ON_STEP_SHARE = (15.0, 7.5, 5.0, 1.0), 0.9
# Board power over idle power of a part that is not in the table. heuristic: the least of any part of the table.
_UNKNOWN_BOARD_RATIO = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedBoard:
    """Board of one GPU with what is known of it."""

    gpu: Entity
    state: BoardState


class LoadEvidence(StrEnum):
    """Origin of the load that a curve is shown for."""

    COMPUTE = "compute"
    CAPPED = "capped"
    FAINT = "faint"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLoad:
    """Load that a curve is shown for: power, clock over the highest, origin."""

    power_w: float
    clock_ratio: float
    evidence: LoadEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """Predicted power at one clock; `source` is ``seen``, ``learnt`` or ``table``."""

    clock_mhz: float
    power_w: float
    low_w: float
    high_w: float
    seen_s: float
    source: str


def boards_of_file(path: Path, names: Mapping[str, str]) -> tuple[NamedBoard, ...]:
    """Return the boards of a file of the guard; `names` has short names of GPUs by entity id.

    Raises
    ------
    EnvironmentLacksError
        The file cannot be read, or is damaged.
    """
    try:
        kept = read_boards(path.read_bytes())
    except OSError as err:
        raise EnvironmentLacksError(f"{path}: {err.strerror}; expected the power curves that the guard saves") from err
    except ValueError as err:
        raise EnvironmentLacksError(f"{path}: damaged: {err}") from err
    gpus = []
    for entity_id, board in kept.items():
        key = entity_id.partition(":")[2]
        tags = (("model", board.model),)
        gpus.append(Entity(kind=EntityKind.GPU, key=key, name=names.get(entity_id, key), tags=tags))
    spec = TableSpec(name="kept", kind=EntityKind.GPU, entities=tuple(gpus), signals=())
    clocks = {
        gpu.key: tuple(board.clocks_mhz) or (board.max_mhz,) for gpu, board in zip(gpus, kept.values(), strict=True)
    }
    learner = BoardLearner([spec], supported_mhz=clocks)
    learner.take_learnt(path.read_bytes(), 0)
    return _boards(learner)


def boards_of_recording(read: Recording) -> tuple[NamedBoard, ...]:
    """Return the boards of a recording, learnt from its rows."""
    clocks = {uuid: tuple(values) for uuid, values in read.meta.config.get("supported_mhz", {}).items()}
    highest = _highest_clocks(read) if clocks else {}
    for uuid, clock_mhz in highest.items():
        listed = clocks.get(uuid)
        if listed and clock_mhz > listed[-1]:
            clocks[uuid] = (*listed, clock_mhz)
    learner = BoardLearner(read.tables, supported_mhz=clocks)
    return _learnt(learner, read.frames())


def boards_of_store(samples: SampleReader) -> tuple[NamedBoard, ...]:
    """Return the boards of a store, learnt from its newest hour of full-rate samples."""
    coarse = samples.series(EntityKind.GPU, ("power_w",), start_ns=0, stop_ns=END_NS, step_ns=_COARSE_NS)
    if not len(coarse):
        return ()
    start_ns = int(coarse.time_ns[-1]) - _STORED_NS
    frame = samples.series(EntityKind.GPU, _SIGNALS, start_ns=max(start_ns, 0), stop_ns=END_NS)
    return _learnt(BoardLearner([frame.spec]), [_held(frame)])


def board_named(boards: Sequence[NamedBoard], name: str) -> NamedBoard | None:
    """Return the board with a name, label, number, UUID or entity id; None if there is none."""
    for board in boards:
        gpu = board.gpu
        if name in (gpu.name, gpu.label, gpu.id, gpu.key, gpu.name.removeprefix("gpu")):
            return board
    return None


def load_of(state: BoardState) -> ShownLoad:
    """Return the load that a curve is shown for: the last compute load, else the last other, else the board power."""
    if state.load_w is not None and state.load_ratio is not None:
        return ShownLoad(power_w=state.load_w, clock_ratio=state.load_ratio, evidence=LoadEvidence.COMPUTE)
    if state.other_w is not None and state.other_ratio is not None:
        evidence = LoadEvidence.CAPPED if state.other_kind is LoadKind.CAPPED else LoadEvidence.FAINT
        return ShownLoad(power_w=state.other_w, clock_ratio=state.other_ratio, evidence=evidence)
    part = part_of(state.model)
    board_w = _UNKNOWN_BOARD_RATIO * state.curve.idle_w if part is None else part.board_w
    return ShownLoad(power_w=board_w, clock_ratio=1.0, evidence=LoadEvidence.NONE)


def power_at(state: BoardState, clock_ratio: float) -> PowerBounds:
    """Return the power of the load of `load_of` at a clock.

    Where no load was seen, any load may come: the lower bound is that of the idle power.
    """
    load = load_of(state)
    bounds = state.curve.predict(load.power_w, load.clock_ratio, clock_ratio)
    if load.evidence is LoadEvidence.NONE:
        return replace(bounds, low_w=state.curve.idle_bounds(load.power_w).low_w)
    return bounds


def points_of(state: BoardState) -> tuple[CurvePoint, ...]:
    """Return the predicted power of the shown load at clocks of the board, ascending."""
    seen = sorted(state.clock_s)
    points = []
    for clock_mhz in shown_clocks(state):
        bounds = power_at(state, clock_mhz / state.max_mhz)
        spent = state.clock_s.get(clock_mhz, 0.0)
        learnt = state.curve.steps > 0 and bool(seen) and seen[0] <= clock_mhz <= seen[-1]
        points.append(
            CurvePoint(
                clock_mhz=clock_mhz,
                power_w=bounds.power_w,
                low_w=bounds.low_w,
                high_w=bounds.high_w,
                seen_s=spent,
                source="seen" if spent else "learnt" if learnt else "table",
            )
        )
    return tuple(points)


def shown_clocks(state: BoardState) -> tuple[float, ...]:
    """Return the clocks of the board nearest to `RATIOS` of the highest, and those seen most, ascending."""
    seen = sorted(state.clock_s, key=lambda clock: -state.clock_s[clock])
    listed = (*state.clocks_mhz, state.max_mhz) if len(state.clocks_mhz) > 1 else _multiples(state)
    grid = {min((*listed, *seen), key=lambda clock: abs(clock - ratio * state.max_mhz)) for ratio in RATIOS}
    return tuple(sorted({*[clock for clock in seen if clock not in grid][: CLOCKS_SHOWN_MOST - len(grid)], *grid}))


def _multiples(state: BoardState) -> tuple[float, ...]:
    """Return the clocks of a board that lists none: steps below the highest, as wide as the clocks seen allow."""
    spent_s = sum(state.clock_s.values())
    steps = (step for step in _STEPS_MHZ if _share_on(step, state) >= _ON_STEP_SHARE * spent_s)
    step_mhz = next(steps, _STEPS_MHZ[-1])
    count = int((1.0 - RATIOS[0]) * state.max_mhz / step_mhz) + 1
    # Drivers cut clocks to whole megahertz.
    return (state.max_mhz, *(float(int(state.max_mhz - number * step_mhz)) for number in range(1, count + 1)))


def _share_on(step_mhz: float, state: BoardState) -> float:
    """Return the seconds seen at clocks that are whole steps below the highest."""
    offs = {clock: (state.max_mhz - clock) % step_mhz for clock in state.clock_s}
    return sum(state.clock_s[clock] for clock, off in offs.items() if min(off, step_mhz - off) < 1.0)


def _highest_clocks(read: Recording) -> dict[str, float]:
    """Return the highest clock of each GPU by UUID, from the first rows that have it: lists leave the default out."""
    tables = {spec.name for spec in read.tables if spec.kind is EntityKind.GPU and _HIGHEST in spec.signals}
    frame = next((frame for frame in read.frames() if frame.spec.name in tables and len(frame)), None)
    if frame is None:
        return {}
    newest = frame.signal(_HIGHEST)[-1].tolist()
    return {gpu.key: clock for gpu, clock in zip(frame.spec.entities, newest, strict=True) if clock > 0.0}


def _held(frame: Frame) -> Frame:
    """Return the rows of a store, which keeps each change once, with every value held until the next."""
    rows = np.arange(len(frame))[:, None, None]
    newest = np.maximum.accumulate(np.where(np.isnan(frame.values), 0, rows), axis=0)
    return replace(frame, values=np.take_along_axis(frame.values, newest, axis=0))


def _learnt(learner: BoardLearner, frames: Iterable[Frame]) -> tuple[NamedBoard, ...]:
    for frame in frames:
        learner.feed(frame)
    return _boards(learner)


def _boards(learner: BoardLearner) -> tuple[NamedBoard, ...]:
    states = ((gpu, learner.state_of(gpu.id)) for gpu in learner.entities)
    return tuple(NamedBoard(gpu=gpu, state=state) for gpu, state in states if state is not None)
