"""All measures of the golden table by name."""

from collections.abc import Callable, Mapping

from simulator.golden import condition, electrical, pace, sensing, tiers
from simulator.golden.table import GoldenRow, MeasureName
from simulator.golden.traces import Traces

Measure = Callable[[Traces, GoldenRow], float]

MEASURES: Mapping[MeasureName, Measure] = {
    MeasureName(measure.__name__): measure
    for measure in (
        electrical.static_v,
        electrical.branch_a,
        electrical.lowest_v,
        electrical.metered_low_v,
        electrical.metered_swing_v,
        electrical.mean_drop_s,
        electrical.supplies_on,
        electrical.source_ratio,
        electrical.safe_clock_mhz,
        pace.mean_gpu_w,
        pace.peak_gpu_w,
        pace.saved_peak_w,
        pace.full_load_w,
        pace.rise_from_w,
        pace.rise_to_w,
        pace.rise_s,
        pace.step_swing_w,
        pace.slowdown,
        pace.job_s,
        condition.hottest_c,
        condition.excess_k,
        condition.fan_rpm,
        condition.nv_queue_percent,
        condition.nv_irq_percent,
        condition.joint_mohm,
        condition.node_value,
        sensing.power_update_ms,
        tiers.tier_v_min_mv,
        tiers.tier_drop_ratio,
    )
}
