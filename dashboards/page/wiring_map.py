"""The wiring of a node in the form that the page draws; live values come from the samples."""

from dataclasses import dataclass

from analytics.supply.standing import StandingVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPlugs:
    """Plugs side by side, such as ``2x XT60``; `rating_a` is that of all of them, None where unknown."""

    label: str
    rating_a: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MapFeed:
    """Mains feed with its breaker; None where unknown."""

    name: str
    nominal_v: float | None = None
    breaker_a: float | None = None
    curve: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MapShelf:
    """Shelf that holds supplies as modules; `feed` is empty where it is unknown."""

    name: str
    rated_w: float | None = None
    feed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSupply:
    """Supply of a bus.

    `entities` are the ids of the measured entities that show it, the first that has a reading goes before the others;
    none where it is not measured. `feed`, `shelf` and `from_bus` are names, empty where there is none.
    """

    name: str
    label: str
    entities: tuple[str, ...]
    rated_w: float | None = None
    nominal_v: float | None = None
    feed: str = ""
    shelf: str = ""
    from_bus: str = ""
    inlet: MapPlugs | None = None
    plugs: tuple[MapPlugs, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MapBranch:
    """Branch of a bus: ids of the GPUs at its end, labels of those that were not found, and its other loads."""

    gpus: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    board: str = ""
    fans: bool = False
    plugs: tuple[MapPlugs, ...] = ()
    plugs_each: tuple[MapPlugs, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MapBus:
    """Bus with its supplies by name, its branches, and the ids of all GPUs that it reaches, also through converters.

    `joins` are the buses that a bar or cable ties to it.
    """

    name: str
    nominal_v: float | None
    supplies: tuple[str, ...]
    branches: tuple[MapBranch, ...]
    gpus: tuple[str, ...]
    redundancy: str | None = None
    joins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MapStage:
    """Stage of converters in a row: ids of the rails that show it, its limit, and who is behind it where it is low.

    `converts` is True where a converter makes it, `assumed` where only the nominal voltages place it there.
    """

    name: str
    entities: tuple[str, ...]
    nominal_v: float
    limit_v: float
    suspect: str
    converts: bool = False
    assumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WiringMap:
    """Wiring of one node.

    `origin` is what it is known from, as one word and as a text for people; `unknown` lists what it leaves open.
    `verdict` is renewed each minute, None before the first; `verdict_lines` is the same for people.
    `chains` are converters in a row, the supplies' bus first.
    """

    origin: str
    origin_text: str
    feeds: tuple[MapFeed, ...] = ()
    shelves: tuple[MapShelf, ...] = ()
    supplies: tuple[MapSupply, ...] = ()
    buses: tuple[MapBus, ...] = ()
    unknown: tuple[str, ...] = ()
    verdict: StandingVerdict | None = None
    verdict_lines: tuple[str, ...] = ()
    chains: tuple[tuple[MapStage, ...], ...] = ()
