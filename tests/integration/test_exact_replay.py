"""A replay says what the live run said, to the byte."""

import json
from pathlib import Path

import pytest

from agent.guard.step_log import TABLE as STEPS
from telemetry.recording import read_recording
from tests.integration.recorded import one_recording, options
from tests.integration.running import node_up, quick_sag, railwatch

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


@pytest.mark.parametrize("what", ["drop", "sag"])
def test_a_replay_gives_the_findings_and_incidents_of_the_live_run_to_the_byte(tmp_path: Path, what: str) -> None:
    scenario = options(tmp_path)[:4] if what == "drop" else quick_sag(tmp_path)
    (tmp_path / "conf.yaml").write_text("recorder: {before: 40s, after: 3s, flush: 1s}\n")
    by_hand = tmp_path / "ring.parquet"
    with node_up(tmp_path / "data", *scenario, "--config", str(tmp_path / "conf.yaml")) as node:
        by_itself = one_recording(node, within_s=60.0)
        done = railwatch("record", "--out", str(by_hand), "--data-dir", str(node.data_dir))
        assert done.status == 0, done.err
        assert node.end() == 0, node.story()
    journal = (node.data_dir / "journal" / "guard.jsonl").read_text().splitlines()
    for path in (by_itself, by_hand):
        replayed = railwatch("replay", str(path), "--json")
        assert replayed.status == 0, replayed.err
        last_ns = max(int(frame.time_ns[-1]) for frame in read_recording(path).frames() if frame.spec.name == STEPS)
        for kind in ("event", "finding", "incident"):
            live = [line for line in journal if (row := json.loads(line))["type"] == kind and row["time_ns"] <= last_ns]
            again = [line for line in replayed.out.splitlines() if json.loads(line)["type"] == kind]
            assert live or kind == "event"
            assert [json.loads(line) for line in again] == [json.loads(line) for line in live], (kind, path.name)
