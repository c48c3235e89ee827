from agent.ring.header import header_to_json, rows_within
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import TableSpec

GPUS = tuple(Entity(kind=EntityKind.GPU, key=f"GPU-{number}", name=f"gpu{number}") for number in range(8))
FAST = TableSpec(name="fast", kind=EntityKind.GPU, entities=GPUS, signals=("power_w", "sm_clock_mhz"))
SLOW = TableSpec(name="slow", kind=EntityKind.GPU, entities=GPUS, signals=("gpu_temp_c",))
WANTED = {"fast": 60_000, "slow": 600}


def test_rows_are_cut_alike_until_the_ring_fits() -> None:
    rows = rows_within((FAST, SLOW), WANTED, 1 << 20)
    head = header_to_json((FAST, SLOW), node="box", topology=Topology(entities=GPUS), simulated=True, rows=rows)
    pages_of_two_tables_and_the_header = 5 * 4096
    assert (1 << 20) * 0.95 < head["size_bytes"] <= (1 << 20) + pages_of_two_tables_and_the_header
    assert abs(rows["fast"] / rows["slow"] - 100) < 1


def test_rows_that_fit_stay_and_no_table_is_left_without() -> None:
    assert rows_within((FAST, SLOW), WANTED, 1 << 30) == WANTED
    assert rows_within((FAST, SLOW), WANTED, 100) == {"fast": 2, "slow": 2}
