"""Values per client CPU second into one real InfluxDB 1.x, compared with influxdb-client and its Point objects."""

import shutil
from dataclasses import dataclass

from bench.cores import measured_core
from bench.machine import run_subject
from bench.rows import Row
from telemetry.errors import EnvironmentLacksError
from tests.servers import influxd

TIMES = 10_000
WRITERS = ("points", "railwatch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Cost of one writer, and the values it sent."""

    values: int
    lines: int
    cpu_s: float
    wall_s: float

    @property
    def values_per_cpu_s(self) -> float:
        """Values per second of client CPU."""
        return self.values / self.cpu_s


def run(times: int = TIMES) -> tuple[Row, ...]:
    """Write the same frame with every writer, each in a process of its own; about half a minute.

    Raises
    ------
    RuntimeError
        The server holds another number of points than a writer sent.
    """
    if shutil.which("influxd") is None:
        raise EnvironmentLacksError("influxd is not on PATH; install the Debian package influxdb")
    with influxd() as server:
        written = {}
        for name in WRITERS:
            written[name] = write(name, times, server.url)
            series = server.query("SELECT count(power_w) FROM raw.gpu", db=name)
            count = series[0]["values"][0][1] if series else 0
            if count != written[name].lines:
                raise RuntimeError(f"{name} sent {written[name].lines} points and the server holds {count}")
    ours, points = written["railwatch"], written["points"]
    against = "influxdb-client Point, its own batching"
    return (
        Row(
            name="values_per_cpu_s",
            value=ours.values_per_cpu_s,
            unit="1/s",
            baseline=points.values_per_cpu_s,
            against=against,
        ),
        Row(
            name="values_per_s",
            value=ours.values / ours.wall_s,
            unit="1/s",
            baseline=points.values / points.wall_s,
            against=against,
        ),
    )


def write(name: str, times: int, url: str) -> Written:
    """Run one writer on the measured core."""
    task = {"writer": name, "times": times, "url": url, "core": measured_core()}
    return Written(**run_subject("bench.subjects.writing", task, name=name, timeout_s=300.0, error=RuntimeError))
