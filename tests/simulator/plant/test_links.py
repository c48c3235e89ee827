import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.driver.layout import PIPES
from simulator.plant.events import PlantEvent, PlantEventKind
from simulator.plant.links import Arrivals, Links
from simulator.plant.state import GpuState
from telemetry.gpu import XID_NVLINK

N_GPUS, N_LINKS = 4, 6
TIGHT = np.zeros(N_GPUS)


def a_state(*, die_c: float = 50.0) -> GpuState:
    zeros, links = np.zeros(N_GPUS), (N_GPUS, N_LINKS)

    def counts() -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return np.zeros(N_GPUS, dtype=np.int64)

    def link_counts() -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return np.zeros(links, dtype=np.int64)

    return GpuState(
        present=np.ones(N_GPUS, dtype=np.bool_),
        power_w=zeros,
        clock_mhz=zeros,
        reasons=np.zeros(N_GPUS, dtype=np.uint64),
        die_c=zeros + die_c,
        memory_c=zeros,
        energy_j=zeros,
        util_ratio=zeros,
        mem_util_ratio=zeros,
        pipe_ratio=np.zeros((len(zeros), len(PIPES))),
        memory_used_bytes=zeros,
        counters_ms={},
        pcie_replays=counts(),
        pcie_tx_bytes=zeros,
        pcie_rx_bytes=zeros,
        aer_correctable=counts(),
        aer_fatal=counts(),
        nvlink_up=np.ones(links, dtype=np.bool_),
        nvlink_crc=link_counts(),
        nvlink_replays=link_counts(),
        nvlink_recoveries=link_counts(),
        nvlink_bytes=np.zeros(links),
        pin_mohm=np.zeros((N_GPUS, 6)),
    )


def a_node(*, replaying: bool, nominal_v: float = 12.3) -> Links:
    nodes = (Links(N_GPUS, N_LINKS, nominal_v=nominal_v, seed=seed) for seed in range(100))
    return next(links for links in nodes if links.replaying is replaying)


def run(
    links: Links, gpus: GpuState, n_s: int, *, volts: float = 12.0, loose: np.ndarray = TIGHT, busy: bool = True
) -> list[PlantEvent]:
    events: list[PlantEvent] = []
    for second in range(n_s):
        events += links.advance(
            1000 * second,
            gpus,
            voltage_v=np.full((1000, N_GPUS), volts),
            looseness=np.broadcast_to(loose, N_GPUS),
            busy=busy,
        )
    return events


@settings(max_examples=30)
@given(st.integers(0, 1000), st.lists(st.integers(1, 50), min_size=1, max_size=20))
def test_arrivals_do_not_depend_on_how_time_is_cut(seed: int, cuts: list[int]) -> None:
    rate = np.array([0.01, 0.5, 0.0])
    whole, parts = Arrivals(3, seed=seed, name="x"), Arrivals(3, seed=seed, name="x")
    total = np.zeros(3, dtype=np.int64)
    for cut in cuts:
        counts = parts.advance(rate * cut)
        total += 0 if counts is None else counts
    at_once = whole.advance(rate * float(sum(cuts)))
    assert total.tolist() == ([0, 0, 0] if at_once is None else at_once.tolist())
    assert total[2] == 0


def test_arrivals_come_at_their_rate() -> None:
    counts = Arrivals(200, seed=1, name="x").advance(np.full(200, 9.0))
    assert counts is not None
    assert counts.mean() == pytest.approx(9.0, abs=0.7)
    assert counts.var() == pytest.approx(9.0, rel=0.3)


def test_only_a_third_of_the_nodes_replay_at_all() -> None:
    share = np.mean([Links(1, 0, nominal_v=12.3, seed=seed).replaying for seed in range(500)])
    assert share == pytest.approx(0.3, abs=0.06)
    gpus = a_state()
    run(a_node(replaying=False), gpus, 60, volts=11.0)
    assert gpus.pcie_replays.sum() == 0


def test_a_healthy_rail_replays_less_than_once_a_day() -> None:
    gpus = a_state()
    run(a_node(replaying=True), gpus, 3600)
    assert gpus.pcie_replays.sum() == 0


def test_a_sagging_rail_replays_and_some_of_it_is_logged() -> None:
    gpus = a_state()
    events = run(a_node(replaying=True), gpus, 600, volts=11.0)
    expected = 4 * 600 * 1e-4 * np.exp(0.45 / 0.06)
    assert gpus.pcie_replays.sum() == pytest.approx(expected, rel=0.25)
    assert gpus.aer_correctable.sum() == pytest.approx(expected / 2, rel=0.35)
    assert {event.kind for event in events} == {PlantEventKind.AER_CORRECTABLE}


def test_a_48_volt_bus_replays_where_a_12_volt_bus_would() -> None:
    low, high = a_state(), a_state()
    seed = next(seed for seed in range(100) if Links(1, 0, nominal_v=12.3, seed=seed).replaying)
    run(Links(N_GPUS, N_LINKS, nominal_v=12.3, seed=seed), low, 60, volts=11.0)
    run(Links(N_GPUS, N_LINKS, nominal_v=49.2, seed=seed), high, 60, volts=44.0)
    assert high.pcie_replays.tolist() == low.pcie_replays.tolist()


def test_a_tight_module_has_no_link_errors() -> None:
    gpus = a_state()
    run(a_node(replaying=False), gpus, 600)
    assert gpus.nvlink_crc.sum() == 0


def test_a_loose_module_has_link_errors_that_grow_with_warmth() -> None:
    cool, warm = a_state(), a_state(die_c=65.0)
    loose = np.array([0.0, 50.0, 0.0, 0.0])
    run(a_node(replaying=False), cool, 1000, loose=loose)
    run(a_node(replaying=False), warm, 1000, loose=loose)
    assert cool.nvlink_crc[[0, 2, 3]].sum() == 0
    assert cool.nvlink_crc[1].sum() == pytest.approx(50, rel=0.5)
    assert warm.nvlink_crc[1].sum() == pytest.approx(np.e * 50, rel=0.35)
    assert (warm.nvlink_crc[1] > 0).all()  # spread over the links
    assert warm.nvlink_recoveries.sum() <= warm.nvlink_replays.sum() <= warm.nvlink_crc.sum()


def test_a_very_loose_module_loses_a_link() -> None:
    gpus = a_state()
    events = run(a_node(replaying=False), gpus, 4 * 3600, loose=np.array([0.0, 0.0, 100.0, 0.0]))
    downs = [event for event in events if event.code == XID_NVLINK]
    assert downs
    assert {event.gpu for event in downs} == {2}
    assert (~gpus.nvlink_up).sum() == len(downs)
    assert gpus.nvlink_up[[0, 1, 3]].all()


@pytest.mark.soak
def test_a_loose_module_makes_collectives_hang_in_hours_and_only_while_a_job_runs() -> None:
    links, gpus = a_node(replaying=False), a_state()
    run(links, gpus, 10 * 3600, loose=np.full(N_GPUS, 100.0), busy=False)
    assert not links.hanging
    run(links, gpus, 10 * 3600, loose=np.full(N_GPUS, 100.0))
    assert links.hanging
    links.end_hang()
    assert not links.hanging


def test_a_lost_gpu_counts_nothing() -> None:
    gpus = a_state()
    gpus.present[:] = False
    run(a_node(replaying=True), gpus, 600, volts=11.0, loose=np.full(N_GPUS, 100.0))
    assert gpus.pcie_replays.sum() == gpus.nvlink_crc.sum() == 0


def test_a_cold_start_brings_links_up_and_counts_to_zero() -> None:
    links, gpus = a_node(replaying=True), a_state()
    run(links, gpus, 3600, volts=11.0, loose=np.full(N_GPUS, 100.0))
    gpus.nvlink_up[0, 0] = False
    links.cold_start(gpus)
    assert gpus.nvlink_up.all()
    assert gpus.pcie_replays.sum() == gpus.nvlink_crc.sum() == gpus.aer_correctable.sum() == 0


def test_the_same_seed_counts_the_same() -> None:
    first, second = a_state(), a_state()
    for gpus in (first, second):
        run(Links(N_GPUS, N_LINKS, nominal_v=12.3, seed=7), gpus, 300, volts=11.0, loose=np.full(N_GPUS, 90.0))
    assert first.nvlink_crc.tolist() == second.nvlink_crc.tolist()
    assert first.pcie_replays.tolist() == second.pcie_replays.tolist()
