"""Names and units of the numbers that detectors add to findings as evidence.

Conditions of policies read them as `incident.numbers.NAME`, and `railwatch rules check` refuses other names. A test
keeps the list in step with the detectors.
"""

_NAMES_BY_UNIT = {
    "": (
        "best_pcie_generation best_pcie_width brakes code correlation count cusum_sd dips nodes nvlink_errors "
        "nvlink_repeats of_nodes pci_present pcie_errors pcie_generation pcie_retrains pcie_width "
        "sibling_nvlink_errors sibling_nvlink_repeats sibling_pcie_errors sibling_pcie_retrains siblings "
        "siblings_answering signals_lost signals_watched sources"
    ),
    "A": ("current_a current_high_a current_low_a current_spread_a siblings_a siblings_usual_a step_a usual_a"),
    "K": "excess_c least_margin_c margin_c normal_rise_c rise_c slot_offset_c",
    "K/W": "excess_c_per_w normal_k_per_w theta_k_per_w",
    "K/s": "climb_c_per_s",
    "MHz": "sibling_clock_mhz sm_clock_mhz usual_sm_clock_mhz",
    "V": (
        "baseline_open_circuit_v depth_v fallen_v limit_v minimum_v open_circuit_high_v open_circuit_low_v "
        "open_circuit_v predicted_dip_v recent_minimum_v recovered_minimum_v usual_spread_v voltage_spread_v "
        "voltage_v"
    ),
    "W": "chosen_for_w compute_power_w hot_joint_w joint_extra_w peak_w power_w usual_power_w",
    "deviations": "distance limit",
    "ohm": (
        "baseline_ohm source_resistance_high_ohm source_resistance_low_ohm source_resistance_ohm "
        "transient_impedance_ohm"
    ),
    "ratio": (
        "alike_ratio early_ratio fan_power_ratio fan_ratio gpu_util_ratio grows_with_power_ratio "
        "hourly_rise_high_ratio hourly_rise_low_ratio hourly_rise_ratio imbalance_ratio late_ratio "
        "limit_ratio mem_util_ratio normal_fan_ratio nvlinks_up_ratio power_mismatch_ratio power_spread_ratio "
        "rise_ratio smoothed_theta_ratio theta_ratio theta_ratio_hours thread_ratio usual_gpu_util_ratio "
        "usual_mem_util_ratio"
    ),
    "rpm": "fan_rpm limit_rpm",
    "s": (
        "apart_s brake_s counted_brake_s duration_s median_step_s polled_brake_s seconds silent_s "
        "since_link_error_s slowed_s spinning_s stalled_s threads_spinning_s time_to_limit_s window_s"
    ),
    "°C": (
        "gpu_temp_c hbm_temp_c highest_inlet_c inlet_temp_c sibling_median_c slowdown_temp_c usual_gpu_temp_c "
        "usual_hbm_temp_c"
    ),
    "°C or K": "limit_c",
}

# Name to unit; the unit is empty for a count, a code or a pure number.
EVIDENCE: dict[str, str] = {name: unit for unit, names in _NAMES_BY_UNIT.items() for name in names.split()}
