"""The power-cooling balance of one node: computing, the power that feeds it, the heat it makes, and what was done."""

from pathlib import Path
from typing import Any

from grafana_foundation_sdk.builders import dashboard as dashboard_builders
from grafana_foundation_sdk.models import dashboard, units

from dashboards.grafana.influxql import (
    DATASOURCE,
    DATASOURCE_TYPE,
    RAIL_SCOPE,
    AnnotationTarget,
    Target,
    annotation,
    column,
    growth,
    in_range,
    of_nominal,
    over_time,
    select,
    source,
    summed,
)
from dashboards.grafana.panels import (
    Limit,
    chart,
    dashed,
    figure,
    figure_each,
    for_each,
    reasons_timeline,
    record_table,
)
from physics.rail_classes import RAIL_CLASSES
from telemetry.entities import NOMINAL_TAG, EntityKind
from telemetry.json_text import json_text

UID = "railwatch-balance"
NAME = "power-cooling-balance"
# Folder of the generated files, as seen from the root of the repository.
GENERATED_DIR = Path("dashboards/grafana/generated")

# Classes of the rails that GPUs hang on.
_FEEDING = tuple(one for one in RAIL_CLASSES if one.feeds_gpus)
_LIMIT = "limit"
# A proposal: within 5 K of slowdown a step of load or of inlet air costs clocks.
_MARGIN = Limit(value=5.0, bad_below=True)
_GPU, _SUPPLY, _NODE = EntityKind.GPU, EntityKind.SUPPLY, EntityKind.NODE
_EACH = "$tag_name"


def build_dashboards() -> dict[str, dict[str, Any]]:
    """Return every dashboard's JSON by its name."""
    return {NAME: balance_dashboard()}


def generated_files() -> dict[Path, str]:
    """Return the text of every generated file by its path."""
    return {
        GENERATED_DIR / f"{name}.json": json_text(built, indent=2, ascii_only=False) + "\n"
        for name, built in build_dashboards().items()
    }


def balance_dashboard() -> dict[str, Any]:
    """Return the dashboard as the JSON that Grafana imports."""
    builder = (
        dashboard_builders.Dashboard("railwatch: power-cooling balance of a node")
        .uid(UID)
        .description("Rails, power, clocks and heat of one node, with incidents and what was done about them.")
        .tags(["railwatch"])
        .refresh("5s")
        .time("now-15m", "now")
        .timezone("browser")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .readonly()
    )
    for variable in _variables():
        builder.with_variable(variable)
    for name, colour, query in _annotations():
        builder.annotation(_annotation(name, colour, query))
    for number, panel in enumerate((*_figures(), *_power(), *_computing(), *_cooling(), *_records()), start=1):
        builder.with_panel(panel.id(number))
    plain: dict[str, Any] = _plain(builder.build())
    return plain


def _plain(value: Any) -> Any:
    if hasattr(value, "to_json"):
        return _plain(value.to_json())
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _variables() -> tuple[Any, ...]:
    tag_values = 'SHOW TAG VALUES FROM "gpu" WITH KEY = '
    queries = (
        ("node", "Node", f'{tag_values}"node"'),
        ("simulated", "Simulated", f'{tag_values}"simulated" WHERE "node" =~ /^$node$/'),
    )
    rails = f'SHOW TAG VALUES FROM "{_SUPPLY}" WITH KEY = "{NOMINAL_TAG}" WHERE "node" =~ /^$node$/'
    return (
        dashboard_builders.DatasourceVariable("datasource").label("InfluxDB").type(DATASOURCE_TYPE),
        *(
            dashboard_builders.QueryVariable(name)
            .label(label)
            .datasource(DATASOURCE)
            .query(query)
            .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .sort(dashboard.VariableSort.ALPHABETICAL_ASC)
            for name, label, query in queries
        ),
        # Not shown: the chart of the rails is repeated over it.
        dashboard_builders.QueryVariable("rail")
        .datasource(DATASOURCE)
        .query(rails)
        .regex(f"/^({'|'.join(f'{one.nominal_v:g}' for one in _FEEDING)})$/")
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.NUMERICAL_DESC)
        .hide(dashboard.VariableHide.HIDE_VARIABLE)
        .multi(True)  # noqa: FBT003 -- the SDK's own signature
        .include_all(True)  # noqa: FBT003 -- the SDK's own signature
        .current(dashboard.VariableOption(selected=True, text="All", value="$__all")),
    )


def _annotations() -> tuple[tuple[str, str, str], ...]:
    return (
        ("Incidents", "red", annotation("incident")),
        ("Actions", "blue", annotation("action")),
        ("Events", "orange", annotation("event")),
    )


def _annotation(name: str, colour: str, query: str) -> Any:
    builder = dashboard_builders.AnnotationQuery().name(name).datasource(DATASOURCE).enable(True).icon_color(colour)  # noqa: FBT003
    builder.build().target = AnnotationTarget(query=query)
    return builder


def _whole_range(kind: EntityKind, signal: str, statistic: str) -> Target:
    """Query the minimum or maximum of a signal over the range and all entities of a kind."""
    return Target(query=in_range(kind, f"{statistic}({column(kind, signal, statistic)})"))


def _each(kind: EntityKind, signal: str, statistic: str) -> Target:
    """Query the minimum, mean or maximum of a signal over time, one series per entity."""
    return Target(query=over_time(kind, f"{statistic}({column(kind, signal, statistic)})"), alias=_EACH)


def _figures() -> tuple[Any, ...]:
    return (
        _lowest_rails(),
        figure(
            "Highest supply current",
            units.Ampere,
            _whole_range(_SUPPLY, "current_a", "max"),
            description="Highest current of any supply in the range.",
            decimals=1,
        ),
        figure(
            "GPU power",
            units.Watt,
            Target(query=summed(_GPU, "power_w"), alias="all GPUs"),
            description="Sum over the GPUs of the node, newest value.",
            decimals=0,
        ),
        figure(
            "Hottest GPU",
            units.Celsius,
            _whole_range(_GPU, "gpu_temp_c", "max"),
            description="Highest die temperature in the range.",
            decimals=0,
        ),
        figure(
            "Lowest SM clock",
            units.MegahertzRotation,
            _whole_range(_GPU, "sm_clock_mhz", "min"),
            description="Lowest SM clock of any GPU in the range.",
            decimals=0,
        ),
        figure(
            "GPU energy",
            units.Joule,
            Target(query=growth(_GPU, "energy_j")),
            description="Energy of all GPUs over the range, from their own counters.",
            decimals=1,
        ),
    )


def _lowest_rails() -> Any:
    """Build the lowest voltage of the rails of each class that feeds GPUs, coloured by the limit of its class."""
    lowest = f"min({column(_SUPPLY, 'voltage_v', 'min')})"
    targets = [
        Target(
            query=in_range(_SUPPLY, lowest, scope=of_nominal(one.nominal_v)),
            alias=one.name,
            ref=chr(ord("A") + place),
        )
        for place, one in enumerate(_FEEDING)
    ]
    limits = {one.name: Limit(value=round(one.lowest_v, 3), bad_below=True) for one in _FEEDING}
    listed = ", ".join(f"{one.lowest_v:.2f} V at {one.name}" for one in _FEEDING)
    return figure_each(
        "Lowest rail",
        units.Volt,
        limits,
        *targets,
        description=f"Lowest voltage of any rail in the range, by nominal voltage; the limit is {listed}.",
    )


def _rail_chart() -> Any:
    """Build the voltages of the rails of one nominal voltage with their limit, once for each that the node has."""
    lowest = f"min({column(_SUPPLY, 'voltage_v', 'min')})"
    limits = [
        Target(
            query=over_time(
                _SUPPLY,
                f"{lowest} * 0 + {one.lowest_v:g}",
                by="",
                scope=of_nominal(one.nominal_v, scope=RAIL_SCOPE),
            ),
            alias=_LIMIT,
            ref=chr(ord("B") + place),
        )
        for place, one in enumerate(_FEEDING)
    ]
    panel = chart(
        "$rail V rails, lowest",
        units.Volt,
        Target(query=over_time(_SUPPLY, lowest, scope=RAIL_SCOPE), alias=_EACH),
        *limits,
        description="Lowest voltage of every rail of this nominal voltage; below the limit GPUs may fall off the bus.",
        decimals=3,
    )
    return for_each(dashed(panel, _LIMIT, "red"), "rail")


def _power() -> tuple[Any, ...]:
    energy = over_time(_GPU, f"non_negative_difference(last({column(_GPU, 'energy_j', 'last')}))")
    return (
        _rail_chart(),
        chart(
            "Supply current, highest",
            units.Ampere,
            _each(_SUPPLY, "current_a", "max"),
            description="Highest current of every supply in each step.",
            decimals=1,
            floor=0,
        ),
        chart(
            "GPU power",
            units.Watt,
            _each(_GPU, "power_w", "mean"),
            description="Mean board power, stacked over the GPUs.",
            decimals=0,
            stacked=True,
            floor=0,
        ),
        chart(
            "GPU energy per step",
            units.Joule,
            Target(query=energy, alias=_EACH),
            description="Energy of every GPU in each step, from its own counter.",
            decimals=1,
            stacked=True,
            floor=0,
        ),
    )


def _computing() -> tuple[Any, ...]:
    reasons = over_time(_GPU, f"max({column(_GPU, 'throttle_reasons', 'any')})")
    held = tuple(
        Target(
            query=over_time(_GPU, f"non_negative_derivative(last({column(_GPU, signal, 'last')}), 1s)"),
            alias=f"{_EACH} {label}",
            ref=ref,
        )
        for ref, signal, label in (
            ("A", "power_violation_s", "power"),
            ("B", "thermal_violation_s", "heat"),
            ("C", "power_brake_s", "power brake"),
        )
    )
    return (
        chart(
            "SM clock, lowest",
            units.MegahertzRotation,
            _each(_GPU, "sm_clock_mhz", "min"),
            description="Lowest SM clock of every GPU in each step.",
            decimals=0,
        ),
        chart(
            "GPU busy",
            units.PercentUnit,
            _each(_GPU, "gpu_util_ratio", "mean"),
            description="Share of time in which a kernel ran.",
            decimals=0,
            floor=0,
        ),
        reasons_timeline(
            "Held back by",
            Target(query=reasons, alias=_EACH),
            description="The gravest reason for which the clocks of each GPU were held back within the step.",
        ),
        chart(
            "Time held back",
            units.PercentUnit,
            *held,
            description="Share of time below the wanted clock, from the driver's own counters.",
            decimals=1,
            floor=0,
        ),
    )


def _cooling() -> tuple[Any, ...]:
    room = over_time(_GPU, f"min({column(_GPU, 'slowdown_temp_c', 'last')}) - max({column(_GPU, 'gpu_temp_c', 'max')})")
    return (
        chart(
            "GPU temperature",
            units.Celsius,
            _each(_GPU, "gpu_temp_c", "max"),
            description="Highest die temperature of every GPU in each step.",
            decimals=0,
        ),
        chart(
            "Margin to thermal slowdown",
            units.Kelvin,
            Target(query=room, alias=_EACH),
            description="How far every GPU is from the temperature at which the hardware cuts its clocks.",
            decimals=0,
            limit=_MARGIN,
        ),
        chart(
            "Inlet air",
            units.Celsius,
            _each(_NODE, "inlet_temp_c", "mean"),
            description="Air temperature at the inlet, where the node has such a sensor.",
            decimals=1,
        ),
        chart(
            "GPU fans",
            units.PercentUnit,
            _each(_GPU, "fan_ratio", "mean"),
            description="Intended fan speed; passive boards have none.",
            decimals=0,
            floor=0,
        ),
    )


def _records() -> tuple[Any, ...]:
    incidents = select('"title", "text", "severity", "impact_gpu_hours"', source("incident"))
    actions = select('"title", "entity", "found", "wanted", "read_back", "unit", "text"', source("action"))
    return (
        record_table(
            "Incidents", Target(query=incidents, table=True), description="Every change of every incident in the range."
        ),
        record_table(
            "Actions",
            Target(query=actions, table=True),
            description="What was found, what was set, and what was read back.",
        ),
    )
