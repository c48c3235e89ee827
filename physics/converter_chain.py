"""Converters in a row: the bus of the supplies, the board behind it, and the rails that converters make from it.

A chain is known from a description (`from_bus` of a converter), else from the nominal voltages: HGX boards and racks
with one main bus of 48 or 54 V make their 12 V from it (an intermediate bus). The voltage of the GPUs' cores ends every
chain, and nothing measures it: NVML has no reading of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from physics.rail_classes import LEAST_PLAUSIBLE_RATIO, MAIN_BUSES_V, MEASURED_AT_V, RailClass, rail_class_of
from telemetry.entities import BUS_TAG, INPUT_NOMINAL_TAG, Entity, EntityKind

# A bus of 54 V that carries much may read as one of 48 V.
_MAIN_BUSES = frozenset(f"{one:g}" for one in MAIN_BUSES_V)
_NODE, _GPU = f"{EntityKind.NODE}:", f"{EntityKind.GPU}:"


class StageKind(StrEnum):
    """Part of the chain that a stage shows, by what lies between it and the stage before."""

    SUPPLIES = "supplies"
    BOARD = "board"
    CONVERTER = "converter"


# Who is behind a stage that is low while the stage before is within its limits.
SUSPECTS: Mapping[StageKind, str] = {
    StageKind.SUPPLIES: "supplies or their load",
    StageKind.BOARD: "joints between supplies and board",
    StageKind.CONVERTER: "converter or its load",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Stage of a chain: the measured rails that show it, all of one nominal voltage.

    `assumed` is True where only the nominal voltages place it in the chain.
    """

    kind: StageKind
    rail: RailClass
    entities: tuple[Entity, ...]
    assumed: bool = False

    @property
    def name(self) -> str:
        """Name as people write it, such as ``12 V intermediate bus``."""
        place = {StageKind.SUPPLIES: "bus", StageKind.BOARD: "at the board"}.get(self.kind, "intermediate bus")
        return f"{self.rail.name} {place}"

    def holds(self, voltage_v: float) -> bool:
        """Return True for a voltage of the stage: below half of the nominal one an output is off."""
        return voltage_v > LEAST_PLAUSIBLE_RATIO * self.rail.nominal_v

    def margin(self, voltage_v: float) -> float:
        """Return what is left of the tolerance of the rail: 1 at the nominal voltage, 0 at its limit, less below."""
        return (voltage_v / self.rail.nominal_v - self.rail.lowest_ratio) / (1.0 - self.rail.lowest_ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStage:
    """Stage with its lowest voltage; None where it is not measured.

    `efficiency` is the output over the input power of the converters that make it; None where unknown.
    """

    stage: Stage
    lowest_v: float | None
    efficiency: float | None = None

    @property
    def margin(self) -> float | None:
        """Margin at the lowest voltage."""
        return None if self.lowest_v is None else self.stage.margin(self.lowest_v)

    @property
    def text(self) -> str:
        """Lowest voltage and its share of the nominal one."""
        lowest_v = float("nan") if self.lowest_v is None else self.lowest_v
        return f"{self.stage.name} lowest {lowest_v:.2f} V, {lowest_v / self.stage.rail.nominal_v:.1%}"


def worst_stage(stages: Sequence[MeasuredStage]) -> MeasuredStage | None:
    """Return the stage to look at: the first one below its limit, else the one with the least margin.

    A fall goes down the chain and never up, so what is low behind a stage that is low follows from it. None where fewer
    than two stages are measured: there is nothing to compare.
    """
    known = [(one, margin) for one in stages if (margin := one.margin) is not None]
    if len(known) < 2:
        return None
    below = [one for one, margin in known if margin < 0.0]
    return below[0] if below else min(known, key=lambda pair: pair[1])[0]


def chain_verdict(stages: Sequence[MeasuredStage]) -> str:
    """Return which stage is the worst, and what that points to; empty where nothing can be compared."""
    worst = worst_stage(stages)
    if worst is None or worst.margin is None:
        return ""
    if worst.margin >= 0.0:
        return f"worst stage: {worst.text}, {worst.margin:.0%} of its margin left"
    before = [one for one in stages[: stages.index(worst)] if one.margin is not None]
    if not before:
        return f"{worst.text}: {SUSPECTS[worst.stage.kind]}"
    return f"{before[-1].stage.name} within limits; {worst.text}: {SUSPECTS[worst.stage.kind]}"


def converter_chains(supplies: Iterable[Entity], edges: Sequence[tuple[str, str]]) -> tuple[tuple[Stage, ...], ...]:
    """Return the chains of two or more stages, that of the supplies first in each.

    `edges` are those of a topology: from nodes to supplies, from supplies to GPUs and to the converters behind them. A
    12 V rail counts as made from the main bus without an edge only where the node has one main bus, and either its
    converter measures such an input, or the board's controller the rail: a supply may stand behind any other.
    """
    known = [one for one in supplies if one.nominal_v is not None]
    node_of = {below: above for above, below in edges if above.startswith(_NODE)}
    nodes = {*node_of.values()}
    alone = next(iter(nodes)) if len(nodes) == 1 else ""
    found: list[tuple[Stage, ...]] = []
    groups: dict[str, list[Entity]] = {}
    for one in known:
        groups.setdefault(node_of.get(one.id, alone), []).append(one)
    home = {one.id: node for node, members in groups.items() for one in members}
    own: dict[str, list[tuple[str, str]]] = {}
    for edge in edges:
        if edge[0] in home:
            own.setdefault(home[edge[0]], []).append(edge)
    for node, members in groups.items():
        found += _chains_of_node(members, own.get(node, ()))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Links:
    """Edges of a node's supplies by id: the GPUs that each feeds, the converters below each, and those that are any."""

    gpus: Mapping[str, frozenset[str]]
    below: Mapping[str, tuple[Entity, ...]]
    behind: frozenset[str]

    @staticmethod
    def of(supplies: Sequence[Entity], edges: Sequence[tuple[str, str]]) -> "_Links":
        """Return the links; a shelf and its modules have one nominal voltage, or the shelf has none."""
        by_id = {one.id: one for one in supplies}
        known = [(above, under) for above, under in edges if above in by_id]
        pairs = [
            (above, by_id[under])
            for above, under in known
            if under in by_id and by_id[above].nominal_v != by_id[under].nominal_v
        ]
        fed: dict[str, set[str]] = {}
        for above, under in known:
            if under.startswith(_GPU):
                fed.setdefault(above, set()).add(under)
        return _Links(
            gpus={one: frozenset(gpus) for one, gpus in fed.items()},
            below={one: tuple(under for above, under in pairs if above == one) for one, _ in pairs},
            behind=frozenset(under.id for _, under in pairs),
        )


def _chains_of_node(supplies: Sequence[Entity], edges: Sequence[tuple[str, str]]) -> Iterator[tuple[Stage, ...]]:
    links = _Links.of(supplies, edges)
    roots: dict[tuple[float | None, str, frozenset[str]], list[Entity]] = {}
    for one in supplies:
        is_main = one.nominal_v in MAIN_BUSES_V and not one.is_rail_of_board
        if one.id not in links.behind and (is_main or one.id in links.below):
            roots.setdefault((*one.rail, links.gpus.get(one.id, frozenset())), []).append(one)
    chosen = [members for (_, source, _), members in roots.items() if not source] or [*roots.values()]
    for members in chosen:
        stages = tuple(_stages(members, supplies, links, is_only=len(chosen) == 1))
        if len(stages) > 1:
            yield stages


def _stages(members: Sequence[Entity], supplies: Sequence[Entity], links: _Links, *, is_only: bool) -> Iterator[Stage]:
    """Yield the stages from the supplies of a bus on; `is_only` is True where the node has no other such bus."""
    rail = rail_class_of(members[0].nominal_v or 0.0)
    if rail is None or not rail.has_limit:
        return
    yield Stage(kind=StageKind.SUPPLIES, rail=rail, entities=tuple(members))
    shown = tuple(one for one in supplies if one.is_rail_of_board and one.nominal_v == rail.nominal_v)
    bus = members[0].tag(BUS_TAG)
    at_board = shown if is_only else tuple(one for one in shown if bus is not None and one.tag(BUS_TAG) == bus)
    if at_board:
        yield Stage(kind=StageKind.BOARD, rail=rail, entities=at_board)
    described = tuple(_described(members, links.below))
    yield from described
    if is_only and rail.nominal_v in MAIN_BUSES_V and not described:
        yield from _assumed(supplies, links)


def _described(members: Sequence[Entity], below: Mapping[str, Sequence[Entity]]) -> Iterator[Stage]:
    """Yield the stages behind the first one; converters of one nominal voltage side by side are one stage."""
    seen = {one.id for one in members}
    here: Sequence[Entity] = members
    while here:
        groups: dict[float, dict[str, Entity]] = {}
        for one in here:
            for under in below.get(one.id, ()):
                if under.id not in seen and under.nominal_v is not None:
                    groups.setdefault(under.nominal_v, {})[under.id] = under
        here = []
        for nominal_v, converters in sorted(groups.items(), reverse=True):
            rail = rail_class_of(nominal_v)
            seen |= {*converters}
            if rail is not None and rail.has_limit:
                yield Stage(kind=StageKind.CONVERTER, rail=rail, entities=tuple(converters.values()))
            here = [*here, *converters.values()]


def _assumed(supplies: Iterable[Entity], links: _Links) -> Iterator[Stage]:
    rail = rail_class_of(MEASURED_AT_V)
    rails = tuple(
        one
        for one in supplies
        if (one.is_rail_of_board or one.tag(INPUT_NOMINAL_TAG) in _MAIN_BUSES)
        and one.nominal_v == MEASURED_AT_V
        and one.id not in links.gpus
        and one.id not in links.behind
    )
    if rail is not None and rails:
        # A converter that measures its input shows that it draws from the main bus, whatever the controller's rail is.
        measured = tuple(one for one in rails if one.tag(INPUT_NOMINAL_TAG) is not None)
        yield Stage(kind=StageKind.CONVERTER, rail=rail, entities=measured or rails, assumed=not measured)
