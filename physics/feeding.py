"""Which supply feeds which GPU: from the wiring that is configured, else from the nominal voltages of the rails."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count

from physics.bus_readings import bus_shown, has_several_buses
from physics.rail_classes import MAIN_BUSES_V, RAIL_CLASSES
from physics.wiring import Branch, Bus, Origin, WiredSupply, Wiring
from telemetry.entities import (
    BUS_TAG,
    MEASURED_NOMINAL_TAG,
    MEASURED_SOURCE_TAG,
    NOMINAL_SOURCE_TAG,
    NOMINAL_TAG,
    SOURCE_TAG,
    Entity,
    EntityKind,
    NominalSource,
    Topology,
)
from telemetry.ratings import RatingSource, rating_tags
from telemetry.topology import Feeding

# Rails that GPUs hang on. A node that has a main bus of 48 or 54 V makes its 12 V from it.
_GPU_RAILS_V = frozenset(one.nominal_v for one in RAIL_CLASSES if one.feeds_gpus)


def bus_name(nominal_v: float | None) -> str:
    """Return the name of the only bus of a nominal voltage."""
    return "unknown voltage" if nominal_v is None else f"{nominal_v:g} V"


def inferred_wiring(supplies: Sequence[Entity], gpus: Sequence[Entity]) -> Wiring:
    """Return the wiring that the nominal voltages of the rails suggest.

    Rails of one nominal voltage are taken to share a bus. Those of 48 and 54 V feed every GPU where there are any, else
    those of 12 V: SXM modules since 2020 take 48 to 54 V. A rail of unknown voltage may feed any GPU. Readings of the
    board's controller are buses of their own: they show a bus again, and carry none of its load.
    """
    groups: dict[tuple[float | None, str], list[Entity]] = {}
    for supply in supplies:
        groups.setdefault(supply.rail, []).append(supply)
    gpu_rails_v = _GPU_RAILS_V.intersection(nominal_v for nominal_v, _ in groups)
    feeding_v = {*(gpu_rails_v & MAIN_BUSES_V or gpu_rails_v), None}
    buses = tuple(
        Bus(
            name=bus_name(nominal_v) + (f" ({source})" if source else ""),
            nominal_v=nominal_v,
            supplies=tuple(one.key for one in members),
            branches=(Branch(gpus=None),) if gpus and nominal_v in feeding_v else (),
        )
        for (nominal_v, source), members in sorted(
            groups.items(), key=lambda group: (-(group[0][0] or 0.0), group[0][1])
        )
    )
    wired = tuple(WiredSupply(name=one.key, sensors=(one.key,), nominal_v=one.nominal_v) for one in supplies)
    return Wiring(origin=Origin.INFERRED, supplies=wired, buses=buses)


def bus_names(groups: Iterable[Sequence[Entity]]) -> tuple[str, ...]:
    """Return the names of buses by their supplies: as these are tagged if no two are alike, else numbered."""
    tagged = [_tagged_name(members[0]) for members in groups]
    tagged = [name if tagged.count(name) == 1 else None for name in tagged]
    numbers = (name for number in count() if (name := f"bus{number}") not in tagged)
    return tuple(next(numbers) if name is None else name for name in tagged)


def _tagged_name(supply: Entity) -> str | None:
    name, source = supply.tag(BUS_TAG), supply.tag(SOURCE_TAG)
    return name if name is None or source is None else f"{name} ({source})"


def wiring_of_topology(topology: Topology) -> Wiring:
    """Return the wiring that the edges of a topology describe: supplies of one voltage and the same GPUs share a bus.

    It is inferred where it is what the nominal voltages suggest, else recorded.
    """
    supplies, gpus = topology.of_kind(EntityKind.SUPPLY), topology.of_kind(EntityKind.GPU)
    fed = {supply.id: tuple(gpu for gpu in gpus if (supply.id, gpu.id) in topology.edges) for supply in supplies}
    inferred = inferred_wiring(supplies, gpus)
    if all(_reach(inferred, supply, gpus) == fed[supply.id] for supply in supplies):
        return inferred
    groups: dict[tuple[tuple[float | None, str], tuple[Entity, ...]], list[Entity]] = {}
    for supply in supplies:
        groups.setdefault((supply.rail, fed[supply.id]), []).append(supply)
    buses = tuple(
        Bus(
            name=name,
            nominal_v=nominal_v,
            supplies=tuple(one.key for one in members),
            branches=(Branch(gpus=tuple(gpu.name for gpu in reached)),) if reached else (),
        )
        for name, (((nominal_v, _), reached), members) in zip(bus_names(groups.values()), groups.items(), strict=True)
    )
    return replace(inferred, origin=Origin.RECORDED, buses=buses)


def feeding_of(wiring: Wiring | None, supplies: Sequence[Entity], gpus: Sequence[Entity]) -> Feeding:
    """Return what feeds what among measured supplies and GPUs; None as wiring infers it.

    Each edge leads from a supply to a GPU that its bus reaches, from a supply to a converter behind its bus, or from a
    shelf to its modules. A supply that the wiring does not name feeds the GPUs of the buses of its nominal voltage; one
    without a nominal voltage, every GPU. A GPU that no bus is known to feed is taken to hang on every supply that feeds
    any, and on those of a nominal voltage that GPUs hang on: a cap too many costs speed, one too few a GPU.
    """
    known = inferred_wiring(supplies, gpus) if wiring is None else wiring
    reach = {supply.id: _reach(known, supply, gpus) for supply in supplies}
    unfed = tuple(gpu for gpu in gpus if not any(gpu in reached for reached in reach.values()))
    edges = [
        (supply.id, gpu.id)
        for supply in supplies
        for gpu in gpus
        if gpu in reach[supply.id] or (gpu in unfed and (reach[supply.id] or _is_gpu_rail(supply)))
    ]
    edges += _to_converters(known, supplies)
    shelves, held = _shelves(known, supplies, edges)
    return Feeding(entities=shelves, edges=tuple(dict.fromkeys((*held, *edges))))


def described_supplies(supplies: Sequence[Entity], wiring: Wiring) -> tuple[Entity, ...]:
    """Return supplies with their described tags and names; ids stay. A name that another part has is not used."""
    found = [with_described_tags(supply, wiring) for supply in supplies]
    for place, entity in enumerate(found):
        wired = wiring.supply_of(entity)
        if wired is None:
            continue
        others = {one.name for at, one in enumerate(found) if at != place}
        others |= {sensor for one in wiring.supplies if one != wired for sensor in one.sensors}
        if wired.name not in others:
            found[place] = replace(entity, name=wired.name)
    return tuple(found)


def misfits(measured: Sequence[Entity], described: Sequence[Entity]) -> Iterator[str]:
    """Yield the described nominal voltages that the sensors of the supplies contradict, a line each."""
    for before, after in zip(measured, described, strict=True):
        if before.nominal_v is not None and before.nominal_v != after.nominal_v:
            source = before.tag(NOMINAL_SOURCE_TAG) or "tag"
            yield (
                f"supply {before.name} is described as {after.nominal_v:g} V and its {source} is that of "
                f"{before.nominal_v:g} V"
            )


def with_described_tags(supply: Entity, wiring: Wiring | None) -> Entity:
    """Return a supply tagged with the nominal voltage and the rating that the wiring gives it, and who named them.

    What its sensor names stays in tags of its own, so that a wrong description can be found; a supply that was
    described before keeps them. Where several main buses are described, supplies and the rails of the board that show
    one are tagged with its name.
    """
    if wiring is None or wiring.origin is Origin.INFERRED:
        return supply
    wired = wiring.supply_of(supply)
    if wired is None:
        shown = bus_shown(supply, wiring)
        return supply if shown is None else _on_bus(supply, shown)
    tags = dict(supply.tags)
    if wired.nominal_v is not None:
        if NOMINAL_TAG in tags and tags.get(NOMINAL_SOURCE_TAG) != NominalSource.CONFIGURATION:
            tags |= {MEASURED_NOMINAL_TAG: tags[NOMINAL_TAG], MEASURED_SOURCE_TAG: tags.get(NOMINAL_SOURCE_TAG, "tag")}
        tags |= {NOMINAL_TAG: f"{wired.nominal_v:g}", NOMINAL_SOURCE_TAG: NominalSource.CONFIGURATION.value}
    tags |= dict(rating_tags(wired.rated_w, RatingSource.CONFIGURATION))
    described = replace(supply, tags=tuple(tags.items()))
    bus = wiring.bus_of(wired.name)
    is_one_of_several = bus is not None and has_several_buses(wiring, described.nominal_v)
    return _on_bus(described, bus) if bus is not None and is_one_of_several else described


def _on_bus(supply: Entity, bus: Bus) -> Entity:
    return replace(supply, tags=tuple((dict(supply.tags) | {BUS_TAG: bus.name}).items()))


def _is_gpu_rail(supply: Entity) -> bool:
    return supply.nominal_v is None or supply.nominal_v in _GPU_RAILS_V


def _reach(wiring: Wiring, supply: Entity, gpus: Sequence[Entity]) -> tuple[Entity, ...]:
    """Return the GPUs that a measured supply feeds, as far as that is known."""
    wired = wiring.supply_of(supply)
    if wired is not None:
        bus = wiring.bus_of(wired.name)
        return () if bus is None else wiring.gpus_of(bus, gpus)
    shown = bus_shown(supply, wiring)
    if shown is not None:
        return wiring.gpus_of(shown, gpus)
    if supply.nominal_v is None:
        return tuple(gpus)
    alike = [wiring.gpus_of(bus, gpus) for bus in wiring.buses if bus.nominal_v == supply.nominal_v]
    return tuple(gpu for gpu in gpus if any(gpu in reached for reached in alike))


def _to_converters(wiring: Wiring, supplies: Sequence[Entity]) -> list[tuple[str, str]]:
    """Return the edges from each measured supply to the measured converters that draw from its bus."""
    wired = [(supply, one) for supply in supplies if (one := wiring.supply_of(supply)) is not None]
    return [
        (supply.id, converter.id)
        for supply, one in wired
        for converter, behind in wired
        if behind.from_bus and (bus := wiring.bus_of(one.name)) is not None and bus.name == behind.from_bus
    ]


def _shelves(
    wiring: Wiring, supplies: Sequence[Entity], edges: Sequence[tuple[str, str]]
) -> tuple[tuple[Entity, ...], list[tuple[str, str]]]:
    """Return the shelves that hold measured modules as entities, and their edges to what hangs on them."""
    shelves: list[Entity] = []
    held: list[tuple[str, str]] = []
    wired = {supply.id: wiring.supply_of(supply) for supply in supplies}
    for shelf in wiring.shelves:
        modules = [supply_id for supply_id, one in wired.items() if one is not None and one.shelf == shelf.name]
        entity = Entity(kind=EntityKind.SUPPLY, key=shelf.name, name=shelf.name)
        if modules and entity.id not in wired:  # the name of a supply is that supply
            shelves.append(entity)
            held += [(entity.id, module) for module in modules]
            held += [(entity.id, below) for above, below in edges if above in modules]
    return tuple(shelves), held
