"""Proposal of a wiring from samples: the learnt links as a description to accept, with the confidence of each."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import yaml

from analytics.connectivity.load_response import LoadResponse
from analytics.connectivity.rail_response import ROUND_S, followed_bus
from analytics.connectivity.wiring_learning import LearntLink, LearntWiring, learn_wiring
from physics.bus_readings import is_main_rail
from physics.rail_classes import may_feed_gpus
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray, Frame
from telemetry.json_text import json_text
from telemetry.series import series_of

GRID_S = 0.1  # heuristic: the update interval of most GPUs' power
_LOST_S = 10.0  # heuristic: longer than any sensor is silent
_HELD_S = 2.0  # heuristic: a value older than this is no reading of now
_ROUND_HELD_S = 3.0 * ROUND_S  # as a controller's readings are held while it does not respond
_PLAIN = re.compile(r"[A-Za-z_][\w-]*")
_PAIRS = (("voltage_v", "current_a"), ("output_voltage_v", "output_current_a"), ("rail_voltage_v", "rail_current_a"))


@dataclass(frozen=True, slots=True, kw_only=True)
class WiringProposal:
    """Learnt wiring of measured supplies and GPUs; `left_out` are those that show no power to learn from.

    `rails` are the rails of the board of 48 or 54 V with the bus that each follows, None where that is not known.
    """

    supplies: tuple[Entity, ...]
    gpus: tuple[Entity, ...]
    learnt: LearntWiring
    left_out: tuple[Entity, ...]
    rails: tuple[tuple[Entity, int | None], ...] = ()

    @property
    def links(self) -> tuple[tuple[Entity, LearntLink], ...]:
        """Each supply and GPU with its link, supplies first."""
        links = (*self.learnt.supplies, *self.learnt.gpus)
        return tuple(zip((*self.supplies, *self.gpus), links, strict=True))

    @property
    def unsure(self) -> tuple[str, ...]:
        """Labels of the supplies and GPUs whose link is not sure."""
        return tuple(entity.label for entity, link in self.links if not link.is_sure)

    @property
    def identifiable(self) -> bool:
        """False where no link is sure: the samples do not show the wiring."""
        return len(self.unsure) < len(self.supplies) + len(self.gpus)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredPower:
    """Power of supplies and GPUs, shapes ``(n_times, n_supplies)`` and ``(n_times, n_gpus)``, from `start_ns` on.

    Rows are `GRID_S` apart, NaN where nothing was read; `left_out` are entities that show no power to learn from.
    `rail_v` are the voltages of the rails of the board, shape ``(n_times, n_rails)``.
    """

    supplies: tuple[Entity, ...]
    gpus: tuple[Entity, ...]
    supply_w: FloatArray
    gpu_w: FloatArray
    start_ns: int
    left_out: tuple[Entity, ...]
    rails: tuple[Entity, ...] = ()
    rail_v: FloatArray = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def seconds(self) -> float:
        """How long it was measured."""
        return len(self.gpu_w) * GRID_S

    def proposal(self, responses: Sequence[LoadResponse] = ()) -> WiringProposal | None:
        """Return the wiring that the load steps and the responses of moved GPUs show; None where there are too few."""
        learnt = learn_wiring(self.supply_w, self.gpu_w, step_s=GRID_S, responses=responses)
        if learnt is None:
            return None
        return WiringProposal(
            supplies=self.supplies,
            gpus=self.gpus,
            learnt=learnt,
            left_out=self.left_out,
            rails=tuple(self._followed(learnt)),
        )

    def _followed(self, learnt: LearntWiring) -> Iterator[tuple[Entity, int | None]]:
        """Yield the rails of the board with the bus that each follows; none where there is only one bus."""
        links = np.array([link.bus for link in learnt.supplies])
        buses = np.unique(links)
        if len(buses) < 2:
            return
        bus_w = np.column_stack([self.supply_w[:, links == bus].sum(axis=1) for bus in buses])
        for rail, voltage_v in zip(self.rails, self.rail_v.T, strict=True):
            place = followed_bus(voltage_v, bus_w, step_s=GRID_S)
            yield rail, None if place is None else int(buses[place])


def propose_wiring(frames: Sequence[Frame]) -> WiringProposal | None:
    """Return the wiring that the samples show; None where supplies or GPUs show no power, or for too short a time."""
    power = measured_power(frames)
    return None if power is None else power.proposal()


def measured_power(frames: Sequence[Frame]) -> MeasuredPower | None:
    """Return the power of supplies and GPUs at common times; None where supplies or GPUs show none."""
    gpus = _to_the_end(_measured(frames, EntityKind.GPU))
    supplies = _to_the_end(_measured(frames, EntityKind.SUPPLY))
    series = [one for found in (*gpus.values(), *supplies.values()) for one in found]
    if not gpus or not supplies:
        return None
    start_ns = max(int(times_ns[0]) for times_ns, _ in series)
    count = int((min(int(times_ns[-1]) for times_ns, _ in series) - start_ns) / (GRID_S * NS_PER_S))
    if count < 1:
        return None
    rails = _rails(frames)
    used = {entity.id for entity in (*supplies, *gpus, *rails)}
    parts = (frame.spec.entities for frame in frames if frame.spec.kind in (EntityKind.SUPPLY, EntityKind.GPU))
    left_out = {entity.id: entity for entities in parts for entity in entities if entity.id not in used}
    return MeasuredPower(
        supplies=tuple(supplies),
        gpus=tuple(gpus),
        supply_w=_on_grid(supplies.values(), start_ns, count),
        gpu_w=_on_grid(gpus.values(), start_ns, count),
        start_ns=start_ns,
        left_out=tuple(left_out.values()),
        rails=tuple(rails),
        rail_v=_on_grid(((one,) for one in rails.values()), start_ns, count, held_s=_ROUND_HELD_S),
    )


def description_lines(proposal: WiringProposal, *, source: str) -> Iterator[str]:
    """Yield the proposal as YAML of the configuration, the confidence of each link in a comment."""
    learnt = proposal.learnt
    moved = f" and {learnt.n_experiments} moved GPUs" if learnt.n_experiments else ""
    yield f"# learnt from {source}, {learnt.n_steps} steps{moved}; ratings, plugs and feeds are for you to add"
    if proposal.left_out:
        yield f"# without a current or lost, so not learnt: {', '.join(_quoted(one.name) for one in proposal.left_out)}"
    yield "topology:"
    if not any(one.kind is EntityKind.GPU for one in proposal.left_out):
        yield f"  gpu_count: {len(proposal.gpus)}"
    yield "  supplies:"
    names = _names(proposal.supplies)
    for entity, link in zip(proposal.supplies, learnt.supplies, strict=True):
        name = names[entity.id]
        sensors = "" if name == entity.key else f", sensors: [{_quoted(entity.key)}]"
        nominal = f", nominal_v: {entity.nominal_v:g}" if entity.nominal_v is not None else ""
        yield f"    - {{name: {_quoted(name)}{sensors}{nominal}}} # on bus{link.bus}: {link.confidence_text}"
    unknown = [rail.name for rail, bus in proposal.rails if bus is None]
    if unknown:
        yield f"  # not known which bus they show, name them in its sensors: {', '.join(map(_quoted, unknown))}"
    yield "  buses:"
    for bus in sorted({link.bus for link in learnt.supplies}):
        on_bus = [one for one, link in zip(proposal.supplies, learnt.supplies, strict=True) if link.bus == bus]
        yield f"    - name: bus{bus}"
        yield f"      supplies: [{', '.join(_quoted(names[one.id]) for one in on_bus)}]"
        follows = [_quoted(rail.key) for rail, shown in proposal.rails if shown == bus]
        if follows:
            yield f"      sensors: [{', '.join(follows)}] # the board's rail that follows the load of this bus alone"
        own = [(gpu, link) for gpu, link in zip(proposal.gpus, learnt.gpus, strict=True) if link.bus == bus]
        if not own:
            yield "      branches: [{board: unknown}] # no GPU follows it"
            continue
        yield "      branches:"
        yield "        - gpus:"
        for gpu, link in own:
            yield f"            - {_quoted(gpu.name)} # {link.confidence_text}"


def proposal_fields(proposal: WiringProposal) -> Iterator[dict[str, Any]]:
    """Yield one JSON object for each link."""
    for entity, link in proposal.links:
        other = None if link.other is None else f"bus{link.other}"
        yield {
            "kind": entity.kind.value,
            "id": entity.id,
            "bus": f"bus{link.bus}",
            "confidence": link.confidence,
            "sure": link.is_sure,
            "other": other,
        }


def _names(supplies: Sequence[Entity]) -> dict[str, str]:
    """Return the shown name of each supply, by id; the key of its sensor where a name means two of them."""
    shown = [one.name for one in supplies] + [one.key for one in supplies if one.key != one.name]
    return {one.id: one.name if shown.count(one.name) == 1 else one.key for one in supplies}


def _quoted(name: str) -> str:
    """Return a name as YAML reads it back: plain where it can mean nothing else, else in the quotes of JSON."""
    is_plain = _PLAIN.fullmatch(name) is not None and yaml.safe_load(name) == name
    return name if is_plain else json_text(name)


_Series = tuple[FloatArray, FloatArray]


def _measured(frames: Sequence[Frame], kind: EntityKind) -> dict[Entity, tuple[_Series, ...]]:
    """Return the entities that show their power, with times in ns and values of each factor; no rails without GPUs.

    A supply that several tables describe is taken once, from the first pair of signals that shows it.
    """
    found: dict[Entity, tuple[_Series, ...]] = {}
    ids: set[str] = set()
    for signals in (("power_w",),) if kind is EntityKind.GPU else _PAIRS:
        merged = series_of(frames, kind, signals)
        for row, entity in enumerate(merged.spec.entities):
            known = [np.isfinite(merged.values[:, row, column]) for column in range(len(merged.spec.signals))]
            shown = len(known) == len(signals) and all(one.any() for one in known)
            if shown and entity.id not in ids and may_feed_gpus(entity.nominal_v):
                ids.add(entity.id)
                factors = [
                    (merged.time_ns[rows].astype(np.float64), merged.values[rows, row, column])
                    for column, rows in enumerate(known)
                ]
                found[entity] = tuple(factors)
    return found


def _to_the_end(measured: Mapping[Entity, tuple[_Series, ...]]) -> dict[Entity, tuple[_Series, ...]]:
    """Return the entities that were measured as long as most of them: a lost GPU has no samples after that."""
    ends_ns = {entity: min(float(times_ns[-1]) for times_ns, _ in factors) for entity, factors in measured.items()}
    usual_ns = float(np.median([*ends_ns.values()])) if ends_ns else 0.0
    return {entity: measured[entity] for entity, end_ns in ends_ns.items() if usual_ns - end_ns <= _LOST_S * NS_PER_S}


def _rails(frames: Sequence[Frame]) -> dict[Entity, _Series]:
    """Return the rails of the board of 48 or 54 V, with times in ns and volts."""
    merged = series_of(frames, EntityKind.SUPPLY, ("rail_voltage_v",))
    found: dict[Entity, _Series] = {}
    for row, entity in enumerate(merged.spec.entities):
        known = np.isfinite(merged.values[:, row, 0])
        if is_main_rail(entity) and known.any():
            found[entity] = merged.time_ns[known].astype(np.float64), merged.values[known, row, 0]
    return found


def _on_grid(
    measured: Iterable[tuple[_Series, ...]], start_ns: int, count: int, *, held_s: float = _HELD_S
) -> FloatArray:
    """Return the products of the factors of each entity on the grid, shape ``(count, n_entities)``."""
    columns = [np.prod([_held(one, start_ns, count, held_s) for one in factors], axis=0) for factors in measured]
    return np.stack(columns, axis=1) if columns else np.empty((count, 0))


def _held(series: _Series, start_ns: int, count: int, held_s: float) -> FloatArray:
    """Return means over each step of the grid, the last one where none fell in it for some time; else NaN."""
    times_ns, values = series
    at = np.floor((times_ns - start_ns) / (GRID_S * NS_PER_S)).astype(np.intp)
    inside = (at >= 0) & (at < count)
    counts = np.bincount(at[inside], minlength=count)
    sums = np.bincount(at[inside], values[inside], minlength=count)
    last = np.maximum.accumulate(np.where(counts > 0, np.arange(count), -1))
    usable = (last >= 0) & (np.arange(count) - last <= round(held_s / GRID_S))
    return np.where(usable, sums[last] / np.maximum(counts[last], 1), np.nan)
