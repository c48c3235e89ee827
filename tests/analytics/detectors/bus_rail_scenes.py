"""Readings of two rails of a board, each behind the supplies of a bus of its own; not of the simulator."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from telemetry.entities import (
    BOARD_PLACE,
    BUS_TAG,
    NOMINAL_TAG,
    PLACE_TAG,
    SOURCE_TAG,
    Entity,
    EntityKind,
    Topology,
)
from telemetry.frames import FloatArray, Frame
from tests.analytics.detectors.board_scenes import ROWS, Board, job, worn
from tests.analytics.scenes import frame_of, gpu

BUSES = ("left", "right")


def rail(letter: str, bus: str | None) -> Entity:
    tags = ((SOURCE_TAG, "bmc"), (NOMINAL_TAG, "54"), (PLACE_TAG, BOARD_PLACE))
    on = () if bus is None else ((BUS_TAG, bus),)
    return Entity(
        kind=EntityKind.SUPPLY, key=f"bmc-p54v-{letter.lower()}", name=f"P54V_{letter} (bmc)", tags=(*tags, *on)
    )


def on_bus(number: int, bus: str) -> Entity:
    tags = ((NOMINAL_TAG, "54"), (BUS_TAG, bus))
    return Entity(kind=EntityKind.SUPPLY, key=f"psu{number}", name=f"psu{number}", tags=tags)


SUPPLIES = tuple(on_bus(number, BUSES[number // 2]) for number in range(4))
RAILS = (rail("A", "left"), rail("B", "right"))
UNKNOWN_RAILS = (rail("A", None), rail("B", None))


def topology(rails: Sequence[Entity] = RAILS, supplies: Sequence[Entity] = SUPPLIES) -> Topology:
    """Return a node whose halves of two GPUs each have a bus; a rail of an unknown bus may show that of any GPU."""
    node = Entity(kind=EntityKind.NODE, key="box", name="box")
    gpus = [gpu(number) for number in range(4)]
    edges = [(node.id, one.id) for one in (*supplies, *rails, *gpus)]
    edges += [
        (one.id, gpus[number].id)
        for one in (*supplies, *rails)
        for number in range(4)
        if one.tag(BUS_TAG) in (None, BUSES[number // 2])
    ]
    return Topology(entities=(node, *supplies, *rails, *gpus), edges=tuple(edges))


BOARD = Board(supplies=2, droop_ohm=0.004, path_ohm=0.004)


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """Load of a bus of two supplies, and how its way to the board ages."""

    load_a: FloatArray
    times: FloatArray
    board: Board = BOARD


def half(*, worn_times: float = 1.0, until: int | None = None, seed: int = 0, high: float = 80.0) -> Half:
    return Half(load_a=job(high=high, low=0.65 * high, seed=seed), times=worn(times=worn_times, until=until))


def frame(
    halves: Sequence[Half], *, rails: Sequence[Entity] = RAILS, seed: int = 0, signals: tuple[str, str] | None = None
) -> Frame:
    """Return rows of a second each: outputs of four supplies, and the rails as the controller shows them."""
    rng = np.random.default_rng(seed)
    nothing = np.full(ROWS, np.nan)
    output_v, output_a, shown_v = [], [], []
    for one in halves:
        for _ in range(2):
            output_v.append(54.0 - one.load_a * one.board.droop_ohm + rng.normal(0.0, 0.01, ROWS))
            output_a.append(one.load_a / 2 + rng.normal(0.0, 0.1, ROWS))
        shown_v.append(one.board.readings(one.load_a, one.times))
    voltage, current = signals or ("voltage_v", "current_a")
    columns = {
        voltage: np.stack((*output_v, nothing, nothing), axis=1),
        current: np.stack((*output_a, nothing, nothing), axis=1),
        "rail_voltage_v": np.stack((nothing, nothing, nothing, nothing, *shown_v), axis=1),
    }
    return frame_of(EntityKind.SUPPLY, (*SUPPLIES, *rails), columns, rate_hz=1.0, name="supply")


def one_bus_ages(seed: int) -> Frame:
    """Return two buses of which one ages far enough for its rail to sag, and is mended."""
    worn_half = half(worn_times=(8.0, 11.0)[seed % 2], until=300, seed=seed)
    return frame((worn_half, half(seed=seed + 1)), seed=seed)


def switched_off(halves: Frame, number: int, *, since: int) -> Frame:
    """Return the rows with one supply off from a row on: its output shows nothing."""
    values = halves.values.copy()
    values[since:, number, :2] = 0.0
    return replace(halves, values=values)


SCENES: dict[str, Callable[[int], Frame]] = {"bus_rail": one_bus_ages}
