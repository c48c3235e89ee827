"""Pins of a power connector: contacts that open or age, pins over their rating, monitors that show nothing."""

from collections.abc import Callable

import numpy as np
import pytest

from analytics.detectors.connector_pins import ConnectorPins
from analytics.detectors.limits import DetectorLimits
from analytics.detectors.panel import Panel
from evaluation.injection import pins as faults
from evaluation.injection.pins import Pins
from telemetry.frames import FloatArray, Frame
from telemetry.records import Cause, Finding, FindingStatus, Severity
from tests.analytics.detectors.pin_scenes import from_row, healthy, judged, load_a, pins_frame
from tests.analytics.scenes import START_NS, node_of

ROWS, ONSET = 600, 300  # two minutes, and a minute
FULL = load_a(ROWS)
LIGHT_ONSET = 900  # a light load is learnt for two minutes
LIGHT = load_a(LIGHT_ONSET + 600, full_a=16.0)


def findings_of(fault: Callable[[Pins], Pins], *, current_a: FloatArray = FULL, onset: int = ONSET) -> list[Finding]:
    return judged(pins_frame([from_row(healthy(current_a), onset, fault)]))[1]


def delay_s(finding: Finding, *, onset: int = ONSET) -> float:
    return (finding.time_ns - START_NS) / 1e9 - onset / 5.0


def test_a_healthy_connector_has_no_finding_at_any_load() -> None:
    loads = np.concatenate([load_a(900, full_a=full_a) for full_a in (2.5, 8.0, 16.0, 30.0, 50.0, 8.0, 45.0)])
    assert judged(pins_frame([healthy(loads)]))[1] == []


def test_an_open_pin_is_found_within_seconds_and_named() -> None:
    found = findings_of(lambda pins: faults.open_pin(pins, 2))
    contact = next(one for one in found if one.cause is Cause.JOINT_AGEING)
    assert delay_s(contact) <= 6.0
    assert contact.severity is Severity.CRITICAL
    assert contact.entity_id == "gpu:GPU-0"
    assert "GPU 0 12V-2x6 pin 3 open" in contact.summary
    assert contact.number("pin") == 3.0


def test_an_open_pin_is_found_from_the_first_reading_on_and_never_learnt() -> None:
    whole = faults.open_pin(healthy(FULL), 4)
    state, found = judged(pins_frame([whole]))
    contact = next(one for one in found if one.cause is Cause.JOINT_AGEING)
    assert contact.summary.startswith("GPU 0 12V-2x6 pin 5 open")
    assert not state.usual.blocks.any()


def test_pins_that_the_others_load_over_their_rating_are_named_with_the_watts_that_mend_it() -> None:
    found = findings_of(lambda pins: faults.open_pin(pins, 2), current_a=load_a(ROWS, full_a=47.0))
    (rating,) = [one for one in found if one.cause is Cause.PLUG_OVER_RATING and one.status is FindingStatus.RAISED]
    assert "pin 5 at 10." in rating.summary
    assert rating.severity is Severity.CRITICAL
    assert rating.number("rating_a") == 9.2
    # 47 A at 11.95 V; the fifth pin has 17.74 of the 82.83 % that are left.
    assert rating.number("mend_w") == pytest.approx(47.0 * 11.95 * (1.0 - 9.2 / (47.0 * 0.1774 / 0.8283)), rel=0.1)


@pytest.mark.parametrize(("full_a", "severity"), [(52.3, Severity.WARNING), (55.0, Severity.CRITICAL), (51.0, None)])
def test_a_pin_is_over_its_rating_from_nine_point_two_amperes_on(full_a: float, severity: Severity | None) -> None:
    steady = np.full(200, full_a)  # the fifth pin has 0.1774 of it: 9.28, 9.76 and 9.05 A
    found = judged(pins_frame([healthy(steady)]))[1]
    assert {one.severity for one in found} == ({severity} if severity else set())


def test_one_reading_over_the_rating_is_no_finding() -> None:
    current_a = FULL.copy()
    current_a[ONSET] = 70.0
    assert findings_of(lambda pins: pins, current_a=current_a) == []


@pytest.mark.parametrize(("current_a", "onset"), [(FULL, ONSET), (LIGHT, LIGHT_ONSET)], ids=["full", "light"])
def test_a_contact_that_gained_resistance_is_found_by_its_share(current_a: FloatArray, onset: int) -> None:
    found = findings_of(
        lambda pins: faults.worse_contact(pins, 1, ohm=0.003, path_ohm=0.015), current_a=current_a, onset=onset
    )
    assert {one.cause for one in found} == {Cause.JOINT_AGEING}
    assert "pin 2 carries 9" in found[0].summary
    assert delay_s(found[0], onset=onset) <= 60.0
    assert found[0].severity is Severity.WARNING


def test_a_pin_whose_voltage_falls_with_its_current_is_found_with_its_resistance() -> None:
    found = findings_of(lambda pins: faults.dropped_voltage(pins, 3, ohm=0.005))
    assert {one.cause for one in found} == {Cause.JOINT_AGEING}
    assert "pin 4" in found[0].summary
    assert "mΩ" in found[0].summary
    assert delay_s(found[0]) <= 20.0
    grown = findings_of(lambda pins: faults.dropped_voltage(pins, 3, ohm=0.010))
    assert grown[-1].number("joint_rise_ohm") == pytest.approx(0.010, rel=0.25)


def test_a_contact_that_shows_at_a_full_load_stays_found_while_the_load_is_light() -> None:
    current_a = np.concatenate([FULL, load_a(900, full_a=16.0), load_a(900)])
    whole = from_row(healthy(current_a), ONSET, lambda pins: faults.dropped_voltage(pins, 3, ohm=0.003), until=1500)
    found = judged(pins_frame([whole]))[1]
    assert [one.status for one in found if one.status is not FindingStatus.UPDATED] == [
        FindingStatus.RAISED,
        FindingStatus.CLEARED,
    ]
    assert (found[-1].time_ns - START_NS) / 1e9 > 1500 / 5.0 + 60.0


def test_pins_that_are_unequal_on_the_first_day_are_found_without_a_fingerprint() -> None:
    whole = faults.worse_contact(healthy(FULL), 0, ohm=0.009, path_ohm=0.015)
    found = judged(pins_frame([whole]))[1]
    assert "pins unequal: pin 1" in found[0].summary
    assert found[0].severity is Severity.WARNING


@pytest.mark.parametrize("fault", [faults.zeros, lambda pins: faults.zeros(pins, volts=False)])
def test_zeros_are_no_reading_and_a_faulty_monitor_once_they_last(fault: Callable[[Pins], Pins]) -> None:
    found = findings_of(fault)
    assert {one.cause for one in found} == {Cause.SENSOR_FAULT}
    assert delay_s(found[0]) <= 13.0
    assert "all read 0 A" in found[0].summary
    assert (found[0].number("readings_refused") or 0.0) >= 50.0


def test_single_zeros_are_refused_counted_and_judged_by_nothing() -> None:
    whole = healthy(FULL)
    whole.current_a[::20] = 0.0
    state, found = judged(pins_frame([whole]))
    assert found == []
    assert state.quiet.refused[0] == ROWS / 20


def test_an_implausible_voltage_refuses_the_whole_reading() -> None:
    whole = healthy(FULL)
    whole.voltage_v[::10, 3] = 0.0
    state, found = judged(pins_frame([whole]))
    assert found == []
    assert state.quiet.refused[0] == ROWS / 10


def test_readings_that_repeat_are_stuck_within_thirty_seconds_and_move_again() -> None:
    whole = from_row(healthy(FULL), 150, faults.stuck, until=450)
    state, found = judged(pins_frame([whole]))
    assert [(one.cause, one.status) for one in found] == [
        (Cause.SENSOR_FAULT, FindingStatus.RAISED),
        (Cause.SENSOR_FAULT, FindingStatus.CLEARED),
    ]
    assert (found[0].time_ns - START_NS) / 1e9 - 150 / 5.0 <= 30.0
    assert "exactly for 20 s: stuck" in found[0].summary
    assert state.quiet.longest_s[0] < 5.0, "what a fault repeats is not learnt as usual"


def test_a_monitor_that_repeats_by_nature_is_given_longer() -> None:
    whole = healthy(load_a(3000))
    for start in range(0, 3000, 75):  # every reading stands for 15 s
        whole = from_row(whole, start, faults.stuck, until=start + 75)
    assert judged(pins_frame([whole]))[1] == []


def test_readings_that_are_held_between_two_updates_are_stuck_as_well() -> None:
    """A live table marks what repeats as not fresh."""
    frame = pins_frame([from_row(healthy(FULL), ONSET, faults.stuck)])
    frame.fresh[ONSET + 1 :] = False
    assert [one.cause for one in judged(frame)[1]] == [Cause.SENSOR_FAULT]


def test_a_gap_neither_finds_nor_ends_anything() -> None:
    whole = from_row(healthy(FULL), ONSET, lambda pins: faults.open_pin(pins, 0))
    before, after = pins_frame([whole]), pins_frame([healthy(load_a(2 * ROWS))], start_s=7200.0)
    found = judged(before, after)[1]
    contact = [one for one in found if one.cause is Cause.JOINT_AGEING]
    assert contact[-1].status is FindingStatus.CLEARED
    assert contact[-1].time_ns > after.time_ns[0] + 60e9


def test_an_accepted_connector_learns_its_pins_again() -> None:
    detector = ConnectorPins(limits=DetectorLimits().connector_pins)
    worn = faults.worse_contact(healthy(FULL), 1, ohm=0.003, path_ohm=0.015)
    state, _ = judged(pins_frame([healthy(FULL)]))
    state = detector.accept(state, np.array([True]))
    frame = pins_frame([worn], start_s=ROWS / 5.0)
    after, found = detector.step(state, frame, node_of(1, 0))
    assert found == ()
    assert after.usual.known[0, 1]


def test_it_judges_only_gpus_whose_pins_are_measured() -> None:
    whole = healthy(FULL)
    none = Pins(voltage_v=np.full_like(whole.voltage_v, np.nan), current_a=np.full_like(whole.current_a, np.nan))
    frame = pins_frame([none, from_row(whole, ONSET, lambda pins: faults.open_pin(pins, 0))])
    panel = Panel.build(DetectorLimits())
    state = panel.start([frame.spec])
    found = list(panel.step(state, [frame], node_of(2, 0))[1])
    own = {one.entity_id for one in found if one.detector.startswith("connector_pins")}
    assert own == {"gpu:GPU-1"}


def test_a_node_without_measured_pins_leaves_the_detector_idle() -> None:
    frame = pins_frame([healthy(FULL)])
    spec = frame.spec
    bare = Frame(
        spec=type(spec)(name="gpu", kind=spec.kind, entities=spec.entities, signals=("power_w",)),
        time_ns=frame.time_ns,
        values=np.full((ROWS, 1, 1), 300.0),
        fresh=np.ones((ROWS, 1, 1), dtype=np.bool_),
    )
    panel = Panel.build(DetectorLimits())
    assert "connector_pins" in panel.idle(panel.start([bare.spec]))
