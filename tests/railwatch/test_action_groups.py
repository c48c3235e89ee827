"""Names of entities, evidence as lines, and changes as one entry per knob and incident."""

from dataclasses import replace

import pytest

from railwatch.cli.incident_view import decision_lines, evidence_lines
from railwatch.operator.action_groups import group_actions
from railwatch.operator.entity_names import EntityNames
from telemetry.entities import Entity, EntityKind
from telemetry.records import ActionState, Cause, Evidence, Finding, FindingStatus, Severity
from tests.railwatch.test_live_lines import APPLIED, GPUS, NOTIFY, steps

UUID = "GPU-12bb0930-d048-5297-a116-d3e26a06afa9"
NAMES = EntityNames(
    (
        *GPUS,
        Entity(kind=EntityKind.GPU, key=UUID, name="gpu7"),
        Entity(kind=EntityKind.SUPPLY, key="psu0", name="psu0"),
        Entity(kind=EntityKind.NODE, key="host", name="rack3-node2"),
    )
)


@pytest.mark.parametrize(
    ("entity_ids", "names"),
    [
        (["gpu:GPU-0", "gpu:GPU-1", "gpu:GPU-2"], "GPUs 0-2"),
        (["gpu:GPU-0", "gpu:GPU-2", "gpu:GPU-3", "supply:psu0"], "GPUs 0, 2-3, PSU 0"),
        (["node:host"], "rack3-node2"),
        (["gpu:GPU-881f29f5-4e01-50cc-8a83-edb5b94a931f"], "GPU-881f29f5"),
        ([], ""),
    ],
)
def test_several_entities_are_one_phrase_and_an_unknown_gpu_has_its_first_digits(
    entity_ids: list[str], names: str
) -> None:
    assert NAMES.names(entity_ids) == names


def test_uuids_in_a_text_become_names() -> None:
    assert NAMES.in_text(f"drain gpu:{UUID} of {UUID}") == "drain GPU 7 of GPU 7"


def test_steps_of_a_cap_on_several_gpus_are_one_entry_with_its_range() -> None:
    (group,) = group_actions([*steps(1400.0, 1300.0, 1200.0), *steps(1200.0, second=9, state=ActionState.RELEASED)])
    assert group.summary() == "not set → 1200 MHz in 3 steps, released 00:00:09"
    assert (group.label, NAMES.names(group.entity_ids), len(group.steps)) == ("clock cap", "GPUs 0-3", 4)


def test_an_entry_in_force_has_its_lease_and_names_how_many_are_left() -> None:
    held = [replace(one, found=1530.0, lease_until_ns=60 * 10**9) for one in steps(1300.0)]
    (group,) = group_actions(held)
    assert group.summary() == "1530 → 1300 MHz, in force, lease until 00:01:00"
    assert group.summary(run_ended=True) == "1530 → 1300 MHz, run ended"
    (left,) = group_actions([*held, replace(held[0], time_ns=5 * 10**9, state=ActionState.RELEASED)])
    assert left.summary() == "1530 → 1300 MHz, in force on 3 of 4, lease until 00:01:00"


def test_a_knob_that_was_set_and_released_by_turns_for_one_reason_is_released_at_the_end() -> None:
    (cap, *_), (released, *_) = steps(1300.0), steps(1300.0, state=ActionState.RELEASED)
    by_turns = [replace(one, time_ns=place * 10**9) for place, one in enumerate([cap, released] * 3)]
    (group,) = group_actions(by_turns)
    assert group.summary() == "not set → 1300 MHz, released 00:00:05"


def test_a_notification_without_a_record_of_its_delivery_is_not_reported_as_sent() -> None:
    status = "00:00:00  notification: not sent, no route is configured (rule notify-people)"
    assert decision_lines([NOTIFY], NAMES, has_routes=False) == [status]
    unknown = ["00:00:00  notification: no delivery recorded (rule notify-people)"]
    assert decision_lines([NOTIFY], NAMES) == decision_lines([NOTIFY], NAMES, has_routes=True) == unknown
    queued = replace(APPLIED, decision_id=NOTIFY.id, knob="notify", knob_kind=None, unit="", state=ActionState.DONE)
    assert decision_lines([NOTIFY, queued], NAMES, has_routes=True) == []


def finding(entity_id: str, *evidence: Evidence) -> Finding:
    return Finding(
        id=entity_id, time_ns=1, since_ns=1, detector="source_resistance", cause=Cause.JOINT_AGEING,
        entity_id=entity_id,
        status=FindingStatus.RAISED, severity=Severity.WARNING, score=1.0, summary="", evidence=evidence,
    )  # fmt: skip


def test_evidence_of_several_entities_is_one_line_in_units_that_people_write() -> None:
    lines = evidence_lines(
        [
            finding(
                gpu.id,
                Evidence(name="source_resistance_ohm", value=0.0151 + number * 1e-3, unit="ohm"),
                Evidence(name="rise_ratio", value=2.9, unit="ratio"),
                Evidence(name="open_circuit_v", value=12.307, unit="V"),
                Evidence(name="imbalance_ratio", value=-0.03, unit="ratio"),
            )
            for number, gpu in enumerate(GPUS)
        ],
        NAMES,
    )
    assert [*lines] == ["GPUs 0-3  source resistance 15.1 to 18.1 mΩ, rise 2.9x, open circuit 12.31 V, imbalance -3 %"]
