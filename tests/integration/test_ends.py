"""Ends of a run and of its parts: no cap is left behind, and none is lost while its cause lasts."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import urllib3

from railwatch.cli import actions
from simulator.driver.state import StateFile
from telemetry.errors import EnvironmentLacksError
from tests.integration.running import PATIENCE_S, Node, environment, node_up, quick_sag, railwatch

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
GPUS = 4
NO_CAPS = (0,) * GPUS
# A detector that starts afresh does not know what it had found: the incident book waits this long for it to be reported
# again before it takes it for over. The sag detector needs a training step and its hold time, about two seconds.
SOON_CONFIRMED = environment(RAILWATCH_INCIDENTS__CONFIRM_S="8s")
# Three rounds of the rules, which decide once a second on what lasts.
STAYS_AWAY_S = 3.0


class Clocks:
    """Clock limits in force in a plant, readable even after its files are gone."""

    def __init__(self, node: Node) -> None:
        path = node.context.state_file
        assert path is not None
        self._state = StateFile(Path(path), mode="read")

    def capped_mhz(self) -> tuple[int, ...]:
        """Return the clock at which each GPU is held; 0 for a free one."""
        requests = (self._state.record["request"][index] for index in range(GPUS))
        return tuple(int(own["app_sm_clock_mhz"]) if own["app_clock_is_set"] else 0 for own in requests)

    def close(self) -> None:
        self._state.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Capped:
    """Node whose GPUs are all capped."""

    node: Node
    clocks: Clocks

    def all_are_capped(self) -> bool:
        return all(self.clocks.capped_mhz())


@pytest.fixture
def capped(tmp_path: Path) -> Iterator[Capped]:
    with ExitStack() as stack:
        yield _capped(stack.enter_context(node_up(tmp_path / "data", *quick_sag(tmp_path), env=SOON_CONFIRMED)), stack)


def _capped(node: Node, stack: ExitStack) -> Capped:
    node.line(type="action", state="applied")
    clocks = Clocks(node)
    stack.callback(clocks.close)
    node.until(lambda: all(clocks.capped_mhz()), what="all four are capped")
    return Capped(node=node, clocks=clocks)


def test_a_cap_in_force_is_released_by_ctrl_c_however_often_it_is_pressed(capped: Capped) -> None:
    node = capped.node
    for _ in range(50):
        node.process.send_signal(signal.SIGINT)
    assert node.end() == 0, node.story()
    assert capped.clocks.capped_mhz() == NO_CAPS
    summary = node.lines[-1]
    assert (summary["type"], summary["caps_left"], summary["troubles"]) == ("summary", 0, {})
    assert len({line["entity_id"] for line in node.of(type="action", state="released")}) == GPUS
    assert node.leftovers() == []


def test_a_cap_in_force_is_released_when_the_supervisor_is_killed(capped: Capped) -> None:
    node = capped.node
    node.process.kill()
    node.process.wait(PATIENCE_S)
    node.until(lambda: not node.pids() or None, what="its processes end by themselves")
    assert capped.clocks.capped_mhz() == NO_CAPS
    journal = (node.data_dir / "journal" / "actuator.jsonl").read_text()
    assert journal.count('"state":"released"') >= GPUS
    with pytest.raises(EnvironmentLacksError, match="the run has ended; its knobs: none left, the simulated GPUs"):
        actions.verify(data_dir=node.data_dir)


def test_after_the_supervisor_was_killed_the_next_run_starts_on_the_same_data(capped: Capped) -> None:
    node = capped.node
    node.process.kill()
    node.process.wait(PATIENCE_S)
    # Not even a moment for the orphans to end: the next start has to get along with them.
    with node_up(node.data_dir, "--simulate", "v100x4", "--for", "3s") as again:
        assert again.wait() == 0, again.story()
        assert again.lines[-1]["troubles"] == {}
    assert node.pids() == []


def test_a_killed_process_is_started_again_while_the_cap_stays_in_force_until_sigterm(capped: Capped) -> None:
    node = capped.node
    # A slow machine is here long enough for the rules to learn under a tight cap how much looser it may be.
    first_mhz = capped.clocks.capped_mhz()
    for name in ("actuator", "service", "sampler"):
        loss = kill_child(node, name)
        node.until(loss.is_made_good, what=f"{name} runs again, samples are on the page")
        node.until(capped.all_are_capped, what=f"all four are capped again after {name} was killed")
        assert max(capped.clocks.capped_mhz()) <= max(first_mhz), name
        node.until(lambda: sags(node)[-1]["state"] == "mitigated", what=f"it helps again, after {name}")
    assert node.end(signal.SIGTERM) == 0, node.story()
    assert capped.clocks.capped_mhz() == NO_CAPS
    summary = node.lines[-1]
    assert summary["caps_left"] == 0, node.story()
    assert len({line["id"] for line in sags(node)}) == 1, "the incident outlives them all"
    assert (summary["restarts"], summary["troubles"]) == (3, {}), node.story()
    assert "impossible" not in node.story(), "what was learnt is restored as it was saved"
    assert node.leftovers() == []


def sags(node: Node) -> list[dict[str, Any]]:
    """Return the reports of the incident of the rail; the joints behind it may be found while the test lasts."""
    return node.of(type="incident", cause="supply_sag")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Process that was killed, and the last sample that the page had then."""

    node: Node
    name: str
    pid: int
    sampled_ns: int

    def is_made_good(self) -> bool:
        """Return True if another process has taken its place and newer samples are on the page."""
        if not {*self.node.pids(f"railwatch.processes.{self.name}")} - {self.pid}:
            return False
        try:
            sampler = self.node.api("status")["sampler"]
        except (AssertionError, urllib3.exceptions.HTTPError):  # the page is away while the service is
            return False
        return (sampler["last_sample_ns"] or 0) > self.sampled_ns and sampler["age_s"] < 2.0


def kill_child(node: Node, name: str) -> Loss:
    (pid,) = node.pids(f"railwatch.processes.{name}")
    sampled_ns = node.api("status")["sampler"]["last_sample_ns"]
    os.kill(pid, signal.SIGKILL)
    return Loss(node=node, name=name, pid=pid, sampled_ns=sampled_ns)


def test_a_cap_taken_back_by_hand_stays_away_until_the_incident_closes(capped: Capped) -> None:
    node = capped.node
    acts = node.until(lambda: node.acts(state="applied"), what="the rules' own caps")
    incident_id = acts[0]["incident_id"]
    done = railwatch("actions", "release", incident_id, "--data-dir", str(node.data_dir), "--json")
    assert done.status == 0, done.err
    assert {row["state"] for row in done.rows} == {"released"}
    assert {row["simulated"] for row in done.rows} == {True}
    assert len(done.rows) == GPUS
    assert capped.clocks.capped_mhz() == NO_CAPS
    # The rail sags again, and the rule would cap again: what a person took back stays back.
    threading.Event().wait(STAYS_AWAY_S)
    assert capped.clocks.capped_mhz() == NO_CAPS
    assert node.end() == 0, node.story()
