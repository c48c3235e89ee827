"""Standing verdict on a node's supply side: how far each part is from its limits, as it is and after a loss.

It is renewed once a minute. What was not measured or has no limit is None, and `unknown` names why.
"""

from dataclasses import dataclass

from physics.link_loads import LinkKind, Trip
from telemetry.records import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyStanding:
    """Part of one supply in its bus: watts now, their share of the bus, and the watts in the highest load step."""

    name: str
    power_w: float
    share: float
    step_w: float
    rated_w: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BusStanding:
    """Voltages of a bus, and what each supply has in it.

    Parameters
    ----------
    limit_v
        Lowest voltage of its class.
    lowest_v, step_v
        Voltage of the lowest of its supplies: mean of the minute, and in load steps.
    loss_v, loss_step_v
        The same after the worst loss, predicted where the source resistance of each remaining supply is known.
    without
        The loss behind `loss_v`, as a phrase.
    """

    name: str
    nominal_v: float | None
    limit_v: float | None
    lowest_v: float
    step_v: float
    loss_v: float | None
    loss_step_v: float | None
    without: str
    supplies: tuple[SupplyStanding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkStanding:
    """Load of one link: as it is, in load steps, or after the loss that leaves it nearest to its limit.

    `part` is the supply, shelf, feed or GPUs that it belongs to, `basis` a `Basis`, `without` the loss as a phrase.
    `excess` is the load over the limit that applies, `mend_w` the watts less that end an excess.
    """

    kind: LinkKind
    part: str
    name: str
    basis: str
    without: str
    load: float
    rating: float
    unit: str
    excess: float
    mend_w: float
    severity: Severity | None = None
    trip: Trip | None = None
    at_least: bool = False

    @property
    def is_over(self) -> bool:
        """True if the load is over the limit that applies."""
        return self.excess > 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffDraw:
    """Draw of a supply that is off or carries nothing: watts at its input, amperes that leak through its output."""

    supply: str
    is_off: bool
    input_w: float | None
    leak_a: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyVerdict:
    """Verdict on supplies, plugs, shelves and feeds.

    `input_w` and `output_w` are those of all supplies together, None where one is not measured.
    """

    time_ns: int
    span_s: int
    buses: tuple[BusStanding, ...]
    links: tuple[LinkStanding, ...]
    off: tuple[OffDraw, ...]
    unknown: tuple[str, ...]
    input_w: float | None
    output_w: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitStanding:
    """GPU whose load steps exceed the power limit that is set; watts."""

    gpu: str
    limit_w: float
    step_w: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuVerdict:
    """Verdict on the plugs of branches and GPUs, and on power limits; `are_off` if no GPU draws anything."""

    time_ns: int
    span_s: int
    links: tuple[LinkStanding, ...]
    limits: tuple[LimitStanding, ...]
    are_off: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingVerdict:
    """Both verdicts; None before the first one of each, and where nothing of the kind is measured."""

    supplies: SupplyVerdict | None = None
    gpus: GpuVerdict | None = None

    @property
    def links(self) -> tuple[LinkStanding, ...]:
        """All links, the one that is nearest to its limit first."""
        both = (*(self.supplies.links if self.supplies else ()), *(self.gpus.links if self.gpus else ()))
        return tuple(sorted(both, key=lambda one: -one.excess))
