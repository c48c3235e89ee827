"""Sessions begin, last and end."""

from simulator.served.board.redfish.sessions import SESSIONS_MAX, TIMEOUT_S, RedfishSession, RedfishSessions
from tests.simulator.hand_clock import HandClock
from tests.simulator.served.board.redfish.conftest import PASSWORD, USER


def begun(sessions: RedfishSessions) -> RedfishSession:
    session = sessions.begin(user=USER, password=PASSWORD)
    assert session is not None
    return session


def admitted(sessions: RedfishSessions, session: RedfishSession) -> bool:
    return sessions.admits({"x-auth-token": session.token})


def test_a_session_that_is_used_lasts_and_an_idle_one_ends(sessions: RedfishSessions, clock: HandClock) -> None:
    used, idle = begun(sessions), begun(sessions)
    for _ in range(3):
        clock.now_s += 0.6 * TIMEOUT_S
        assert admitted(sessions, used)
    assert not admitted(sessions, idle)


def test_no_client_gets_in_without_a_token_or_with_another(sessions: RedfishSessions) -> None:
    session = begun(sessions)
    assert not sessions.admits({})
    assert not sessions.admits({"x-auth-token": ""})
    assert not sessions.admits({"x-auth-token": session.token[:-1]})
    assert sessions.begin(user=USER, password="guess") is None
    assert sessions.begin(user=f"{USER}\0x", password=PASSWORD) is None


def test_one_too_many_ends_the_one_that_was_idle_longest(sessions: RedfishSessions, clock: HandClock) -> None:
    opened = []
    for _ in range(SESSIONS_MAX + 1):
        clock.now_s += 1.0
        opened.append(begun(sessions))
    assert [admitted(sessions, session) for session in opened] == [False] + [True] * SESSIONS_MAX


def test_a_session_ends_once(sessions: RedfishSessions) -> None:
    session = begun(sessions)
    assert sessions.end(session.path)
    assert not sessions.end(session.path)
    assert not sessions.end("/redfish/v1/Systems/1")
