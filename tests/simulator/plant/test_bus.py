import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.files.gpu import BusHazard
from simulator.plant.bus import BusFailures, drop_rate_per_s
from simulator.plant.events import PlantEvent, PlantEventKind
from telemetry.gpu import XID_FALLEN_OFF_THE_BUS, XID_NVLINK

HAZARD = BusHazard(
    rate_per_s=0.0006,
    threshold_v=11.30,
    scale_v=0.032,
    internal_mohm=1.0,
    offset_sd_v=0.02,
    brake_below_v=10.9,
    brake_after_ms=1,
)
SAFE_V, DEEP_V = 12.0, 10.9
NONE = np.zeros(4)
ONE_BUS = (0, 0, 0, 0)


def run(bus: BusFailures, n_ms: int, *, volts: float = SAFE_V, start_ms: int = 0, cut_ms: int = 10) -> list[PlantEvent]:
    """Move on in blocks as a plant does: a lost GPU is out from the next block on."""
    events: list[PlantEvent] = []
    present = ~bus.lost
    for begin in range(start_ms, start_ms + n_ms, cut_ms):
        events += bus.advance(
            begin,
            power_w=np.full((cut_ms, 4), 300.0),
            voltage_v=np.full((cut_ms, 4), volts),
            present=present,
            contact_mohm=NONE,
        )
        present = present & ~bus.lost
    return events


def of(events: list[PlantEvent], kind: PlantEventKind, code: int | None = None) -> list[PlantEvent]:
    return [event for event in events if event.kind is kind and code in {None, event.code}]


def test_a_volt_too_few_of_74_millivolts_makes_drops_ten_times_as_likely() -> None:
    rates = drop_rate_per_s(
        np.array([11.300, 11.226]), np.zeros(2), offset_v=np.zeros(2), contact_mohm=np.zeros(2), hazard=HAZARD
    )
    assert rates[0] == pytest.approx(0.0006)
    assert rates[1] / rates[0] == pytest.approx(10.0, rel=0.02)


def test_the_current_through_the_module_and_its_contact_counts() -> None:
    at_pins = drop_rate_per_s(np.array(11.250), np.array(0.0), offset_v=NONE, contact_mohm=NONE, hazard=HAZARD)
    on_rail = drop_rate_per_s(np.array(11.350), np.array(25.0), offset_v=NONE, contact_mohm=NONE + 3.0, hazard=HAZARD)
    assert on_rail == pytest.approx(at_pins)


@given(st.floats(0.0, 60.0), st.floats(0.0, 100.0))
def test_less_voltage_or_more_current_never_makes_a_drop_less_likely(volts: float, amps: float) -> None:
    def rate(voltage_v: float, current_a: float) -> float:
        value = drop_rate_per_s(
            np.array(voltage_v), np.array(current_a), offset_v=NONE[:1], contact_mohm=NONE[:1], hazard=HAZARD
        )
        return float(value[0])

    assert 0.0 <= rate(volts, amps) <= rate(volts * 0.99, amps)
    assert np.isfinite(rate(volts, amps))
    assert rate(volts, amps) <= rate(volts, amps * 1.01)


def test_a_healthy_rail_drops_nothing() -> None:
    bus = BusFailures(HAZARD, ONE_BUS, fabric=True, seed=1)
    assert run(bus, 60_000) == []
    assert bus.dose.max() < 1e-9


def test_the_share_of_gpus_that_dropped_is_what_the_integral_of_the_rate_states() -> None:
    def lost_of(seed: int) -> tuple[float, float]:
        bus = BusFailures(HAZARD.model_copy(update={"offset_sd_v": 0.0}), ONE_BUS, fabric=False, seed=seed)
        rate = drop_rate_per_s(
            np.array(11.2), np.array(300.0 / 11.2), offset_v=np.zeros(1), contact_mohm=np.zeros(1), hazard=HAZARD
        )
        run(bus, 1000, volts=11.2, cut_ms=100)
        return float(np.isinf(bus._limit).mean()), float(1.0 - np.exp(-rate[0]))

    shares = np.array([lost_of(seed) for seed in range(200)])
    assert shares[:, 0].mean() == pytest.approx(shares[0, 1], abs=3.0 * 0.5 / np.sqrt(800))


def test_a_drop_brings_its_xid_within_two_seconds() -> None:
    bus = BusFailures(HAZARD, ONE_BUS, fabric=True, seed=3)
    bus.lose(100, np.array([False, False, True, False]))
    events = run(bus, 10_000)
    [lost], [xid] = of(events, PlantEventKind.GPU_LOST), of(events, PlantEventKind.XID, XID_FALLEN_OFF_THE_BUS)
    assert (lost.gpu, lost.time_ms) == (2, 100)
    assert xid.gpu == 2
    assert 200 <= xid.time_ms <= 2100
    assert bus.lost.tolist() == [False, False, True, False]


def test_consequences_come_as_often_as_they_should() -> None:
    def after_a_drop(seed: int) -> list[PlantEvent]:
        bus = BusFailures(HAZARD, ONE_BUS, fabric=True, seed=seed)
        bus._limit[:] = np.inf
        bus._limit[1] = 0.0
        return run(bus, 10_000, cut_ms=1000)

    runs = [after_a_drop(seed) for seed in range(400)]
    drops = sum(len(of(events, PlantEventKind.GPU_LOST)) for events in runs)
    assert drops / 400 == pytest.approx(1.25, abs=0.07)
    assert sum(len(of(events, PlantEventKind.AER_FATAL)) for events in runs) / drops == pytest.approx(0.5, abs=0.07)
    assert sum(len(of(events, PlantEventKind.BMC_CRITICAL)) for events in runs) / drops == pytest.approx(0.4, abs=0.07)
    peers = sum(len(of(events, PlantEventKind.XID, XID_NVLINK)) for events in runs)
    assert peers / drops == pytest.approx(0.6, abs=0.1)
    assert all(event.gpu != 1 for events in runs for event in of(events, PlantEventKind.XID, XID_NVLINK))


def test_without_a_fabric_no_sibling_reports_a_link() -> None:
    for seed in range(20):
        bus = BusFailures(HAZARD, ONE_BUS, fabric=False, seed=seed)
        bus.lose(0, np.array([True, False, False, False]))
        assert of(run(bus, 10_000, cut_ms=1000), PlantEventKind.XID, XID_NVLINK) == []


def test_a_drop_that_was_asked_for_takes_no_second_gpu() -> None:
    for seed in range(40):
        bus = BusFailures(HAZARD, ONE_BUS, fabric=True, seed=seed)
        bus.lose(0, np.array([True, False, False, False]))
        run(bus, 10_000, cut_ms=1000)
        assert bus.lost.sum() == 1


def test_a_gpu_is_lost_once_until_a_cold_start_brings_it_back() -> None:
    bus = BusFailures(HAZARD, ONE_BUS, fabric=False, seed=5)
    first = of(run(bus, 60_000, volts=DEEP_V), PlantEventKind.GPU_LOST)
    bus.lose(60_000, np.ones(4, dtype=np.bool_))
    assert sorted(event.gpu for event in first if event.gpu is not None) == [0, 1, 2, 3]
    assert of(run(bus, 1000, start_ms=60_000), PlantEventKind.GPU_LOST) == []
    bus.cold_start()
    assert not bus.lost.any()
    assert bus.dose.tolist() == [0.0] * 4
    again = of(run(bus, 60_000, volts=DEEP_V, start_ms=61_000), PlantEventKind.GPU_LOST)
    assert len(again) == 4
    assert [event.time_ms - 61_000 for event in again] != [event.time_ms for event in first]


@settings(max_examples=20)
@given(st.integers(0, 1000), st.sampled_from([1, 5, 20, 50]))
def test_the_same_seed_drops_the_same_gpus_at_the_same_millisecond_however_time_is_cut(seed: int, cut_ms: int) -> None:
    whole = run(BusFailures(HAZARD, ONE_BUS, fabric=True, seed=seed), 2000, volts=11.1)
    parts = run(BusFailures(HAZARD, ONE_BUS, fabric=True, seed=seed), 2000, volts=11.1, cut_ms=cut_ms)
    assert of(parts, PlantEventKind.GPU_LOST) == of(whole, PlantEventKind.GPU_LOST)
    assert sorted(map(repr, parts)) == sorted(map(repr, whole))


def test_a_rail_that_collapsed_drops_every_gpu_at_once() -> None:
    events = run(BusFailures(HAZARD, ONE_BUS, fabric=True, seed=0), 10, volts=6.0)
    assert [event.time_ms for event in of(events, PlantEventKind.GPU_LOST)] == [0, 0, 0, 0]


def test_a_gpu_that_is_not_powered_cannot_fall_off() -> None:
    bus, here = BusFailures(HAZARD, ONE_BUS, fabric=True, seed=0), np.array([False, True, False, False])
    events = bus.advance(0, power_w=np.zeros((10, 4)), voltage_v=np.full((10, 4), 6.0), present=here, contact_mohm=NONE)
    assert {event.gpu for event in of(list(events), PlantEventKind.GPU_LOST)} == {1}
    assert bus.lost.tolist() == here.tolist()
    assert bus.dose[~here].tolist() == [0.0] * 3
