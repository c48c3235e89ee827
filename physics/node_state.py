"""State of a node: power and settings of each GPU, voltage and current of each supply.

The caller fills it from the last seconds of samples. None means unknown.
"""

from dataclasses import dataclass

from physics.source_band import SourceBand


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredGpu:
    """GPU that answers; a lost one is left out.

    Parameters
    ----------
    supported_mhz
        The clocks that can be set, ascending; empty if none can.
    clock_mhz
        The clock at which it drew `power_high_w`.
    power_high_w, power_low_w
        Its power in the high and the low phase of the load, over the window of the supply's currents.
    limit_min_w, limit_default_w
        The power limits that can be set, up to the vendor's default.
    fan_min_ratio, fan_ratio
        The lowest speed that its fan can be set to, and its speed now.
    """

    entity_id: str
    max_clock_mhz: float
    supported_mhz: tuple[float, ...]
    clock_mhz: float | None = None
    power_high_w: float | None = None
    power_low_w: float | None = None
    temp_c: float | None = None
    limit_min_w: float | None = None
    limit_default_w: float | None = None
    fan_min_ratio: float | None = None
    fan_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSupply:
    """Supply path now, as far as it can be identified; `physics.two_level` fills it from the last seconds.

    Parameters
    ----------
    minimum_v
        The lowest voltage of the last seconds, since the last change of a clock.
    current_high_a, current_low_a
        Its current in the high and the low phase of the load, over the window of the GPUs' powers.
    band
        Error band of open-circuit voltage and source resistance; None if unknown.
    """

    entity_id: str
    minimum_v: float | None = None
    open_circuit_v: float | None = None
    source_resistance_ohm: float | None = None
    current_high_a: float | None = None
    current_low_a: float | None = None
    band: SourceBand | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredNode:
    """All GPUs and supplies of one node at one time. `job_started_ns` is when a job last began to use its GPUs."""

    gpus: tuple[MeasuredGpu, ...]
    supplies: tuple[MeasuredSupply, ...] = ()
    job_started_ns: int | None = None

    def gpu(self, entity_id: str) -> MeasuredGpu | None:
        """Return one GPU, None if it does not answer."""
        return next((gpu for gpu in self.gpus if gpu.entity_id == entity_id), None)

    def supply(self, entity_id: str) -> MeasuredSupply | None:
        """Return one supply, None if nothing is known of it."""
        return next((supply for supply in self.supplies if supply.entity_id == entity_id), None)
