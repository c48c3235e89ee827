"""Faults of a plant, one a node at most: what each changes, and from when to when."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from evaluation.domain.plant.chance import PlaceArray, uniform
from telemetry.frames import FloatArray, MaskArray


class FaultKind(StrEnum):
    """What a fault changes; `Fault.size` is a share of the usual value where no other unit is named.

    `JOINT` and `ALL_JOINTS` add a share of the resistance from source to bus to the path of one or of all supplies of
    a bus, `LOOSE` adds it in fits and starts. `OVERLOAD` adds load until the supplies carry that share of their rating
    at the peaks. `SAG` lowers the mains alone, `DEEP_SAG` the outputs with them. `LATE` delays a current by so many
    seconds. `INLET` warms the air by so many kelvin, `LINKS` adds so many errors a second.
    """

    NONE = "none"
    LOST = "lost"
    OVERLOAD = "overload"
    JOINT = "joint"
    ALL_JOINTS = "all joints"
    LOOSE = "loose"
    SAG = "sag"
    DEEP_SAG = "deep sag"
    FEED = "feed"
    STUCK_V = "stuck voltage"
    STUCK_A = "stuck current"
    LATE = "late"
    GAIN_V = "gain of voltage"
    GAIN_A = "gain of current"
    INTERFACE = "interface"
    FANS = "fans"
    INLET = "inlet"
    GPU_LOST = "gpu lost"
    HANG = "hang"
    STRAGGLER = "straggler"
    BRAKE = "brake"
    LINKS = "links"


ALL_KINDS = tuple(FaultKind)
# A supply bridges a lost input for a cycle of the mains at full load, and takes seconds to start.
HOLD_UP_S, RESTART_S = 0.02, 2.0
_FLICKER_TAG = 31


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Fault of one node; `place` counts its supplies or GPUs, for `FEED` its feeds. `ramp_s` is how long it grows."""

    kind: FaultKind = FaultKind.NONE
    at_s: float = 0.0
    lasts_s: float = float("inf")
    size: float = 0.0
    ramp_s: float = 0.0
    place: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Faults:
    """Faults of a table of machines, shape ``(n_nodes,)``; `kind` is a place in `ALL_KINDS`."""

    kind: PlaceArray
    at_s: FloatArray
    lasts_s: FloatArray
    size: FloatArray
    ramp_s: FloatArray
    place: PlaceArray

    @staticmethod
    def of(faults: Sequence[Fault]) -> "Faults":
        """Return the faults of nodes as a table."""
        return Faults(
            kind=np.array([ALL_KINDS.index(one.kind) for one in faults], dtype=np.int64),
            at_s=np.array([one.at_s for one in faults]),
            lasts_s=np.array([one.lasts_s for one in faults]),
            size=np.array([one.size for one in faults]),
            ramp_s=np.array([one.ramp_s for one in faults]),
            place=np.array([one.place for one in faults], dtype=np.int64),
        )

    def some(self, *kinds: FaultKind) -> MaskArray:
        """Return a mask of nodes that have one of these."""
        return np.isin(self.kind, [ALL_KINDS.index(kind) for kind in kinds])

    def holds(self, time_s: FloatArray, *kinds: FaultKind) -> MaskArray:
        """Return where one of these faults is there; times of shape ``(n_times, n_nodes)``."""
        inside = (time_s >= self.at_s) & (time_s < self.at_s + self.lasts_s)
        return np.asarray(self.some(*kinds) & inside, dtype=np.bool_)

    def grown(self, time_s: FloatArray, *kinds: FaultKind) -> FloatArray:
        """Return the size that these faults have at times ``(n_times, n_nodes)``, 0 where there is none."""
        ramp_s = np.where(self.ramp_s > 0.0, self.ramp_s, 1e-9)
        part = np.clip((time_s - self.at_s) / ramp_s, 0.0, 1.0)
        return np.where(self.holds(time_s, *kinds), part * self.size, 0.0)

    def flicker(self, time_s: FloatArray, seed: PlaceArray) -> MaskArray:
        """Return where a loose joint is bad just now: for half of the time, in stretches of 0.2 to 3 s."""
        stretch_s = 0.2 + 2.8 * uniform(seed, _FLICKER_TAG)
        bad = uniform(seed, _FLICKER_TAG + 1, np.floor(time_s / stretch_s).astype(np.int64)) < 0.5
        return np.asarray(bad, dtype=np.bool_)

    def chosen(self, node: PlaceArray, number: PlaceArray) -> MaskArray:
        """Return a mask of parts that are the place of their node's fault."""
        return np.asarray(self.place[node] == number, dtype=np.bool_)


NO_FAULT = Fault()
