"""The whole way over a real ``ipmitool`` to a real ``ipmi_sim``: values, changes, entries, a hang."""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from agent.collectors.bmc.board import Board, BoardLog, BoardNode, BoardTable
from agent.collectors.bmc.ipmi import IpmiLink
from agent.collectors.bmc.ipmi_port import IpmiRequest
from agent.collectors.bmc.ipmitool import IpmitoolPort
from agent.collectors.bmc.settings import BmcKind, BmcSettings
from agent.collectors.port import Collector
from agent.sampler.counters import SamplerCounters
from agent.sampler.sampler import Sampler, make_ring
from agent.sampler.settings import Pace, SamplerSettings
from simulator.served.board import ipmi
from simulator.served.board.status import ControllerState as SimulatedBoard
from telemetry.clock import SystemClock
from telemetry.entities import NOMINAL_SOURCE_TAG, Topology
from telemetry.errors import EnvironmentLacksError, NotPermittedError, TransientError
from telemetry.records import Event, EventKind, Severity
from tests.services import require
from tests.simulator.served.board.boards import KIND, NODE, READINGS, readings

SEEN_S = 60.0
DEVICE_ID = IpmiRequest(function=0x06, command=0x01)
CLOCK = SystemClock()


@dataclass(slots=True)
class Real:
    simulated: SimulatedBoard
    controller: ipmi.IpmiController
    settings: BmcSettings
    port: IpmitoolPort
    board: Board

    def show(self, **changes: object) -> None:
        self.simulated.show(readings(**changes), time_ns=0, powered=True)
        self.controller.show(self.simulated.status.raw)


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Real]:
    require("ipmi_sim")
    require("ipmitool")
    monkeypatch.setenv("IPMI_PASSWORD", ipmi.PASSWORD)
    simulated = SimulatedBoard(NODE, KIND)
    simulated.show(READINGS, time_ns=0, powered=True)
    controller = ipmi.IpmiController(tmp_path / "bmc", simulated.sensors, first=simulated.status.raw, name="n")
    settings = BmcSettings(
        kind=BmcKind.IPMI,
        address="127.0.0.1",
        port=controller.port,
        user=ipmi.USER,
        cipher_suite=ipmi.CIPHER_SUITE,
        interval_s=0.5,
    )
    port = IpmitoolPort(settings, clock=CLOCK)
    board = Board(IpmiLink(port, clock=CLOCK, round_s=3.0), node="n", clock=CLOCK, interval_s=0.5)
    yield Real(simulated, controller, settings, port, board)
    port.close()
    os.kill(controller.pid, signal.SIGCONT)
    controller.close()


def as_ipmitool_prints(real: Real) -> dict[str, float]:
    login = ["-I", "lanplus", "-C", str(ipmi.CIPHER_SUITE), "-H", "127.0.0.1", "-p", str(real.controller.port)]
    command = ["ipmitool", *login, "-U", ipmi.USER, "-E", "sensor"]
    text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    rows = [[cell.strip() for cell in line.split("|")[:3]] for line in text.splitlines()]
    return {name: float(value) for name, value, unit in rows if unit != "discrete"}


def wait_for_events(log: BoardLog, count: int) -> list[Event]:
    events: list[Event] = []
    end_s = CLOCK.monotonic_s() + SEEN_S
    while len(events) < count and CLOCK.monotonic_s() < end_s:
        events += log.poll(0.1)
    return events


@pytest.mark.integration
def test_every_value_is_the_one_that_ipmitool_prints(real: Real) -> None:
    printed = as_ipmitool_prints(real)
    link = real.board.link
    names = {point.key: point.name for point in link.open()}
    values = {names[key]: value for key, value in link.read().items()}
    assert len(printed) == len(NODE.supply.units) * 5 + NODE.cooling.fans + 4
    assert {name: values[name] for name in printed} == pytest.approx(printed, abs=5e-4)  # it prints three decimals


@pytest.mark.integration
def test_the_thresholds_of_the_controller_name_the_nominal_voltage_of_its_rail(real: Real) -> None:
    supplies = real.board.survey().supplies
    assert supplies is not None
    named = {one.key: (one.nominal_v, one.tag(NOMINAL_SOURCE_TAG)) for one in supplies.spec.entities}
    assert named["bmc-p12v"] == (12.0, "BMC thresholds")
    assert {nominal for key, nominal in named.items() if key != "bmc-p12v"} == {(None, None)}, "outputs have none"


@pytest.mark.integration
def test_a_change_is_seen_at_the_next_read_once_the_controller_has_it(real: Real) -> None:
    node = BoardNode(real.board, real.board.survey().node)
    row, column = np.full(node.spec.shape, np.nan), node.spec.signals.index("rail_voltage_v")
    node.read(row)
    assert row[0, column] == pytest.approx(12.033)
    real.show(rail_v=11.403)
    end_s = CLOCK.monotonic_s() + SEEN_S
    while row[0, column] != pytest.approx(11.403):
        assert CLOCK.monotonic_s() < end_s
        node.read(row)


@pytest.mark.integration
def test_a_lost_supply_becomes_one_event_of_that_supply(real: Real) -> None:
    real.board.survey()
    log = BoardLog(real.board, node="n", clock=CLOCK)
    assert log.poll(0.0) == ()
    ok, volts = READINGS.psu_ok.copy(), READINGS.psu_input_v.copy()
    ok[1], volts[1] = False, 0.0
    real.show(psu_ok=ok, psu_input_v=volts)
    (event,) = wait_for_events(log, 1)
    assert (event.kind, event.severity) == (EventKind.SUPPLY, Severity.CRITICAL)
    assert event.entity_id == "supply:bmc-psu1"
    assert event.message == "PSU1 Status: input lost (AC or DC)"
    assert abs(event.time_ns - CLOCK.utc_ns()) < 10e9
    real.show()
    (over,) = wait_for_events(log, 1)
    assert over.severity is Severity.INFO


@pytest.mark.integration
def test_a_controller_that_hangs_is_abandoned_within_seconds_and_recovers(real: Real) -> None:
    real.board.survey()
    real.board.sweep()
    os.kill(real.controller.pid, signal.SIGSTOP)
    begin_s = CLOCK.monotonic_s()
    with pytest.raises(TransientError, match=r"127\.0\.0\.1:\d+: no response"):
        real.board.sweep()
    assert CLOCK.monotonic_s() - begin_s < 60.0
    assert real.port.pid is None
    os.kill(real.controller.pid, signal.SIGCONT)
    real.board.sweep()
    assert real.board.values()


@pytest.mark.integration
def test_no_password_is_on_a_command_line_and_no_process_is_left(real: Real) -> None:
    real.port.send([DEVICE_ID])
    pid = real.port.pid
    assert pid is not None
    line = Path(f"/proc/{pid}/cmdline").read_bytes()
    assert b"lanplus" in line
    assert ipmi.PASSWORD.encode() not in line
    real.port.close()
    real.port.close()
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.integration
def test_a_wrong_password_is_reported(real: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPMI_PASSWORD", "wrong")
    with pytest.raises(TransientError, match="user or password"):
        real.port.send([DEVICE_ID])


@pytest.mark.integration
def test_a_program_that_was_killed_is_started_again(real: Real) -> None:
    real.port.send([DEVICE_ID])
    pid = real.port.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(TransientError):
        real.port.send([DEVICE_ID])
    (response,) = real.port.send([DEVICE_ID])
    assert response.code == 0


@pytest.mark.integration
def test_a_refused_command_has_its_code_and_the_next_its_own_response(real: Real) -> None:
    refused, read = real.port.send([IpmiRequest(function=0x04, command=0x2D, data=b"\x63"), DEVICE_ID])
    assert (refused.code, refused.data) == (0xCC, b"")
    assert len(read.data) > 10


def test_without_the_program_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentLacksError, match="ipmitool is not installed"):
        IpmitoolPort(BmcSettings(kind=BmcKind.IPMI, address="127.0.0.1"), clock=CLOCK).send([DEVICE_ID])


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'something odd'; exit 1", "something odd"),
        ("exit 0", "has exited"),
        ("echo 'Error: Unable to establish IPMI v2 / RMCP+ session'; sleep 5", "wrong user or password"),
        ("cat > /dev/null & echo 'railwatch-end 99'; wait", "out of order"),
    ],
)
def test_other_output_than_a_response_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    program = tmp_path / "ipmitool"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    settings = BmcSettings(kind=BmcKind.IPMI, address="127.0.0.1")
    with pytest.raises(TransientError, match=re.escape(message)):
        IpmitoolPort(replace(settings, user="u"), clock=CLOCK).send([DEVICE_ID])


class TwentyTimesFaster:
    """A clock by which a silence of seconds is over in a fraction of one."""

    def monotonic_s(self) -> float:
        return 20.0 * CLOCK.monotonic_s()

    def utc_ns(self) -> int:
        return CLOCK.utc_ns()

    def sleep_until(self, monotonic_s: float) -> None:
        CLOCK.sleep_until(monotonic_s / 20.0)


def test_a_program_that_never_ends_its_line_is_abandoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "ipmitool"
    program.write_text("#!/bin/sh\nwhile sleep 0.02; do printf x; done\n", encoding="ascii")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    settings = BmcSettings(kind=BmcKind.IPMI, address="127.0.0.1", user="u")
    with pytest.raises(TransientError, match="no response within 4 s"):
        IpmitoolPort(settings, clock=TwentyTimesFaster()).send([DEVICE_ID])


def test_a_password_that_cannot_be_read_costs_no_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ipmitool").write_text("#!/bin/sh\n", encoding="ascii")
    (tmp_path / "ipmitool").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    settings = BmcSettings(kind=BmcKind.IPMI, address="127.0.0.1", password_file=tmp_path / "absent")
    port = IpmitoolPort(settings, clock=CLOCK)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with pytest.raises(NotPermittedError, match="absent"):
            port.send([DEVICE_ID])
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_a_password_of_another_controller_in_the_environment_does_not_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ipmitool"
    program.write_text('#!/bin/sh\necho "$IPMITOOL_PASSWORD $IPMI_PASSWORD"; exit 1\n', encoding="ascii")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("IPMITOOL_PASSWORD", "another")
    (tmp_path / "secret").write_text("ours\n", encoding="ascii")
    settings = BmcSettings(kind=BmcKind.IPMI, address="127.0.0.1", user="u", password_file=tmp_path / "secret")
    with pytest.raises(TransientError, match="ours ours"):
        IpmitoolPort(settings, clock=CLOCK).send([DEVICE_ID])


@pytest.mark.integration
def test_a_hang_is_reported_once_over_all_sources_and_its_end_once(real: Real, tmp_path: Path) -> None:
    layout = real.board.survey()
    assert layout.supplies is not None
    assert layout.fans is not None
    collectors: list[Collector] = [
        BoardNode(real.board, layout.node),
        BoardTable(real.board, layout.supplies),
        BoardTable(real.board, layout.fans),
    ]
    pace = Pace(rate_hz=4.0, stale_after_s=2.0, hung_after_s=6.0)
    settings = SamplerSettings(slow=pace, backoff_first_s=0.1, backoff_most_s=0.2)
    topology = Topology(entities=tuple(e for c in collectors for e in c.spec.entities))
    ring = make_ring(
        tmp_path / "ring", collectors, settings, node="n", topology=topology, simulated=False, seconds=60.0
    )
    reported: list[Event] = []
    sampler = Sampler(
        ring,
        collectors,
        clock=CLOCK,
        settings=settings,
        counters=SamplerCounters(),
        on_events=reported.extend,
        event_sources=[BoardLog(real.board, node="n", clock=CLOCK)],
    )
    sampler.start()
    os.kill(real.controller.pid, signal.SIGSTOP)
    until(lambda: bool(reported))
    os.kill(real.controller.pid, signal.SIGCONT)
    until(lambda: len(reported) > 1)
    sampler.stop()
    ring.close()
    assert [(event.severity, event.message.split(":")[0]) for event in reported] == [
        (Severity.WARNING, "Collector bmc is failing"),
        (Severity.INFO, "Collector bmc works again"),
    ]


def until(done: Callable[[], bool]) -> None:
    end_s = CLOCK.monotonic_s() + SEEN_S
    while not done():
        assert CLOCK.monotonic_s() < end_s
        CLOCK.sleep_until(CLOCK.monotonic_s() + 0.05)
