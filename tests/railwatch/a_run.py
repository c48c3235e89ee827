"""One run of a node without its sampler: a context, and a ring that the test writes."""

from pathlib import Path

import numpy as np

from agent.ring.ring import Ring
from config.models import Config
from railwatch.run_context import DriverKind, RunContext
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import TableSpec
from telemetry.records import Event, EventKind, Severity
from tests.agent.fakes import START_NS

NODE = Entity(kind=EntityKind.NODE, key="node0", name="node0")
SUPPLY = TableSpec(
    name="supply",
    kind=EntityKind.SUPPLY,
    entities=(Entity(kind=EntityKind.SUPPLY, key="psu0", name="psu0"),),
    signals=("voltage_v", "current_a"),
)
WIDE = TableSpec(
    name="supply", kind=EntityKind.SUPPLY, entities=SUPPLY.entities, signals=("voltage_v", "current_a", "power_w")
)
ROW_NS = NS_PER_S // 20


def a_run_context(folder: Path, *, simulated: bool = True, started_ns: int = START_NS, **sampling: float) -> RunContext:
    (folder / "run").mkdir(exist_ok=True)
    config = Config.model_validate(
        {"data_dir": folder / "data", "node": {"name": "node0"}, "page": {"port": 0}, "sampling": sampling}
    )
    context = RunContext(
        run_dir=folder / "run",
        config_json=config.model_dump_json(),
        driver=DriverKind.NONE,
        source="a test",
        simulated=simulated,
        started_ns=started_ns,
    )
    context.save()
    return context


def a_ring(context: RunContext, spec: TableSpec = SUPPLY, *, rows: int = 2000) -> Ring:
    return Ring.create(
        context.ring_path,
        [spec],
        node="node0",
        topology=Topology(entities=(NODE, *spec.entities), edges=((NODE.id, spec.entities[0].id),)),
        simulated=True,
        rows={spec.name: rows},
    )


def write_rows(ring: Ring, first: int, count: int, *, start_ns: int = START_NS) -> None:
    """Row n stands at its own time and carries its own number."""
    table = ring.tables["supply"]
    for number in range(first, first + count):
        values = np.full(table.spec.shape, float(number))
        table.append(start_ns + number * ROW_NS, values, np.ones(values.shape, dtype=np.bool_))


def an_event(number: int, *, time_ns: int = START_NS) -> Event:
    return Event(
        id=f"e{number}",
        time_ns=time_ns + number,
        kind=EventKind.COLLECTOR,
        entity_id=NODE.id,
        code=None,
        severity=Severity.INFO,
        message="something",
        sources=("test",),
    )
