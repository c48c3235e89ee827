"""Scenarios that come with railwatch, begun so early that a test need not simulate the quiet time before."""

from pathlib import Path

from simulator.files.scenario import SCENARIOS


def early_drop(folder: Path, *, at_s: int) -> str:
    """Write `bus-drop` with its drop at that second; return the file's path."""
    text = (SCENARIOS / "bus-drop.yaml").read_text(encoding="utf-8")
    assert text.count("12s") == 2
    path = folder / "early-drop.yaml"
    path.write_text(text.replace("12s", f"{at_s}s").replace("name: bus-drop", "name: early-drop"), encoding="utf-8")
    return str(path)
