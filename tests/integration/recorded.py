"""Nodes whose flight recorder writes soon, with a short drop and a short sag, and their recordings."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.guard.judges import BLOCK_NS
from agent.guard.step_log import TABLE as STEPS
from railwatch.run_context import recordings_dir
from telemetry.recording import read_recording
from tests.integration.running import Node, node_up, railwatch

# A block waits for the first step of the next one; a busy machine may take as long again for that step.
REPORTED_WITHIN_NS = 2 * BLOCK_NS

DROP = """\
name: quick-drop
description: GPU 3 falls off the bus seconds after the start, as in bus-drop, so that a test sees it soon.
changes:
  - {at: 8s, what: gpu3.present, to: 0}
truth:
  - {cause: no_electrical_evidence, entities: [gpu3], onset: 8s}
"""


def drop(folder: Path) -> tuple[str, ...]:
    """Return the options that simulate a drop within seconds; its scenario is written into the folder."""
    (folder / "drop.yaml").write_text(DROP)
    return ("--simulate", "v100x4", "--scenario", str(folder / "drop.yaml"))


def recorder(folder: Path, *, before: str) -> tuple[str, ...]:
    """Return the options of a recorder that does not wait for long."""
    (folder / "conf.yaml").write_text(f"recorder: {{before: {before}, after: 2s, flush: 1s}}\n")
    return ("--config", str(folder / "conf.yaml"))


def recordings(node: Node) -> list[Path]:
    return sorted(recordings_dir(node.data_dir).glob("*.parquet"))


def one_recording(node: Node) -> Path:
    found: list[Path] = node.until(lambda: recordings(node), what="a recording")
    return found[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Completed run: its own recording, and another that was requested afterwards."""

    node: Node
    by_itself: Path
    by_hand: Path

    @property
    def both(self) -> tuple[Path, Path]:
        return self.by_itself, self.by_hand


@contextmanager
def recorded(folder: Path, *scenario: str) -> Iterator[Recorded]:
    """Run a scenario until it is recorded."""
    by_hand = folder / "ring.parquet"
    with node_up(folder / "data", *scenario, *recorder(folder, before="60s")) as node:
        by_itself = one_recording(node)
        done = railwatch("record", "--out", str(by_hand), "--data-dir", str(node.data_dir))
        assert done.status == 0, done.err
        yield Recorded(node=node, by_itself=by_itself, by_hand=by_hand)
        if node.process.poll() is None:
            assert node.end() == 0, node.story()


def assert_a_replay_is_equal(run: Recorded) -> None:
    """Compare the output of a replay with that of the live run, to the byte, up to the last recorded step.

    A finding of a block of rows bears their time and is reported up to a block later, so the last ones that the run
    reported may have been reported after that step.
    """
    journal = (run.node.data_dir / "journal" / "guard.jsonl").read_text().splitlines()
    for path in run.both:
        replayed = railwatch("replay", str(path), "--json")
        assert replayed.status == 0, replayed.err
        last_ns = max(int(frame.time_ns[-1]) for frame in read_recording(path).frames() if frame.spec.name == STEPS)
        for kind in ("event", "finding", "incident"):
            live = [row for line in journal if (row := json.loads(line))["type"] == kind and row["time_ns"] <= last_ns]
            again = [row for line in replayed.out.splitlines() if (row := json.loads(line))["type"] == kind]
            assert again or kind == "event"
            assert again == live[: len(again)], (kind, path.name)
            reported_later_ns = [row["time_ns"] for row in live[len(again) :]]
            assert all(time_ns > last_ns - REPORTED_WITHIN_NS for time_ns in reported_later_ns), (kind, path.name)
