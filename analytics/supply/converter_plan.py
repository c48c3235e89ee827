"""Rails behind converters as arrays: the columns of a table that show them, and those of the bus before them.

A rail behind a converter may be low for two reasons: it follows its bus, or the bus is within its limits, and then the
supplies have no part in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from analytics.connectivity.kinship import ByIdentity
from physics.converter_chain import Stage, StageKind, converter_chains
from physics.rail_classes import limit_scale
from telemetry.entities import Entity, Topology
from telemetry.frames import FloatArray
from telemetry.quantities import volts


@dataclass(frozen=True, slots=True, kw_only=True)
class BusBefore:
    """Stage before a converter: its supplies or its board, and their columns in a table."""

    stage: Stage
    columns: tuple[int, ...]

    def lowest_v(self, voltage_v: FloatArray) -> float:
        """Return the lowest of voltages ``(n_supplies,)`` that are no output which is off; NaN where none is known."""
        held = [float(value) for value in voltage_v[list(self.columns)] if self.stage.holds(float(value))]
        return min(held, default=float("nan"))


@dataclass(frozen=True, slots=True, kw_only=True)
class BusState:
    """Lowest margin of the stages before a rail, NaN where none is measured, and what that points to."""

    margin: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConverterPlan:
    """Rails of a table behind converters.

    `scale` is that of their limits, shape ``(n_supplies,)``, NaN for columns that show no such rail. `before` has by
    column the stages that one is made from, the nearest last.
    """

    scale: FloatArray
    nominal_v: FloatArray
    before: dict[int, tuple[BusBefore, ...]]

    @staticmethod
    def of(entities: Sequence[Entity], topology: Topology) -> "ConverterPlan":
        """Return the plan of a table; the newest few are kept."""
        return _plan(ByIdentity(entities), ByIdentity(topology))

    def source_text(self, column: int, margins: FloatArray) -> str:
        """Return what the bus of a rail shows, from the lowest margin of each stage before; see `margins_before`."""
        before = self.before[column]
        name = before[0].stage.rail.name
        if np.isnan(margins).all():
            return f"its {name} bus is not measured"
        place = int(np.nanargmin(margins))
        if margins[place] >= 0.0:
            return f"{name} bus within limits: converter or its load"
        stage = before[place].stage
        low_v = stage.rail.nominal_v * (
            stage.rail.lowest_ratio + float(margins[place]) * (1.0 - stage.rail.lowest_ratio)
        )
        return f"its {name} bus is at {volts(low_v)}"

    def buses_at(self, voltage_v: FloatArray) -> dict[int, BusState]:
        """Return the state of the bus before each rail at voltages ``(n_supplies,)``, by the column of the rail."""
        margins = {column: self.margins_before(column, voltage_v) for column in self.before}
        return {
            column: BusState(margin=float(np.fmin.reduce(own)), text=self.source_text(column, own))
            for column, own in margins.items()
        }

    def margins_before(self, column: int, voltage_v: FloatArray) -> FloatArray:
        """Return the margin of each stage before a rail at voltages ``(n_supplies,)``; NaN where it is not measured."""
        return np.array([one.stage.margin(one.lowest_v(voltage_v)) for one in self.before[column]])


@lru_cache(maxsize=16)
def _plan(entities: ByIdentity[Sequence[Entity]], topology: ByIdentity[Topology]) -> ConverterPlan:
    columns = {one.id: place for place, one in enumerate(entities.it)}
    scale, nominal_v = np.full(len(entities.it), np.nan), np.full(len(entities.it), np.nan)
    before: dict[int, tuple[BusBefore, ...]] = {}
    for chain in converter_chains(entities.it, topology.it.edges):
        passed = tuple(
            BusBefore(stage=one, columns=tuple(columns[entity.id] for entity in one.entities))
            for one in chain
            if one.kind is not StageKind.CONVERTER
        )
        for stage in chain:
            if stage.kind is not StageKind.CONVERTER:
                continue
            own = [columns[entity.id] for entity in stage.entities]
            scale[own], nominal_v[own] = limit_scale(stage.rail.nominal_v), stage.rail.nominal_v
            before.update(dict.fromkeys(own, passed))
            passed = (BusBefore(stage=stage, columns=tuple(own)),)
    for array in (scale, nominal_v):
        array.flags.writeable = False  # several have it
    return ConverterPlan(scale=scale, nominal_v=nominal_v, before=before)
