"""Nominal voltage of a rail as its driver shows it: alarm limits and ratings, the label, else what it reads.

The PMBus core shows ``VOUT_UV_WARN_LIMIT`` and ``VOUT_OV_WARN_LIMIT`` as ``in*_min`` and ``in*_max``, the fault limits
as ``in*_lcrit`` and ``in*_crit``, and ``MFR_VOUT_MIN`` and ``MFR_VOUT_MAX`` as ``in*_rated_min`` and ``in*_rated_max``
(Documentation/hwmon/pmbus.rst). It does not show the set point, ``VOUT_COMMAND``: of the drivers in the kernel only
that of the MAX20730 family does, regulators for loads below 5.5 V, in debugfs. The voltage of a PMBus regulator device
is ``READ_VOUT``, a reading.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from agent.collectors.hwmon.channels import HwmonChannel, whole_number_of
from physics.rail_classes import MAIN_BUSES_V, RailClass, class_of_limits, rail_class_of, shown_nominals
from telemetry.entities import NominalSource

# ``+12V``, ``P12V``, ``psu0 54V``, ``+5V``, ``5VSB``, ``3.3V``, ``3V3``; not the 5 of ``1.5V`` or ``VCC5``, and not
# ``-12V``.
_LABELLED = re.compile(
    r"(?<![0-9.])(?<!^-)\+?(?:(12)\s*v|(?<![a-z])(3\.3|5|48|54)\s*v(?![0-9])|(?<![a-z])(3v3)(?![0-9]))", re.IGNORECASE
)
# A reading in mV to V.
_MILLI = 1e-3
# heuristic: a rail of 54 V under load reads as one of 48 V does; where a label names it, its scale is right.
_LOADED_RATIO = 0.9
# Attributes that bound a rail, those for warnings first: they lie nearest to the nominal voltage.
_LOW, _HIGH = ("min", "lcrit", "rated_min"), ("max", "crit", "rated_max")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRail:
    """Class of a rail and what named it; `conflict` describes a second source that names another one, empty if none."""

    rail_class: RailClass
    source: NominalSource
    text: str = ""
    conflict: str = ""

    def fits(self, reading_v: float | None) -> bool:
        """Return True if a rail of this class may read so; True where there is no reading."""
        low_v, high_v = self.rail_class.shown_v if self.source is NominalSource.LABEL else self.rail_class.plausible_v
        return reading_v is None or min(low_v, _LOADED_RATIO * self.rail_class.nominal_v) <= reading_v <= high_v


def nominal_of(channel: HwmonChannel, *, has_current: bool) -> NamedRail | None:
    """Return the class of a voltage and what named it; None for one that is no rail.

    Limits come before the label: alarms act on them. A source that the reading contradicts comes last.
    """
    reading_v = reading_of(channel)
    shown = shown_class(reading_v)
    named = [*_named(channel, reading_v, shown, has_current=has_current)]
    if not named:
        is_rail = shown is not None and shown.feeds_gpus and has_current
        return NamedRail(rail_class=shown, source=NominalSource.READING) if shown is not None and is_rail else None
    chosen = next((one for one in named if one.fits(reading_v)), named[0])
    others = [one for one in named if one.rail_class != chosen.rail_class]
    if not others:
        return chosen
    texts = ", ".join(f"{one.rail_class.name} by {one.text}" for one in named)
    conflict = f"{texts}; taken for {chosen.rail_class.name}"
    return NamedRail(rail_class=chosen.rail_class, source=chosen.source, text=chosen.text, conflict=conflict)


def reading_of(channel: HwmonChannel) -> float | None:
    """Return the voltage that a channel reads now in volts; None where it reads none."""
    reading_mv = whole_number_of(channel.path)
    return None if reading_mv is None else reading_mv * _MILLI


def shown_class(reading_v: float | None) -> RailClass | None:
    """Return the class that a reading shows; None for one between the classes."""
    return None if reading_v is None else rail_class_of(float(shown_nominals(np.array([reading_v]))[0]))


def _named(
    channel: HwmonChannel, reading_v: float | None, shown: RailClass | None, *, has_current: bool
) -> Iterator[NamedRail]:
    """Yield the classes that limits and label name, the one that counts first."""
    label = _LABELLED.search(channel.label)
    limits_v = _limits_v(channel)
    limited = None if limits_v is None else class_of_limits(*limits_v, reading_v)
    if limits_v is not None and limited is not None and (label is not None or (has_current and limited.feeds_gpus)):
        text = f"limits of {limits_v[0]:g} to {limits_v[1]:g} V"
        yield NamedRail(rail_class=limited, source=NominalSource.LIMITS, text=text)
    if label is not None:
        named = rail_class_of(float((label[1] or label[2] or "3.3").replace("3v3", "3.3")))
        if named is not None and not _is_higher_main_bus(shown, named):
            yield NamedRail(rail_class=named, source=NominalSource.LABEL, text=f"label {channel.label!r}")


def _is_higher_main_bus(shown: RailClass | None, named: RailClass) -> bool:
    """Return True for a reading of 54 V under a label of 48 V: the label is often that of the equipment on the bus."""
    return named.nominal_v in MAIN_BUSES_V and shown is not None and shown.nominal_v > named.nominal_v


def _limits_v(channel: HwmonChannel) -> tuple[float, float] | None:
    """Return the lowest and the highest voltage that a channel is set or rated for; None where one is missing or 0."""
    folder, stem = channel.path.parent, channel.stem

    def first(names: tuple[str, ...]) -> int | None:
        return next((value for name in names if (value := whole_number_of(folder / f"{stem}_{name}"))), None)

    low_mv, high_mv = first(_LOW), first(_HIGH)
    return None if low_mv is None or high_mv is None or low_mv <= 0 else (low_mv * _MILLI, high_mv * _MILLI)
