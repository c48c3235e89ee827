"""Nodes whose flight recorder writes soon: a short drop, short windows, and what it wrote."""

from pathlib import Path

from railwatch.recorded_run import recordings_dir
from tests.integration.running import Node

DROP = """\
name: quick-drop
description: GPU 3 falls off the bus seconds after the start, as in bus-drop, so that a test sees it soon.
changes:
  - {at: 10s, what: gpu3.present, to: 0}
truth:
  - {cause: no_electrical_evidence, entities: [gpu3], onset: 10s}
"""
SETTINGS = "recorder: {before: 5s, after: 2s, flush: 1s}\n"


def options(folder: Path) -> tuple[str, ...]:
    (folder / "drop.yaml").write_text(DROP)
    (folder / "conf.yaml").write_text(SETTINGS)
    return ("--simulate", "v100x4", "--scenario", str(folder / "drop.yaml"), "--config", str(folder / "conf.yaml"))


def recordings(node: Node) -> list[Path]:
    return sorted(recordings_dir(node.data_dir).glob("*.parquet"))


def one_recording(node: Node, *, within_s: float) -> Path:
    found: list[Path] = node.until(lambda: recordings(node), within_s=within_s, what="a recording")
    return found[0]
