"""A rack as data: nodes that share inlet air, the voltage of a PDU and the breaker of a feed."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from simulator.files.loading import at_key, find, refuse_other_kind, resolved
from simulator.files.node import NodeFile, load_node
from simulator.files.part import FilePart, Finite, Name, NotNegative, Positive, Share
from telemetry.documents import check_document, read_document
from telemetry.durations import DurationS
from telemetry.errors import ConfigError, Problem

RACKS = Path(__file__).parents[1] / "racks"

NodeNumber = Annotated[int, Field(ge=0)]


class RackAir(FilePart):
    """``T_in = crac_c + recirculation_k_per_w * rack power + AR(1)`` with the given spread and memory.

    The rack's power comes round with a lag of `recirculation_memory`. `diurnal_k` is the amplitude of the day's swing;
    see `simulator.plant.rack_site`.
    """

    crac_c: Finite
    recirculation_k_per_w: NotNegative
    recirculation_memory: Annotated[DurationS, Field(gt=0)] = 60.0  # assumption: heatsinks, then the air of the aisle
    noise_k: NotNegative
    noise_memory: Annotated[DurationS, Field(gt=0)]
    diurnal_k: NotNegative


class RackFeed(FilePart):
    """The PDU: its voltage swings over the day and falls with load; its breaker opens after `breaker_after` above.

    `swing` and `drop_at_rating` are shares of the nominal voltage. `efficiency` is what the nodes' supplies pass on of
    the power that they take from the PDU.
    """

    swing: Share
    drop_at_rating: Share
    breaker_w: Positive
    breaker_after: DurationS
    efficiency: Annotated[float, Field(gt=0, le=1)] = (
        0.92  # assumption: 80 PLUS Platinum, 91 % at full and 94 % at half
    )


class RackFile(FilePart):
    """Rack: `nodes` names node files, the same one several times where the nodes are alike."""

    name: Name
    description: str
    nodes: Annotated[tuple[str, ...], Field(min_length=1, max_length=64)]
    air: RackAir
    feed: RackFeed


def load_rack(name_or_path: str, *, option: str = "--rack") -> RackFile:
    """Read a rack by the name of one that comes with railwatch, or by the path of a YAML file.

    Its nodes are checked too; those that the file names by a path, relative to itself, come back with the whole path.

    Raises
    ------
    ConfigError
        There is none of that name, or the file or a node of it cannot be used; every problem with file, line and key.
    """
    path = find(name_or_path, folder=RACKS, what="rack", option=option)
    data, lines = read_document(path)
    refuse_other_kind(data, wanted="rack", path=path)
    named = data.get("nodes") if isinstance(data, dict) else None
    problems: list[Problem] = []
    seen: set[str] = set()
    for index, node in enumerate(named if isinstance(named, list) else ()):
        if isinstance(node, str) and node not in seen:
            seen.add(node)
            try:
                load_node(resolved(node, beside=path.parent), option=str(path))
            except ConfigError as err:
                problems += at_key(err, path=path, line=lines.get(("nodes", index)), key=f"nodes[{index}]")
    rack = check_document(RackFile, data, where=str(path), lines=lines, known=problems)
    return rack.model_copy(update={"nodes": tuple(resolved(node, beside=path.parent) for node in rack.nodes)})


def nodes_of(rack: RackFile) -> tuple[NodeFile, ...]:
    """Return the nodes of a rack, in order; ConfigError where one cannot be read.

    Each is called by its place, ``node0`` and so on, so that alike nodes have GPUs with UUIDs of their own.
    """
    known = {name: load_node(name) for name in dict.fromkeys(rack.nodes)}
    return tuple(known[name].model_copy(update={"name": f"node{number}"}) for number, name in enumerate(rack.nodes))
