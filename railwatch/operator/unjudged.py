"""What cannot be judged with the readings of a node, and why: for `railwatch doctor` and the summary of a replay."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from physics.rail_classes import MAIN_BUSES_V, may_feed_gpus
from telemetry.entities import SOURCE_TAG, Entity, EntityKind, label_list
from telemetry.recording import Recording

# Names in a line of at most 100 characters.
_NAMES_COLUMNS = 30
_SENSOR = "docs/how-to/wire-a-rail-sensor.md"
_BOARD = "docs/how-to/read-the-board-controller.md"
_READINGS = "docs/how-to/send-your-own-readings.md, and a fleet service, which judges them"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unjudged:
    """Judgement that is not possible, the readings that it lacks, and the page that describes how to get them."""

    what: str
    why: str
    how_to_get: str

    @property
    def text(self) -> str:
        """Both in one line."""
        return f"{self.what}: {self.why}"


# Entities by a signal that they show, for each kind.
_Shown = Mapping[EntityKind, Mapping[str, Sequence[Entity]]]


def unjudged(shown: Iterable[tuple[Entity, str]]) -> tuple[Unjudged, ...]:
    """Return what cannot be judged where these entities show these signals; an entity may come several times.

    Without a GPU's power there is nothing to judge of GPUs and their air, and nothing is returned about them.
    """
    by_kind: dict[EntityKind, dict[str, dict[str, Entity]]] = {}
    for entity, signal in shown:
        by_kind.setdefault(entity.kind, {}).setdefault(signal, {})[entity.id] = entity
    found = {kind: {name: tuple(own.values()) for name, own in signals.items()} for kind, signals in by_kind.items()}
    has_gpus = "power_w" in found.get(EntityKind.GPU, {})
    return (*_of_rails(found), *((*_of_air(found), *_of_jobs(found)) if has_gpus else ()))


def signals_of(read: Recording) -> Iterator[tuple[Entity, str]]:
    """Yield each entity of a recording with each signal of which it has a value."""
    entities = {(one.kind.value, one.key): one for spec in read.tables for one in spec.entities}
    samples = read.samples
    counts = np.bincount(samples.place[np.isfinite(samples.value)], minlength=len(samples.places))
    for place in np.flatnonzero(counts).tolist():
        kind, key, signal = samples.places[place]
        entity = entities.get((kind, key))
        if entity is not None:
            yield entity, signal


def _of_rails(shown: _Shown) -> Iterator[Unjudged]:
    supplies = shown.get(EntityKind.SUPPLY, {})
    with_volts, with_amps = (_own_rails(supplies, name) for name in _rail_names(supplies))
    at_board = "rail_voltage_v" in supplies or "rail_voltage_v" in shown.get(EntityKind.NODE, {})
    if not with_volts:
        what = "joints and loss of supplies" if at_board else "sags, joints and loss of supplies"
        yield Unjudged(what=what, why="no sensor reads their voltage", how_to_get=_SENSOR)
        return
    if "voltage_v" not in supplies and "output_voltage_v" in supplies:
        why = f"only their slow meters show {_labels(with_volts)}"
        yield Unjudged(what="dips between two readings of a supply", why=why, how_to_get=_SENSOR)
    lacking = [one for one in with_volts if one not in with_amps]
    if lacking:
        why = f"{'its current is' if len(lacking) == 1 else 'their currents are'} not read"
        yield Unjudged(what=f"joints, load and loss of {_labels(lacking)}", why=why, how_to_get=_SENSOR)
    behind = [one for one in with_volts if one.nominal_v in MAIN_BUSES_V]
    if behind and not at_board:
        what = f"joints that age alike behind the meters of {_labels(behind)}"
        yield Unjudged(what=what, why="no rail of the board is read", how_to_get=_BOARD)


def _of_air(shown: _Shown) -> Iterator[Unjudged]:
    if "inlet_temp_c" not in shown.get(EntityKind.NODE, {}):
        yield Unjudged(what="airflow and warm air", why="no temperature of the inlet is read", how_to_get=_BOARD)
    if {"fan_rpm", "fan_ratio"}.isdisjoint(shown.get(EntityKind.FAN, {})):
        what, why = "fans, and lost airflow within minutes", "neither speed nor duty of a fan is read"
        yield Unjudged(what=what, why=why, how_to_get=_BOARD)


def _of_jobs(shown: _Shown) -> Iterator[Unjudged]:
    if "steps" in shown.get(EntityKind.JOB, {}):
        return
    if not {"nv_queue_ratio", "nv_irq_ratio"}.isdisjoint(shown.get(EntityKind.NODE, {})):
        yield Unjudged(what="hangs at the first missed step", why="no job reports its steps", how_to_get=_READINGS)
    else:
        why = "no job reports its steps, and the driver's threads are not read"
        yield Unjudged(what="hangs that power does not show", why=why, how_to_get=_READINGS)


def _rail_names(supplies: Mapping[str, Sequence[Entity]]) -> tuple[str, str]:
    """Return the signals by which supplies are judged: rails that are read fast, else their own slow outputs."""
    if "voltage_v" in supplies:
        return "voltage_v", "current_a"
    if "output_voltage_v" in supplies:
        return "output_voltage_v", "output_current_a"
    # Recordings of earlier versions name their rails like readings of the board's controller.
    return "rail_voltage_v", "rail_current_a"


def _own_rails(supplies: Mapping[str, Sequence[Entity]], signal: str) -> tuple[Entity, ...]:
    """Return the supplies that GPUs may hang on and that show a signal, without rails of the board's controller."""
    of_supply = signal.startswith("output_")
    found = supplies.get(signal, ())
    return tuple(one for one in found if may_feed_gpus(one.nominal_v) and (of_supply or one.tag(SOURCE_TAG) is None))


def _labels(supplies: Sequence[Entity]) -> str:
    """Return the names of supplies, and how many they are where the names do not fit a line."""
    names = label_list(one.label for one in supplies)
    return names if len(names) <= _NAMES_COLUMNS else f"{len(supplies)} supplies"
