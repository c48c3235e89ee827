"""How the actuator process is set up from the configuration, and what it does without a driver."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest

from agent.actuation import blocklist
from agent.actuation.claims import GpuTarget
from agent.actuation.client import ActuatorClient
from agent.actuation.limits import ActuatorSettings, UnreadableClocks
from agent.actuation.server import serve_actuator
from railwatch.processes.actuator import ActuatorFollower, StatusCounts, settings_of
from railwatch.run_context import DriverKind, RunContext, read_status
from railwatch.wiring.service_metrics import ACTUATOR_COUNTS
from simulator.driver.layout import ALL_GPUS
from telemetry.clock import SystemClock
from telemetry.gpu import KnobKind
from telemetry.record_journal import RecordJournalWriter
from telemetry.records import ActionState, Mode
from tests.agent.actuation.rig import cap
from tests.agent.driver.plant_file import plant_driver
from tests.agent.fakes import FakeKnob
from tests.railwatch.a_run import a_run_context
from tests.waiting import LIMIT_S, wait_for

# The process with a short limit for opening the driver, and short pauses between two questions to it.
_PROGRAM = """
import sys
from functools import partial
from railwatch.wiring import driver_watch
from railwatch.wiring.driver_status import Pauses
from railwatch.processes import actuator
driver_watch.HANGS = Pauses(first_s=0.1, next_s=0.2, longest_s=0.2)
actuator.run_child(partial(actuator.main, open_limit_s=0.3))
"""


@pytest.mark.parametrize(
    ("simulated", "actions", "mode"),
    [
        (False, {}, Mode.OBSERVE),
        (True, {}, Mode.ENFORCE),
        (True, {"clock_cap": "observe"}, Mode.OBSERVE),
        (False, {"clock_cap": "enforce", "unreadable_clocks": "allow"}, Mode.ENFORCE),
    ],
)
def test_the_actuator_goes_no_further_than_the_configuration(
    tmp_path: Path, actions: dict[str, str], mode: Mode, *, simulated: bool
) -> None:
    config = json.dumps({"actions": actions})
    context = RunContext(
        run_dir=tmp_path, config_json=config, driver=DriverKind.NONE, source="test", simulated=simulated
    )
    settings = settings_of(context)
    assert settings.knobs[KnobKind.CLOCK].highest_mode is mode
    allowed = settings.unreadable is UnreadableClocks.ALLOW
    assert allowed is ("unreadable_clocks" in actions)


def test_blocks_that_the_actuator_drops_are_counted_for_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocklist, "BLOCKED_MAX", 1)
    own, copied = StatusCounts(tmp_path / "own.json"), tmp_path / "copied.json"
    stop, ready = Event(), Event()
    thread = Thread(
        target=serve_actuator,
        args=(lambda: (FakeKnob(),), tmp_path / "a.sock", tmp_path, lambda _: None, SystemClock()),
        kwargs={"settings": ActuatorSettings(), "run_id": "1", "stop": stop, "ready": ready.set, "note": own.keep},
    )
    thread.start()
    client = ActuatorClient(tmp_path / "a.sock", timeout_s=LIMIT_S)
    try:
        assert ready.wait(LIMIT_S)
        for incident_id in ("i-1", "i-2", "i-3"):
            client.apply(cap(incident=incident_id))
            client.release_incident(incident_id, reason="by hand", bar=True)
        wait_for(lambda: read_status(tmp_path / "own.json").get("bars_dropped") == 2)
        expected = set(ACTUATOR_COUNTS.values())
        wait_for(lambda: expected <= set(read_status(tmp_path / "own.json")), "all counts of the service")
        ActuatorFollower(client, RecordJournalWriter(tmp_path / "j.jsonl"), status_path=copied).step()
    finally:
        client.close()
        stop.set()
        thread.join(60.0)
    assert expected <= set(read_status(copied)), "both files have all counts of the service"
    assert read_status(copied)["bars_dropped"] == 2


@contextmanager
def actuator(context: RunContext) -> Iterator[subprocess.Popen[bytes]]:
    """The process, ready."""
    (folder,) = (context.run_dir.parent.parent / "driver-cache").glob("nvml-*")
    environ = os.environ | {"LD_LIBRARY_PATH": str(folder)}
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(context.run_dir)],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b'{"ready":{}}\n'
        try:
            yield child
        finally:
            child.kill()


def test_a_driver_that_hangs_at_opening_does_not_hold_the_actuator_which_has_it_once_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = replace(a_run_context(tmp_path), driver=DriverKind.NVML)
    context.save()
    with plant_driver(tmp_path, monkeypatch, gpus=1) as plant:
        plant.state.set_faults([("*", ALL_GPUS, 0, 60_000_000)])
        gpu = GpuTarget(entity_id="gpu:a", uuid="GPU-00000000-0000-0000-0000-000000000000")
        request = cap(gpus=(gpu,), setting=1200.0)
        with actuator(context) as hung:
            client = ActuatorClient(context.actuator_socket, timeout_s=60.0)
            (action,) = client.apply(request)
            assert action.state is ActionState.FAILED
            assert "did not open within 0.3 s" in action.reason
            client.close()
            plant.state.set_faults([])
            assert hung.wait(60.0) == 8, "it did not make room once the driver answered"
        with actuator(context):
            client = ActuatorClient(context.actuator_socket, timeout_s=60.0)
            (action,) = client.apply(request)
            assert action.state is ActionState.APPLIED
            client.close()
