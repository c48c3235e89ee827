"""Actions of a node outside its GPUs: a program runs, a job gets a checkpoint request, a drain comes and goes."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from railwatch.run_context import read_status
from tests.integration.responding import PROGRAM, SCONTROL
from tests.integration.running import Fields, Node, environment, node_up, quick_sag

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
TEXTS = "a rail that sags is answered outside the GPUs too"


def policy(action: str, *, then: dict[str, Any]) -> dict[str, Any]:
    case = {"cause": "supply_sag", "severity": "critical", "entity_kind": "supply"}
    return {
        "id": f"sag-{action}",
        "status": "experimental",
        "why": TEXTS,
        "source": ["a test"],
        "when": {"cause": "supply_sag"},
        "then": {"action": action, "cooldown": "10m", "budget": {"actions": 3}, **then},
        "cases": [
            {"name": "it fires", "incident": case, "expect": {"action": action}},
            {"name": "it stays quiet", "incident": {**case, "cause": "gpu_lost"}, "expect": "none"},
        ],
    }


def up(folder: Path) -> tuple[str, ...]:
    """Return the options of a node that sags at once and may take every action."""
    for name, text in (("scontrol", SCONTROL), ("program", PROGRAM)):
        (folder / name).write_text(text.format(folder=folder))
        (folder / name).chmod(0o755)
    rules = folder / "rules"
    rules.mkdir()
    for made in (
        policy("hook", then={"program": "tell"}),
        policy("checkpoint", then={"parameters": {"checkpoint": "train"}}),
        policy("drain", then={}),
    ):
        (rules / f"{made['id']}.yaml").write_text(yaml.safe_dump(made))
    config = {
        "actions": {"hook": "enforce", "checkpoint": "enforce", "drain": "enforce"},
        "limits": {"spacing": "1s"},
        "rules": {"dirs": [str(rules)]},
        "actuators": {
            "drain": ["slurm"],
            "slurm": {"node": "box", "folder": str(folder)},
            "hooks": {"tell": {"command": [str(folder / "program")], "timeout": "5s"}},
            "checkpoints": {"train": {"file": str(folder / "asked")}},
        },
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return ("--config", str(folder / "config.yaml"), *quick_sag(folder))


def reported(node: Node, knob: str, state: str) -> Fields:
    return node.line(type="action", knob=knob, state=state)


def test_a_sag_runs_a_program_asks_for_a_checkpoint_and_drains_until_the_simulated_node_ends(tmp_path: Path) -> None:
    with node_up(tmp_path / "data", *up(tmp_path), env=environment()) as node:
        hook = reported(node, "hook", "done")
        assert "exit status 0" in hook["reason"]
        assert len((tmp_path / "ran").read_text().split()) == 1
        assert "no confirmation is configured" in reported(node, "checkpoint", "done")["reason"]
        assert (tmp_path / "asked").exists()
        drained = reported(node, "slurm_drain", "applied")
        assert drained["incident_id"] == hook["incident_id"]
        assert drained["incident_id"] in (tmp_path / "node").read_text()
        # No act before its decision, as for those on the GPUs.
        lines = [(line["type"], line.get("id"), line.get("decision_id")) for line in node.lines]
        for act in (hook, drained):
            decided = lines.index(("decision", act["decision_id"], None))
            assert decided < lines.index(("action", act["id"], act["decision_id"]))
        node.until(lambda: runs(node) == 1, what="the responder tells of itself that the program ran")
        assert node.end() == 0, node.story()
    assert (tmp_path / "node").read_text() == "IDLE"
    assert reported(node, "slurm_drain", "released")["reason"] == "the simulated node ended"


def runs(node: Node) -> int:
    """Return how often the responder reported that a program ran."""
    counts: dict[str, dict[str, int]] = read_status(node.context.responder_status_path).get("actuators", {})
    return counts.get("hook", {}).get("done", 0)
