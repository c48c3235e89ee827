"""Tables of many machines: entities with the tags that they are described by, signals, topology."""

from dataclasses import dataclass

import numpy as np

from evaluation.domain.plant.machines import Machines
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec

START_NS = 1_790_000_100_000_000_000
NS_PER_S = 1_000_000_000
SUPPLY = ("voltage_v", "current_a", "voltage_min_v", "power_w")
GPU = (
    "power_w",
    "sm_clock_mhz",
    "gpu_temp_c",
    "throttle_reasons",
    "gpu_util_ratio",
    "mem_util_ratio",
    "memory_used_bytes",
    "power_limit_w",
    "pcie_width",
)
NODE = ("inlet_temp_c", "nv_queue_ratio", "nv_irq_ratio", "rail_voltage_v")
_BUS_NAMES = "ABCD"


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """Tables of machines.

    `node_of` has the place of the node of each entity by its id, `rail_buses` that of the bus of each rail.
    """

    supplies: TableSpec
    inputs: TableSpec
    rails: TableSpec | None
    gpus: TableSpec
    nodes: TableSpec
    fans: TableSpec
    links: TableSpec
    jobs: TableSpec
    topology: Topology
    node_of: dict[str, int]
    rail_buses: tuple[int, ...]

    @property
    def specs(self) -> tuple[TableSpec, ...]:
        """All tables."""
        rails = () if self.rails is None else (self.rails,)
        return (self.supplies, self.inputs, *rails, self.gpus, self.nodes, self.fans, self.links, self.jobs)


def tables_of(machines: Machines) -> Tables:
    """Return the tables of machines, as a recording of each would describe it."""
    seeds = machines.nodes.seed.tolist()
    nodes = tuple(_entity(EntityKind.NODE, f"m{seed}") for seed in seeds)
    supplies, gpus = machines.supplies, machines.gpus
    feeds = _supplies(machines)
    boards = tuple(
        _entity(EntityKind.GPU, f"m{seeds[node]}g{number}", name=f"gpu{number}")
        for node, number in zip(gpus.node.tolist(), gpus.number.tolist(), strict=True)
    )
    links = tuple(_entity(EntityKind.LINK, f"{one.key}l", name=f"{one.name} link") for one in boards)
    fans = tuple(_entity(EntityKind.FAN, f"m{seed}f", name="fan0") for seed in seeds)
    jobs = tuple(_entity(EntityKind.JOB, f"m{seed}j", name="job") for seed in seeds)
    rails = _rails(machines)
    edges = [(nodes[node].id, one.id) for one, node in zip(feeds, supplies.node.tolist(), strict=True)]
    edges += [(nodes[node].id, one.id) for one, node in zip(boards, gpus.node.tolist(), strict=True)]
    edges += [(board.id, link.id) for board, link in zip(boards, links, strict=True)]
    edges += [(node.id, part.id) for parts in (fans, jobs) for node, part in zip(nodes, parts, strict=True)]
    edges += [(nodes[node].id, rail.id) for rail, node, _ in rails]
    by_bus = [(feed, bus) for feed, bus in zip(feeds, supplies.bus.tolist(), strict=True)]
    by_bus += [(rail, bus) for rail, _, bus in rails]
    edges += [(feed.id, boards[gpu].id) for feed, bus in by_bus for gpu in np.flatnonzero(gpus.bus == bus).tolist()]
    places = {one.id: place for parts in (nodes, fans, jobs) for place, one in enumerate(parts)}
    places |= {one.id: node for one, node in zip(feeds, supplies.node.tolist(), strict=True)}
    places |= {one.id: node for parts in (boards, links) for one, node in zip(parts, gpus.node.tolist(), strict=True)}
    places |= {rail.id: node for rail, node, _ in rails}
    entities = (*nodes, *feeds, *(rail for rail, _, _ in rails), *boards, *links, *fans, *jobs)
    return Tables(
        supplies=_spec("supply", feeds, SUPPLY),
        inputs=_spec("supply_slow", feeds, ("input_voltage_v",)),
        rails=_spec("rails", tuple(rail for rail, _, _ in rails), ("rail_voltage_v",)) if rails else None,
        gpus=_spec("gpu", boards, GPU),
        nodes=_spec("node", nodes, NODE),
        fans=_spec("fan", fans, ("fan_ratio", "fan_rpm")),
        links=_spec("link", links, ("nvlink_crc_errors", "nvlink_replays")),
        jobs=_spec("job", jobs, ("steps",)),
        topology=Topology(entities=entities, edges=tuple(edges)),
        node_of=places,
        rail_buses=tuple(bus for _, _, bus in rails),
    )


def _entity(kind: EntityKind, key: str, *, name: str = "", tags: tuple[tuple[str, str], ...] = ()) -> Entity:
    return Entity(kind=kind, key=key, name=name or key, tags=tags)


def _spec(name: str, entities: tuple[Entity, ...], signals: tuple[str, ...]) -> TableSpec:
    return TableSpec(name=name, kind=entities[0].kind, entities=entities, signals=signals)


def _supplies(machines: Machines) -> tuple[Entity, ...]:
    """Return the supplies, each with the tags that its node describes."""
    nodes, supplies = machines.nodes, machines.supplies
    starts = np.searchsorted(machines.buses.node, np.arange(len(machines)))
    entities = []
    for place, node in enumerate(supplies.node.tolist()):
        tags = []
        bus = int(supplies.bus[place] - starts[node])
        if nodes.shows_nominal[node]:
            tags += [("nominal_v", f"{nodes.nominal_v[node]:g}"), ("nominal_from", "configuration")]
            if _has_rails(machines, node):
                tags.append(("bus", f"bus{_BUS_NAMES[bus]}"))
        if nodes.shows_rating[node]:
            tags += [("rated_w", f"{supplies.rated_w[place]:g}"), ("rated_from", "supply")]
        number = int(supplies.number[place])
        key = f"m{nodes.seed[node]}p{number}"
        entities.append(_entity(EntityKind.SUPPLY, key, name=f"psu{number}", tags=tuple(tags)))
    return tuple(entities)


def _has_rails(machines: Machines, node: int) -> bool:
    """Return True for a node of several main buses of which a controller measures the board's end."""
    buses = np.flatnonzero(machines.buses.node == node)
    return (
        len(buses) > 1
        and machines.nodes.nominal_v[node] > 12.0
        and bool(np.isfinite(machines.buses.rail_v_step[buses[0]]))
    )


def _rails(machines: Machines) -> list[tuple[Entity, int, int]]:
    """Return the rails of boards with several buses, each with its node and its bus."""
    found = []
    for node in range(len(machines)):
        if not (_has_rails(machines, node) and machines.nodes.shows_nominal[node]):
            continue
        for number, bus in enumerate(np.flatnonzero(machines.buses.node == node).tolist()):
            volts = f"{machines.nodes.nominal_v[node]:g}"
            tags = (
                ("nominal_v", volts),
                ("nominal_from", "label"),
                ("source", "bmc"),
                ("place", "board"),
                ("bus", f"bus{_BUS_NAMES[number]}"),
            )
            name = f"P{volts}V_{_BUS_NAMES[number]} (bmc)"
            entity = _entity(EntityKind.SUPPLY, f"m{machines.nodes.seed[node]}r{number}", name=name, tags=tags)
            found.append((entity, node, bus))
    return found


def frame_of(spec: TableSpec, time_s: FloatArray, values: FloatArray, fresh: MaskArray | None = None) -> Frame:
    """Return rows at seconds since the start; every known value is new where nothing else is given."""
    time_ns = START_NS + np.round(time_s * NS_PER_S).astype(np.int64)
    return Frame(spec=spec, time_ns=time_ns, values=values, fresh=np.isfinite(values) if fresh is None else fresh)
