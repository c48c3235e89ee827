"""What a recording says about the run that it is of, and where the recorder of a run keeps its things."""

import json
from pathlib import Path
from typing import Any

from railwatch.session import Session
from telemetry.recording import RecordingMeta

# What the recorder of a run tells on the page and in the records, beside the journals of guard and actuator.
JOURNAL = "recorder"
# Addresses and secrets are nobody's business who gets the file.
_PRIVATE = ("store", "page")


def run_meta(session: Session) -> RecordingMeta:
    """Give what a recording says about its run; the clocks that can be set are known once the sampler has begun."""
    config: dict[str, Any] = session.config.model_dump(mode="json")
    for section in _PRIVATE:
        del config[section]
    try:
        clocks = json.loads(session.clocks_path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        clocks = {}
    extra = {"supported_mhz": clocks, "source": session.source, "scenario": session.scenario}
    return RecordingMeta(node=session.node.key, simulated=session.simulated, config=config | extra)


def recordings_dir(data_dir: Path) -> Path:
    """Where the flight recorder puts its recordings."""
    return data_dir / "recordings"


def box_dir(data_dir: Path) -> Path:
    """Where the black box lies."""
    return data_dir / "black-box"


def wishes_dir(run_dir: Path) -> Path:
    """Where a command asks the recorder of a run for a recording, and finds the answer."""
    return run_dir / "wishes"


def left_dir(run_dir: Path) -> Path:
    """Where the run folder of a run that was killed waits until its last rows are safe."""
    return run_dir.with_name(f"{run_dir.name}.left")
