"""A rack as data: nodes that share inlet air, the voltage of a PDU and the breaker of a feed."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from simulator.files.part import FilePart, Finite, Name, NotNegative, Positive, Share
from telemetry.durations import DurationS

RACKS = Path(__file__).parents[1] / "racks"


class RackAir(FilePart):
    """``T_in = crac_c + recirculation_k_per_w * rack power + AR(1)`` with the given spread and memory."""

    crac_c: Finite
    recirculation_k_per_w: NotNegative
    noise_k: NotNegative
    noise_memory: DurationS
    diurnal_k: NotNegative


class RackFeed(FilePart):
    """The PDU: its voltage swings over the day and falls with load; its breaker opens after `breaker_after` above.

    `swing` and `drop_at_rating` are shares of the nominal voltage.
    """

    swing: Share
    drop_at_rating: Share
    breaker_w: Positive
    breaker_after: DurationS


class RackFile(FilePart):
    """One rack: `nodes` names node files, the same one several times where the nodes are alike."""

    name: Name
    description: str
    nodes: Annotated[tuple[str, ...], Field(min_length=1, max_length=64)]
    air: RackAir
    feed: RackFeed
