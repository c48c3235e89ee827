"""Learnt curves as JSON, for a restart and for recordings."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from analytics.board_curve.learning import CLOCKS_MOST, BoardState
from analytics.board_curve.windows import LoadKind
from physics.board_curve import RATIOS, SEEN_IDLE_SD_RATIO, is_slope, is_valid
from telemetry.json_text import json_bytes

VERSION = 1
# heuristic: relative precision that is kept; a thousandth of the least bound.
_DIGITS = 6
# heuristic: no board draws or did more.
_Watts = Annotated[float, Field(ge=0.0, le=20_000.0)]
_Seconds = Annotated[float, Field(ge=0.0, le=1e11)]
_Clock = Annotated[float, Field(gt=0.0, le=20_000.0)]
# heuristic: clocks that a driver lists for one memory clock; about 150 at most so far.
_CLOCKS_LISTED_MOST = 1000


class KeptBoard(BaseModel):
    """What is kept of one board."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
    model: Annotated[str, Field(min_length=1, max_length=200)]
    max_mhz: Annotated[float, Field(gt=0.0, le=20_000.0)]
    idle_w: _Watts
    idle_windows: Annotated[int, Field(ge=0)]
    steps: Annotated[int, Field(ge=0)]
    mean: list[float]
    covariance: list[list[float]]
    noise_variance: Annotated[float, Field(ge=0.0, le=1.0)]
    jump_variance: Annotated[float, Field(ge=0.0, le=100.0)]
    load_w: _Watts | None
    load_ratio: Annotated[float, Field(gt=0.0, le=1.0)] | None
    # Absent in files of versions before the idle power had bounds.
    mean_per_idle_w: list[float] | None = None
    other_w: _Watts | None = None
    other_ratio: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    other_kind: Annotated[LoadKind, Field(strict=False)] | None = None
    clocks_mhz: Annotated[list[_Clock], Field(max_length=_CLOCKS_LISTED_MOST)] = []
    clock_s: Annotated[dict[str, _Seconds], Field(max_length=CLOCKS_MOST)] = {}
    seen_s: Annotated[list[_Seconds], Field(min_length=len(RATIOS), max_length=len(RATIOS))]
    kind_s: dict[str, _Seconds]
    memory_bound_w: _Watts | None

    @model_validator(mode="after")
    def _check(self) -> "KeptBoard":
        if not is_valid(self.mean, self.covariance):
            raise ValueError("mean and covariance are no curve")
        if self.mean_per_idle_w is not None and not is_slope(self.mean_per_idle_w):
            raise ValueError("mean_per_idle_w has no slope per clock of the curve")
        if any(later <= earlier for earlier, later in pairwise(self.clocks_mhz)):
            raise ValueError("clocks_mhz does not ascend")
        if not all(text.replace(".", "", 1).isdecimal() for text in self.clock_s):
            raise ValueError("clock_s has a key that is no clock")
        return self

    def state(self, start: BoardState) -> BoardState:
        """Return the state of the board after a restart; `start` is that of its part."""
        slopes = self.mean_per_idle_w if self.steps else None
        curve = replace(
            start.curve,
            idle_w=self.idle_w,
            idle_sd_w=SEEN_IDLE_SD_RATIO * self.idle_w if self.idle_windows else start.curve.idle_sd_w,
            mean_per_idle_w=start.curve.mean_per_idle_w if slopes is None else np.array(slopes),
            steps=self.steps,
            mean=np.array(self.mean) if self.steps else start.curve.mean,
            covariance=np.array(self.covariance) if self.steps else start.curve.covariance,
        )
        return replace(
            start,
            learnt=curve,
            curve=curve,
            idle_windows=self.idle_windows,
            noise_variance=self.noise_variance,
            jump_variance=self.jump_variance,
            load_w=self.load_w,
            load_ratio=self.load_ratio,
            other_w=self.other_w,
            other_ratio=self.other_ratio,
            other_kind=self.other_kind,
            clocks_mhz=start.clocks_mhz or tuple(self.clocks_mhz),
            clock_s={float(clock): spent for clock, spent in self.clock_s.items()},
            seen_s=tuple(self.seen_s),
            kind_s=tuple((kind, self.kind_s.get(kind.value, 0.0)) for kind in LoadKind),
            memory_bound_w=self.memory_bound_w,
        )


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    version: int
    boards: dict[str, KeptBoard]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """Entity ids whose curves were restored, that are another board now, and that are absent.

    A board is absent as well while its highest clock, which its first rows bring, is not known.
    """

    taken: tuple[str, ...]
    others: tuple[str, ...]
    absent: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """True if every curve of the file was restored."""
        return not self.others and not self.absent

    @property
    def summary(self) -> str:
        """What was restored, in one line."""
        parts = [f"{len(self.taken)} of {len(self.taken) + len(self.others) + len(self.absent)} boards"]
        parts += [f"from the table of parts again: {', '.join(self.others)}"] if self.others else []
        parts += [f"absent: {', '.join(self.absent)}"] if self.absent else []
        return "; ".join(parts)


def kept_of(state: BoardState) -> KeptBoard:
    """Return what is kept of a board."""
    curve = state.curve
    return KeptBoard(
        model=state.model,
        max_mhz=state.max_mhz,
        idle_w=curve.idle_w,
        idle_windows=state.idle_windows,
        steps=curve.steps,
        mean=_rounded(curve.mean.tolist()),
        covariance=[_rounded(row) for row in curve.covariance.tolist()],
        noise_variance=state.noise_variance,
        jump_variance=state.jump_variance,
        load_w=state.load_w,
        load_ratio=state.load_ratio,
        mean_per_idle_w=_rounded(curve.mean_per_idle_w.tolist()),
        other_w=state.other_w,
        other_ratio=state.other_ratio,
        other_kind=state.other_kind,
        clocks_mhz=list(state.clocks_mhz[-_CLOCKS_LISTED_MOST:]),
        clock_s={f"{clock:.3f}": spent for clock, spent in state.clock_s.items()},
        seen_s=list(state.seen_s),
        kind_s={kind.value: spent for kind, spent in state.kind_s},
        memory_bound_w=state.memory_bound_w,
    )


def pack_boards(states: Mapping[str, BoardState], absent: Mapping[str, KeptBoard]) -> bytes:
    """Return the curves as JSON: about 4 KiB and half a millisecond per board.

    A board with an impossible value, such as one load of 30 kW by a glitch of its sensor, is left out until that value
    is replaced; the others are kept.
    """
    boards = {name: board.model_dump() for name, board in absent.items()}
    for name, state in states.items():
        with suppress(ValidationError):
            boards[name] = kept_of(state).model_dump()
    return json_bytes({"version": VERSION, "boards": boards})


def read_boards(blob: bytes) -> dict[str, KeptBoard]:
    """Return the curves of a file by entity id; ValueError in one line if it is damaged or of another version."""
    try:
        found = _File.model_validate_json(blob)
    except ValidationError as err:
        first = err.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "(file)"
        raise ValueError(f"{where}: {first['msg']}; expected the curves that railwatch saved") from None
    if found.version != VERSION:
        raise ValueError(f"version {found.version}, expected {VERSION}")
    return dict(found.boards)


def _rounded(values: list[float]) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values]
