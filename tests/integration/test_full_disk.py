"""Run whose data folder is on a disk that fills up: its reports stay correct."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.running import node_up, quick_sag, railwatch

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> None:
    with contextlib.suppress(OSError), (place / "fill").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_on_a_full_disk_a_sag_is_answered_shown_and_reported_and_the_end_states_what_is_not_kept(
    tmp_path: Path, small_disk: Path
) -> None:
    with node_up(small_disk / "data", *quick_sag(tmp_path)) as node:
        assert node.url
        fill(small_disk)
        node.line(type="incident")
        node.line(type="action", state="applied")
        text = "records cannot be written: "
        node.until(lambda: text in node.api("status")["health_reason"], what="the page says it")
        status = node.api("status")
        assert status["health"] in ("unhealthy", "degraded")
        assert status["health_reason"].endswith("No space left on device")
        # The finding before it is what could not be written first; the page learns of the incident a look later.
        # One that became part of it before it was confirmed is listed as closed.
        node.until(
            lambda: sum(one["state"] != "closed" for one in node.api("incidents")) == 1, what="the page shows it"
        )
        data_dir = ("--data-dir", str(node.data_dir))
        assert railwatch("actions", "list", *data_dir, "--json").rows[0]["state"] == "applied"
        asked = railwatch("record", *data_dir)
        assert (asked.status, "recordings: No space left on device" in asked.err) == (3, True)
        assert node.end() == 1, node.story()
    summary = node.lines[-1]
    assert (summary["type"], summary["incidents"], summary["caps_left"]) == ("summary", 1, 0)
    assert summary["records_lost"] > 5
    assert any("records of this run were lost: " in line for line in node.output)
