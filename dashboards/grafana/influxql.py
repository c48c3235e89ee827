"""InfluxQL as Grafana's data source carries it: targets of panels, annotations and variables, and the text in them."""

from dataclasses import dataclass

from grafana_foundation_sdk.models import dashboard

from telemetry.entities import NOMINAL_TAG, EntityKind
from telemetry.rollup import statistics_of

DATASOURCE_TYPE = "influxdb"
# Always the variable at the top of the dashboard, so that it works with any data source of that type.
DATASOURCE = dashboard.DataSourceRef(type_val=DATASOURCE_TYPE, uid="${datasource}")
# The retention policy of the one-second rollups and of the records (`telemetry.uplink`).
POLICY = "rollup"
# Which node, and whether its values come from a simulation: never the two in one picture.
SCOPE = '"node" =~ /^$node$/ AND "simulated" =~ /^$simulated$/ AND $timeFilter'

# Values of the variable `rail`: the nominal voltages of the node's rails, as their tag has them.
RAIL_SCOPE = f'{SCOPE} AND "{NOMINAL_TAG}" =~ /^$rail$/'


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Query of a panel; the SDK has no model for it, and accepts anything that builds and returns JSON."""

    query: str
    alias: str = ""
    ref: str = "A"
    table: bool = False

    def build(self) -> "Target":
        """Return itself, as the SDK's builders do."""
        return self

    def to_json(self) -> dict[str, object]:
        """Return the JSON that the InfluxDB data source stores for a query written as text."""
        return {
            "refId": self.ref,
            "datasource": DATASOURCE.to_json(),
            "query": self.query,
            "rawQuery": True,
            "resultFormat": "table" if self.table else "time_series",
            "alias": self.alias,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationTarget:
    """The query of an annotation, and which of its columns are title, text and tags."""

    query: str

    def to_json(self) -> dict[str, object]:
        """Return the JSON that the InfluxDB data source stores for an annotation."""
        return {
            "refId": "Anno",
            "datasource": DATASOURCE.to_json(),
            "fromAnnotations": True,
            "rawQuery": True,
            "textEditor": True,
            "query": self.query,
            "titleColumn": "title",
            "textColumn": "text",
            "tagsColumn": "tags",
        }


def column(kind: EntityKind, signal: str, statistic: str) -> str:
    """Return the quoted field of one statistic of a signal; ValueError where no rollup has it."""
    kept = statistics_of(kind, signal)
    if statistic not in kept:
        raise ValueError(f"{kind}.{signal} is rolled up as {', '.join(kept)}, not as {statistic}")
    return f'"{signal}_{statistic}"'


def source(measurement: str) -> str:
    """Return the quoted measurement in the rollup policy."""
    return f'"{POLICY}"."{measurement}"'


def select(expression: str, source: str, *, group: str = "", scope: str = SCOPE) -> str:
    """Return one statement; `source` is quoted already, or a statement in brackets."""
    return " ".join(part for part in ("SELECT", expression, "FROM", source, "WHERE", scope, group) if part)


def over_time(kind: EntityKind, expression: str, *, by: str = "name", scope: str = SCOPE) -> str:
    """Query an expression over time, one series for every value of a tag; one for all where `by` is empty."""
    tag = f', "{by}"' if by else ""
    return select(expression, source(kind), group=f"GROUP BY time($__interval){tag} fill(null)", scope=scope)


def in_range(kind: EntityKind, expression: str, *, scope: str = SCOPE) -> str:
    """Query one value over the whole range and all entities of a kind."""
    return select(expression, source(kind), scope=scope)


def growth(kind: EntityKind, signal: str) -> str:
    """Query how much a counter grew over the whole range, summed over all entities of a kind."""
    counter = column(kind, signal, "last")
    each = select(f'last({counter}) - first({counter}) AS "each"', source(kind), group='GROUP BY "name"')
    # The rows within stand at the edge of the range, so no second filter by time.
    return select('sum("each")', f"({each})", scope='"each" >= 0')


def of_nominal(nominal_v: float, *, scope: str = SCOPE) -> str:
    """Return the scope of the rails of one nominal voltage."""
    return f"{scope} AND \"{NOMINAL_TAG}\" = '{nominal_v:g}'"


def summed(kind: EntityKind, signal: str) -> str:
    """Query the sum over all entities of a kind, of their means over time."""
    each = select(
        f'mean({column(kind, signal, "mean")}) AS "each"',
        source(kind),
        group='GROUP BY time($__interval), "name" fill(none)',
    )
    return select('sum("each")', f"({each})", scope="$timeFilter", group="GROUP BY time($__interval) fill(null)")


def annotation(measurement: str) -> str:
    """Query the records of one kind, as title, text and tags."""
    return select('"title", "text", "tags"', source(measurement))
