from hypothesis import given
from hypothesis import strategies as st

from agent.actuation.claims import KnobClaim, claim_of, next_deadline_s, overdue, setting_of, with_claim, without_claim
from telemetry.gpu import KnobKind
from telemetry.records import Mode


def claim(incident: str, clock_mhz: float, *, safe_mhz: float = 1005.0, deadline_s: float | None = 100.0) -> KnobClaim:
    return KnobClaim(
        incident_id=incident,
        decision_id="d",
        kind=KnobKind.CLOCK,
        setting=clock_mhz,
        safe_setting=safe_mhz,
        lease_s=100.0,
        deadline_s=deadline_s,
        lease_until_ns=None,
        owner="rule",
        mode=Mode.ENFORCE,
        reason="",
    )


def test_the_strongest_claim_wins_and_the_last_one_out_restores_what_was_found() -> None:
    claims = with_claim(with_claim((), claim("a", 1200.0)), claim("b", 1057.0))
    assert setting_of(claims, 1530.0) == 1057.0
    claims = without_claim(claims, "b")
    assert setting_of(claims, 1530.0) == 1200.0
    assert setting_of(without_claim(claims, "a"), 1530.0) == 1530.0
    assert setting_of((), None) is None


def test_a_cap_never_raises_what_was_found() -> None:
    assert setting_of((claim("a", 1200.0),), 802.0) == 802.0


def test_a_claim_of_the_same_incident_takes_the_place_of_the_earlier_one() -> None:
    claims = with_claim((claim("a", 1057.0),), claim("a", 1380.0))
    assert [item.setting for item in claims] == [1380.0]


def test_a_lease_that_ran_out_leaves_the_lower_of_safe_clock_and_claim() -> None:
    assert claim("a", 1200.0).expired().effective == 1005.0
    assert claim("a", 802.0).expired().effective == 802.0


def test_a_lease_ends_at_its_deadline_and_once() -> None:
    claims = (claim("a", 1200.0, deadline_s=50.0), claim("b", 1200.0, deadline_s=70.0))
    assert next_deadline_s(claims) == 50.0
    assert overdue(claims, 49.9) == ()
    assert [item.incident_id for item in overdue(claims, 50.0)] == ["a"]
    assert overdue(with_claim(claims, claims[0].expired()), 60.0) == ()
    assert next_deadline_s(()) is None


INCIDENTS = st.sampled_from(["a", "b", "c"])
CLOCKS = st.sampled_from([612.0, 802.0, 1005.0, 1057.0, 1530.0])
STEPS = st.lists(st.one_of(st.tuples(INCIDENTS, CLOCKS), st.tuples(INCIDENTS, st.none())), max_size=30)


@given(steps=STEPS, found=st.one_of(st.none(), CLOCKS))
def test_any_interleaving_agrees_with_a_dictionary(steps: list[tuple[str, float | None]], found: float | None) -> None:
    claims: tuple[KnobClaim, ...] = ()
    oracle: dict[str, float] = {}
    for incident, clock_mhz in steps:
        if clock_mhz is None:
            claims = without_claim(claims, incident)
            oracle.pop(incident, None)
        else:
            claims = with_claim(claims, claim(incident, clock_mhz))
            oracle[incident] = clock_mhz
        candidates = list(oracle.values()) + ([found] if found is not None and oracle else [])
        assert setting_of(claims, found) == (min(candidates) if oracle else found)
        assert {item.incident_id for item in claims} == set(oracle)
        assert (claim_of(claims, incident) is None) == (incident not in oracle)
