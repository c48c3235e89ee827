"""A board with something in its log, behind Redfish."""

import numpy as np
import pytest

from simulator.served.board.redfish.sessions import RedfishSessions
from simulator.served.board.redfish.tree import RedfishTree
from simulator.served.board.status import BoardHealth, ControllerState
from tests.simulator.hand_clock import START_NS, HandClock
from tests.simulator.served.board.boards import KIND, NODE, READINGS, readings

USER, PASSWORD = "admin", "secret"


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def board() -> ControllerState:
    made = ControllerState(NODE, KIND)
    made.show(READINGS, time_ns=START_NS, powered=True)
    made.log(BoardHealth.CRITICAL, "Critical interrupt", time_ns=START_NS)
    made.show(readings(bus_v=np.array([10.71])), time_ns=START_NS, powered=True)
    made.show(READINGS, time_ns=START_NS, powered=True)
    return made


@pytest.fixture
def tree(board: ControllerState, clock: HandClock) -> RedfishTree:
    return RedfishTree(NODE, board, clock)


@pytest.fixture
def sessions(clock: HandClock) -> RedfishSessions:
    return RedfishSessions(user=USER, password=PASSWORD, clock=clock)
