"""Wiring of the node: feeds, supplies, buses, what each bus feeds, and the plugs between them."""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from config.section import Section
from config.topology_checks import problems_of_wiring
from physics.breakers import BreakerCurve
from physics.plugs import OTHER, PLUG_TYPES, plug_type
from physics.rail_classes import RAIL_CLASSES, rail_class_of
from physics.wiring import Branch, Bus, MainsFeed, Origin, Plugs, Redundancy, Shelf, WiredSupply, Wiring
from telemetry.key_problems import KeyProblemError, KeyProblemsError, missing_key

# `gpus: all`, as it is kept inside.
EVERY_GPU = ("all",)
_NAME = r"^\w[\w .:/()-]*$"
# Any writer of the store can send a wiring: the indices below the highest one are counted, so that it is limited.
_MOST_INDEX = 9999
_GPU = re.compile(
    r"[0-9]{1,4}|gpu[0-9]{1,4}|GPU-[0-9a-f-]{8,}|([0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE
)


def _known_plug(name: str) -> str:
    known = plug_type(name)
    if known is None:
        names = ", ".join(plug.name for plug in PLUG_TYPES if plug.name != OTHER)
        raise ValueError(f"one of {names}, or {OTHER} with a rating_a")
    return known.name


def _rail_nominal(nominal_v: float) -> float:
    rail = rail_class_of(nominal_v)
    if rail is None or not rail.has_limit:
        known = ", ".join(f"{one.nominal_v:g}" for one in RAIL_CLASSES if one.has_limit)
        raise ValueError(f"the nominal voltage of a rail: one of {known}")
    return nominal_v


def _gpu_reference(reference: object) -> str:
    if isinstance(reference, int) and not isinstance(reference, bool) and 0 <= reference <= _MOST_INDEX:
        return str(reference)
    if isinstance(reference, str) and (reference in EVERY_GPU or _GPU.fullmatch(reference)):
        return reference
    # YAML reads an address of digits alone, 0000:43:00.0, as a number of base 60.
    raise ValueError("an index, a name such as gpu2, a UUID, or a PCI address in quotes")


def _named(value: object, key: str) -> object:
    return {key: value} if isinstance(value, str) else value


def _number(value: object) -> object:
    if isinstance(value, bool):  # pydantic takes true for 1
        raise ValueError("a number")  # noqa: TRY004 - pydantic turns a ValueError into a line of the report
    return value


Name = Annotated[str, Field(min_length=1, max_length=100, pattern=_NAME)]
NominalV = Annotated[float, BeforeValidator(_number), Field(gt=0), AfterValidator(_rail_nominal)]
# Mains, and feeds of 48 V and of 380 to 800 V direct current.
FeedV = Annotated[float, BeforeValidator(_number), Field(ge=40, le=1000)]
# heuristic: above the power of a rack and the current of its bus bar; a larger number is a slip of the unit.
RatedW = Annotated[float, BeforeValidator(_number), Field(gt=0, le=1_000_000)]
RatedA = Annotated[float, BeforeValidator(_number), Field(gt=0, le=20_000)]
GpuReferences = Annotated[
    tuple[Annotated[str, BeforeValidator(_gpu_reference)], ...],
    BeforeValidator(lambda value: EVERY_GPU if value == "all" else value),
]


class PlugUse(Section):
    """Plug in a path: its name alone, or with its count side by side and a rating of its own."""

    plug: Annotated[str, AfterValidator(_known_plug)] = Field(description="Type of the plug.")
    count: int = Field(default=1, ge=1, le=64, description="Equal plugs side by side.")
    rating_a: RatedA | None = Field(default=None, description="Continuous current; unset: that of the type.")
    peak_a: RatedA | None = Field(default=None, description="Short-time current; unset: that of the type.")

    @model_validator(mode="after")
    def _ratings_are_known_and_agree(self) -> Self:
        plugs = self.plugs()
        if plugs.rating_a is None:
            raise missing_key("rating_a", f"the continuous current of one plug: required for {OTHER}")
        if plugs.peak_a is not None and plugs.peak_a < plugs.rating_a:
            raise KeyProblemError("peak_a", f"got {plugs.peak_a:g} A", f"rating_a or more: {plugs.rating_a:g} A")
        return self

    def plugs(self) -> Plugs:
        """Return the plugs with their ratings."""
        kind = plug_type(self.plug)
        rating_a = kind.rating_a if kind is not None and self.rating_a is None else self.rating_a
        peak_a = kind.peak_a if kind is not None and self.rating_a is None and self.peak_a is None else self.peak_a
        return Plugs(name=self.plug, count=self.count, rating_a=rating_a, peak_a=peak_a)


Plug = Annotated[PlugUse, BeforeValidator(lambda value: _named(value, "plug"))]


class Feed(Section):
    """Mains feed: a circuit or PDU with its breaker."""

    name: Name = Field(description="Name, such as A.")
    nominal_v: FeedV | None = Field(default=None, description="Nominal voltage; unset: unknown.")
    breaker_a: RatedA | None = Field(default=None, description="Rating of its breaker; unset: unknown.")
    curve: BreakerCurve | None = Field(default=None, description="Trip curve of the breaker; unset: unknown.")

    @model_validator(mode="after")
    def _a_curve_has_a_rating(self) -> Self:
        if self.curve is not None and self.breaker_a is None:
            raise missing_key("breaker_a", "the rating of the breaker: required with curve")
        return self


class PowerShelf(Section):
    """Power shelf (OCP): one entity whose modules are supplies."""

    name: Name = Field(description="Name; supplies refer to it with `shelf`.")
    rated_w: RatedW | None = Field(default=None, description="Rated power of the whole shelf; unset: unknown.")
    feed: str = Field(default="", description="Feed that it draws from; its modules need not name one.")


class Supply(Section):
    """Supply of a bus; with `from_bus` a converter."""

    name: Name = Field(description="Name of the supply.")
    sensors: tuple[Name, ...] = Field(
        default=(), description="Names of the measured rails that show this supply; empty: its own name."
    )
    rated_w: RatedW | None = Field(default=None, description="Rated output power; unset: unknown.")
    nominal_v: NominalV | None = Field(default=None, description="Nominal output voltage; unset: that of its bus.")
    feed: str = Field(default="", description="Feed that it draws from.")
    shelf: str = Field(default="", description="Shelf that it is a module of.")
    from_bus: str = Field(default="", description="Bus that it draws from: it is a converter.")
    inlet: Plug | None = Field(default=None, description="Plug on its input side, such as C13.")
    plugs: tuple[Plug, ...] = Field(default=(), description="Plugs between its output and the bus.")


class BusBranch(Section):
    """Branch of a bus to GPUs, a board or fans."""

    gpus: GpuReferences = Field(
        default=(), description="GPUs by index, name, UUID or PCI address (in quotes), or `all`."
    )
    board: str = Field(default="", description="Name of the board that it feeds.")
    fans: bool = Field(default=False, description="Whether it feeds the fans.")
    plugs: tuple[Plug, ...] = Field(default=(), description="Plugs that the current of all its loads passes.")
    plugs_each: tuple[Plug, ...] = Field(default=(), description="Plugs of each GPU by itself.")

    @model_validator(mode="after")
    def _it_leads_somewhere(self) -> Self:
        if not (self.gpus or self.board or self.fans):
            raise missing_key("gpus", "what the branch feeds: gpus, board or fans")
        if self.plugs_each and not self.gpus:
            raise KeyProblemError("plugs_each", "given without gpus", "plugs: plugs_each are those of each GPU")
        return self

    def branch(self) -> Branch:
        """Return the branch."""
        return Branch(
            gpus=None if self.gpus == EVERY_GPU else self.gpus,
            board=self.board,
            fans=self.fans,
            plugs=tuple(one.plugs() for one in self.plugs),
            plugs_each=tuple(one.plugs() for one in self.plugs_each),
        )


class SharedBus(Section):
    """Bus that supplies share, and its branches."""

    name: Name = Field(description="Name of the bus.")
    nominal_v: NominalV | None = Field(default=None, description="Nominal voltage; unset: that of its supplies.")
    supplies: tuple[str, ...] = Field(min_length=1, description="Supplies on this bus; each supply is on one bus.")
    redundancy: Redundancy | None = Field(default=None, description="Supplies beyond those needed; unset: unknown.")
    joins: tuple[str, ...] = Field(default=(), description="Buses that a bar or cable ties to this one.")
    sensors: tuple[Name, ...] = Field(
        default=(), description="Rails of the board that show its voltage, as the controller names them: P54V_A."
    )
    branches: tuple[BusBranch, ...] = Field(default=(), max_length=256, description="What the bus feeds.")


class TopologySection(Section):
    """Wiring of the node (docs/how-to/wiring.md); empty: inferred from the nominal voltages of the rails."""

    gpu_count: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Number of GPUs, to check that a bus feeds each; unset: unknown.",
    )
    feeds: tuple[Feed, ...] = Field(
        default=(), max_length=64, description="Mains feeds, each with `name`, `nominal_v`, `breaker_a`, `curve`."
    )
    shelves: tuple[PowerShelf, ...] = Field(
        default=(), max_length=64, description="Power shelves, each with `name`, `rated_w`, `feed`."
    )
    supplies: tuple[Supply, ...] = Field(
        default=(),
        max_length=256,
        description="Supplies, each with `name`, `rated_w`, `nominal_v`, `feed`, `plugs` and more.",
    )
    buses: tuple[SharedBus, ...] = Field(
        default=(),
        max_length=64,
        description="Buses, each with `name`, `nominal_v`, `supplies`, `redundancy`, `branches`.",
    )

    @model_validator(mode="after")
    def _wiring_is_consistent(self) -> Self:
        problems = tuple(problems_of_wiring(self._wiring(), gpu_count=self.gpu_count))
        if problems:
            raise KeyProblemsError(problems)
        return self

    def wiring(self) -> Wiring | None:
        """Return the wiring; None where none is configured."""
        return self._wiring() if self.buses else None

    def _wiring(self) -> Wiring:
        feeds = {shelf.name: shelf.feed for shelf in self.shelves}
        given = Wiring(
            origin=Origin.CONFIGURED,
            feeds=tuple(
                MainsFeed(name=feed.name, nominal_v=feed.nominal_v, breaker_a=feed.breaker_a, curve=feed.curve)
                for feed in self.feeds
            ),
            shelves=tuple(Shelf(name=one.name, rated_w=one.rated_w, feed=one.feed) for one in self.shelves),
            supplies=tuple(self._wired(one, one.feed or feeds.get(one.shelf, "")) for one in self.supplies),
            buses=tuple(
                Bus(
                    name=bus.name,
                    nominal_v=bus.nominal_v,
                    supplies=bus.supplies,
                    branches=tuple(branch.branch() for branch in bus.branches),
                    redundancy=bus.redundancy,
                    joins=bus.joins,
                    sensors=bus.sensors,
                )
                for bus in self.buses
            ),
        )
        return given.with_shared_nominals()

    @staticmethod
    def _wired(supply: Supply, feed: str) -> WiredSupply:
        return WiredSupply(
            name=supply.name,
            sensors=supply.sensors or (supply.name,),
            rated_w=supply.rated_w,
            nominal_v=supply.nominal_v,
            feed=feed,
            shelf=supply.shelf,
            from_bus=supply.from_bus,
            inlet=None if supply.inlet is None else supply.inlet.plugs(),
            plugs=tuple(one.plugs() for one in supply.plugs),
        )
