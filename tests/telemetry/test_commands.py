"""Commands as records, and the three forms of events in which earlier versions wrote them."""

import json
from dataclasses import replace

import pytest

from telemetry.command_events import event_of_command
from telemetry.commands import WHO_MAX, WHY_MAX, Command, CommandVerb, new_command
from telemetry.earlier_records import command_from_event
from telemetry.record_json import from_json, to_json
from telemetry.records import Event, EventKind

# Written by earlier versions: to the guard, to the responder and to the fleet service.
_EVENT = (
    '{{"time":"1970-01-01T00:00:00.000000Z","type":"event","simulated":true,"id":"{id}","time_ns":7,"kind":"approval",'
    '"entity_id":null,"code":null,"severity":"info","message":"{message}","sources":{sources},"pci":null,"pid":null,'
    '"process":null,"job_gpus":null}}'
)
_EARLIER = (
    ("approval/approve/cap:i-1:7/7", "cap:i-1:7 approved by ana: because: it is", ["person", "ana"],
     (CommandVerb.APPROVE, "cap:i-1:7", "ana", "because: it is")),
    ("approval/approve/cap:i-1:7/7", "cap:i-1:7 approved by ana", ["person", "ana"],
     (CommandVerb.APPROVE, "cap:i-1:7", "ana", "")),
    ("approval/reject/cap:i-1:7/7", "cap:i-1:7 rejected by ana: no", ["person", "ana"],
     (CommandVerb.REJECT, "cap:i-1:7", "ana", "no")),
    ("approval/reset_breaker//7", "breaker reset by ana: reseated", ["person", "ana"],
     (CommandVerb.RESET_BREAKER, "", "ana", "reseated")),
    ("approval/agree/cap:i-1:7/7", "cap:i-1:7 agreed with by ana: yes", ["person", "ana"],
     (CommandVerb.AGREE, "cap:i-1:7", "ana", "yes")),
    ("approval/disagree/cap:i-1:7/7", "cap:i-1:7 disagreed with by ana", ["person", "ana"],
     (CommandVerb.DISAGREE, "cap:i-1:7", "ana", "")),
    ("person:take-back:9", "take-back i-7f2a: taken back by hand by ann: cable: reseated", ["person"],
     (CommandVerb.RELEASE, "i-7f2a", "ann", "cable: reseated")),
    ("person:take-back:9", "take-back *: taken back by hand by ann", ["person"],
     (CommandVerb.RELEASE, "*", "ann", "")),
    ("person:reset-breaker:9", "reset-breaker -: PDU is back: checked", ["root"],
     (CommandVerb.RESET_BREAKER, "", "root", "PDU is back: checked")),
    ("person:approve:9", "approve pdu-cap:f-1:5: PDU is back", ["root"],
     (CommandVerb.APPROVE, "pdu-cap:f-1:5", "root", "PDU is back")),
    ("person:reject:9", "reject pdu-cap:f-1:5: wait", ["root"],
     (CommandVerb.REJECT, "pdu-cap:f-1:5", "root", "wait")),
)  # fmt: skip
APPROVAL = new_command(CommandVerb.APPROVE, "cap:i1:0", who="ana", why="because: it is", now_ns=7)


def _event(id_: str, message: str, sources: list[str]) -> dict[str, object]:
    fields: dict[str, object] = json.loads(_EVENT.format(id=id_, message=message, sources=json.dumps(sources)))
    return fields


@pytest.mark.parametrize(("id_", "message", "sources", "expected"), _EARLIER)
def test_an_event_of_an_earlier_version_reads_as_the_command_that_it_carried(
    id_: str, message: str, sources: list[str], expected: tuple[CommandVerb, str, str, str]
) -> None:
    read = from_json(_event(id_, message, sources))
    assert isinstance(read, Command)
    assert (read.id, read.time_ns) == (id_, 7)
    assert (read.verb, read.subject, read.who, read.why) == expected


@pytest.mark.parametrize(
    ("id_", "message", "sources"),
    [
        ("approval/approve", "cap:i-1:7 approved by ana", ["person", "ana"]),
        ("approval/shout/x/7", "x shouted by ana", ["person", "ana"]),
        ("approval/approve/x/7", "x approved by ana", ["person"]),
        ("approval/approve/x/7", "something else", ["person", "ana"]),
        ("person:shout:9", "shout x: because", ["root"]),
        ("person:approve:9", "approve", ["root"]),
    ],
)
def test_an_approval_event_that_carries_no_command_stays_an_event(id_: str, message: str, sources: list[str]) -> None:
    event = _event(id_, message, sources)
    assert command_from_event(event) is None
    assert isinstance(from_json(event), Event)


def test_a_command_survives_its_json_form_which_also_has_a_sentence() -> None:
    fields = to_json(APPROVAL, simulated=True)
    assert (fields["type"], fields["verb"], fields["simulated"]) == ("command", "approve", True)
    assert fields["message"] == "cap:i1:0 approved by ana: because: it is"
    assert from_json(json.loads(json.dumps(fields))) == APPROVAL


@pytest.mark.parametrize(("who", "why"), [(" ", ""), ("a" * (WHO_MAX + 1), ""), ("ana", "w" * (WHY_MAX + 1))])
def test_a_command_needs_a_name_and_bounded_texts(who: str, why: str) -> None:
    with pytest.raises(ValueError, match="who of 1 to 100 characters"):
        new_command(CommandVerb.AGREE, "cap:i1:0", who=who, why=why, now_ns=1)


def test_a_command_as_an_event_keeps_id_time_and_operator() -> None:
    event = event_of_command(APPROVAL)
    assert (event.id, event.time_ns, event.kind) == (APPROVAL.id, 7, EventKind.APPROVAL)
    assert (event.message, event.sources, event.entity_id) == (APPROVAL.message, ("person", "ana"), None)
    accepted = replace(APPROVAL, verb=CommandVerb.ACCEPT_BASELINE, subject="gpu:GPU-1", why="new pads")
    event = event_of_command(accepted, name="gpu1")
    assert (event.kind, event.entity_id) == (EventKind.BASELINE, "gpu:GPU-1")
    assert event.message == "gpu1 accepted as it is by ana: new pads"


def test_records_of_an_earlier_version_read_with_knob_and_direction() -> None:
    decision = {
        "type": "decision", "id": "d", "time_ns": 1, "rule": "r", "incident_id": "i", "action": "fan", "targets": [],
        "clock_mhz": None, "lease_s": None, "mode": "enforce", "verdict": "execute", "reason": "", "fan_ratio": 0.8,
    }  # fmt: skip
    read = to_json(from_json(decision))
    assert (read["knob"], read["setting"], read["fan_ratio"], read["clock_mhz"]) == ("fan", 0.8, 0.8, None)
    no_knob = to_json(from_json({**decision, "fan_ratio": None}))
    assert (no_knob["knob"], no_knob["setting"]) == (None, None)
    action = {
        "type": "action", "id": "a", "time_ns": 1, "decision_id": "d", "incident_id": "i", "knob": "locked clocks",
        "entity_id": "gpu:0", "unit": "MHz", "found": None, "wanted": 1.0, "read_back": 1.0, "state": "applied",
        "mode": "enforce", "lease_until_ns": None, "owner": "guard", "reason": "",
    }  # fmt: skip
    assert to_json(from_json(action))["knob_kind"] == "clock_cap"
    assert to_json(from_json({**action, "unit": ""}))["knob_kind"] is None
    assert to_json(from_json(action))["released_by"] is None
    stopped = {**action, "state": "released", "reason": "the actuator stops"}
    assert to_json(from_json(stopped))["released_by"] == "actuator"
    assert to_json(from_json({**stopped, "reason": "taken back"}))["released_by"] is None
    assert to_json(from_json({**stopped, "released_by": "request"}))["released_by"] == "request"
    outcome = {
        "type": "outcome", "id": "o", "time_ns": 1, "incident_id": "i", "decision_id": "d", "measure": "voltage_v",
        "unit": "V", "before": 11.3, "after": 11.6, "helped": True, "summary": "",
    }  # fmt: skip
    assert to_json(from_json(outcome))["higher_is_better"] is True
    assert to_json(from_json({**outcome, "unit": "°C"}))["higher_is_better"] is False
