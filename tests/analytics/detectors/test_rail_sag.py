from dataclasses import replace

import numpy as np
import pytest

from analytics.detectors.rail_sag import RailSag
from analytics.detectors.supply_limits import RailSagLimits
from telemetry.entities import NOMINAL_SOURCE_TAG, NOMINAL_TAG, EntityKind, NominalSource, Topology
from telemetry.frames import Frame
from telemetry.records import Cause, Finding, FindingStatus, Severity
from tests.analytics.detectors.converter_scenes import main_supply
from tests.analytics.scenes import frame_of, node_of, supply, training_load

TOPOLOGY = node_of()
NAN = float("nan")


def run(*frames: Frame) -> tuple[Finding, ...]:
    detector = RailSag(limits=RailSagLimits())
    state = detector.start(frames[0].spec)
    findings: list[Finding] = []
    for frame in frames:
        state, found = detector.step(state, frame, TOPOLOGY)
        findings.extend(found)
    return tuple(findings)


def rail(volts: object, amps: object = None, *, start_s: float = 0.0) -> Frame:
    columns = {"voltage_v": np.asarray(volts, dtype=np.float64)}
    if amps is not None:
        columns["current_a"] = np.asarray(amps, dtype=np.float64)
    return frame_of(EntityKind.SUPPLY, (supply(0),), columns, start_s=start_s)


def statuses(findings: tuple[Finding, ...]) -> list[FindingStatus]:
    return [finding.status for finding in findings]


@pytest.mark.parametrize(
    ("volts", "raised"),
    [
        ([12.0] * 40, False),
        ([11.41] * 40, False),  # low, but not below the limit
        ([12.0, 11.39, 12.0] * 10, False),  # shallow and shorter than the hold
        ([12.0, 11.39, 11.39, 11.39, 12.0], True),  # shallow, 100 ms
        ([12.0, 11.34, 12.0], True),  # deep: at once
        ([12.0, 0.0, 12.0], False),  # one failed conversion
        ([12.0, 0.0, 0.0, 0.0], False),  # it lasts: the supply is off, and no lower load would lift it
        ([12.0, 6.1, 6.1, 6.1], True),
        ([NAN] * 40, False),
        ([12.0, 11.39, NAN, NAN, NAN, NAN, 12.0], False),  # a gap holds nothing
        ([12.0, 11.39, NAN, 11.39, 11.39, 11.39], True),
    ],
)
def test_it_is_raised_below_the_limit_and_only_there(volts: list[float], *, raised: bool) -> None:
    findings = run(rail(volts))
    assert bool(findings) is raised
    assert all(finding.cause is Cause.SUPPLY_SAG for finding in findings)


@pytest.mark.parametrize("times", [48.0 / 12.0, 54.0 / 12.0])
def test_a_rail_of_another_voltage_is_judged_by_the_same_shares(times: float) -> None:
    at_12_v = run(rail(training_load(20.0, low=12.0, high=11.30)))
    found = run(rail([times * 12.0]), rail(times * training_load(20.0, low=12.0, high=11.30), start_s=0.05))
    assert statuses(found) == statuses(at_12_v)
    assert [item.score for item in found] == pytest.approx([item.score for item in at_12_v])
    assert found[-1].number("limit_v") == pytest.approx(times * 11.40)
    assert not run(rail(times * training_load(20.0, low=12.0, high=11.46)))


def test_a_54_v_rail_that_starts_under_load_is_known_once_it_is_idle() -> None:
    assert run(rail([50.8] * 20 + [53.9] * 20 + [50.8] * 20))
    assert not run(rail([50.8] * 20 + [900.0] + [50.8] * 20))  # a glitch is no other class


def test_a_rail_is_judged_from_the_reading_that_shows_its_voltage_on() -> None:
    assert not run(rail([0.0] * 40))  # a supply that was off from the start
    assert not run(rail([0.0] * 10 + [53.9] * 40))
    assert run(rail([0.0] * 10 + [53.9] * 10 + [50.9] * 10))
    assert not run(rail([229.0] * 10 + [180.0] * 10))  # mains: its dips are judged elsewhere


def test_the_tag_of_a_rail_decides_where_its_readings_do_not() -> None:
    tagged = replace(supply(0), tags=((NOMINAL_TAG, "54"),))
    low = {"voltage_v": np.array([50.5] * 10)}
    assert run(frame_of(EntityKind.SUPPLY, (tagged,), low))
    assert not run(frame_of(EntityKind.SUPPLY, (supply(0),), low))  # as a 48 V rail it is high


def test_a_load_that_dips_every_step_is_one_finding_with_counted_dips() -> None:
    volts = training_load(20.0, low=12.0, high=11.30)
    findings = run(rail(volts))
    assert statuses(findings)[0] is FindingStatus.RAISED
    assert set(statuses(findings)[1:]) == {FindingStatus.UPDATED}
    assert len({finding.id for finding in findings}) == 1
    last = findings[-1]
    assert last.number("minimum_v") == pytest.approx(11.30)
    assert last.number("dips") == pytest.approx(15, abs=5)
    assert last.number("duration_s") == pytest.approx(0.7, abs=0.06)
    assert last.number("depth_v") == pytest.approx(0.10)
    assert last.severity is Severity.CRITICAL


def test_updates_come_at_most_every_five_seconds() -> None:
    findings = run(rail(training_load(60.0, low=12.0, high=11.30)))
    gaps_ns = np.diff([finding.time_ns for finding in findings])
    assert len(findings) > 5
    assert gaps_ns.min() >= 5_000_000_000


def test_it_clears_once_after_a_quiet_time_and_states_what_the_rail_came_back_to() -> None:
    volts = np.concatenate([training_load(5.0, low=12.0, high=11.30), np.full(240, 11.62)])
    findings = run(rail(volts))
    assert statuses(findings)[-1] is FindingStatus.CLEARED
    assert statuses(findings).count(FindingStatus.CLEARED) == 1
    cleared = findings[-1]
    assert cleared.number("recovered_minimum_v") == pytest.approx(11.62)
    assert cleared.number("minimum_v") == pytest.approx(11.30)
    assert "11.62 V" in cleared.summary


def test_a_rail_in_the_hysteresis_band_stays_raised() -> None:
    volts = np.concatenate([np.full(10, 11.30), np.full(400, 11.43)])
    assert FindingStatus.CLEARED not in statuses(run(rail(volts)))


def test_a_gap_does_not_clear_it() -> None:
    volts = np.concatenate([np.full(10, 11.30), np.full(400, NAN)])
    assert FindingStatus.CLEARED not in statuses(run(rail(volts)))


def test_a_dip_soon_after_clearing_is_a_new_finding_with_its_own_numbers() -> None:
    volts = np.concatenate([np.full(10, 11.20), np.full(240, 12.0), np.full(10, 11.33)])
    findings = run(rail(volts))
    first, again = findings[0], findings[-1]
    assert again.status is FindingStatus.RAISED
    assert again.id != first.id
    assert again.number("minimum_v") == pytest.approx(11.33)
    assert again.number("dips") == 1


def test_the_source_estimate_is_in_the_evidence_and_in_the_summary() -> None:
    rng = np.random.default_rng(7)
    amps = training_load(30.0, low=25.0, high=75.0) + rng.normal(0, 0.3, 600)
    volts = 12.30 - 0.0139 * amps + rng.normal(0, 0.004, 600)
    findings = run(rail(volts, amps))
    last = findings[-1]
    assert last.number("source_resistance_ohm") == pytest.approx(0.0139, rel=0.02)
    assert last.number("open_circuit_v") == pytest.approx(12.30, abs=0.02)
    assert last.number("current_high_a") == pytest.approx(75.0, abs=2.0)
    assert last.number("current_low_a") == pytest.approx(25.0, abs=2.0)
    correlation = last.number("correlation")
    assert correlation is not None
    assert correlation < -0.9
    assert "path 13.9 mΩ" in last.summary


def test_a_dip_states_whether_the_load_stepped_up_with_it() -> None:
    amps = np.concatenate([np.full(100, 30.0), np.full(10, 70.0)])
    stepped = run(rail(12.2 - 0.013 * amps, amps))[-1]
    assert stepped.number("step_a") == pytest.approx(40.0)
    assert "1 dip in under 0.1 s at a load step of 40 A, " in stepped.summary
    volts = np.concatenate([np.full(100, 12.0), np.full(10, 11.29)])
    alone = run(rail(volts, np.full(110, 30.0)))[-1]
    assert alone.number("step_a") == pytest.approx(0.0)
    assert " without load step, " in alone.summary
    blind = run(rail(volts))[-1]
    assert blind.number("step_a") is None
    assert "load step" not in blind.summary


def test_the_load_step_is_that_of_the_deepest_dip() -> None:
    amps = np.concatenate([np.full(100, 30.0), np.full(5, 70.0), np.full(100, 30.0), np.full(105, 30.0)])
    volts = np.concatenate([np.full(100, 12.0), np.full(5, 11.2), np.full(100, 12.0), np.full(105, 11.35)])
    findings = run(rail(volts, amps))
    assert findings[-1].status is FindingStatus.UPDATED
    assert findings[-1].number("step_a") == pytest.approx(40.0)


def test_without_a_current_the_sag_is_reported_and_the_source_is_stated_to_be_unknown() -> None:
    last = run(rail(training_load(3.0, low=12.0, high=11.30)))[-1]
    assert last.number("source_resistance_ohm") is None
    assert "path unknown" in last.summary


def test_levels_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ValueError, match="minimum_v"):
        RailSagLimits(minimum_v=11.5, clear_above_v=11.4)


def test_summary_reads_as_a_sentence_of_numbers() -> None:
    summary = run(rail(training_load(12.0, low=12.0, high=11.31)))[-1].summary
    assert summary.startswith("PSU 0 sags to 11.31 V, limit 11.40 V: ")
    assert " dips in " in summary


def test_a_shelf_that_is_set_to_52_v_is_none_of_54_v() -> None:
    assert not run(rail([52.4] * 20 + [51.2] * 40))


def test_some_failed_conversions_are_no_other_class() -> None:
    assert not run(rail(([48.0] * 20 + [54.6]) * 5 + [48.0] * 40))


def test_the_output_of_a_described_converter_is_reported_with_the_state_of_its_bus() -> None:
    members = (main_supply(0), replace(supply(1), name="ibc0", tags=((NOMINAL_TAG, "12"),)))
    node = Topology(entities=members, edges=((members[0].id, members[1].id),))
    weak = np.where(np.arange(400) < 200, 12.0, 11.2)
    for bus_v, text in ((54.0, "54 V bus within limits: converter or its load"), (50.5, "its 54 V bus is at 50.50 V")):
        columns = {"voltage_v": np.stack((np.full(400, bus_v), weak), axis=1), "current_a": np.full((400, 2), 40.0)}
        frame = frame_of(EntityKind.SUPPLY, members, columns)
        detector = RailSag(limits=RailSagLimits())
        found = [
            one
            for one in detector.step(detector.start(frame.spec), frame, node)[1]
            if one.entity_id == members[1].id and one.status is FindingStatus.RAISED
        ]
        assert [one.summary for one in found] == [f"ibc0 sags to 11.20 V, limit 11.40 V; {text}"]
        margin = found[0].number("bus_margin_ratio")
        assert margin is not None
        assert (margin > 0.0) == (bus_v == 54.0)


def test_of_a_54_v_rail_that_was_never_above_its_limit_it_is_stated_that_a_label_named_its_voltage() -> None:
    labelled = replace(supply(0), tags=((NOMINAL_TAG, "54"), (NOMINAL_SOURCE_TAG, NominalSource.LABEL.value)))
    low = np.full(40, 51.2)
    frames = [frame_of(EntityKind.SUPPLY, (labelled,), {"voltage_v": volts}) for volts in (low, np.append(53.9, low))]
    (never,), (fell,) = run(frames[0]), run(frames[1])
    assert never.summary == "PSU 0 sags to 51.20 V, limit 51.30 V: never above it so far, 54 V by its label"
    assert "by its label" not in fell.summary
