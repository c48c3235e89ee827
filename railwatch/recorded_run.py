"""Metadata of a recording about its run."""

from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from railwatch.run_context import RunContext, read_status
from railwatch.wiring.driver_watch import read_ranges
from telemetry.recording import RecordingMeta

# Journal of the recorder of a run.
JOURNAL = "recorder"
# Recordings are passed on to others: of the free text in a configuration, which may be an address, a user, a folder or
# a secret, only these keys are kept.
_KEPT_TEXT = frozenset({"name", "part", "signal", "oid"})


def run_meta(context: RunContext) -> RecordingMeta:
    """Return the metadata of a recording; the clocks that can be set are known once the sampler has started."""
    settings = context.config
    config = _without_places(settings, settings.model_dump(mode="json"))
    clocks = read_status(context.clocks_path)
    ranges = read_ranges(context)
    extra = {"supported_mhz": clocks, "ranges": ranges, "source": context.source, "scenario": context.scenario}
    extra["topology"] = settings.topology.model_dump(mode="json", exclude_defaults=True)
    return RecordingMeta(node=context.node.key, simulated=context.simulated, config=config | extra)


def _without_places(section: BaseModel, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON fields of a section without the free text that `_KEPT_TEXT` does not name."""
    for key in type(section).model_fields:
        value = getattr(section, key)
        parts = value if isinstance(value, tuple) else tuple(value.values()) if isinstance(value, dict) else (value,)
        if key not in _KEPT_TEXT and any(isinstance(part, str | Path) and not isinstance(part, Enum) for part in parts):
            del fields[key]
        elif isinstance(value, BaseModel):
            fields[key] = _without_places(value, fields[key])
        elif isinstance(value, dict):
            fields[key] = {
                name: _without_places(part, fields[key][name]) if isinstance(part, BaseModel) else fields[key][name]
                for name, part in value.items()
            }
        elif any(isinstance(part, BaseModel) for part in parts):
            fields[key] = [_without_places(part, text) for part, text in zip(parts, fields[key], strict=True)]
    return fields
