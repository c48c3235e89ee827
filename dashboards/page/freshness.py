"""Age of the newest sample, and what is still known of a node whose sampler is silent."""

from dataclasses import replace

from dashboards.page.source import NodeStatus
from telemetry.clock import NS_PER_S
from telemetry.records import Health

# Three times the slowest sampling group's period of 1 s: one missed read is a hiccup, three are a silence.
STALE_AFTER_S = 3.0


def with_freshness(status: NodeStatus, now_ns: int) -> NodeStatus:
    """Return the status with the sampler's age filled in; health is unknown where no sample is fresh enough."""
    last_ns = status.sampler.last_sample_ns
    if last_ns is None:
        return replace(status, health=Health.UNKNOWN, health_reason="no samples yet")
    age_s = max(0.0, (now_ns - last_ns) / NS_PER_S)
    aged = replace(status, sampler=replace(status.sampler, age_s=round(age_s, 3)))
    if age_s <= STALE_AFTER_S:
        return aged
    return replace(aged, health=Health.UNKNOWN, health_reason=f"no new samples for {age_s:.0f} s")
