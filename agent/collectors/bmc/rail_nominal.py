"""Nominal voltage of a rail that a board controller measures: by its thresholds, else by its name."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.collectors.bmc import naming
from agent.collectors.bmc.point import Place, Point, Quantity
from physics.rail_classes import RailClass, class_of_limits, rail_class_of
from telemetry.entities import NOMINAL_SOURCE_TAG, NOMINAL_TAG, NominalSource


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPoint:
    """Class of a point's rail and what named it; `conflict` describes a second source that names another, if any."""

    rail_class: RailClass
    source: NominalSource
    conflict: str = ""

    @property
    def tags(self) -> tuple[tuple[str, str], ...]:
        """Tags of the rail's entity."""
        return (NOMINAL_TAG, f"{self.rail_class.nominal_v:g}"), (NOMINAL_SOURCE_TAG, self.source.value)


def nominal_of_point(point: Point) -> NamedPoint | None:
    """Return the class of a rail or of a supply's output; None where nothing names it, and for a standby rail.

    Thresholds come before the name: the controller raises alarms by them.
    """
    is_output = point.place is Place.BOARD or (point.place is Place.SUPPLY and not point.is_input)
    if point.quantity is not Quantity.VOLTAGE or not is_output or naming.is_standby(point.name):
        return None
    named = [*_named(point)]
    if not named:
        return None
    (chosen, source, _), *others = named
    conflict = ""
    if any(one != chosen for one, _, _ in others):
        texts = ", ".join(f"{one.name} by {text}" for one, _, text in named)
        conflict = f"{point.name}: {texts}; taken for {chosen.name}"
    return NamedPoint(rail_class=chosen, source=source, conflict=conflict)


def conflicts(points: Sequence[Point]) -> tuple[str, ...]:
    """Return the conflicts of all points."""
    found = (nominal_of_point(point) for point in points)
    return tuple(one.conflict for one in found if one is not None and one.conflict)


def _named(point: Point) -> Iterator[tuple[RailClass, NominalSource, str]]:
    limited = None if point.limits is None else class_of_limits(*point.limits)
    if point.limits is not None and limited is not None and limited.has_limit:
        low_v, high_v = point.limits
        yield limited, NominalSource.THRESHOLDS, f"thresholds of {low_v:g} to {high_v:g} V"
    nominal_v = naming.rail_nominal_v(point.name)
    labelled = None if nominal_v is None else rail_class_of(nominal_v)
    if labelled is not None:
        yield labelled, NominalSource.LABEL, "name"
