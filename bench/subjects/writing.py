"""The writers that `ingest` compares, one a process. Run as a module with the task as JSON."""

import json
import resource
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench.cores import pin
from telemetry.clock import NS_PER_S, SystemClock
from telemetry.entities import Entity, EntityKind
from telemetry.frames import Frame, TableSpec
from telemetry.line_protocol import encode_frame
from telemetry.rollup import Resolution
from telemetry.signals import signals_of
from telemetry.uplink.influx_v1 import InfluxV1, InfluxV1Settings
from telemetry.uplink.port import WriteStatus

GPUS = 8
LINES_PER_REQUEST = 5000
TAGS = {"node": "bench", "simulated": "true"}


def bench_frame(times: int, end_ns: int) -> Frame:
    """Return eight GPUs with every GPU signal at 20 Hz, all values finite and fresh."""
    entities = tuple(
        Entity(kind=EntityKind.GPU, key=f"GPU-{n}", name=f"gpu{n}", tags=(("pci", f"0000:{0x1A + n:02x}:00.0"),))
        for n in range(GPUS)
    )
    spec = TableSpec(
        name="gpu",
        kind=EntityKind.GPU,
        entities=entities,
        signals=tuple(signal.name for signal in signals_of(EntityKind.GPU)),
    )
    shape = (times, *spec.shape)
    return Frame(
        spec=spec,
        time_ns=end_ns - np.arange(times, 0, -1, dtype=np.int64) * (NS_PER_S // 20),
        values=np.random.default_rng(1).uniform(10.0, 400.0, shape),
        fresh=np.ones(shape, dtype=np.bool_),
    )


def parts(frame: Frame) -> Iterator[Frame]:
    """Yield the frame in stretches of one request each."""
    rows = LINES_PER_REQUEST // GPUS
    for start in range(0, len(frame), rows):
        yield frame.rows(start, min(len(frame), start + rows))


def railwatch(frame: Frame, url: str) -> None:
    """Encode frames as bytes and send them as the uplink does."""
    destination = InfluxV1(InfluxV1Settings(url=url, database="railwatch"))
    for part in parts(frame):
        reply = destination.write(Resolution.RAW, encode_frame(part, tags=TAGS))
        if reply.status is not WriteStatus.STORED:
            raise RuntimeError(reply.reason)
    destination.close()


def points(frame: Frame, url: str) -> None:
    """Pass a Point per line to influxdb-client's batching writer, its path bent to the endpoint of 1.x."""
    from influxdb_client import InfluxDBClient, Point, WriteOptions  # noqa: PLC0415 -- each writer loads its own

    client = InfluxDBClient(url=url, token="none", org="none")  # noqa: S106 -- the server asks for none
    send = client.api_client.call_api

    def call_1x(path: str, method: str, *rest: Any, **named: Any) -> Any:
        if path != "/api/v2/write":
            return send(path, method, *rest, **named)
        _, query, *others = rest
        return send("/write", method, None, [("db", "points"), ("rp", "raw"), *query], *others, **named)

    client.api_client.call_api = call_1x
    signals, entities = frame.spec.signals, frame.spec.entities
    with client.write_api(write_options=WriteOptions()) as writer:
        for part in parts(frame):
            values = part.values.tolist()
            for time_ns, row in zip(part.time_ns.tolist(), values, strict=True):
                for entity, cells in zip(entities, row, strict=True):
                    point = Point("gpu").time(time_ns)
                    for key, value in {**TAGS, "entity": entity.key, "name": entity.name, **dict(entity.tags)}.items():
                        point.tag(key, value)
                    for signal, value in zip(signals, cells, strict=True):
                        point.field(signal, value)
                    writer.write(bucket="points", record=point)
    client.close()


WRITERS: dict[str, Callable[[Frame, str], None]] = {"points": points, "railwatch": railwatch}


def main() -> None:
    """Run the writer that the task names and print what it took."""
    task = json.loads(sys.argv[1])
    pin(task["core"])
    clock = SystemClock()
    frame = bench_frame(task["times"], clock.utc_ns())
    destination = InfluxV1(InfluxV1Settings(url=task["url"], database=task["writer"]))
    destination.prepare()
    destination.close()
    before, began_s = resource.getrusage(resource.RUSAGE_SELF), clock.monotonic_s()
    WRITERS[task["writer"]](frame, task["url"])
    after = resource.getrusage(resource.RUSAGE_SELF)
    written = {
        "values": frame.values.size,
        "lines": len(frame) * GPUS,
        "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "wall_s": clock.monotonic_s() - began_s,
    }
    print(json.dumps(written))


if __name__ == "__main__":
    main()
