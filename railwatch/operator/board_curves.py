"""Power curves of the boards of a run or of a recording, for people."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from analytics.board_curve.kept import read_boards
from analytics.board_curve.learner import BoardLearner
from analytics.board_curve.learning import BoardState
from physics.board_curve import RATIOS
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


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedBoard:
    """Board of one GPU with what is known of it."""

    gpu: Entity
    state: BoardState


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
    clocks = {gpu.key: (board.max_mhz,) for gpu, board in zip(gpus, kept.values(), strict=True)}
    learner = BoardLearner([spec], supported_mhz=clocks)
    learner.take_learnt(path.read_bytes(), 0)
    return _boards(learner)


def boards_of_recording(read: Recording) -> tuple[NamedBoard, ...]:
    """Return the boards of a recording, learnt from its rows."""
    clocks = {uuid: tuple(values) for uuid, values in read.meta.config.get("supported_mhz", {}).items()}
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


def load_of(state: BoardState) -> tuple[float, float]:
    """Return the load that a curve is shown for: power and clock over the highest; the board power if none was seen."""
    if state.load_w is not None and state.load_ratio is not None:
        return state.load_w, state.load_ratio
    part = part_of(state.model)
    return (3.0 * state.curve.idle_w if part is None else part.board_w), 1.0


def points_of(state: BoardState) -> tuple[CurvePoint, ...]:
    """Return the predicted power of the last load at each clock of the curve, ascending."""
    load_w, load_ratio = load_of(state)
    seen = [ratio for ratio, spent in zip(RATIOS, state.seen_s, strict=True) if spent]
    points = []
    for ratio, spent in zip(RATIOS, state.seen_s, strict=True):
        bounds = state.curve.predict(load_w, load_ratio, ratio)
        learnt = state.curve.steps > 0 and bool(seen) and seen[0] <= ratio <= seen[-1]
        points.append(
            CurvePoint(
                clock_mhz=ratio * state.max_mhz,
                power_w=bounds.power_w,
                low_w=bounds.low_w,
                high_w=bounds.high_w,
                seen_s=spent,
                source="seen" if spent else "learnt" if learnt else "table",
            )
        )
    return tuple(points)


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
