"""A board with something in its log, behind Redfish."""

import pytest

from simulator.served.board.redfish.sessions import Sessions
from simulator.served.board.redfish.tree import RedfishTree
from simulator.served.board.status import Board, Health
from tests.simulator.hand_clock import START_NS, HandClock
from tests.simulator.served.board.boards import KIND, NODE, READINGS, readings

USER, PASSWORD = "admin", "secret"


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def board() -> Board:
    made = Board(NODE, KIND)
    made.show(READINGS, time_ns=START_NS, powered=True)
    made.log(Health.CRITICAL, "Critical interrupt", time_ns=START_NS)
    made.show(readings(rail_v=10.71), time_ns=START_NS, powered=True)
    made.show(READINGS, time_ns=START_NS, powered=True)
    return made


@pytest.fixture
def tree(board: Board, clock: HandClock) -> RedfishTree:
    return RedfishTree(NODE, board, clock)


@pytest.fixture
def sessions(clock: HandClock) -> Sessions:
    return Sessions(user=USER, password=PASSWORD, clock=clock)
