from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.files.node import NodeFile, load_node
from simulator.files.scenario import Change, ScenarioFile
from simulator.files.workload import load_workload
from simulator.fleet.climate import Climate
from simulator.fleet.fleet import Fleet
from simulator.fleet.losses import DropCause
from simulator.fleet.schedule import JobMix
from simulator.fleet.stretch import FleetStretch

NODE = load_node("v100x4")
STATES = [load_node(f"v100x4-{name}") for name in ("banana", "xt60", "aged-3psu", "corroded-3psu", "double-ring")]
MIX = JobMix(shares=((load_workload("ddp"), 0.6), (load_workload("inference-8b"), 0.25), (load_workload("idle"), 0.15)))
STORY = JobMix(shares=((load_workload("ddp"), 0.6), (load_workload("idle"), 0.4)))


def scenario(*changes: dict[str, object]) -> ScenarioFile:
    checked = tuple(Change.model_validate(change) for change in changes)
    return ScenarioFile(name="changing", description="Something changes.", changes=checked)


def with_joints(node: NodeFile, factor: float) -> NodeFile:
    units = tuple(unit.model_copy(update={"joint_mohm": unit.joint_mohm * factor}) for unit in node.supply.units)
    return node.model_copy(update={"supply": node.supply.model_copy(update={"units": units})})


def same(left: FleetStretch, right: FleetStretch) -> None:
    for part in ("truth", "samples"):
        for field in fields(getattr(left, part)):
            np.testing.assert_array_equal(
                getattr(getattr(left, part), field.name), getattr(getattr(right, part), field.name)
            )
    assert left.drops == right.drops


def joined(parts: list[FleetStretch]) -> FleetStretch:
    def whole(name: str) -> object:
        pieces = [getattr(part, name) for part in parts]
        values = {f.name: np.concatenate([getattr(piece, f.name) for piece in pieces]) for f in fields(pieces[0])}
        return type(pieces[0])(**values)

    first = parts[0]
    return type(first)(
        time_s=np.concatenate([part.time_s for part in parts]),
        sample_offset_s=first.sample_offset_s,
        truth=whole("truth"),  # type: ignore[arg-type]
        samples=whole("samples"),  # type: ignore[arg-type]
        drops=tuple(drop for part in parts for drop in part.drops),
    )


def mixed_fleet(seed: int) -> Fleet:
    return Fleet(STATES, seed=seed, mix=MIX, climate=Climate(diurnal_k=4.0, noise_k=1.0, input_swing=0.01))


@settings(max_examples=5)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(0, 5))
def test_the_same_seed_returns_the_same_bytes_however_time_is_cut(cuts: list[int], seed: int) -> None:
    parts = mixed_fleet(seed)
    same(joined([parts.advance(n) for n in (*cuts, 1)]), mixed_fleet(seed).advance(sum(cuts) + 1))


def test_another_seed_returns_other_bytes() -> None:
    first, second = (mixed_fleet(seed).advance(24).samples.gpu_power_w for seed in (1, 2))
    assert not np.array_equal(first, second)


def test_energy_is_conserved_and_nothing_is_negative() -> None:
    truth = mixed_fleet(1).advance(48).truth
    np.testing.assert_allclose(truth.source_power_w, truth.loss_w + truth.node_power_w, rtol=1e-9)
    for field in fields(truth):
        values = getattr(truth, field.name)
        if field.name != "job":
            assert (values[~np.isnan(values)] >= 0.0).all()


@settings(max_examples=10)
@given(st.floats(0.5, 4.0), st.floats(1.0, 2.0))
def test_more_resistance_means_a_lower_dip_and_more_hazard(factor: float, more: float) -> None:
    nodes = [with_joints(NODE, factor), with_joints(NODE, factor * more)]
    truth = Fleet([nodes[0]], seed=1).advance(1).truth, Fleet([nodes[1]], seed=1).advance(1).truth
    assert truth[1].v_min_v[0, 0] <= truth[0].v_min_v[0, 0] + 1e-9
    assert (truth[1].drop_rate_per_s >= truth[0].drop_rate_per_s * (1.0 - 1e-9)).all()


@settings(max_examples=10)
@given(st.floats(200.0, 1530.0), st.floats(0.0, 800.0))
def test_a_clock_cap_never_lowers_the_voltage(cap_mhz: float, less_mhz: float) -> None:
    def lowest_v(mhz: float) -> float:
        fleet = Fleet([load_node("v100x4-xt60")], seed=1)
        fleet.obey(clock_cap_mhz=mhz)
        return float(fleet.advance(1).truth.v_min_v[0, 0])

    assert lowest_v(cap_mhz - less_mhz) >= lowest_v(cap_mhz) - 0.001  # the loop of the power limit ripples


def test_joints_age_as_the_field_report_reports_of_months() -> None:
    units = tuple(NODE.supply.units[0].model_copy(update={"name": f"psu{index}"}) for index in range(3))
    node = NODE.model_copy(update={"supply": NODE.supply.model_copy(update={"units": units})})
    ageing = scenario({"at": "0s", "what": "supplies.ageing", "to": 1.0})
    fleet = Fleet([node] * 8, ageing, seed=1, step_s=4.0 * 3600.0, mix=STORY, repair_s=np.inf)
    joint_mohm = np.concatenate([fleet.advance(120).truth.joint_mohm.mean(axis=(1, 2)) for _ in range(10)])
    assert np.all(np.diff(joint_mohm) >= 0.0)
    for day, path_mohm in ((60, 4.9), (120, 7.7), (180, 16.0)):
        assert joint_mohm[day * 6] == pytest.approx(path_mohm, rel=0.25)  # exponential: small differences grow


def test_nodes_of_all_shapes_live_side_by_side() -> None:
    nodes = [load_node("v100x4"), load_node("h100x8"), load_node("v100x4-aged-3psu")]
    fleet = Fleet(nodes, seed=1, workload=load_workload("ddp"))
    truth = fleet.advance(2).truth
    assert (fleet.n_gpus, fleet.n_units) == (8, max(len(node.supply.units) for node in nodes))
    for row, node in enumerate(nodes):
        assert not np.isnan(truth.power_w[:, row, : node.gpu_count]).any()
        assert np.isnan(truth.power_w[:, row, node.gpu_count :]).all()
        assert truth.supply_on[:, row].sum(axis=1).tolist() == [len(node.supply.units)] * 2
    assert [job.name for job in fleet.jobs] == ["ddp"]


def test_a_node_of_banana_plugs_drops_at_once_and_comes_back_after_the_repair() -> None:
    stretch = Fleet([STATES[0]], seed=1, step_s=60.0, repair_s=3600.0).advance(120)
    first = stretch.drops[0]
    assert first.time_s < 30.0
    assert first.cause is DropCause.VOLTAGE
    present = stretch.truth.present[:, 0].sum(axis=1)
    assert present[1:59].max() < 4
    assert any(3600.0 <= drop.time_s < 3720.0 for drop in stretch.drops)
    assert np.isnan(stretch.samples.gpu_power_w[5, :, 0, first.gpu]).all()
    assert stretch.truth.steps_per_s[5, 0] == 0.0
    waiting_w = stretch.truth.power_w[5, 0], stretch.truth.power_w[30, 0]
    assert waiting_w[0].max() > 60.0  # the others spin
    assert waiting_w[1].max() < 60.0  # until the framework gives up


def test_a_lost_supply_overloads_the_other_and_the_node_goes_down() -> None:
    pulled = scenario({"at": "2h", "what": "psu0.in_service", "to": 0.0})
    stretch = Fleet([load_node("v100x4-xt60")], pulled, seed=1).advance(4)
    assert stretch.truth.supply_on[1].all()
    assert not stretch.truth.supply_on[2].any()
    assert not stretch.truth.present[3].any()
    assert np.isnan(stretch.samples.rail_voltage_v[3]).all()
    assert stretch.drops == ()  # a dark node loses its GPUs, but none fell off its bus
    truth = stretch.truth
    np.testing.assert_allclose(truth.source_power_w, truth.loss_w + truth.node_power_w, rtol=1e-9)


def test_a_gpu_that_a_scenario_takes_is_reported_once_and_stays_away_through_repairs() -> None:
    taken = scenario({"at": "1h", "what": "gpu1.present", "to": 0.0})
    stretch = Fleet([NODE], taken, seed=1, repair_s=7200.0).advance(24)
    assert [(drop.gpu, drop.cause) for drop in stretch.drops] == [(1, DropCause.SCENARIO)]
    assert not stretch.truth.present[1:, 0, 1].any()
    assert stretch.truth.present[:, 0, [0, 2, 3]].all()


def test_a_hot_room_slows_the_clock_and_keeps_the_part_below_its_limit() -> None:
    hot = scenario({"at": "0s", "what": "node.inlet_c", "to": 48.0}, {"at": "0s", "what": "node.fans", "to": 0.3})
    cool, warm = (Fleet([NODE], which, seed=1).advance(1).truth for which in (scenario(), hot))
    assert warm.die_c.max() <= NODE.gpu.temperature_c.gpu_max + 0.5
    assert (warm.clock_mhz < cool.clock_mhz).all()
    assert warm.pace_ratio[0, 0] < cool.pace_ratio[0, 0]


def test_a_hang_stops_the_steps_and_then_the_load() -> None:
    hung = scenario({"at": "10m", "what": "load.hang", "to": 1.0})
    truth = Fleet([NODE], hung, seed=1, step_s=60.0).advance(40).truth
    assert truth.steps_per_s[5, 0] > 0.0
    assert truth.steps_per_s[11, 0] == 0.0
    assert truth.power_w[30, 0].max() < truth.power_w[12, 0].min()


def test_a_node_that_is_switched_off_takes_nothing() -> None:
    off = scenario({"at": "1h", "what": "node.powered", "to": 0.0}, {"at": "2h", "what": "node.powered", "to": 1.0})
    truth = Fleet([NODE], off, seed=1).advance(3).truth
    assert truth.node_power_w[1, 0] == 0.0
    assert truth.source_power_w[1, 0] == 0.0
    assert truth.present[2].all()


def test_settings_may_differ_from_gpu_to_gpu() -> None:
    fleet = Fleet([NODE, NODE], seed=1)
    caps = np.full((2, 4), 1530.0)
    caps[1] = 1005.0
    fleet.obey(clock_cap_mhz=caps)
    truth = fleet.advance(1).truth
    assert (truth.power_w[0, 1] < truth.power_w[0, 0]).all()
    fleet.obey(clock_cap_mhz=np.inf)
    first_w, second_w = fleet.advance(1).truth.power_w[0]
    np.testing.assert_allclose(first_w, second_w, rtol=1e-6)


def test_a_fleet_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="2 nodes and 1 scenarios"):
        Fleet([NODE, NODE], [scenario()], seed=1)
    with pytest.raises(ValueError, match="above zero"):
        Fleet([NODE], seed=1, step_s=0.0)
