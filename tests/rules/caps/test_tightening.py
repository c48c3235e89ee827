"""Why a setting is made stricter: the reason names when the symptom cleared and when it returned."""

from dataclasses import replace

import pytest

from rules.caps.adjusting import tighten
from rules.caps.knobs import Scale
from rules.engine.claims import CapClaim
from rules.limits.node import NodeLimits
from rules.policy.model import Persist
from telemetry.gpu import KnobKind
from telemetry.records import Cause, Mode
from tests.rules import scenes

SCALE = Scale(knob=KnobKind.CLOCK, settings=tuple(float(mhz) for mhz in range(600, 1531, 15)))


def claim_at(at_s: float) -> CapClaim:
    return CapClaim(
        policy_id="cap",
        incident_id="i-1",
        entity_id="node:node0",
        decision_id="cap:i-1:1",
        knob=KnobKind.CLOCK,
        mode=Mode.ENFORCE,
        lease_s=120.0,
        settings=tuple((gpu, 1380.0) for gpu in scenes.GPUS),
        held=1380.0,
        tightened_ns=scenes.seconds(at_s),
    )


@pytest.mark.parametrize(
    ("looks", "reason"),
    [
        ((), "symptom still present 15 s after the cap"),
        (((4.0, False), (11.0, True)), "the symptom cleared 4 s after the cap and returned 11 s after it"),
        (
            ((4.0, False), (5.0, True), (7.0, False), (9.0, False), (12.0, True), (13.0, True)),
            "the symptom cleared 7 s after the cap and returned 12 s after it",
        ),
    ],
)
def test_a_symptom_that_cleared_and_returned_is_not_reported_as_one_that_stayed(
    looks: tuple[tuple[float, bool], ...], reason: str
) -> None:
    claim = claim_at(0.0)
    for at_s, symptom in looks:
        claim = claim.seen(symptom=symptom, now_ns=scenes.seconds(at_s))
    sag = scenes.incident(Cause.SUPPLY_SAG)
    response = replace(scenes.CAP, persist=Persist.TIGHTEN, settle_s=15.0)
    step = tighten(claim, response, sag, scenes.node(), NodeLimits(), scale=SCALE, now_ns=scenes.seconds(16.0))
    assert step.reason.startswith(reason)
    assert step.setting is not None
    assert step.setting < 1380.0


def test_a_sag_at_the_board_lasts_no_longer_than_its_controller_takes_to_show_its_end() -> None:
    sag = scenes.incident(Cause.SUPPLY_SAG)
    board = replace(sag, findings=tuple(replace(one, detector="board_rail.supply_sag") for one in sag.findings))
    response = replace(scenes.CAP, persist=Persist.TIGHTEN, settle_s=15.0)
    steps = {
        at_s: tighten(
            claim_at(0.0), response, board, scenes.node(), NodeLimits(), scale=SCALE, now_ns=scenes.seconds(at_s)
        )
        for at_s in (16.0, 39.0, 41.0)
    }
    assert [step.setting is not None for step in steps.values()] == [False, False, True]
    assert steps[41.0].reason.startswith("symptom still present 40 s after the cap")


@pytest.mark.parametrize(("main_v", "board_v", "lasts"), [(52.0, 11.8, False), (51.0, 11.8, True), (52.0, 11.3, True)])
def test_a_symptom_on_rails_of_two_voltages_lasts_while_one_of_them_is_below_its_own_limit(
    *, main_v: float, board_v: float, lasts: bool
) -> None:
    names = ("supply:psu0", "supply:board")
    sag = scenes.incident(Cause.SUPPLY_SAG, entities=names[:1], numbers={"limit_v": 51.3})
    rails = (replace(scenes.supply(main_v, None), limit_scale=4.5), scenes.supply(board_v, None, names[1]))
    response = replace(scenes.CAP, persist=Persist.TIGHTEN, settle_s=15.0, setting=None)
    step = tighten(
        replace(claim_at(0.0), supplies=names),
        response,
        sag,
        scenes.node(*rails),
        NodeLimits(),
        scale=SCALE,
        now_ns=scenes.seconds(16.0),
    )
    assert (step.setting is not None) is lasts


def test_a_tightened_claim_forgets_when_its_symptom_cleared_and_returned() -> None:
    claim = claim_at(0.0).seen(symptom=False, now_ns=1).seen(symptom=True, now_ns=2)
    assert (claim.cleared_ns, claim.returned_ns) == (1, 2)
    claim = claim.tightened(1200.0, decision_id="cap:i-1:2", now_ns=3)
    assert (claim.cleared_ns, claim.returned_ns) == (None, None)
