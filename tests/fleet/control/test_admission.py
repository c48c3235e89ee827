"""A request is carried out only if it is authentic, in scope, fresh, and within the limits of the node."""

import json
import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fleet.certificates.tokens import READ, act
from fleet.control.admission import DONE, EVENTS_PER_MINUTE, RefusalKind
from fleet.control.replay_protection import ReplayProtection
from fleet.control.request import SIGNED_AS, RequestVerb
from rules.limits.node import Maintenance
from rules.policy.model import ActionClass
from telemetry.clock import NS_PER_S
from telemetry.errors import TransientError
from telemetry.records import Decision, Event, Mode, Verdict
from tests.fleet.control.rig import Rig, with_rails

FOUND_MHZ = 1530.0


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_a_cap_is_carried_out_as_a_share_of_the_highest_clock_renewed_and_given_back(rig: Rig) -> None:
    answer = rig.send(rig.ask())
    assert answer.kind == DONE
    assert rig.settings_mhz == {1005.0}  # the nearest supported clock below 0.66 of 1530 MHz
    assert {one["owner"] for one in answer.actions} == {"fleet:fleet-a"}
    assert rig.send(rig.ask(RequestVerb.RENEW)).kind == DONE
    assert rig.send(rig.ask(RequestVerb.RELEASE)).kind == DONE
    assert rig.settings_mhz == {FOUND_MHZ}
    executed = [one for one in rig.published if isinstance(one, Decision) and one.verdict is Verdict.EXECUTE]
    assert [one.action for one in executed] == ["clock_cap", "clock_release"]
    assert rig.admission.counts == {DONE: 3}


@pytest.mark.parametrize(
    ("action", "ratio", "setting", "safe"),
    [(ActionClass.POWER_CAP, 0.71, 210.0, 200.0), (ActionClass.FAN, 0.87, 0.9, 1.0)],
)
def test_a_power_limit_and_a_fan_have_the_same_life_as_a_clock(
    rig: Rig, action: ActionClass, ratio: float, setting: float, safe: float
) -> None:
    knob = rig.power if action is ActionClass.POWER_CAP else rig.fan
    found = dict(knob.settings)
    token = rig.token_for("fleet-a", act(action))

    def send(do: RequestVerb = RequestVerb.CAP, **changed: object) -> str:
        ask = rig.ask(do, action=action, **({"ratio": ratio} if do is RequestVerb.CAP else {}) | changed)
        return rig.admission.handle(rig.body(ask, token=token), rig.peer()).kind

    assert send() == DONE
    assert set(knob.settings.values()) == {setting}  # the nearest that is no looser
    assert send(RequestVerb.RENEW) == DONE
    rig.clock.advance(121.0)
    rig.actuator.tick()
    assert set(knob.settings.values()) == {safe}  # it was not renewed
    assert send(RequestVerb.RELEASE) == DONE
    assert knob.settings == found
    assert send(ratio=0.39) == RefusalKind.LIMITS
    assert send(ratio=None, setting=301.0) == RefusalKind.LIMITS
    assert rig.knob.writes == []
    executed = [one for one in rig.published if isinstance(one, Decision) and one.verdict is Verdict.EXECUTE]
    assert [one.action for one in executed] == [action, f"{action.removesuffix('_cap')}_release"]


def test_two_knobs_that_one_incident_holds_are_given_back_one_by_one(rig: Rig) -> None:
    token = rig.token_for("fleet-a", act(ActionClass.CLOCK_CAP), act(ActionClass.POWER_CAP))
    for do, action in (
        (RequestVerb.CAP, "clock_cap"),
        (RequestVerb.CAP, "power_cap"),
        (RequestVerb.RELEASE, "power_cap"),
    ):
        assert rig.admission.handle(rig.body(rig.ask(do, action=action), token=token), rig.peer()).kind == DONE
    assert (rig.settings_mhz, set(rig.power.settings.values())) == ({1005.0}, {300.0})


def test_two_policies_of_one_incident_hold_a_knob_side_by_side_and_the_strictest_wins(rig: Rig) -> None:
    assert rig.send(rig.ask()).kind == DONE
    assert rig.send(rig.ask(policy_id="the-next-rung", ratio=0.53)).kind == DONE
    assert rig.settings_mhz == {802.0}
    assert rig.send(rig.ask(RequestVerb.RELEASE, policy_id="the-next-rung")).kind == DONE
    assert rig.settings_mhz == {1005.0}


def test_a_cap_in_force_is_not_widened_beyond_the_gpus_that_may_be_capped(rig: Rig) -> None:
    with_rails(rig, capped_gpus_max=1)
    first = f"gpu:{next(iter(rig.knob.settings))}"
    assert rig.send(rig.ask(targets=(first,))).kind == DONE
    assert rig.send(rig.ask(targets=(first,), ratio=0.6)).kind == DONE
    assert "4 GPUs would be capped, at most 1" in rig.send(rig.ask()).reason


def test_what_turns_no_knob_and_a_knob_that_no_gpu_has_are_refused(rig: Rig) -> None:
    rig.power.settings.clear()
    for action, reason in (("drain", "cannot be requested by a fleet"), ("power_cap", "no GPU here has a power limit")):
        token = rig.token_for("fleet-a", act(ActionClass(action)))
        answer = rig.admission.handle(rig.body(rig.ask(action=action), token=token), rig.peer())
        assert (answer.kind, reason in answer.reason) == (RefusalKind.LIMITS, True)


def test_a_cap_that_is_not_renewed_falls_to_a_safe_clock_and_not_to_the_highest(rig: Rig) -> None:
    rig.send(rig.ask())
    rig.clock.advance(121.0)
    rig.actuator.tick()
    assert all(mhz is not None and mhz <= 1005.0 for mhz in rig.settings_mhz)


def test_the_same_request_again_is_refused_over_a_restart_too(rig: Rig) -> None:
    body = rig.body(rig.ask())
    assert rig.admission.handle(body, rig.peer()).kind == DONE
    assert rig.admission.handle(body, rig.peer()).kind == RefusalKind.REPLAYED
    rig.restart()
    assert rig.admission.handle(body, rig.peer()).kind == RefusalKind.REPLAYED
    assert rig.admission.counts[RefusalKind.REPLAYED] == 1  # counters begin with the process


def test_a_request_that_was_taken_stays_refused_when_its_nonce_is_forgotten_and_the_clock_is_set_back(rig: Rig) -> None:
    old = rig.body(rig.ask())
    rig.admission.handle(old, rig.peer())
    rig.clock.advance(100.0)
    assert rig.send(rig.ask(RequestVerb.RENEW)).kind == DONE  # forgets the first one
    rig.clock.step_utc(-100.0)
    assert rig.admission.handle(old, rig.peer()).kind == RefusalKind.REPLAYED


def test_an_agent_that_has_lost_its_memory_takes_nothing_that_was_issued_before(rig: Rig) -> None:
    body = rig.body(rig.ask())
    rig.admission.handle(body, rig.peer())
    rig.clock.advance(2.0)
    rig.seen.close()
    (rig.folder / "seen.jsonl").unlink()
    rig.start()
    assert rig.admission.handle(body, rig.peer()).kind == RefusalKind.REPLAYED
    assert rig.send(rig.ask()).kind == DONE


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (RefusalKind.FORGED, {"node": "node2"}),
        (RefusalKind.FORGED, {"fleet": "fleet-b"}),
        (RefusalKind.STALE, {"issued_ns": 1, "expires_ns": 2}),
        (RefusalKind.STALE, {"life_s": 61.0}),
        (RefusalKind.STALE, {"ahead_s": 6.0}),
        (RefusalKind.SCOPE, {"action": "power_cap"}),
        (RefusalKind.LIMITS, {"ratio": 0.3}),
        (RefusalKind.LIMITS, {"ratio": None, "setting": 1600.0}),
        (RefusalKind.LIMITS, {"targets": ("gpu:GPU-elsewhere",)}),
        (RefusalKind.LIMITS, {"lease_s": 601.0}),
    ],
)
def test_what_is_not_right_is_refused_counted_reported_and_changes_nothing(
    rig: Rig, kind: RefusalKind, change: dict[str, object]
) -> None:
    now_ns = rig.clock.utc_ns()
    if "life_s" in change:
        change = {"expires_ns": now_ns + round(float(str(change["life_s"])) * NS_PER_S)}
    elif "ahead_s" in change:
        issued_ns = now_ns + round(float(str(change["ahead_s"])) * NS_PER_S)
        change = {"issued_ns": issued_ns, "expires_ns": issued_ns + NS_PER_S}
    answer = rig.send(rig.ask(**change))
    assert answer.kind == kind
    assert answer.reason
    assert rig.admission.counts == {kind: 1}
    assert len(rig.published) == 1
    assert rig.knob.writes == []


def test_a_forged_signature_a_strange_token_and_a_service_that_is_not_known_are_refused(rig: Rig) -> None:
    stranger = Ed25519PrivateKey.generate()
    cases = [
        (rig.body(rig.ask(), key=stranger), rig.peer()),
        (rig.body(rig.ask(), token=rig.token_for("fleet-a", key=stranger)), rig.peer()),
        (rig.body(rig.ask(), token="none"), rig.peer()),
        (rig.body(rig.ask(fleet="fleet-c")), rig.peer("fleet-c")),
    ]
    for body, peer in cases:
        assert rig.admission.handle(body, peer).kind == RefusalKind.FORGED
    changed = json.loads(rig.body(rig.ask()))
    changed["ask"] = changed["ask"].replace("0.66", "0.99")
    assert rig.admission.handle(json.dumps(changed).encode(), rig.peer()).kind == RefusalKind.FORGED
    assert rig.admission.counts == {RefusalKind.FORGED: 5}
    assert all(isinstance(one, Event) for one in rig.published)
    assert rig.knob.writes == []


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"ask":1}', b"\xff" * 10, b"x" * (33 << 10)])
def test_a_body_that_is_no_request_is_refused(rig: Rig, body: bytes) -> None:
    assert rig.admission.handle(body, rig.peer()).kind == RefusalKind.MALFORMED


def test_a_token_allows_its_scopes_for_its_service_while_it_lives_and_until_it_is_revoked(rig: Rig) -> None:
    reads = rig.token_for("fleet-a", READ)
    assert rig.admission.handle(rig.body(rig.ask(), token=reads), rig.peer()).kind == RefusalKind.SCOPE
    assert rig.admission.may_read(reads, rig.peer()) == ""
    acts = rig.token_for("fleet-a", act(ActionClass.CLOCK_CAP))
    assert "no scope read" in rig.admission.may_read(acts, rig.peer())
    assert "for fleet-b" in rig.admission.may_read(rig.token_for("fleet-b", READ), rig.peer())
    rig.clock.advance(86_401.0)
    assert "not valid now" in rig.admission.may_read(reads, rig.peer())


def test_an_older_term_and_a_twin_of_the_same_term_are_fenced_off(rig: Rig) -> None:
    assert rig.send(rig.ask(term=7, instance="new")).kind == DONE
    assert rig.send(rig.ask(term=6, instance="old")).kind == RefusalKind.FENCED
    assert rig.send(rig.ask(term=7, instance="twin")).kind == RefusalKind.FENCED
    rig.restart()
    assert rig.send(rig.ask(term=6, instance="old")).kind == RefusalKind.FENCED
    assert rig.admission.status()["terms"] == {"fleet-a": 7}


def test_the_rails_of_the_node_hold_for_a_fleet(rig: Rig) -> None:
    with_rails(rig, modes={ActionClass.CLOCK_CAP: Mode.RECOMMEND})
    assert rig.send(rig.ask()).reason == "actions.clock_cap is recommend here"
    with_rails(rig, approval=frozenset({ActionClass.CLOCK_CAP}))
    assert "approval" in rig.send(rig.ask()).reason
    with_rails(rig, capped_gpus_max=1)
    assert "4 GPUs would be capped, at most 1" in rig.send(rig.ask()).reason
    with_rails(rig)
    rig.breaker = "three decisions failed"
    assert "three decisions failed" in rig.send(rig.ask()).reason
    assert rig.knob.writes == []


def test_new_actions_of_an_hour_are_bounded_over_a_restart_and_a_change_is_none(rig: Rig) -> None:
    with_rails(rig, actions_per_hour=2)
    assert rig.send(rig.ask(incident_id="i-1")).kind == DONE
    assert rig.send(rig.ask(incident_id="i-2")).kind == DONE
    rig.restart()
    assert "2 new clock_cap actions an hour" in rig.send(rig.ask(incident_id="i-3")).reason
    assert rig.send(rig.ask(incident_id="i-2", ratio=0.6)).kind == DONE
    rig.clock.advance(3601.0)
    assert rig.send(rig.ask(incident_id="i-3")).kind == DONE


def test_a_request_that_cannot_be_remembered_is_not_carried_out(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise TransientError("disk full")

    monkeypatch.setattr(ReplayProtection, "take", full)
    assert rig.send(rig.ask()).kind == RefusalKind.FAILED
    assert rig.knob.writes == []


def test_a_request_that_waited_for_the_disk_until_it_expired_is_not_begun(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReplayProtection, "take", lambda *_, **__: rig.clock.advance(21.0))
    assert rig.send(rig.ask()).kind == RefusalKind.STALE
    assert rig.knob.writes == []


def test_a_client_that_floods_the_port_is_counted_and_fills_no_disk(rig: Rig) -> None:
    for _ in range(100):
        rig.admission.reject_peer("192.0.2.1", "no certificate")
    assert rig.admission.counts[RefusalKind.FORGED] == 100
    assert len(rig.published) == EVENTS_PER_MINUTE


def test_maintenance_and_a_silence_of_the_node_hold_for_a_fleet_as_for_its_guard(rig: Rig) -> None:
    cap = frozenset({ActionClass.CLOCK_CAP})
    now_ns = rig.clock.utc_ns()
    work = Maintenance(start_ns=now_ns - 1, until_ns=now_ns + 60 * NS_PER_S, why="new cables", stops=cap)
    with_rails(rig, maintenance=(work,))
    assert "new cables" in rig.send(rig.ask()).reason
    rig.clock.advance(61.0)
    rig.silence = "silenced by ann"
    with_rails(rig, silence_stops=cap)
    assert rig.send(rig.ask()).reason == "silenced by ann"
    assert rig.knob.writes == []
    with_rails(rig)  # as it is by default a silence stops what calls people, and no cap
    assert rig.send(rig.ask()).kind == DONE


def test_new_actions_of_a_day_are_bounded_and_the_guards_own_are_counted_with_them(rig: Rig) -> None:
    with_rails(rig, actions_per_day=2)
    rig.guard_acted_ns = ((ActionClass.CLOCK_CAP, rig.clock.utc_ns()),)
    assert rig.send(rig.ask(incident_id="i-1")).kind == DONE
    rig.clock.advance(7200.0)
    rig.restart()
    assert "2 new clock_cap actions a day" in rig.send(rig.ask(incident_id="i-2")).reason


def test_half_a_line_on_a_full_disk_costs_no_later_request_its_place_in_memory(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:20]))
        assert rig.send(rig.ask()).kind == RefusalKind.FAILED
    body = rig.body(rig.ask())
    assert rig.admission.handle(body, rig.peer()).kind == DONE
    rig.restart()
    assert rig.admission.handle(body, rig.peer()).kind == RefusalKind.REPLAYED


def test_no_text_of_a_service_moves_the_cursor_of_its_readers_terminal(rig: Rig) -> None:
    body = json.loads(rig.body(rig.ask()))
    assert rig.admission.handle(json.dumps(body | {"\x1b[2J": 1}).encode(), rig.peer()).kind == RefusalKind.MALFORMED
    fields = json.loads(body["ask"]) | {"reason": "all is well\n\x1b[1A"}
    text = json.dumps(fields)
    signed = body | {"ask": text, "signature": rig.key.sign(SIGNED_AS + text.encode()).hex()}
    assert rig.admission.handle(json.dumps(signed).encode(), rig.peer()).kind == RefusalKind.MALFORMED
    assert len(rig.published) == 2
    assert all(isinstance(one, Event) and one.message.isprintable() for one in rig.published)
