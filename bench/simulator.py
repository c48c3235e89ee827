"""Simulated time per CPU second: nodes and racks in milliseconds, fleets in hours, as they grow."""

from bench.cores import measured_core
from bench.machine import run_subject
from bench.rows import Row

NODE_SPAN_S = 20
RACK_SPAN_S = 10
FLEET_DAYS = {1: 20, 10: 20, 100: 20, 1000: 10}
GPUS = (1, 4, 8, 16)
RACKS = (1, 2, 4)
REPEATS = 3  # the least of them counts: others on the machine only ever add
DESIGNED = 4  # the size whose rows have plain names


def run() -> tuple[Row, ...]:
    """Measure each in a process of its own; about a minute.

    The baseline of each row is the smallest one of its kind, run as often as this one is larger: a ratio of 1 is a cost
    in proportion to the size, above 1 is less.
    """
    return (*_nodes(), *_racks(), *_fleets())


def _nodes() -> list[Row]:
    speed = {gpus: NODE_SPAN_S / cpu_s("node", gpus, NODE_SPAN_S) for gpus in GPUS}
    return [
        Row(
            name="times_real_time" if gpus == DESIGNED else f"times_real_time_gpus_{gpus}",
            value=speed[gpus],
            unit="s/s",
            baseline=speed[1] / gpus if gpus > 1 else None,
            against=f"{gpus} nodes of one GPU, one after the other" if gpus > 1 else None,
        )
        for gpus in GPUS
    ]


def _racks() -> list[Row]:
    speed = {nodes: RACK_SPAN_S / cpu_s("rack", nodes, RACK_SPAN_S) for nodes in RACKS}
    return [
        Row(
            name=f"times_real_time_rack_{nodes}",
            value=speed[nodes],
            unit="s/s",
            baseline=speed[1] / nodes if nodes > 1 else None,
            against=f"{nodes} racks of one node, one after the other" if nodes > 1 else None,
        )
        for nodes in RACKS
    ]


def _fleets() -> list[Row]:
    speed = {nodes: nodes * days / cpu_s("fleet", nodes, days) for nodes, days in FLEET_DAYS.items()}
    return [
        Row(
            name=f"node_days_per_cpu_s_{nodes}",
            value=speed[nodes],
            unit="d/s",
            baseline=speed[1],
            against="a loop over fleets of one node",
        )
        for nodes in FLEET_DAYS
        if nodes > 1
    ]


def cpu_s(subject: str, entities: int, span: int) -> float:
    """Return the CPU seconds of one task on the measured core, the least of some runs."""
    return min(_once(subject, entities, span) for _ in range(REPEATS))


def _once(subject: str, entities: int, span: int) -> float:
    task = {"subject": subject, "entities": entities, "span": span, "core": measured_core()}
    return float(run_subject("bench.subjects.simulating", task, name=subject, timeout_s=300.0, error=RuntimeError))
