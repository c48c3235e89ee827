"""A node with everything: what goes together and what is left out."""

from pathlib import Path

import pytest
import urllib3

from simulator.files.node import load_node
from simulator.files.scenario import load_scenario
from simulator.plant.events import PlantEvent, PlantEventKind
from simulator.served.board.interface import BoardInterface
from simulator.served.served_node import BoardOptions, serve_node
from telemetry.errors import EnvironmentLacksError
from tests.simulator.hand_clock import HandClock
from tests.simulator.served.board.boards import NODE
from tests.simulator.served_plant import served_plant

HEALTHY = load_scenario("healthy", NODE)


def test_a_node_without_a_controller_states_so_and_is_served_all_the_same(tmp_path: Path) -> None:
    served = serve_node(load_node("v100x4"), HEALTHY, seed=1, run_dir=tmp_path, clock=HandClock(), board=BoardOptions())
    assert served.notes == ("v100x4 has no management controller: no IPMI, no Redfish",)
    assert served.redfish is None
    served.close()
    with pytest.raises(ValueError, match="no management controller"):
        BoardInterface(load_node("v100x4"))


def test_without_ipmi_sim_redfish_is_still_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    served = serve_node(NODE, HEALTHY, seed=1, run_dir=tmp_path, clock=HandClock(), board=BoardOptions())
    try:
        assert served.ipmi is None
        assert "apt-get install openipmi" in served.notes[0]
        assert served.redfish is not None
        answer = urllib3.request("GET", f"{served.redfish.address}Chassis/1/Sensors/P12V", timeout=5)
        assert answer.json()["Reading"] > 11.0
    finally:
        served.close()


def test_where_ipmi_is_needed_a_missing_program_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    options = BoardOptions(ipmi_needed=True)
    with pytest.raises(EnvironmentLacksError, match="ipmi_sim"):
        serve_node(NODE, HEALTHY, seed=1, run_dir=tmp_path, clock=HandClock(), board=options)


def test_the_controller_follows_the_sensors_and_logs_what_happens(tmp_path: Path) -> None:
    face = BoardInterface(NODE)
    with served_plant(tmp_path, node=NODE) as plant:
        plant.add(face)
        plant.advance(11_000)
        assert plant.bank.bmc is not None
        assert face.board.status.value(face.board.sensors[0]) == round(plant.bank.bmc.rail_v, 3)
        face.receive_event(PlantEvent(time_ms=0, kind=PlantEventKind.BMC_CRITICAL, gpu=2), time_ns=1)
        face.receive_event(PlantEvent(time_ms=0, kind=PlantEventKind.POWER_OFF), time_ns=2)
        face.receive_event(PlantEvent(time_ms=0, kind=PlantEventKind.JOB_HUNG), time_ns=3)
    reported = [entry.message for entry in face.board.status.log][-2:]
    assert [entry.sensor and entry.sensor.name for entry in face.board.status.log][-2:] == ["Critical Int", None]
    assert reported == ["Critical interrupt: bus fatal error at 0000:1d:00.0", "System power turned off"]
