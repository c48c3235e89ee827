"""Caps for a bus that only the board's controller measures, in coarse steps: held, and the reason names the step."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from physics.board_parts import curve_of
from physics.node_state import MeasuredNode, MeasuredSupply
from physics.power_curve import DEFAULT_CURVE
from physics.supply_path import SupplyPath, terminal_voltage_v
from rules.caps.board_bus import board_bus, board_path, supplies_of_board
from rules.caps.knobs import Scale
from rules.caps.refining import WINDOW_NS, WINDOWS
from rules.caps.setting import SettingChoice, choose
from rules.caps.supply_basis import bases_of, with_newest_boards
from rules.engine.engine import Engine
from rules.policy.model import SettingRule, Verb
from telemetry.entities import BOARD_PLACE, NOMINAL_TAG, PLACE_TAG, SOURCE_TAG, Entity, EntityKind, Topology
from telemetry.gpu import KnobKind
from telemetry.records import Cause, FindingStatus, Incident, IncidentState
from tests.rules.scenes import CAP, CLOCKS_MHZ, ENFORCED, GPUS, gpu_state, incident, policy, seconds

BOX = "node:box"
STEP_V, NOMINAL_V, SCALE_54 = 0.25, 54.0, 4.5
HOLD_V = 11.55
SUPPLIES = 2
LINE_OHM = 0.030  # of each supply: 15 milliohm side by side
REST_W, LOW_SHARE = 300.0, 0.4
CLOCKS = Scale(knob=KnobKind.CLOCK, settings=tuple(clock for clock in CLOCKS_MHZ if clock >= 612.0))


def wired(*extra: Entity, nominal: str = "54") -> Topology:
    box = Entity(kind=EntityKind.NODE, key="box", name="box")
    psus = tuple(
        Entity(kind=EntityKind.SUPPLY, key=f"psu{n}", name=f"psu{n}", tags=((NOMINAL_TAG, nominal),))
        for n in range(SUPPLIES)
    )
    gpus = tuple(Entity(kind=EntityKind.GPU, key=f"GPU-{n}", name=f"gpu{n}") for n in range(4))
    edges = [(box.id, one.id) for one in (*psus, *extra)]
    edges += [(one.id, gpu.id) for one in (*psus, *extra) for gpu in gpus]
    return Topology(entities=(box, *psus, *extra, *gpus), edges=tuple(edges))


class Bus:
    """A bus of 54 V behind joints of `path_ohm`, whose board meter is off by `offset_v` and shows steps of 0.25 V."""

    def __init__(self, path_ohm: float, *, offset_v: float = 0.0, sound_ohm: float = 0.010, dip_v: float = 0.0) -> None:
        self.path_ohm, self.offset_v, self.sound_ohm, self.dip_v = path_ohm, offset_v, sound_ohm, dip_v

    def power_w(self, clock_mhz: float) -> float:
        return REST_W + 4.0 * 350.0 * DEFAULT_CURVE.share(clock_mhz / 1530.0)

    def board_v(self, clock_mhz: float, path_ohm: float | None = None) -> float:
        """Return the voltage of the board in the high phase, on the scale of its meter."""
        ohm = LINE_OHM / SUPPLIES + (self.path_ohm if path_ohm is None else path_ohm)
        path = SupplyPath(open_circuit_v=NOMINAL_V, source_resistance_ohm=ohm)
        return terminal_voltage_v(path, self.power_w(clock_mhz)) + self.offset_v

    def current_a(self, clock_mhz: float) -> float:
        return self.power_w(clock_mhz) / (self.board_v(clock_mhz) - self.offset_v)

    def state(self, clock_mhz: float = 1530.0) -> MeasuredNode:
        own_a = self.current_a(clock_mhz) / SUPPLIES
        meters = tuple(
            MeasuredSupply(
                entity_id=f"supply:psu{n}",
                minimum_v=NOMINAL_V - LINE_OHM * own_a - self.dip_v,
                open_circuit_v=NOMINAL_V,
                source_resistance_ohm=LINE_OHM,
                current_high_a=own_a,
                current_low_a=LOW_SHARE * own_a,
                limit_scale=SCALE_54,
            )
            for n in range(SUPPLIES)
        )
        high_w = 350.0 * DEFAULT_CURVE.share(clock_mhz / 1530.0)
        low_w = LOW_SHARE * high_w
        gpus = tuple(
            replace(gpu_state(name, power_high_w=high_w, power_low_w=low_w), clock_mhz=clock_mhz) for name in GPUS
        )
        return MeasuredNode(gpus=gpus, supplies=meters)

    def drop_v(self, path_ohm: float) -> float:
        current_a = self.power_w(1530.0) / (self.board_v(1530.0, path_ohm) - self.offset_v)
        return NOMINAL_V - LINE_OHM / SUPPLIES * current_a - read(self.board_v(1530.0, path_ohm))

    def rise(self, at_s: float = 0.0, *, entity: str = BOX) -> Incident:
        drop_v, usual_v = self.drop_v(self.path_ohm), self.drop_v(self.sound_ohm)
        numbers = {
            "drop_v": drop_v,
            "usual_drop_v": usual_v,
            "risen_v": drop_v - usual_v,
            "current_a": self.current_a(1530.0),
        }
        return board(incident(Cause.JOINT_AGEING, at_s=at_s, entities=(entity,), numbers=numbers))

    def sag(self, clock_mhz: float = 1530.0, at_s: float = 0.0) -> Incident:
        numbers = {"limit_v": 51.3, "minimum_v": read(self.board_v(clock_mhz))}
        return board(incident(Cause.SUPPLY_SAG, at_s=at_s, entities=(BOX,), numbers=numbers))


def read(voltage_v: float) -> float:
    return round(voltage_v / STEP_V) * STEP_V


def board(found: Incident) -> Incident:
    return replace(found, findings=tuple(replace(one, detector="board_rail") for one in found.findings))


def chosen(found: Incident, state: MeasuredNode) -> SettingChoice:
    rule = SettingRule(hold_v=HOLD_V)
    return choose(rule, found, state, targets=GPUS, topology=wired(), scale=CLOCKS, in_force=1530.0)


@settings(max_examples=200, deadline=None)
@given(
    path_ohm=st.floats(0.030, 0.080),
    offset_v=st.floats(-0.4, 0.4),
    sound_ohm=st.floats(0.002, 0.020),
    is_sag=st.booleans(),
)
def test_a_cap_holds_the_rail_whatever_the_meters_are_off_by(
    path_ohm: float, offset_v: float, sound_ohm: float, *, is_sag: bool
) -> None:
    bus = Bus(path_ohm, offset_v=offset_v, sound_ohm=sound_ohm)
    setting = chosen(bus.sag() if is_sag else bus.rise(), bus.state()).setting
    lowest_mhz = CLOCKS.settings[0]
    assert setting is None or setting == lowest_mhz or bus.board_v(setting) >= SCALE_54 * HOLD_V
    if setting is None:
        assert bus.board_v(1530.0) >= SCALE_54 * HOLD_V


def test_supplies_that_carry_nothing_are_not_measured_under_load() -> None:
    bus = Bus(0.060)
    idle = replace(
        bus.state(), supplies=tuple(replace(one, current_high_a=0.0, current_low_a=0.0) for one in bus.state().supplies)
    )
    assert board_bus([one.entity_id for one in idle.supplies], idle) is None
    assert "not known" in chosen(bus.sag(), idle).reason


def test_the_reason_names_the_step_of_the_meter_and_what_it_costs() -> None:
    bus = Bus(0.060)
    found = chosen(bus.rise(), bus.state())
    assert "MHz: highest clock that holds 51.98 V in the worst dip" in found.reason
    assert "; the board rail is read in steps of up to 0.27 V: clock chosen on the safe side by up to" in found.reason
    assert found.reason.endswith(" steps")


def test_the_reason_of_the_lowest_clock_that_may_not_hold_names_the_step_too() -> None:
    bus = Bus(0.110)
    found = chosen(bus.rise(), bus.state())
    assert found.setting == CLOCKS.settings[0]
    assert "not even" in found.reason
    assert found.reason.endswith("; the board rail is read in steps of up to 0.27 V, and may be as much higher")


def test_a_rise_that_is_known_caps_less_than_a_sag_alone() -> None:
    bus = Bus(0.055)
    by_rise, by_sag = (chosen(one, bus.state()).setting for one in (bus.rise(), bus.sag()))
    assert by_rise is not None
    assert by_sag is not None
    assert by_rise >= by_sag


def test_dips_that_the_supplies_show_lower_the_clock() -> None:
    plain, dipped = Bus(0.055), Bus(0.055, dip_v=0.06)
    settings_mhz = [chosen(one.rise(), one.state()).setting for one in (plain, dipped)]
    assert settings_mhz[0] is not None
    assert settings_mhz[1] is not None
    assert settings_mhz[1] < settings_mhz[0]


def test_without_the_current_of_a_supply_the_policy_takes_its_fallback_and_names_why() -> None:
    bus = Bus(0.060)
    first, second = bus.state().supplies
    state = replace(bus.state(), supplies=(first, replace(second, current_high_a=None)))
    found = chosen(bus.sag(), state)
    assert found.bases == ()
    assert "the currents of the supplies behind the board rail are not known" in found.reason


def test_the_supplies_of_a_board_rail_are_those_that_feed_its_gpus() -> None:
    tags = ((NOMINAL_TAG, "54"), (SOURCE_TAG, "bmc"), (PLACE_TAG, BOARD_PLACE))
    rail = Entity(kind=EntityKind.SUPPLY, key="bmc-p54v", name="P54V (bmc)", tags=tags)
    topology = wired(rail)
    both = ("supply:psu0", "supply:psu1")
    assert supplies_of_board(BOX, topology) == both
    assert supplies_of_board(rail.id, topology) == both
    half = Topology(
        entities=topology.entities, edges=tuple(edge for edge in topology.edges if edge != ("supply:psu1", GPUS[3]))
    )
    assert supplies_of_board(rail.id, half) == ("supply:psu0",)
    assert supplies_of_board(BOX, wired(nominal="12")) == ()
    bus = Bus(0.060)
    bases, _ = bases_of(bus.rise(entity=rail.id), bus.state(), targets=GPUS, topology=topology)
    assert [(one.entity_id, one.supplies) for one in bases] == [(rail.id, both)]


def test_a_later_sag_under_the_cap_makes_the_path_worse_once() -> None:
    first, worse = Bus(0.055), Bus(0.075)
    bases, _ = bases_of(first.rise(), first.state(), targets=GPUS, topology=wired())
    later = replace(first.rise(), findings=(*first.rise().findings, *worse.sag(1000.0, at_s=60.0).findings))
    once = with_newest_boards(bases, later, worse.state(1000.0))
    assert once[0].path.source_resistance_ohm > bases[0].path.source_resistance_ohm
    again = with_newest_boards(once, later, worse.state(700.0))  # the reading belongs to the load that it was taken at
    assert again == once


@pytest.mark.parametrize("name", [BOX, "supply:bmc-p54v"])
def test_once_no_finding_is_left_the_cap_is_relaxed_as_one_without_a_prediction(name: str) -> None:
    bus, then = Bus(0.050), replace(CAP, setting=SettingRule(hold_v=HOLD_V))
    tags = ((NOMINAL_TAG, "54"), (SOURCE_TAG, "bmc"), (PLACE_TAG, BOARD_PLACE))
    rail = Entity(kind=EntityKind.SUPPLY, key="bmc-p54v", name="P54V (bmc)", tags=tags)
    engine = Engine((policy(then),), limits=ENFORCED, topology=wired(rail))
    raised = bus.rise(entity=name)
    engine.step([raised], bus.state(), 0)
    (claim,) = engine.claims
    assert claim.supplies == ()
    over = replace(raised, state=IncidentState.MITIGATED)
    engine.step([over], bus.state(claim.strictest), seconds(60.0))
    assert engine.claims[0].bases
    mended = replace(over, findings=tuple(replace(one, status=FindingStatus.CLEARED) for one in over.findings))
    assert not engine.step([mended], bus.state(claim.strictest), seconds(120.0))
    assert engine.claims[0].bases == ()
    (step,) = engine.step([], bus.state(claim.strictest), seconds(61.0 + 1800.0))
    assert step.action == Verb.CLOCK_RELAX


def test_a_path_without_a_voltage_or_a_rise_is_not_known() -> None:
    bus = board_bus(("supply:psu0", "supply:psu1"), Bus(0.060).state())
    assert bus is not None
    bare = board(incident(Cause.JOINT_AGEING, entities=(BOX,)))
    assert board_path(bare.findings, bus) is None
    assert bus.meter_step_v == pytest.approx(0.27)
    assert board_bus((), Bus(0.060).state()) is None


def test_a_cap_is_corrected_by_the_power_that_was_measured_under_it() -> None:
    bus = Bus(0.050)
    then = replace(CAP, setting=SettingRule(hold_v=HOLD_V), settle_s=3600.0)
    engine = Engine((policy(then),), limits=ENFORCED, topology=wired())
    cautious = curve_of("NVIDIA H100 80GB HBM3")
    unknown = replace(bus.state(), gpus=tuple(replace(gpu, board=cautious) for gpu in bus.state().gpus))
    (first,) = engine.step([bus.rise()], unknown, 0)
    assert first.setting is not None
    decisions = [
        one for turn in range(1, WINDOWS + 1) for one in engine.step([], bus.state(first.setting), turn * WINDOW_NS)
    ]
    assert [one.action for one in decisions] == [Verb.CLOCK_RELAX]
    assert decisions[0].setting is not None
    assert bus.board_v(decisions[0].setting) >= SCALE_54 * HOLD_V
    again = Engine((policy(then),), limits=ENFORCED, topology=wired())
    again.restore(engine.snapshot())
    assert again.claims == engine.claims
