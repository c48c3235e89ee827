"""A bus of 54 V sags behind the meters of its supplies: the board controller shows it, the guard caps live."""

from pathlib import Path

import pytest

from tests.integration.running import node_up

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
QUICK = """\
name: quick-board-sag
description: The joints of one bus give way at once.
changes:
  - {at: 6s, what: psu0.joint_mohm, times: 3.85, over: 1s, sag_to: 0.945}
  - {at: 6s, what: psu1.joint_mohm, times: 3.56, over: 1s, sag_to: 0.945}
truth:
  - {cause: joint_ageing, entities: [psu0, psu1], onset: 6s}
"""


def test_the_gpus_of_the_bus_that_sags_are_capped_and_no_others(tmp_path: Path) -> None:
    scenario = tmp_path / "quick-board-sag.yaml"
    scenario.write_text(QUICK)
    with node_up(tmp_path / "data", "--simulate", "h100x8-two-bus", "--scenario", str(scenario)) as node:
        finding = node.line(type="finding", cause="supply_sag", status="raised")
        assert finding["entity_id"] == "supply:bmc-p54v-a"
        node.until(lambda: node.of(type="incident", state="mitigated"), what="the cap holds the bus")
        held = {line["entity_id"] for line in node.acts(state="applied")}
        gpus = {one["name"]: one["id"] for one in node.api("entities") if one["kind"] == "gpu"}
        assert held == {gpus[f"gpu{number}"] for number in range(4)}, node.story()
        assert node.end() == 0, node.story()
        summary = node.lines[-1]
        assert (summary["caps_left"], summary["incidents"], summary["troubles"]) == (0, 1, {}), node.story()
