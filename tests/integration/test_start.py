"""Time from a start to its first output."""

from pathlib import Path

import pytest

from tests.integration.running import LiveStream, node_up

pytestmark = [pytest.mark.integration, pytest.mark.alone, pytest.mark.timeout(300)]


def test_live_values_are_on_the_page_within_half_a_minute_of_the_start(tmp_path: Path) -> None:
    with node_up(tmp_path / "data", "--simulate", "v100x4") as node:
        stream = LiveStream(node)
        first_sample_s = _first_sample_s(stream)
        stream.close()
    # Some seconds on a machine that does nothing else; the bound only detects a start that waits for something.
    assert first_sample_s < 30.0


def _first_sample_s(stream: LiveStream) -> float:
    """Return the time from the start of the process to the first value of a GPU on the page."""
    while True:
        now_s, data = stream.next("samples")
        for table in data["tables"]:
            if table["kind"] == "gpu":
                return now_s
