"""From evidence to a clock: what is used, what stands in for what is missing, and who is meant."""

import math
from dataclasses import replace

import pytest

from physics.node_state import MeasuredNode, MeasuredSupply
from rules.caps.knobs import Scale
from rules.caps.setting import choose, predict
from rules.caps.supply_basis import bases_of
from rules.caps.targets import common_clocks_mhz, targets_of
from rules.policy.model import SettingRule, Target
from telemetry.entities import NOMINAL_TAG, Entity, EntityKind, Topology
from telemetry.gpu import KnobKind
from telemetry.records import Cause, Incident
from tests.rules.scenes import CLOCKS_MHZ, GPUS, SAG, gpu_state, incident, node, supply, topology

ALLOWED = tuple(clock for clock in CLOCKS_MHZ if clock >= 612.0)
CLOCKS = Scale(knob=KnobKind.CLOCK, settings=ALLOWED)


def _clock(found: Incident, state: MeasuredNode, *, rule: SettingRule | None = None, supplies: int = 1) -> float | None:
    return choose(
        rule or SettingRule(hold_v=11.50),
        found,
        state,
        targets=GPUS,
        topology=topology(supplies),
        scale=CLOCKS,
        in_force=1530.0,
    ).setting


def test_the_prediction_sets_the_cap() -> None:
    assert _clock(incident(numbers=SAG), node()) == pytest.approx(1372.5)


@pytest.mark.parametrize("missing", ["open_circuit_v", "source_resistance_ohm", "current_high_a"])
def test_without_a_piece_of_evidence_the_fallback_sets_it(missing: str) -> None:
    numbers = {name: value for name, value in SAG.items() if name != missing}
    assert _clock(incident(numbers=numbers), node()) == pytest.approx(1297.5)


@pytest.mark.parametrize(
    ("live_v", "noted_v", "cap_mhz"),
    [(11.80, None, None), (11.80, 11.38, 1297.5), (11.40, None, 1297.5), (None, None, 1297.5)],
    ids=["above all along", "was below", "below now", "voltage unknown"],
)
def test_without_a_prediction_a_supply_that_stays_above_the_voltage_to_hold_needs_no_cap(
    live_v: float | None, noted_v: float | None, cap_mhz: float | None
) -> None:
    numbers = {"share_ratio": 0.9} if noted_v is None else {"minimum_v": noted_v}
    state = replace(node(), supplies=(MeasuredSupply(entity_id="supply:psu0", minimum_v=live_v),))
    assert _clock(incident(numbers=numbers), state) == (cap_mhz if cap_mhz is None else pytest.approx(cap_mhz))


def test_without_the_power_of_one_gpu_the_fallback_sets_it() -> None:
    state = node()
    blind = replace(state, gpus=(*state.gpus[:3], gpu_state(GPUS[3], power_high_w=None)))
    assert _clock(incident(numbers=SAG), blind) == pytest.approx(1297.5)


def test_the_safe_side_of_the_bounds_is_taken() -> None:
    numbers = {**SAG, "open_circuit_low_v": 12.28, "source_resistance_high_ohm": 0.0062}
    sure = _clock(incident(numbers=SAG), node())
    unsure = _clock(incident(numbers=numbers), node())
    assert sure is not None
    assert unsure is not None
    assert unsure < sure


@pytest.mark.parametrize("bound", [{"open_circuit_low_v": 12.10}, {"source_resistance_high_ohm": 0.0070}])
def test_one_bound_alone_is_taken_too(bound: dict[str, float]) -> None:
    sure, unsure = (_clock(incident(numbers=numbers), node()) for numbers in (SAG, {**SAG, **bound}))
    assert sure is not None
    assert unsure is not None
    assert unsure < sure


def test_what_the_supply_shows_now_goes_before_what_was_found() -> None:
    aged = _clock(incident(numbers=SAG), node(supply(11.3, 0.0072)))
    assert aged == _clock(incident(numbers={**SAG, "source_resistance_ohm": 0.0072}), node())


def test_two_supplies_that_share_a_load_give_the_same_cap_as_one() -> None:
    half = {
        **SAG,
        "source_resistance_ohm": 2 * SAG["source_resistance_ohm"],
        "current_high_a": SAG["current_high_a"] / 2,
        "current_low_a": SAG["current_low_a"] / 2,
    }
    both = incident(numbers=half, entities=("supply:psu0", "supply:psu1"), root="node:box")
    assert _clock(both, node(), supplies=2) == _clock(incident(numbers=SAG), node())


@pytest.mark.parametrize("times", [4.0, 4.5])
def test_a_rail_of_a_higher_voltage_under_the_same_power_gets_the_same_cap(times: float) -> None:
    factors = {"_v": times, "_a": 1.0 / times, "ohm": times**2}
    numbers = {name: value * factors[name[-2:] if name[-2] == "_" else name[-3:]] for name, value in SAG.items()}
    high = replace(supply(None, None), open_circuit_v=None, limit_scale=times)
    assert _clock(incident(numbers=numbers), node(high)) == _clock(incident(numbers=SAG), node())


def test_of_two_supplies_the_weaker_one_decides() -> None:
    weak = incident(numbers={**SAG, "source_resistance_ohm": 0.0075}, entities=("supply:psu1",))
    strong = incident(numbers=SAG)
    both = replace(strong, findings=(*strong.findings, *weak.findings))
    assert _clock(both, node(), supplies=2) == _clock(weak, node(), supplies=2)


def test_a_swing_too_small_to_report_is_shared_evenly() -> None:
    state = MeasuredNode(gpus=tuple(gpu_state(name, power_low_w=340.0) for name in GPUS))
    (basis,), _ = bases_of(incident(numbers=SAG), state, targets=GPUS, topology=topology(2))
    assert basis.load.share_ratio == pytest.approx(0.5)


def test_a_shelf_and_a_converter_are_no_supplies_beside_those_that_share_the_load() -> None:
    plain = topology(2)
    tags = {"psu0": "54", "psu1": "54", "converter": "12", "shelf": None}
    supplies = tuple(
        Entity(kind=EntityKind.SUPPLY, key=key, name=key, tags=() if tag is None else ((NOMINAL_TAG, tag),))
        for key, tag in tags.items()
    )
    gpus = plain.of_kind(EntityKind.GPU)
    edges = tuple((one.id, gpu.id) for one in supplies for gpu in gpus)
    chain = Topology(entities=(*supplies, *gpus), edges=edges)
    state = MeasuredNode(gpus=tuple(gpu_state(name, power_low_w=340.0) for name in GPUS))
    (basis,), _ = bases_of(incident(numbers=SAG), state, targets=GPUS, topology=chain)
    assert basis.load.share_ratio == pytest.approx(0.5)


def test_a_dip_deeper_than_the_plateau_returns_the_transient_term() -> None:
    (basis,), _ = bases_of(
        incident(numbers={**SAG, "minimum_v": 12.30 - 0.0058 * 152.0 - 0.144}),
        node(),
        targets=GPUS,
        topology=topology(),
    )
    assert basis.path.transient_ohm == pytest.approx(0.144 / 72.0)


def test_nothing_is_capped_where_the_voltage_stands_above_what_is_to_be_held() -> None:
    found = incident(numbers={**SAG, "minimum_v": 11.80, "source_resistance_ohm": 0.003})
    assert _clock(found, node()) is None


def test_a_dip_that_no_prediction_explains_gets_the_fallback() -> None:
    found = incident(numbers={**SAG, "minimum_v": 11.30, "source_resistance_ohm": 0.001, "current_low_a": 152.0})
    assert _clock(found, node()) == pytest.approx(1297.5)


def test_a_fraction_and_a_fixed_clock_fall_on_a_supported_clock() -> None:
    assert _clock(incident(), node(), rule=SettingRule(fraction=0.85)) == pytest.approx(1297.5)
    assert _clock(incident(), node(), rule=SettingRule(fixed=1005.0)) == pytest.approx(1005.0)
    assert _clock(incident(), node(), rule=SettingRule(fixed=100.0)) == pytest.approx(615.0)


def test_a_higher_resistance_returns_a_lower_safe_clock() -> None:
    found = incident(numbers=SAG)
    bases, _ = bases_of(found, node(), targets=GPUS, topology=topology())
    answers = [
        predict(bases, found, node(), scale=CLOCKS, hold_v=11.5, resistance_ratio=ratio).setting
        for ratio in (1.0, 1.1, 1.2, 1.5)
    ]
    assert answers == sorted(answers, reverse=True)


def test_a_supply_means_the_gpus_it_feeds_and_a_gpu_those_beside_it() -> None:
    feeds = topology()
    half = Topology(entities=feeds.entities, edges=(("supply:psu0", GPUS[0]), ("supply:psu0", GPUS[1])))
    of_supply = Target.ALL_GPUS_OF_SUPPLY
    assert targets_of(of_supply, incident(), node(), half) == GPUS[:2]
    assert targets_of(of_supply, incident(Cause.POWER_BRAKE, entities=(GPUS[1],)), node(), half) == GPUS[:2]
    assert targets_of(Target.THIS_GPU, incident(entities=(GPUS[3],)), node(), half) == (GPUS[3],)
    assert targets_of(Target.ALL_GPUS, incident(), node(), half) == GPUS


def test_where_the_topology_is_silent_every_gpu_that_answers_is_meant() -> None:
    feeds = topology()
    silent = Topology(entities=feeds.entities)
    assert targets_of(Target.ALL_GPUS_OF_SUPPLY, incident(), node(gpus=GPUS[:3]), silent) == GPUS[:3]
    assert targets_of(Target.THIS_GPU, incident(entities=(GPUS[3],)), node(gpus=GPUS[:3]), silent) == ()


def test_clocks_are_those_that_all_support_above_the_rail() -> None:
    odd = replace(gpu_state(GPUS[1]), supported_mhz=CLOCKS_MHZ[::2])
    shared = common_clocks_mhz([gpu_state(GPUS[0]), odd], min_clock_ratio=0.4)
    assert set(shared) <= set(CLOCKS_MHZ[::2])
    assert min(shared) >= 612.0
    strange = replace(gpu_state(GPUS[1]), supported_mhz=(1000.0, 2000.0))
    assert common_clocks_mhz([gpu_state(GPUS[0]), strange], min_clock_ratio=0.4) == ALLOWED


def test_the_neighbours_of_a_setting_stay_within_the_scale() -> None:
    clocks = Scale(knob=KnobKind.CLOCK, settings=(600.0, 700.0))
    assert clocks.snap(650.0) == 600.0
    assert clocks.snap(500.0) == 600.0
    assert clocks.looser(650.0) == 700.0
    assert clocks.looser(700.0) == 700.0
    fans = Scale(knob=KnobKind.FAN, settings=(0.5, 0.75, 1.0))
    assert (fans.loosest, fans.strictest) == (0.5, 1.0)
    assert fans.snap(0.6) == 0.75
    assert fans.snap(2.0) == 1.0
    assert fans.looser(0.75) == 0.5
    assert fans.stricter(1.0, 0.75)


def test_mains_has_no_voltage_to_hold() -> None:
    mains = replace(supply(11.38, 0.0058), limit_scale=math.nan)
    found = bases_of(incident(numbers=SAG), node(mains), targets=GPUS, topology=topology())
    assert found[0] == ()
