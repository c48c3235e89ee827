"""Display labels of causes, evidence, modes and states. Sent to the page once."""

import math
from dataclasses import dataclass

from physics.connector_pins import PIN_LIMIT_A
from physics.rail_classes import RAIL_CLASSES, limit_scale
from telemetry.gpu import (
    REASON_HW_SLOWDOWN,
    REASON_HW_THERMAL,
    REASON_POWER_BRAKE,
    REASON_POWER_CAP,
    REASON_SW_THERMAL,
)
from telemetry.quantities import EVIDENCE as EVIDENCE_UNITS
from telemetry.quantities import quantity
from telemetry.records import IN_FORCE, ActionState, Cause, EventKind, IncidentState, Mode

MODES: dict[Mode, str] = {
    Mode.OBSERVE: "observes; nothing is changed",
    Mode.RECOMMEND: "reports what it would do; nothing is changed",
    Mode.ENFORCE: "acts by itself; every change is reversible",
}

CAUSES: dict[Cause, tuple[str, str]] = {
    Cause.SUPPLY_SAG: (
        "Supply sag",
        "The rail falls below its limit while the GPUs draw current: a joint, a connector or an overloaded supply.",
    ),
    Cause.POWER_BRAKE: (
        "Power brake",
        "The server hardware signalled the GPU to cut its power at once; check the supplies.",
    ),
    Cause.HW_SLOWDOWN: (
        "HW slowdown",
        "The GPU cut its clocks to half or less; neither heat nor the power brake explains it.",
    ),
    Cause.THERMAL_MARGIN: (
        "Thermal margin",
        "The die is within a few degrees of the temperature at which the hardware cuts its clocks.",
    ),
    Cause.THERMAL_INTERFACE: (
        "Thermal interface",
        "At the same power this GPU runs hotter than its siblings: thermal interface, mounting torque or airflow.",
    ),
    Cause.GPU_LOST: ("GPU lost", "This GPU no longer answers while its siblings do."),
    Cause.GPU_ERROR: ("GPU error", "The driver reported an error of this GPU."),
    Cause.FABRIC_ERROR: ("Fabric error", "An NVSwitch or a link between GPUs reported an error."),
    Cause.JOINT_AGEING: (
        "Joint ageing",
        "The resistance of a supply path has risen above its baseline: a joint, a plug or a cable.",
    ),
    Cause.SUPPLY_LOST: ("Supply lost", "One of several supplies no longer carries its share."),
    Cause.SUPPLY_OVERLOAD: (
        "Supply overload",
        "More current than the path is rated for; its resistance is unchanged.",
    ),
    Cause.SYNCHRONOUS_OVERLOAD: (
        "Synchronous overload",
        "All GPUs start a step at the same moment and the rail dips; the supply path is unchanged.",
    ),
    Cause.INPUT_SAG: ("Input sag", "The voltage of all supplies fell together: check the mains feed."),
    Cause.AIRFLOW: ("Airflow", "All GPUs of the node are hotter than before: inlet, fans, or blocked air."),
    Cause.LOOSE_MODULE: ("Loose module", "The links of one GPU report errors: mounting screws, seat, connector."),
    Cause.HANG: ("Hang", "GPUs report full utilisation, draw half their power and make no progress."),
    Cause.STRAGGLER: ("Straggler", "One GPU of a job is slower than the others, which wait for it."),
    Cause.SENSOR_FAULT: (
        "Sensor fault",
        "Power, voltage and current contradict each other, or a value stands still.",
    ),
    Cause.NOVELTY: ("Novelty", "No known fault matches, but this combination of values was never seen before."),
    Cause.FEED_OVER_RATING: (
        "Feed over rating",
        "A mains feed carries more than its breaker bears for hours, or would if another feed failed.",
    ),
    Cause.PLUG_OVER_RATING: (
        "Plug over rating",
        "More current than a plug is rated for flows through it, or would with one supply lost.",
    ),
    Cause.REDUNDANCY_LOST: (
        "Redundancy lost",
        "With one supply or feed lost, the others would carry more than they are rated for.",
    ),
    Cause.STEPS_OVER_LIMIT: (
        "Steps over limit",
        "Load steps of a GPU exceed the power limit that is set: a limit bounds averages, a clock cap steps.",
    ),
    Cause.FEED_IMBALANCE: (
        "Feed imbalance",
        "A feed carries another share of its node than it did at a like load: check the supplies behind it.",
    ),
    Cause.EFFICIENCY_LOSS: (
        "Efficiency loss",
        "A supply or node takes in more for what it gives than it did: supplies that fail, fans, or a meter.",
    ),
    Cause.ODD_NODE: ("Odd node", "A node draws unlike the other nodes of its job at the same work."),
    Cause.SENSOR_LOST: ("Sensor lost", "A source of samples went quiet, so what it measured is unknown."),
}

INCIDENT_STATES: dict[IncidentState, str] = {
    IncidentState.OPEN: "open",
    IncidentState.MITIGATED: "quiet, an action is in force",
    IncidentState.CLOSED: "closed",
}

# A mitigated incident that an action keeps quiet; others ended before their action.
HELD = "held down by an action"

ACTION_STATES: dict[ActionState, str] = {
    ActionState.APPLIED: "in force",
    ActionState.RENEWED: "in force, renewed",
    ActionState.RELAXED: "in force, relaxed",
    ActionState.EXPIRED: "in force, lease ended",
    ActionState.RELEASED: "released",
    ActionState.REFUSED: "refused",
    ActionState.FAILED: "failed",
    ActionState.DONE: "done",
}

EVENTS: dict[EventKind, str] = {
    EventKind.XID: "Xid",
    EventKind.SXID: "SXid",
    EventKind.BUS_DROP: "Fell off the bus",
    EventKind.DRIVER_ERROR: "Driver error",
    EventKind.AER: "PCIe error",
    EventKind.COLLECTOR: "Collector",
    EventKind.KERNEL_GAP: "Kernel log gap",
    EventKind.GPU_PROCESS: "GPU process",
    EventKind.SUPPLY: "Power supply",
    EventKind.FAN: "Fan",
    EventKind.BOARD_HEAT: "Temperature on the board",
    EventKind.BOARD: "Board controller",
    EventKind.POWER: "Power upstream",
    EventKind.DEVICE_ADDED: "GPU plugged in",
    EventKind.DRIVER_BOUND: "Driver loaded",
    EventKind.DRIVER_UNBOUND: "Driver unloaded",
    EventKind.LINK: "PCIe link",
    EventKind.FABRIC: "NVLink fabric",
    EventKind.RECORDING: "Recording",
    EventKind.BASELINE: "Baseline accepted",
    EventKind.APPROVAL: "Operator command",
    EventKind.CONTROL: "Fleet request",
}

# Knobs of actions and verbs of decisions.
KNOBS = {
    "application_clock": "Clock cap",
    "locked_clock": "Clock cap",
    "clock_cap": "Clock cap",
    "power_cap": "Power cap",
    "fan": "Fan speed",
    "clock_relax": "Relax the clock cap",
    "clock_release": "Release the clock cap",
    "notify": "Notification",
}

EVIDENCE = {
    "limit_v": "Limit",
    "minimum_v": "Lowest voltage",
    "depth_v": "Depth below the limit",
    "dips": "Dips",
    "window_s": "Counted over",
    "duration_s": "Duration",
    "baseline_ohm": "… baseline",
    "rise_ratio": "… against its baseline",
    "hourly_rise_ratio": "… against its first week",
    "hourly_rise_low_ratio": "… at least",
    "hourly_rise_high_ratio": "… at most",
    "cusum_sd": "Slow drift, in standard deviations",
    "baseline_open_circuit_v": "… baseline",
    "current_a": "Mean current",
    "load_a": "Load",
    "load_w": "Load",
    "rating_a": "Rating",
    "mend_w": "Less load needed",
    "power_limit_w": "Power limit",
    "imbalance_ratio": "Current against its siblings",
    "share_ratio": "Share of the bus against its usual one",
    "steps_share_ratio": "Share of the load's steps against its usual one",
    "bus_share_ratio": "Share of the bus",
    "nominal_ratio": "Share of the nominal voltage",
    "bus_margin_ratio": "Margin left on the bus before the converter",
    "usual_bus_share_ratio": "… usually",
    "over_siblings_v": "Voltage over its siblings, risen by",
    "joint_rise_ohm": "Rise of the joint's resistance, at least",
    "joint_extra_w": "Extra heat in the joint",
    "hot_joint_w": "Limit of heat in the joint",
    "open_circuit_v": "Voltage without load",
    "open_circuit_low_v": "… at least",
    "open_circuit_high_v": "… at most",
    "source_resistance_ohm": "Source resistance",
    "source_resistance_low_ohm": "… at least",
    "source_resistance_high_ohm": "… at most",
    "correlation": "Correlation of voltage and current",
    "current_high_a": "Current under load",
    "current_low_a": "Current between steps",
    "excess_c": "Above its siblings",
    "excess_c_per_w": "… for each watt",
    "limit_c": "Limit",
    "theta_ratio": "Thermal resistance against its siblings'",
    "sibling_median_c": "Median of its siblings",
    "power_w": "Power",
    "gpu_temp_c": "Die temperature",
    "slowdown_temp_c": "Slowdown temperature",
    "margin_c": "Margin to slowdown",
    "least_margin_c": "Least margin to slowdown",
    "slowed_s": "Time slowed down",
    "brake_s": "Time under the brake",
    "brakes": "Brakes",
    "silent_s": "Silent for",
    "siblings": "Siblings",
    "siblings_answering": "Siblings that answer",
    "count": "Times",
    "pin_a": "Current of the pin",
    "most_loaded_pin_a": "Most loaded pin",
    "pin_share_ratio": "Share of the connector's current",
    "usual_pin_share_ratio": "… usually",
    "fallen_v": "Voltage fallen by",
}

# Ratios written as a multiple ("3.0x"), as the command line writes them; every other ratio is a percentage.
MULTIPLES = tuple(
    name for name, unit in EVIDENCE_UNITS.items() if unit == "ratio" and quantity(2.0, unit, name).endswith("x")
)

# Clock event reasons worth showing (nvml.h, nvmlClocksEventReason*); idle, settings and sync boost are normal.
THROTTLE_BITS: dict[int, str] = {
    REASON_POWER_CAP: "power cap",
    REASON_HW_SLOWDOWN: "hardware slowdown",
    REASON_SW_THERMAL: "software thermal",
    REASON_HW_THERMAL: "hardware thermal",
    REASON_POWER_BRAKE: "power brake",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RailClassLabel:
    """Class of rails, with its limit over that of a 12 V rail; None where it is not judged by its voltage."""

    name: str
    nominal_v: float
    shown_v: tuple[float, float]
    limit_scale: float | None
    feeds_gpus: bool
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Every table above, in the form that the browser receives."""

    modes: dict[str, str]
    causes: dict[str, tuple[str, str]]
    incident_states: dict[str, str]
    held: str
    action_states: dict[str, str]
    in_force: tuple[str, ...]
    events: dict[str, str]
    knobs: dict[str, str]
    evidence: dict[str, str]
    multiples: tuple[str, ...]
    throttle_bits: dict[str, str]
    rail_classes: tuple[RailClassLabel, ...]
    pin_limit_a: float


def labels() -> Labels:
    """Return all labels, keyed by the names that records and samples carry."""
    return Labels(
        modes={str(mode): meaning for mode, meaning in MODES.items()},
        causes={str(cause): both for cause, both in CAUSES.items()},
        incident_states={str(state): label for state, label in INCIDENT_STATES.items()},
        held=HELD,
        action_states={str(state): label for state, label in ACTION_STATES.items()},
        in_force=tuple(sorted(str(state) for state in IN_FORCE)),
        events={str(kind): label for kind, label in EVENTS.items()},
        knobs=dict(KNOBS),
        evidence=dict(EVIDENCE),
        multiples=MULTIPLES,
        throttle_bits={str(bit): label for bit, label in THROTTLE_BITS.items()},
        rail_classes=rail_class_labels(),
        pin_limit_a=PIN_LIMIT_A,
    )


def rail_class_labels() -> tuple[RailClassLabel, ...]:
    """Return every class of rails, lowest nominal voltage first."""
    return tuple(
        RailClassLabel(
            name=one.name,
            nominal_v=one.nominal_v,
            shown_v=one.shown_v,
            limit_scale=None if math.isnan(scale := limit_scale(one.nominal_v)) else scale,
            feeds_gpus=one.feeds_gpus,
            source=one.source,
        )
        for one in RAIL_CLASSES
    )
