"""Without a C compiler the same plant is read in process, and the start reports it."""

from pathlib import Path

import pytest

from tests.integration.running import Fields, environment, node_up, quick_sag

LIMIT_V = 11.40  # ATX12V design guides: the lowest voltage in range at the load's end
pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.mark.soak
def test_without_a_compiler_the_sag_is_capped_all_the_same_and_the_page_states_how_it_is_read(tmp_path: Path) -> None:
    home, nothing = tmp_path / "home", tmp_path / "bin"
    home.mkdir()
    nothing.mkdir()
    env = environment(PATH=str(nothing), HOME=str(home), XDG_CACHE_HOME=None)
    with node_up(tmp_path / "data", *quick_sag(tmp_path), env=env) as node:
        line = node.line(type="action", state="applied")
        assert line["wanted"] == line["read_back"]
        node.until(
            lambda: any("in process" in text and "no C compiler" in text for text in node.output),
            what="how the simulated node is read",
        )
        status = node.api("status")
        assert "in process" in status["source"]
        assert status["simulated"] is True
        assert node.context.library_dir is None
        supply = "series?kind=supply&signal=voltage_v&seconds=1"
        node.until(lambda: min(_volts(node.api(supply))) > LIMIT_V, what="a second of training above the limit")
        assert node.end() == 0, node.story()
        assert node.lines[-1]["caps_left"] == 0
        assert len({line["entity_id"] for line in node.of(type="action", state="released")}) == 4
        assert node.leftovers() == []


def _volts(reply: Fields) -> list[float]:
    values = [value for table in reply["tables"] for series in table["series"] for value in series["values"]]
    return [value for value in values if value is not None] or [0.0]
