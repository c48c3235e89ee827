"""Actions in a run, and whether the node gave a reason for them."""

from dataclasses import replace

import numpy as np
import pytest

from evaluation.judgement.table import JUDGEMENT, JudgementTable
from evaluation.rehearsal.actions import ActionSummary, summarise_actions
from evaluation.rehearsal.outcome import TruthRecorder
from simulator.files.node import load_node
from simulator.files.scenario import UNDISTURBED, ScenarioFile, load_scenario
from simulator.plant.plant import Plant
from simulator.runs.description import START_NS
from telemetry.clock import NS_PER_S
from telemetry.documents import load_document
from telemetry.records import Action, ActionState, Cause, Incident
from tests import record_samples

_LIMIT_V = 11.40


def _incident(cause: Cause, *, at_s: float) -> Incident:
    time_ns = START_NS + round(at_s * NS_PER_S)
    return replace(
        record_samples.INCIDENT, id="i1", time_ns=time_ns, opened_ns=time_ns, cause=cause, affected=(), summary=""
    )


def _action(state: ActionState, *, at_s: float, gpu: str = "gpu:a", wanted: float | None = 1005.0) -> Action:
    return replace(
        record_samples.ACTION,
        id=f"{gpu}:i1",
        time_ns=START_NS + round(at_s * NS_PER_S),
        decision_id="rule:i1:1",
        incident_id="i1",
        knob="application_clock",
        entity_id=gpu,
        found=None,
        wanted=wanted,
        read_back=wanted,
        state=state,
    )


def _witness(voltage_v: float) -> TruthRecorder:
    """A second of a node whose rail stands at a voltage."""
    plant = Plant(load_node("v100x4"), UNDISTURBED, 1)
    witness = TruthRecorder(_LIMIT_V)
    stretch = plant.advance(1000)
    witness.take(replace(stretch, bus_v=np.full_like(stretch.bus_v, voltage_v)), plant.state, ())
    return witness


def _actions(cause: Cause, *, scenario: ScenarioFile, voltage_v: float = 12.0) -> ActionSummary:
    actions = [
        _action(ActionState.APPLIED, at_s=20.0),
        _action(ActionState.APPLIED, at_s=20.0, gpu="gpu:b"),
        _action(ActionState.RELEASED, at_s=30.0, wanted=None),
        _action(ActionState.RELEASED, at_s=35.0, gpu="gpu:b", wanted=None),
    ]
    return summarise_actions(
        [_incident(cause, at_s=19.0)],
        actions,
        scenario=scenario,
        witness=_witness(voltage_v),
        table=load_document(JudgementTable, JUDGEMENT),
        duration_s=60.0,
    )


def test_one_decision_on_two_gpus_is_one_cap_until_the_last_is_free() -> None:
    actions = _actions(Cause.SUPPLY_SAG, scenario=UNDISTURBED, voltage_v=11.2)
    assert actions.caps == 1
    assert actions.lowest_cap_mhz == 1005.0
    assert actions.capped_share == pytest.approx(15.0 / 60.0)


def test_a_cap_for_what_the_scenario_has_is_no_false_one() -> None:
    scenario = load_scenario("psu-sag", load_node("v100x4"))
    assert _actions(Cause.SUPPLY_SAG, scenario=scenario).false_caps == 0


def test_a_cap_for_what_the_scenario_has_not_is_false() -> None:
    scenario = load_scenario("psu-sag", load_node("v100x4"))
    assert _actions(Cause.THERMAL_MARGIN, scenario=scenario).false_caps == 1


def test_a_rail_that_was_too_low_is_a_reason_without_any_label() -> None:
    assert _actions(Cause.SUPPLY_SAG, scenario=UNDISTURBED, voltage_v=11.2).false_caps == 0
    assert _actions(Cause.SUPPLY_SAG, scenario=UNDISTURBED, voltage_v=11.6).false_caps == 1


def test_the_time_to_the_first_cap_runs_from_the_rail_itself_where_it_was_low() -> None:
    low = _actions(Cause.SUPPLY_SAG, scenario=UNDISTURBED, voltage_v=11.2)
    well = _actions(Cause.SUPPLY_SAG, scenario=UNDISTURBED, voltage_v=11.6)
    assert low.to_first_cap_s == pytest.approx(20.0)
    assert well.to_first_cap_s == pytest.approx(1.0)
