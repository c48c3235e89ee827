"""Rehearsal of a thousand nodes that report a sag at once, as a command."""

import pytest

from tests.integration.running import railwatch

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def test_a_thousand_nodes_sag_and_one_person_is_reported_once() -> None:
    done = railwatch("fleet", "rehearse", "pdu-sag", "--nodes", "1000", "--json")
    (row,) = done.rows
    assert done.status == 0, done.err
    assert (row["incidents"], row["incidents_at_the_pdu"], row["pages"]) == (1, 1, 1)
    assert 1 <= row["nodes_acted_on"] == row["racks_acted_on"] <= row["budget_nodes"] == 125
    assert "wanted on 251 of 1250 nodes" in row["breaker"]
