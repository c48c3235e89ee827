"""What a recording says about the run that it is of, and where the recorder of a run keeps its things."""

import json
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from railwatch.run_context import RunContext
from railwatch.wiring.driver_watch import ranges_said
from telemetry.recording import RecordingMeta

# What the recorder of a run tells on the page and in the records, beside the journals of guard and actuator.
JOURNAL = "recorder"
# Where things are and who may enter is nobody's business who gets the file: of the free text of a configuration, which
# may be an address, a user, a folder or a secret, only this is kept.
_KEPT_TEXT = frozenset({"name", "part", "signal", "oid"})


def run_meta(context: RunContext) -> RecordingMeta:
    """Return what a recording says about its run; the clocks that can be set are known once the sampler has begun."""
    settings = context.config
    config = _without_places(settings, settings.model_dump(mode="json"))
    try:
        clocks = json.loads(context.clocks_path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        clocks = {}
    ranges = ranges_said(context)
    extra = {"supported_mhz": clocks, "ranges": ranges, "source": context.source, "scenario": context.scenario}
    return RecordingMeta(node=context.node.key, simulated=context.simulated, config=config | extra)


def _without_places(section: BaseModel, told: dict[str, Any]) -> dict[str, Any]:
    """Return what JSON has of a section, without the free text that `_KEPT_TEXT` does not name."""
    for key in type(section).model_fields:
        value = getattr(section, key)
        parts = value if isinstance(value, tuple) else tuple(value.values()) if isinstance(value, dict) else (value,)
        if key not in _KEPT_TEXT and any(isinstance(part, str | Path) and not isinstance(part, Enum) for part in parts):
            del told[key]
        elif isinstance(value, BaseModel):
            told[key] = _without_places(value, told[key])
        elif isinstance(value, dict):
            told[key] = {
                name: _without_places(part, told[key][name]) if isinstance(part, BaseModel) else told[key][name]
                for name, part in value.items()
            }
        elif any(isinstance(part, BaseModel) for part in parts):
            told[key] = [_without_places(part, text) for part, text in zip(parts, told[key], strict=True)]
    return told


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
