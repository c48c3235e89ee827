"""The kinds of panel that the dashboards are made of, each with its unit and its data source."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as dashboard_builders
from grafana_foundation_sdk.builders import stat, statetimeline, table, timeseries
from grafana_foundation_sdk.models import common, dashboard

from dashboards.grafana.influxql import DATASOURCE, Target

# The finest step of the rollups; Grafana asks for no finer one.
FINEST_INTERVAL = "1s"
# Size of every panel but a figure, on Grafana's grid of 24 columns.
_CHART_WIDTH, _CHART_HEIGHT = 12, 8

# Clock event reasons (nvml.h, nvmlClocksEventReason*), by the highest bit that is set, which is also the gravest.
THROTTLE_RANGES: tuple[tuple[int, int, str, str], ...] = (
    (0, 3, "nothing", "#3f7f5f"),
    (4, 7, "power cap", "#5794f2"),
    (8, 31, "hardware slowdown or sync boost", "#b877d9"),
    (32, 63, "software thermal", "#ff9830"),
    (64, 127, "hardware thermal", "#f2495c"),
    (128, 255, "power brake", "#c4162a"),
    (256, 511, "display clock", "#8e8e8e"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A line in a panel: good on one side, bad on the other."""

    value: float
    bad_below: bool

    def thresholds(self) -> Any:
        """Return the threshold steps of the limit."""
        first, second = ("red", "green") if self.bad_below else ("green", "red")
        steps = [dashboard.Threshold(value=None, color=first), dashboard.Threshold(value=self.value, color=second)]
        return dashboard_builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)


def _dressed(
    panel: Any, *targets: Target, title: str, description: str, width: int = _CHART_WIDTH, height: int = _CHART_HEIGHT
) -> Any:
    panel.title(title).description(description).datasource(DATASOURCE).span(width).height(height)
    panel.interval(FINEST_INTERVAL).no_value("unknown")
    for target in targets:
        panel.with_target(target)
    return panel


def chart(
    title: str,
    unit: str,
    *targets: Target,
    description: str,
    decimals: int,
    limit: Limit | None = None,
    stacked: bool = False,
    floor: float | None = None,
) -> Any:
    """Build a chart over time; a gap in the data stays a gap."""
    panel = _dressed(timeseries.Panel(), *targets, title=title, description=description)
    panel.unit(unit).decimals(decimals).line_width(1).fill_opacity(35 if stacked else 0).show_points(
        common.VisibilityMode.NEVER
    )
    panel.span_nulls(False).insert_nulls(5000)  # noqa: FBT003 -- the SDK's own signature
    panel.tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
    panel.legend(
        common_builders.VizLegendOptions()
        .show_legend(True)  # noqa: FBT003 -- the SDK's own signature
        .display_mode(common.LegendDisplayMode.TABLE)
        .placement(common.LegendPlacement.BOTTOM)
        .calcs(["min", "mean", "max", "lastNotNull"])
    )
    if floor is not None:
        panel.min(floor)
    if stacked:
        panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
    if limit is not None:
        panel.thresholds(limit.thresholds())
        panel.thresholds_style(
            common_builders.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.DASHED)
        )
    return panel


def figure(
    title: str, unit: str, target: Target, *, description: str, decimals: int, limit: Limit | None = None
) -> Any:
    """Build one big number: the newest that the query gives."""
    panel = _dressed(stat.Panel(), target, title=title, description=description, width=4, height=4)
    panel.unit(unit).decimals(decimals).reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
    panel.graph_mode(common.BigValueGraphMode.NONE).text_mode(common.BigValueTextMode.VALUE)
    panel.color_mode(common.BigValueColorMode.NONE if limit is None else common.BigValueColorMode.VALUE)
    if limit is not None:
        panel.thresholds(limit.thresholds())
    return panel


def figure_each(title: str, unit: str, limits: Mapping[str, Limit], *targets: Target, description: str) -> Any:
    """Build one number for every target that finds a value, each by its own limit; `limits` is by alias."""
    panel = _dressed(stat.Panel(), *targets, title=title, description=description, width=4, height=4)
    panel.unit(unit).decimals(2).reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
    panel.graph_mode(common.BigValueGraphMode.NONE).text_mode(common.BigValueTextMode.VALUE_AND_NAME)
    panel.color_mode(common.BigValueColorMode.VALUE)
    for alias, limit in limits.items():
        steps = limit.thresholds().build()
        panel.override_by_name(alias, [dashboard.DynamicConfigValue(id_val="thresholds", value=steps)])
    return panel


def for_each(panel: Any, variable: str) -> Any:
    """Repeat a panel for every value of a variable, two in a row."""
    return panel.repeat(variable).repeat_direction("h").max_per_row(2)


def dashed(panel: Any, alias: str, colour: str) -> Any:
    """Draw one series of a chart as a dashed line of one colour."""
    style = common.LineStyle(fill="dash", dash=[8, 6])
    return panel.override_by_name(
        alias,
        [
            dashboard.DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": colour}),
            dashboard.DynamicConfigValue(id_val="custom.lineStyle", value=style.to_json()),
        ],
    )


def reasons_timeline(title: str, target: Target, *, description: str) -> Any:
    """Build a band per GPU that names the gravest reason for which its clocks were held back."""
    panel = _dressed(statetimeline.Panel(), target, title=title, description=description)
    mappings = []
    for index, (low, high, text, colour) in enumerate(THROTTLE_RANGES):
        result = dashboard.ValueMappingResult(text=text, color=colour, index=index)
        mappings.append(
            dashboard.RangeMap(options=dashboard.DashboardRangeMapOptions(from_val=low, to=high, result=result))
        )
    panel.unit("none").mappings(mappings).show_value(common.VisibilityMode.NEVER).merge_values(True)  # noqa: FBT003
    return panel


def record_table(title: str, target: Target, *, description: str) -> Any:
    """Build a table of records, newest first."""
    panel = _dressed(table.Panel(), target, title=title, description=description)
    panel.unit("none").sort_by([common_builders.TableSortByFieldState().display_name("Time").desc(True)])  # noqa: FBT003
    return panel
