"""Acceptance of a GPU of a running node: the guard applies it, it is recorded, and it counts as no page."""

from pathlib import Path

import pytest

from tests.integration.running import node_up, railwatch

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.mark.soak
def test_a_gpu_is_accepted_and_the_record_states_who_and_why(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with node_up(data, "--simulate", "v100x4", "--scenario", "healthy") as node:
        node.until((node.run_dir / "baselines.json").exists, what="the guard tells what is learnt")
        listed = railwatch("baselines", "list", "--data-dir", str(data), "--json")
        assert {row["detector"] for row in listed.rows} >= {"novelty", "thermal_resistance", "source_resistance"}
        output = railwatch(
            "baselines", "accept", "gpu1", "--why", "new pads", "--who", "ada", "--data-dir", str(data), "--json"
        )
        assert output.status == 0, output.err
        (row,) = output.rows
        assert [row[key] for key in ("type", "verb", "who", "why")] == ["command", "accept_baseline", "ada", "new pads"]
        assert row["subject"].startswith("gpu:")
        node.until(lambda: [one for one in node.api("events") if one["kind"] == "baseline"], what="it is on record")
        unknown = railwatch("baselines", "accept", "gpu9", "--why", "x", "--data-dir", str(data))
        assert unknown.status == 1
        assert "gpu0" in unknown.err
        pages = node.api("status")["pages"]
        assert pages["pages"] == 0
        assert pages["budget_per_node_month"] == 0.1
        rate = railwatch("incidents", "rate", "--data-dir", str(data), "--json")
        assert rate.rows[0]["pages"] == 0
    after = railwatch("baselines", "list", "--data-dir", str(data))
    assert after.status == 3
