"""The systemd units: what ends with what."""

from pathlib import Path

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"


def test_a_process_that_is_killed_for_memory_does_not_stop_the_guard() -> None:
    """All processes of the agent are in one unit; the launcher restarts the one that was killed."""
    assert "OOMPolicy=continue" in (UNITS / "railwatch.service").read_text().splitlines()
