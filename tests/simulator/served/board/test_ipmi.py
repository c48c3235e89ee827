"""The IPMI side, read with ipmitool."""

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from simulator.served.board.ipmi import CIPHER_SUITE, PASSWORD, USER, IpmiController
from simulator.served.board.status import ControllerState
from telemetry.clock import SystemClock
from telemetry.errors import EnvironmentLacksError
from tests.services import require
from tests.simulator.served.board.boards import KIND, NODE, READINGS, readings

SEEN_S = 60.0


def started(folder: Path, board: ControllerState, *, port: int = 0) -> IpmiController:
    return IpmiController(folder, board.sensors, first=board.status.raw, name="v100x4", port=port)


@pytest.fixture
def board() -> ControllerState:
    made = ControllerState(NODE, KIND)
    made.show(READINGS, time_ns=0, powered=True)
    return made


@pytest.fixture
def controller(tmp_path: Path, board: ControllerState) -> Iterator[IpmiController]:
    require("ipmi_sim")
    require("ipmitool")
    made = started(tmp_path / "bmc", board)
    yield made
    made.close()


def ipmitool(controller: IpmiController, *arguments: str) -> str:
    login = ["-I", "lanplus", "-C", str(CIPHER_SUITE), "-H", "127.0.0.1", "-p", str(controller.port)]
    command = ["ipmitool", *login, "-U", USER, "-P", PASSWORD, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def log_with(controller: IpmiController, fields: str) -> str:
    """Return the log once it holds `fields`; the controller scans its sensors twenty times a second."""
    clock = SystemClock()
    end_s = clock.monotonic_s() + SEEN_S
    while fields not in (text := ipmitool(controller, "sel", "elist")):
        assert clock.monotonic_s() < end_s, text
    return text


@pytest.mark.integration
def test_ipmitool_reads_what_the_sensors_measured(controller: IpmiController) -> None:
    rows = dict(line.split("|")[:2] for line in ipmitool(controller, "sdr", "list").splitlines())
    read = {name.strip(): value.strip() for name, value in rows.items()}
    assert read["P12V"].startswith("12.03 ")
    assert read["Inlet Temp"] == "22 degrees C"
    assert read["Node Power"] == "1550 Watts"
    assert read["PSU0 Vin"] == "120 Volts"
    assert read["FAN0"] == "12500 RPM"
    assert len(read) == len(NODE.supply.units) * 6 + NODE.cooling.fans + 5


@pytest.mark.integration
def test_a_sag_and_a_lost_supply_come_into_the_log_and_leave_again(
    controller: IpmiController, board: ControllerState
) -> None:
    ok, volts = READINGS.psu_ok.copy(), READINGS.psu_input_v.copy()
    ok[1], volts[1] = False, 0.0
    board.show(readings(bus_v=np.array([10.71]), psu_ok=ok, psu_input_v=volts), time_ns=0, powered=True)
    controller.show(board.status.raw)
    assert "PSU1 Status | Power Supply AC lost | Asserted" in log_with(controller, "AC lost")
    assert "Lower Critical going low  | Asserted" in log_with(controller, "Lower Critical")
    board.show(READINGS, time_ns=0, powered=True)
    controller.show(board.status.raw)
    assert "AC lost | Deasserted" in log_with(controller, "AC lost | Deasserted")


@pytest.mark.integration
def test_nothing_is_in_the_log_before_anything_happened(controller: IpmiController) -> None:
    assert "Entries          : 0" in ipmitool(controller, "sel", "info")


@pytest.mark.integration
def test_the_chassis_is_on_until_it_is_switched_off_and_no_other_user_can_do_it(controller: IpmiController) -> None:
    assert "System Power         : on" in ipmitool(controller, "chassis", "status")
    with pytest.raises(subprocess.CalledProcessError):
        ipmitool(controller, "chassis", "power", "off")
    assert ipmitool(controller, "chassis", "power", "status") == "Chassis Power is on\n"
    controller.switch(on=False)
    assert ipmitool(controller, "chassis", "power", "status") == "Chassis Power is off\n"


@pytest.mark.integration
def test_a_critical_interrupt_is_one_entry(controller: IpmiController) -> None:
    controller.interrupt(on=True)
    log_with(controller, "Bus Fatal Error")
    controller.interrupt(on=False)
    assert ipmitool(controller, "sel", "elist").count("Critical Interrupt") == 1


@pytest.mark.integration
def test_it_is_gone_after_it_was_closed(tmp_path: Path, board: ControllerState) -> None:
    require("ipmi_sim")
    made = started(tmp_path / "bmc", board)
    assert made.running
    made.close()
    with pytest.raises(ProcessLookupError):
        os.kill(made.pid, 0)


@pytest.mark.integration
def test_a_taken_port_is_reported(tmp_path: Path, board: ControllerState) -> None:
    require("ipmi_sim")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(EnvironmentLacksError, match=f"UDP port {taken.getsockname()[1]}"):
            started(tmp_path / "bmc", board, port=taken.getsockname()[1])


def test_without_the_program_it_is_stated_how_to_get_it(
    tmp_path: Path, board: ControllerState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentLacksError, match="apt-get install openipmi"):
        started(tmp_path / "bmc", board)
