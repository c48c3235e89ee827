"""Saved baselines load as far as they fit; a foreign file is refused, and the summary names what is missing."""

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from analytics.detectors.build import AnyDetector
from analytics.detectors.heat_limits import ThermalResistanceLimits
from analytics.detectors.limits import DetectorLimits, NoveltyLimits
from analytics.detectors.novelty import Novelty
from analytics.detectors.panel import Panel, PanelState
from analytics.detectors.source_resistance import SourceResistance, SourceResistanceState
from analytics.detectors.supply_limits import SourceResistanceLimits
from analytics.detectors.thermal_resistance import ThermalResistance
from analytics.shards.learnt import Resumed, conditions_of, pack_learnt, with_learnt
from analytics.shards.learnt_parts import PARTS
from analytics.shards.packing import archive, opened
from analytics.shards.shard import leaves_of
from telemetry.clock import NS_PER_S
from telemetry.frames import Frame
from telemetry.records import Cause, Finding, FindingStatus
from tests.analytics.detectors.supply_scenes import ageing, at_limit, frame
from tests.analytics.detectors.test_conformance import ALL, TOPOLOGY, scene
from tests.analytics.scenes import node_of

BOX = node_of(0, 2)
LEARNING = tuple(detector for detector in ALL if detector.name in PARTS)
DAY_NS = 86_400 * NS_PER_S
Arrays = dict[str, npt.NDArray[Any]]


def panel_of(*detectors: AnyDetector) -> Panel:
    return Panel(detectors=detectors, event_detectors=())


SUPPLIES = panel_of(SourceResistance(limits=SourceResistanceLimits()))


def run(panel: Panel, state: PanelState, rows: Frame) -> tuple[PanelState, list[Finding]]:
    found: list[Finding] = []
    for first in range(0, len(rows), 10):
        state, some = panel.step(state, [rows.rows(first, first + 10)], BOX)
        found += some
    return state, found


def later(rows: Frame, number: int) -> Frame:
    """Return the rows as they come behind so many scenes of their length."""
    length_ns = int(rows.time_ns[-1] - rows.time_ns[0] + rows.time_ns[1] - rows.time_ns[0])
    return replace(rows, time_ns=rows.time_ns + number * length_ns)


def aged() -> tuple[Frame, PanelState, Finding]:
    """Return a path that has aged, its learnt state, and the finding."""
    rows = ageing(1)
    state, found = run(SUPPLIES, SUPPLIES.start([rows.spec]), rows)
    (raised,) = [one for one in found if one.status is FindingStatus.RAISED]
    return rows, state, raised


def kept(panel: Panel = SUPPLIES, state: PanelState | None = None) -> tuple[Frame, bytes, int]:
    rows, own, _ = aged()
    now_ns = int(rows.time_ns[-1])
    return rows, pack_learnt(panel, own if state is None else state, now_ns, frozen={}), now_ns


def resumed(rows: Frame, blob: bytes, now_ns: int, *holding: Finding, panel: Panel = SUPPLIES) -> Resumed:
    return with_learnt(panel, panel.start([rows.spec]), blob, now_ns=now_ns, holding=holding)


def supply_state(one: Resumed) -> SourceResistanceState:
    (own,) = one.state.detectors
    assert isinstance(own, SourceResistanceState)
    return own


def changed(blob: bytes, change: Callable[[dict[str, Any], Arrays], object]) -> bytes:
    """Return a changed file with a valid digest."""
    head, arrays = opened(blob)
    change(head, arrays)
    return archive(head, arrays)


def test_every_detector_that_learns_states_what_of_its_state_is_learnt() -> None:
    panel = Panel.build(DetectorLimits())
    assert set(PARTS) == set(panel.learning)
    for detector in LEARNING:
        start = detector.start(scene(detector).spec)
        places = leaves_of(start)
        conditions = {place for place, _ in conditions_of(start)}
        assert set(PARTS[detector.name].causes) == conditions, detector.name
        for head in (*PARTS[detector.name].learnt, *PARTS[detector.name].holding):
            assert any(place == head or place.startswith(f"{head}.") for place in places), (detector.name, head)


@pytest.mark.parametrize("detector", LEARNING, ids=lambda one: one.name)
def test_what_a_detector_learns_passes_as_its_own_and_is_never_written_into(detector: AnyDetector) -> None:
    panel = panel_of(detector)
    for seed in range(3):
        rows = scene(detector, seed=seed)
        state = panel.start([rows.spec])
        for first in range(0, len(rows), 40):
            before = pack_learnt(panel, state, 0, frozen={})
            after, _ = panel.step(state, [rows.rows(first, first + 40)], TOPOLOGY)
            assert pack_learnt(panel, state, 0, frozen={}) == before, "who packs later packs what was"
            state = after
        one = with_learnt(
            panel, panel.start([rows.spec]), pack_learnt(panel, state, 7, frozen={}), now_ns=7, holding=()
        )
        assert one.is_whole, one.summary
        keeps = PARTS[detector.name]
        was, now = leaves_of(state.detectors[0]), leaves_of(one.state.detectors[0])
        for place, leaf in was.items():
            if keeps.keeps(place) and not keeps.holds(place):
                # A single value that is not known is None.
                old, new = np.asarray(leaf, dtype=np.float64), np.asarray(now[place], dtype=np.float64)
                np.testing.assert_array_equal(old, new, err_msg=place)


@pytest.mark.parametrize("detector", LEARNING, ids=lambda one: one.name)
def test_what_a_detector_has_before_and_after_its_first_row_is_possible(detector: AnyDetector) -> None:
    panel, rows = panel_of(detector), scene(detector)
    start = panel.start([rows.spec])
    one_row, _ = panel.step(start, [rows.rows(0, 1)], TOPOLOGY)
    for state in (start, one_row):
        one = with_learnt(panel, start, pack_learnt(panel, state, 7, frozen={}), now_ns=7, holding=())
        assert one.is_whole, one.summary


def test_a_finding_that_both_hold_goes_on_and_ends_by_what_is_measured() -> None:
    rows, blob, now_ns = kept()
    _, _, raised = aged()
    one = resumed(rows, blob, now_ns, raised)
    assert one.going_on == (raised,)
    still, found = run(SUPPLIES, one.state, later(ageing(2, from_row=0), 1))
    assert [each.status for each in found if each.status is not FindingStatus.UPDATED] == []
    assert still.detectors[0].ageing.active.tolist() == [True, False]
    state, reported = one.state, []
    for number in range(1, 4):
        state, found = run(SUPPLIES, state, later(ageing(2, times=1.0), number))
        reported += [each for each in found if each.status is not FindingStatus.UPDATED]
    (ended,) = reported
    assert (ended.id, ended.status) == (raised.id, FindingStatus.CLEARED)


def test_a_finding_that_is_not_held_any_more_is_reported_again_only_by_new_windows() -> None:
    rows, blob, now_ns = kept()
    one = resumed(rows, blob, now_ns)
    assert not one.going_on
    state = supply_state(one)
    assert not state.ageing.engaged.any()
    assert not state.rising.count.any()
    idle = np.full((400, 2), 5.0)
    _, found = run(SUPPLIES, one.state, frame(np.full((400, 2), 12.1), idle))
    assert not found, "an idle node shows nothing of its paths"


def test_supplies_that_are_driven_to_their_limit_right_after_a_start_are_no_joints() -> None:
    rows, taught = at_limit(1), 160  # the load grows from that row on
    state, _ = run(SUPPLIES, SUPPLIES.start([rows.spec]), rows.rows(0, taught))
    now_ns = int(rows.time_ns[taught])
    one = resumed(rows, pack_learnt(SUPPLIES, state, now_ns, frozen={}), now_ns)
    _, found = run(SUPPLIES, one.state, rows.rows(taught, len(rows)))
    assert not found, "what the paths carried as usual before the start is known"


@pytest.mark.parametrize(
    ("later_ns", "text"),
    [(400 * DAY_NS, "saved 400 d ago, findings are measured again"), (-DAY_NS, "saved 1440 min in the future")],
)
def test_a_baseline_of_long_ago_or_from_ahead_stays_and_its_findings_are_measured_again(
    later_ns: int, text: str
) -> None:
    rows, blob, now_ns = kept()
    _, own, raised = aged()
    one = resumed(rows, blob, now_ns + later_ns, raised)
    assert not one.going_on
    assert text in one.summary
    np.testing.assert_array_equal(supply_state(one).reference.ohm, own.detectors[0].reference.ohm)


def test_other_levels_to_judge_by_keep_a_baseline_and_other_windows_to_learn_by_do_not() -> None:
    rows, blob, now_ns = kept()
    stricter = panel_of(SourceResistance(limits=SourceResistanceLimits(quick_ratio=1.5)))
    assert resumed(rows, blob, now_ns, panel=stricter).is_whole
    one, other = (Novelty(limits=NoveltyLimits(window_s=seconds)) for seconds in (30.0, 60.0))
    scenery = scene(one)
    before = pack_learnt(panel_of(one), panel_of(one).start([scenery.spec]), 0, frozen={})
    after = resumed(scenery, before, 0, panel=panel_of(other))
    assert "learning again: novelty (settings or signals changed)" in after.summary


def test_entities_that_are_gone_or_new_are_named_and_the_others_go_on() -> None:
    rows, blob, now_ns = kept()
    _, own, _ = aged()
    first, second = rows.spec.entities
    swapped = replace(rows, spec=replace(rows.spec, entities=(replace(first, key="psu7", name="psu7"), second)))
    one = resumed(swapped, blob, now_ns)
    assert "1 entities continue; 1 new (psu7); 1 absent (supply:psu0)" in one.summary
    known = supply_state(one).reference.ohm
    assert np.isnan(known[0])
    assert known[1] == own.detectors[0].reference.ohm[1]


def test_an_entity_with_values_that_no_detector_leaves_begins_again_and_the_others_go_on() -> None:
    def spoil(_: Mapping[str, Any], arrays: Arrays) -> None:
        arrays["source_resistance/slow.effect"][0] = np.nan

    rows, blob, now_ns = kept()
    one = resumed(rows, changed(blob, spoil), now_ns)
    assert "1 with impossible values (supply:psu0)" in one.summary
    assert np.isnan(supply_state(one).reference.ohm).tolist() == [True, False]


@pytest.mark.parametrize("left", [0, 1], ids=["no table", "one supply"])
def test_what_is_not_there_at_one_start_is_carried_along_until_it_is_there_again(left: int) -> None:
    rows, blob, now_ns = kept()
    _, own, _ = aged()
    fewer = replace(rows.spec, entities=rows.spec.entities[:left])
    for starts in range(1, 4):
        start = SUPPLIES.start([fewer] if left else [])
        one = with_learnt(SUPPLIES, start, blob, now_ns=now_ns + starts * DAY_NS, holding=())
        assert f"{2 - left} absent (supply:psu{left}" in one.summary
        assert one.is_whole == (starts > 1), "an absence counts once"
        blob = pack_learnt(SUPPLIES, one.state, now_ns + starts * DAY_NS, frozen={}, away=one.away)
    back = resumed(rows, blob, now_ns + 4 * DAY_NS)
    assert not back.away
    assert "learning again" not in back.summary
    np.testing.assert_array_equal(supply_state(back).reference.ohm, own.detectors[0].reference.ohm)
    np.testing.assert_array_equal(supply_state(back).slow.learnt, own.detectors[0].slow.learnt)


def test_what_was_learnt_by_other_settings_goes_on_when_they_are_as_before() -> None:
    one, other = (ThermalResistance(limits=ThermalResistanceLimits(learn_windows=number)) for number in (30, 60))
    rows = scene(one)
    before, _ = panel_of(one).step(panel_of(one).start([rows.spec]), [rows], TOPOLOGY)
    assert before.detectors[0].offsets.windows.any()
    first = pack_learnt(panel_of(one), before, 1, frozen={})
    longer = resumed(rows, first, 2, panel=panel_of(other))
    assert "learning again: thermal_resistance (settings or signals changed)" in longer.summary
    assert not longer.state.detectors[0].offsets.windows.any()
    again = pack_learnt(panel_of(other), longer.state, 2, frozen={}, away=longer.away)
    back = resumed(rows, again, 3, panel=panel_of(one))
    np.testing.assert_array_equal(back.state.detectors[0].offsets.windows, before.detectors[0].offsets.windows)


def test_of_two_findings_that_began_at_one_moment_only_the_one_that_is_held_goes_on() -> None:
    rows, state, raised = aged()
    own = state.detectors[0]
    both = replace(state, detectors=(replace(own, lost=own.ageing),))
    _, blob, now_ns = kept(state=both)
    lost = replace(raised, id="lost", detector="source_resistance.supply_lost", cause=Cause.SUPPLY_LOST)
    for held, conditions in ((raised, [True, False]), (lost, [False, True])):
        one = resumed(rows, blob, now_ns, held)
        after = supply_state(one)
        assert one.going_on == (held,)
        assert [bool(each.active[0]) for each in (after.ageing, after.lost)] == conditions
    assert set(resumed(rows, blob, now_ns, lost, raised).going_on) == {lost, raised}


def test_evidence_that_was_enough_is_gathered_again_where_no_finding_goes_on_and_its_reference_stays() -> None:
    rows, state, raised = aged()
    own = state.detectors[0]
    sums = np.array([20.0, 5.0])
    week = np.full(2, -6.0)
    slow = replace(own.slow, centre=week, centre_sd=np.full(2, 0.001), scatter=np.full(2, 0.01), effect=sums / 100.0)
    slow = replace(slow, cusum=replace(slow.cusum, above=sums))
    _, blob, now_ns = kept(state=replace(state, detectors=(replace(own, slow=slow),)))
    after = supply_state(resumed(rows, blob, now_ns))
    assert after.slow.centre.tolist() == week.tolist()
    assert after.slow.cusum.above.tolist() == [0.0, 5.0], "what is not enough yet goes on"
    idle = np.full((400, 2), 5.0)
    calm = later(frame(np.full((400, 2), 12.1), idle), 1)
    assert run(SUPPLIES, resumed(rows, blob, now_ns).state, calm)[1] == []
    assert supply_state(resumed(rows, blob, now_ns, raised)).slow.cusum.above.tolist() == [20.0, 5.0]


def test_levels_of_heat_and_air_are_measured_again_where_no_finding_goes_on() -> None:
    for detector in LEARNING:
        if detector.name not in ("thermal_resistance", "airflow"):
            continue
        panel, rows = panel_of(detector), scene(detector)
        state, _ = panel.step(panel.start([rows.spec]), [rows], TOPOLOGY)
        levels = "levels" if detector.name == "thermal_resistance" else "over"
        assert getattr(state.detectors[0], levels).windows.any()
        one = with_learnt(
            panel, panel.start([rows.spec]), pack_learnt(panel, state, 7, frozen={}), now_ns=7, holding=()
        )
        assert not getattr(one.state.detectors[0], levels).windows.any()
        assert not getattr(one.state.detectors[0], levels).quick.any()


def _full(_: Mapping[str, Any], arrays: Arrays) -> None:
    arrays["source_resistance/reference.ohm"][:] = np.nan


def _negative(_: Mapping[str, Any], arrays: Arrays) -> None:
    arrays["source_resistance/slow.hours"][:] = -(2**62)


def _endless(_: Mapping[str, Any], arrays: Arrays) -> None:
    arrays["source_resistance/reference.ohm"][:] = np.inf


def _other_type(_: Mapping[str, Any], arrays: Arrays) -> None:
    arrays["source_resistance/slow.hours"] = arrays["source_resistance/slow.hours"].astype(np.float64)


def _other_width(_: Mapping[str, Any], arrays: Arrays) -> None:
    arrays["source_resistance/slow.learnt"] = np.zeros((2, 10_000))


def _missing(_: Mapping[str, Any], arrays: Arrays) -> None:
    del arrays["source_resistance/slow.learnt"]


def _strange_hour(head: dict[str, Any], _: Mapping[str, Any]) -> None:
    head["detectors"]["source_resistance"]["single"]["hour.number"] = 2**80


def _unlike_lengths(head: dict[str, Any], _: Mapping[str, Any]) -> None:
    head["entities"]["supply"].append("supply:psu9")


@pytest.mark.parametrize(
    "change",
    [_full, _negative, _endless, _other_type, _other_width, _missing, _strange_hour, _unlike_lengths],
    ids=lambda one: one.__name__,
)
def test_values_that_would_break_a_later_step_are_not_taken(
    change: Callable[[dict[str, Any], Arrays], object],
) -> None:
    rows, blob, now_ns = kept()
    one = resumed(rows, changed(blob, change), now_ns)
    assert not one.is_whole
    _, found = run(SUPPLIES, one.state, ageing(3))
    assert [each.entity_id for each in found if each.status is FindingStatus.RAISED] == ["supply:psu0"]


def _of(whole: bytes) -> bytes:
    return b"railwatch state\n" + sha256(whole).digest() + whole


def _zipped(name: str, body: bytes, *, how: int = zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", how) as packed:
        packed.writestr(name, body)
    return _of(made.getvalue())


def _array_of(shape: tuple[int, ...], descr: str = "<f8") -> bytes:
    made = io.BytesIO()
    np.lib.format.write_array_header_1_0(made, {"descr": descr, "fortran_order": False, "shape": shape})
    return made.getvalue()


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"nothing of the kind",
        kept()[1][:-1],
        kept()[1][:40],
        _zipped("head.npy", _array_of((2**40,))),
        _zipped("head.npy", _array_of((-1,))),
        _zipped("head.npy", _array_of((1,), "|O") + b"cos\nsystem\n"),
        _zipped("head.npy", bytes(10_000_000), how=zipfile.ZIP_DEFLATED),
        archive({"version": 1}, {}),
        archive({"version": 2, "kept_ns": "today", "detectors": {}, "entities": {}, "frozen": {}}, {}),
        archive({"version": 2, "kept_ns": 0, "detectors": {"novelty": 3}, "entities": {}, "frozen": {}}, {}),
        archive([1, 2], {}),  # type: ignore[arg-type]  # what a file may hold
    ],
    ids=["empty", "text", "cut", "short", "huge", "negative", "pickle", "bomb", "version", "stamp", "type", "list"],
)
def test_a_file_that_is_not_ours_is_refused_in_one_line(blob: bytes) -> None:
    rows = ageing(1)
    with pytest.raises(ValueError, match=r"^(state: damaged: |version |head: )[^\n]*$|^state: damaged$"):
        resumed(rows, blob, 0)


def test_a_file_with_the_former_names_of_fields_still_loads() -> None:
    def rename(_: Mapping[str, Any], arrays: Arrays) -> None:
        for name in [one for one in arrays if one.endswith((".reported_ns", ".reported_badness"))]:
            arrays[name.replace(".reported_", ".told_")] = arrays.pop(name)

    rows, blob, now_ns = kept()
    _, own, raised = aged()
    former = changed(blob, rename)
    assert b".told_ns" in former
    assert b".reported_ns" not in former
    one = resumed(rows, former, now_ns, raised)
    assert one.is_whole, one.summary
    assert one.going_on == (raised,)
    np.testing.assert_array_equal(supply_state(one).ageing.reported_ns, own.detectors[0].ageing.reported_ns)


def test_a_file_from_before_slots_were_learnt_by_the_second_still_loads() -> None:
    slow = ThermalResistance(limits=ThermalResistanceLimits())
    fast = next(one for one in ALL if one.name == "hotter_than_siblings")
    rows, now_ns = scene(slow), int(scene(slow).time_ns[-1])
    before = panel_of(slow)
    taught, _ = before.step(before.start([rows.spec]), [rows], TOPOLOGY)
    after = panel_of(fast, slow)
    one = with_learnt(
        after, after.start([rows.spec]), pack_learnt(before, taught, now_ns, frozen={}), now_ns=now_ns, holding=()
    )
    assert "learning again: hotter_than_siblings (nothing was saved)" in one.summary
    windows = one.state.detectors[1].offsets.windows
    np.testing.assert_array_equal(windows, taught.detectors[0].offsets.windows)
    assert windows.any()


def test_the_head_is_plain_json() -> None:
    head, _ = opened(kept()[1])
    assert json.loads(json.dumps(head)) == head
